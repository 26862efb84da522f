//! Statements that change something: those of all threads, one after the other, as SQLite has it,
//! and with one commit for all that came while the one before was written to the disk.
//!
//! Whoever finds nobody at it does what all have left, tells each of its answer, and hands over to
//! one who came meanwhile. A statement that fails undoes itself alone; one that ends the
//! transaction (since it is stopped, or the disk is full) fails, and the others are done again
//! without it. So they are where one who asked has given up before the commit: nothing is done that
//! he was told is not.
//!
//! ```text
//!   a   b   c (long)   d        c is stopped after its share of the time, which undoes a and b
//!   a   b   commit              they took little, and are answered
//!   d   commit
//!   c   commit                  last and alone, with the time that it has left
//! ```
//!
//! No statement of several runs for so long that those before it could not be done again in their
//! time. What took long once is put off the next time without being tried (`slow.rs`).

use super::carry_out::{Deadline, answer, answer_failed, outcome_of};
use super::database;
use super::file::Opened;
use super::frames::Outcome;
use super::query::Query;
use super::slow::Slow;
use crate::backend::words::Words;
use rhythm_net::local;
use rusqlite::{Connection, Error};
use std::collections::VecDeque;
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
    connection: Opened,
    deadline: Deadline,
    /// How long a statement may run while others wait.
    share: Duration,
    slow: Slow,
}

/// What of the timeout a statement may run for while others wait.
const SHARE: u32 = 8;

/// What of its share a statement is begun with at least behind others: most need far less. With
/// less, these are committed, and it begins another transaction.
const SHARE_LEFT: u32 = 32;

/// What a transaction leaves to be done.
#[derive(Default)]
struct Rest<'j> {
    /// Next, one after the other, each of these together.
    next: Vec<Vec<&'j Job>>,
    /// Behind all others, each alone.
    slow: Vec<&'j Job>,
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

    /// Closes the connection that writes, once all that it wrote is in the file itself, as nothing
    /// more is asked. Whether it is.
    pub(super) fn close(&self) -> bool {
        let Ok(mut at_work) = self.at_work.try_lock() else {
            return false;
        };
        (at_work.take()).is_none_or(|it| it.connection.is_checkpointed())
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
        let mut left = VecDeque::from([jobs.iter().collect::<Vec<&Job>>()]);
        let mut put_off = VecDeque::new();
        loop {
            let knows = |job: &Job| at_work.as_ref().is_some_and(|it| it.takes_long(job));
            let Some(together) = left.pop_front().or_else(|| next_of(&mut put_off, knows)) else {
                return;
            };
            let current = at_work.take().filter(|it| it.connection.is_current());
            let opened = match current {
                Some(opened) => Ok(opened),
                None => AtWork::open(&self.path, self.timeout),
            };
            match opened {
                Ok(opened) => {
                    let Rest { next, slow } = at_work.insert(opened).transact(&together, words);
                    let next = next.into_iter().filter(|jobs| !jobs.is_empty());
                    next.rev().for_each(|jobs| left.push_front(jobs));
                    put_off.extend(slow);
                }
                Err(why) => {
                    let outcome = words.unopened(&self.path, &why);
                    let all = together.iter().chain(left.iter().flatten());
                    return all
                        .chain(&put_off)
                        .for_each(|job| job.tell(failed(outcome)));
                }
            }
            // Opened anew, it is at nothing.
            *at_work = at_work
                .take()
                .filter(|at_work| at_work.connection.is_autocommit());
        }
    }
}

/// The next of those that were put off: one alone, if it is known to take long, or all that are
/// known no more to do so.
fn next_of<'j>(
    put_off: &mut VecDeque<&'j Job>,
    knows: impl Fn(&Job) -> bool,
) -> Option<Vec<&'j Job>> {
    let first = put_off.pop_front()?;
    if knows(first) {
        return Some(vec![first]);
    }
    let mut together = vec![first];
    put_off.retain(|job| {
        let stays = knows(job);
        together.extend((!stays).then_some(*job));
        stays
    });
    Some(together)
}

impl AtWork {
    /// Whether what a job asks took long the last time.
    fn takes_long(&self, job: &Job) -> bool {
        Query::read(&job.query).is_some_and(|query| self.slow.knows(&query.asked))
    }

    fn open(path: &Path, timeout: Duration) -> Result<AtWork, Error> {
        let connection = database::open(path, timeout)?;
        let deadline = Deadline::of(&connection, timeout, None)?;
        Ok(AtWork {
            connection,
            deadline,
            share: timeout / SHARE,
            slow: Slow::default(),
        })
    }

