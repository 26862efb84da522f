//! Statements that change something: those of all threads, one after the other, as SQLite has it,
//! and with one commit for all that came while the one before was written to the disk.
//!
//! Whoever finds nobody at it does what all have left. A statement that fails undoes itself alone;
//! what ends the transaction (a full disk, say) fails all of it, and nothing of it is done.

use super::carry_out::{Deadline, answer, answer_failed, outcome_of};
use super::database;
use super::frames::Outcome;
use super::query::Query;
use crate::backend::words::Words;
use rhythm_net::local;
use rusqlite::Connection;
use std::mem;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What one thread has left to be done: the frame of a query, and its answer's when it is done.
struct Job {
    query: Vec<u8>,
    /// Over which it came. Where that is closed nobody waits for it any more, as its time is over,
    /// and it is not done.
    asker: Arc<UnixStream>,
    answer: Arc<Mutex<Option<Vec<u8>>>>,
}

/// Who writes to a database.
pub(super) struct Writer {
    path: PathBuf,
    timeout: Duration,
    left: Mutex<Vec<Job>>,
    at_work: Mutex<Option<AtWork>>,
}

/// The connection that writes.
struct AtWork {
    connection: Connection,
    deadline: Deadline,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    pub(super) fn new(path: PathBuf, timeout: Duration) -> Writer {
        Writer {
            path,
            timeout,
            left: Mutex::default(),
            at_work: Mutex::default(),
        }
    }

    /// Carries out the query of a frame, and appends its answer.
    pub(super) fn carry_out(
        &self,
        query: &[u8],
        asker: &Arc<UnixStream>,
        words: &Words,
        out: &mut Vec<u8>,
    ) {
        let answer = Arc::default();
        lock(&self.left).push(Job {
            query: query.to_vec(),
            asker: Arc::clone(asker),
            answer: Arc::clone(&answer),
        });
        let mut at_work = lock(&self.at_work);
        // Who was at it before has done it, or nobody has.
        if lock(&answer).is_none() {
            let jobs = mem::take(&mut *lock(&self.left));
            self.carry_out_all(&jobs, &mut at_work, words);
        }
        drop(at_work);
        match lock(&answer).take() {
            Some(answer) => out.extend_from_slice(&answer),
            None => answer_failed(Outcome::Failed, out),
        }
    }

    fn carry_out_all(&self, jobs: &[Job], at_work: &mut Option<AtWork>, words: &Words) {
        if at_work.is_none() {
            let opened = database::open(&self.path, self.timeout).and_then(|connection| {
                let deadline = Deadline::of(&connection, self.timeout)?;
                Ok(AtWork {
                    connection,
                    deadline,
                })
            });
            match opened {
                Ok(opened) => *at_work = Some(opened),
                Err(why) => return fail_all(jobs, words.failed("", &why)),
            }
        }
        let Some(AtWork {
            connection,
            deadline,
        }) = at_work
        else {
            unreachable!("it was opened above");
        };
        let mut done = Vec::new();
        for job in jobs {
            if connection.is_autocommit()
                && let Err(why) = connection.execute_batch("begin immediate")
            {
                done.push((job, failed(words.failed("begin", &why))));
                continue;
            }
            let mut bytes = Vec::new();
            match Query::read(&job.query) {
                _ if local::is_gone(&job.asker) => answer_failed(Outcome::Late, &mut bytes),
                Some(query) => {
                    deadline.begin();
                    alone(connection, &query, words, &mut bytes);
                    deadline.end();
                }
                None => answer_failed(Outcome::Failed, &mut bytes),
            }
            done.push((job, bytes));
            if connection.is_autocommit() {
                // What was done so far is undone: who is answered otherwise would be misled.
                undo(&mut done);
            }
        }
        if !connection.is_autocommit()
            && let Err(why) = connection.execute_batch("commit")
        {
            words.failed("commit", &why);
            // It fails where there is nothing to be undone.
            let _ = connection.execute_batch("rollback");
            undo(&mut done);
            if !connection.is_autocommit() {
                *at_work = None;
            }
        }
        for (job, bytes) in done {
            *lock(&job.answer) = Some(bytes);
        }
    }
}

/// Carries a query out, in a transaction of several: where it is not answered with its rows, what
/// it has changed is undone.
fn alone(connection: &Connection, query: &Query<'_>, words: &Words, out: &mut Vec<u8>) {
    let statement = |text| connection.prepare_cached(text)?.execute([]).map(drop);
    if let Err(why) = statement("savepoint one") {
        return answer_failed(words.failed("savepoint", &why), out);
    }
    let start = out.len();
    answer(connection, query, words, out);
    let is_done = outcome_of(&out[start..]) == Some(Outcome::Rows);
    let undone = match is_done || connection.is_autocommit() {
        true => Ok(()),
        false => statement("rollback to one"),
    };
    if !connection.is_autocommit()
        && let Err(why) = undone.and_then(|()| statement("release one"))
    {
        words.failed("release", &why);
        // All of the transaction is undone, which the caller sees.
        let _ = connection.execute_batch("rollback");
        if is_done {
            out.truncate(start);
            answer_failed(Outcome::Failed, out);
        }
    }
}

fn failed(outcome: Outcome) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer_failed(outcome, &mut bytes);
    bytes
}

fn fail_all(jobs: &[Job], outcome: Outcome) {
    for job in jobs {
        *lock(&job.answer) = Some(failed(outcome));
    }
}

/// The transaction was undone: what went well in it has failed.
fn undo(done: &mut [(&Job, Vec<u8>)]) {
    for (_, bytes) in done {
        if outcome_of(bytes) == Some(Outcome::Rows) {
            *bytes = failed(Outcome::Failed);
        }
    }
}
