//! Statements that change something: those of all threads, one after the other, as SQLite has it,
//! and with one commit for all that came while the one before was written to the disk.
//!
//! Whoever finds nobody at it does what all have left, tells each of its answer, and hands over to
//! one who came meanwhile. A statement that fails undoes itself alone; one that ends the
//! transaction (since it is stopped, or the disk is full) fails, and the others are done again
//! without it. So they are where one who asked has given up before the commit: nothing is done that
//! he was told is not.

use super::carry_out::{Deadline, answer, answer_failed, outcome_of};
use super::database;
use super::frames::Outcome;
use super::query::Query;
use crate::backend::words::Words;
use rhythm_net::local;
use rusqlite::{Connection, Error};
use std::mem;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
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

    /// Carries out jobs, in as few transactions as may be, and tells of each.
    fn carry_out_all(&self, jobs: &[Job], at_work: &mut Option<AtWork>, words: &Words) {
        let mut left: Vec<&Job> = jobs.iter().collect();
        while !left.is_empty() {
            let opened = match at_work.take() {
                Some(opened) => Ok(opened),
                None => AtWork::open(&self.path, self.timeout),
            };
            match opened {
                Ok(opened) => left = at_work.insert(opened).transact(&left, words),
                Err(why) => return fail_all(&left, words.failed("", &why)),
            }
            // Opened anew, it is at nothing.
            *at_work = at_work
                .take()
                .filter(|at_work| at_work.connection.is_autocommit());
        }
    }
}

impl AtWork {
    fn open(path: &Path, timeout: Duration) -> Result<AtWork, Error> {
        let connection = database::open(path, timeout)?;
        let deadline = Deadline::of(&connection, timeout, None)?;
        Ok(AtWork {
            connection,
            deadline,
        })
    }

    /// Carries out jobs in one transaction, and tells of those that are over with it. It gives
    /// those that are to be done in another, which are fewer: one that stood in their way is over.
    fn transact<'j>(&self, jobs: &[&'j Job], words: &Words) -> Vec<&'j Job> {
        let AtWork {
            connection,
            deadline,
        } = self;
        let mut done: Vec<(&Job, Vec<u8>)> = Vec::new();
        // When the first of them came: none is stopped, or begun, later than that one can wait.
        let mut first: Option<Instant> = None;
        let mut left = jobs;
        while let Some((&job, rest)) = left.split_first() {
            let begun = match connection.is_autocommit() {
                _ if deadline.is_over(job.came) || job.is_given_up() => Err(Outcome::Late),
                true => (connection.execute_batch("begin immediate"))
                    .map_err(|why| words.failed("begin", &why)),
                false => Ok(()),
            };
            let query = begun.and_then(|()| match Query::read(&job.query) {
                _ if deadline.is_over(job.came) => Err(Outcome::Late),
                query => query.ok_or(Outcome::Failed),
            });
            let query = match query {
                Ok(query) => query,
                Err(outcome) => {
                    job.tell(failed(outcome));
                    left = rest;
                    continue;
                }
            };
            let came = first.map_or(job.came, |first| first.min(job.came));
            if deadline.is_over(came) {
                break;
            }
            let mut bytes = Vec::new();
            deadline.begin(came);
            alone(connection, &query, words, &mut bytes);
            deadline.end();
            // It was stopped for another's sake.
            let is_late = outcome_of(&bytes) == Some(Outcome::Late);
            let is_put_off = is_late && came < job.came && deadline.is_over(came);
            if !is_put_off {
                done.push((job, bytes));
                left = rest;
                first = Some(came);
            }
            if connection.is_autocommit() {
                // What was done so far is undone with it.
                if !is_put_off && let Some((job, bytes)) = done.pop() {
                    job.tell(bytes);
                }
                return [jobs_of(&done), left.to_vec()].concat();
            }
            if is_put_off {
                break;
            }
        }
        [self.commit(done, words), left.to_vec()].concat()
    }

    /// Commits what was done, and tells of it; or undoes it, where one of those who asked has gone,
    /// who is told that it was not done. It gives those that are to be done again.
    fn commit<'j>(&self, mut done: Vec<(&'j Job, Vec<u8>)>, words: &Words) -> Vec<&'j Job> {
        let connection = &self.connection;
        // It fails where there is nothing to be undone.
        let undo = || drop(connection.execute_batch("rollback"));
        let has_gone = |(job, bytes): &(&Job, Vec<u8>)| {
            outcome_of(bytes) == Some(Outcome::Rows) && job.is_given_up()
        };
        if done.iter().any(has_gone) {
            undo();
            return jobs_of(&done);
        }
        let committed = match connection.is_autocommit() {
            // Nothing was begun.
            true => Ok(()),
            false => connection.execute_batch("commit"),
        };
        if let Err(why) = committed {
            undo();
            if done.len() > 1 && connection.is_autocommit() {
                // Whose doing it is shows where each is alone.
                let alone = done
                    .iter()
                    .flat_map(|(job, _)| self.transact(&[*job], words));
                return alone.collect();
            }
            let outcome = words.failed("commit", &why);
            for (_, bytes) in &mut done {
                if outcome_of(bytes) == Some(Outcome::Rows) {
                    *bytes = failed(outcome);
                }
            }
        }
        for (job, bytes) in done {
            job.tell(bytes);
        }
        Vec::new()
    }
}

impl Job {
    /// Whether nobody waits for it any more.
    fn is_given_up(&self) -> bool {
        local::is_gone(&self.asker)
    }

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

fn fail_all(jobs: &[&Job], outcome: Outcome) {
    for job in jobs {
        job.tell(failed(outcome));
    }
}

fn jobs_of<'j>(done: &[(&'j Job, Vec<u8>)]) -> Vec<&'j Job> {
    done.iter().map(|(job, _)| *job).collect()
}

#[cfg(test)]
impl Writer {
    /// Carries out frames of queries that came together, each then and by that one: what becomes of
    /// each.
    pub(super) fn carry_out_together(
        &self,
        asked: &[(&[u8], Instant, &Arc<UnixStream>)],
        words: &Words,
    ) -> Vec<Option<Outcome>> {
        let (jobs, told): (Vec<Job>, Vec<mpsc::Receiver<Word>>) = (asked.iter())
            .map(|(query, came, asker)| {
                let (thread, told) = mpsc::channel();
                let job = Job {
                    query: query.to_vec(),
                    came: *came,
                    asker: Arc::clone(asker),
                    thread,
                };
                (job, told)
            })
            .unzip();
        self.carry_out_all(&jobs, &mut lock(&self.at_work), words);
        let outcome = |told: mpsc::Receiver<Word>| match told.try_recv() {
            Ok(Word::Answer(answer)) => outcome_of(&answer),
            _ => None,
        };
        told.into_iter().map(outcome).collect()
    }
}