    /// Carries out jobs in one transaction, and tells of those that are over with it. What it
    /// leaves is fewer, or in smaller lists: one that stood in the way of others is over, or alone;
    /// or it is all, where what they were done to is gone.
    fn transact<'j>(&mut self, jobs: &[&'j Job], words: &Words) -> Rest<'j> {
        let AtWork {
            connection,
            deadline,
            share,
            slow,
        } = self;
        let share = *share;
        let is_alone = jobs.len() == 1;
        let mut rest = Rest::default();
        let mut done: Vec<(&Job, Vec<u8>)> = Vec::new();
        // When the first of those came that are done, and when they were begun.
        let mut first: Option<Instant> = None;
        let mut begun = Instant::now();
        let mut left = jobs;
        while let Some((&job, behind)) = left.split_first() {
            let query = match Query::read(&job.query) {
                _ if deadline.is_over(job.came) || job.is_given_up() => Err(Outcome::Late),
                None => Err(Outcome::Failed),
                Some(query) if !is_alone && slow.knows(&query.asked) => {
                    rest.slow.push(job);
                    left = behind;
                    continue;
                }
                Some(query) if connection.is_autocommit() => {
                    let is_begun = begin(connection, words);
                    begun = Instant::now();
                    match is_begun {
                        // It waited for another program.
                        Ok(()) if deadline.is_over(job.came) => Err(Outcome::Late),
                        is_begun => is_begun.map(|()| query),
                    }
                }
                Some(query) => Ok(query),
            };
            let query = match query {
                Ok(query) => query,
                Err(outcome) => {
                    job.tell(failed(outcome));
                    left = behind;
                    continue;
                }
            };
            let most = match first {
                _ if is_alone => Duration::MAX,
                None => share,
                // Where it is stopped those before it are done again, which takes as long as they
                // took, and are committed in the rest.
                Some(first) => {
                    let spare = deadline.left(first).saturating_sub(begun.elapsed());
                    share.min(spare / 2)
                }
            };
            if most < share / SHARE_LEFT {
                break;
            }
            let (mut bytes, begins) = (Vec::new(), Instant::now());
            let within = (&*deadline, job.came, most);
            alone(connection, &query, within, words, &mut bytes);
            let is_put_off = deadline.gives_way() && outcome_of(&bytes) == Some(Outcome::Late);
            slow.note(&query.asked, is_put_off || begins.elapsed() >= share);
            left = behind;
            match is_put_off {
                true => rest.slow.push(job),
                false => {
                    done.push((job, bytes));
                    first = Some(first.map_or(job.came, |first| first.min(job.came)));
                }
            }
            if connection.is_autocommit() {
                // What was done so far is undone with it.
                if !is_put_off && let Some((job, bytes)) = done.pop() {
                    job.tell(bytes);
                }
                rest.next = vec![jobs_of(&done), left.to_vec()];
                return rest;
            }
            if is_put_off {
                break;
            }
        }
        rest.next = self.commit(done, words);
        rest.next.push(left.to_vec());
        rest
    }

    /// Commits what was done, and tells of it; or undoes it, where one of those who asked has gone,
    /// who is told that it was not done, or where another file is in the place of the one that it
    /// was done to. It gives those that are to be done again, each of them together.
    fn commit<'j>(&self, mut done: Vec<(&'j Job, Vec<u8>)>, words: &Words) -> Vec<Vec<&'j Job>> {
        let connection = &self.connection;
        // It fails where there is nothing to be undone.
        let undo = || drop(connection.execute_batch("rollback"));
        let has_gone = |(job, bytes): &(&Job, Vec<u8>)| {
            outcome_of(bytes) == Some(Outcome::Rows) && job.is_given_up()
        };
        if done.iter().any(has_gone) || !connection.is_current() {
            undo();
            return vec![jobs_of(&done)];
        }
        let committed = match connection.is_autocommit() {
            // Nothing was begun.
            true => Ok(()),
            false => connection.execute_batch("commit"),
        };
        if let Err(why) = committed {
            undo();
            if done.len() > 1 {
                // Whose doing it is shows where each is alone.
                return done.iter().map(|(job, _)| vec![*job]).collect();
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

fn begin(connection: &Connection, words: &Words) -> Result<(), Outcome> {
    (connection.execute_batch("begin immediate")).map_err(|why| words.failed("begin", &why))
}

/// Carries a query out that came then, for so long at most, in a transaction of several: where it
/// is not answered with its rows, what it has changed is undone.
fn alone(
    connection: &Connection,
    query: &Query<'_>,
    (deadline, came, most): (&Deadline, Instant, Duration),
    words: &Words,
    out: &mut Vec<u8>,
) {
    let statement = |text| connection.prepare_cached(text)?.execute([]).map(drop);
    if let Err(why) = statement("savepoint one") {
        return answer_failed(words.failed("savepoint", &why), out);
    }
    let start = out.len();
    deadline.begin_within(came, most);
    answer(connection, query, deadline, words, out);
    // What undoes it is not stopped.
    deadline.end();
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
