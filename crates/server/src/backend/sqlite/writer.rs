//! Statements that change something: those of all threads, one after the other, as SQLite has it,
//! and with one commit for all that came while the one before was written to the disk.
//!
//! Whoever finds nobody at it does what all have left, tells each of its answer, and hands over to
//! one who came meanwhile. A statement that fails undoes itself alone; what ends the transaction (a
//! full disk, say) fails all of it, and nothing of it is done.

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
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What one thread has left to be done: the frame of a query.
struct Job {
    query: Vec<u8>,
    came: Instant,
    /// Over which it came. Where that is closed nobody waits for it any more, as its time is over,
    /// and it is not done.
    asker: Arc<UnixStream>,
    thread: Sender<Word>,
}

/// What a thread is told that has left a job.
enum Word {
    /// The frame of its answer.
    Answer(Vec<u8>),
    /// It is its turn to do what all have left, its own job among it.
    Turn,
}

/// What is left, and whether somebody is at it, or will be: it is his turn.
#[derive(Default)]
struct Left {
    jobs: Vec<Job>,
    is_somebodys_turn: bool,
}

/// Who writes to a database.
pub(super) struct Writer {
    path: PathBuf,
    timeout: Duration,
    left: Mutex<Left>,
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

    /// Carries out the query of a frame, which came at this time, and appends its answer.
    pub(super) fn carry_out(
        &self,
        (query, came): (&[u8], Instant),
        asker: &Arc<UnixStream>,
        words: &Words,
        out: &mut Vec<u8>,
    ) {
        let (thread, told) = mpsc::channel();
        let is_our_turn = {
            let mut left = lock(&self.left);
            left.jobs.push(Job {
                query: query.to_vec(),
                came,
                asker: Arc::clone(asker),
                thread,
            });
            !mem::replace(&mut left.is_somebodys_turn, true)
        };
        let word = match is_our_turn {
            true => Ok(Word::Turn),
            false => told.recv(),
        };
        let word = match word {
            Ok(Word::Turn) => {
                let turn = Turn(self);
                let jobs = mem::take(&mut lock(&self.left).jobs);
                self.carry_out_all(&jobs, &mut lock(&self.at_work), words);
                drop(turn);
                told.try_recv().ok()
            }
            word => word.ok(),
        };
        match word {
            Some(Word::Answer(answer)) => out.extend_from_slice(&answer),
            // Whose turn it was has not come to it.
            Some(Word::Turn) | None => answer_failed(Outcome::Failed, out),
        }
    }

    fn carry_out_all(&self, jobs: &[Job], at_work: &mut Option<AtWork>, words: &Words) {
        if at_work.is_none() {
            let opened = database::open(&self.path, self.timeout).and_then(|connection| {
                let deadline = Deadline::of(&connection, self.timeout, None)?;
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
                    match deadline.begin(job.came) {
                        true => alone(connection, &query, words, &mut bytes),
                        false => answer_failed(Outcome::Late, &mut bytes),
                    }
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
            job.tell(bytes);
        }
    }
}

impl Job {
    /// Tells who has left it.
    fn tell(&self, answer: Vec<u8>) {
        // Whoever has left a job waits.
        let _ = self.thread.send(Word::Answer(answer));
    }
}

/// Somebody's turn. As it ends, however it does, the next one's begins.
struct Turn<'a>(&'a Writer);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut left = lock(&self.0.left);
        let is_told = |job: &Job| job.thread.send(Word::Turn).is_ok();
        left.is_somebodys_turn = left.jobs.iter().any(is_told);
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
        job.tell(failed(outcome));
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
