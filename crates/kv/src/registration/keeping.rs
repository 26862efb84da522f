//! The threads that keep a node's place: one renews its lease, and one looks at the others' keys.

use super::keys::{leave_key, members};
use super::node::{News, Registration};
use crate::ring::Member;
use rhythm_etcd::{AGAIN, Etcd, EtcdError, Store};
use rhythm_net::{Time, clock};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a node that ends waits until its lease is ended.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The members that were told of last.
type Members = Option<BTreeMap<usize, Member>>;

/// What the thread that renews the lease is told.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// The node's key may be gone.
    Look,
    /// Nobody needs it any more.
    End,
}

/// A node that is kept registered.
#[derive(Debug)]
pub struct Kept {
    say: Sender<Said>,
    /// Nothing is said: it is over when the thread is.
    ended: Receiver<Infallible>,
    is_over: Arc<AtomicBool>,
}

impl Registration {
    /// Keeps the node registered, and tells what is new, until the result is dropped: then its
    /// lease is ended.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn keep(self, tell: impl Fn(News) + Send + Sync + 'static) -> std::io::Result<Kept> {
        let tell = Arc::new(tell);
        let is_over = Arc::new(AtomicBool::new(false));
        let (say, said) = mpsc::channel();
        let told = Arc::new(Mutex::new(None));
        let watcher = {
            let (etcd, name, number) = (self.store().clone(), self.name().to_owned(), self.number);
            let patience = self.lasts();
            let (say, is_over) = (say.clone(), Arc::clone(&is_over));
            let told = Arc::clone(&told);
            let tell_all = Arc::clone(&tell);
            let tell = move |news| {
                let is_missing =
                    matches!(&news, News::Members(members) if !members.contains_key(&number));
                tell_all(news);
                if is_missing {
                    // At the end nobody hears it any more.
                    let _ = say.send(Said::Look);
                }
            };
            move || watch(etcd, &name, patience, &tell, &told, &is_over)
        };
        // It may wait for etcd when it is to end, and is not waited for.
        thread::Builder::new()
            .name("kv members".into())
            .spawn(watcher)?;
        let (end, ended) = mpsc::channel();
        let keeper = thread::Builder::new().name("kv lease".into());
        keeper.spawn(move || {
            let _end: Sender<Infallible> = end;
            let mut node = self;
            renew(&mut node, &said, &told, &*tell);
            if let Err(error) = node.end() {
                tracing::warn!(%error, "the lease is not ended: others wait until it is over");
            }
        })?;
        Ok(Kept {
            say,
            ended,
            is_over,
        })
    }
}

/// Renews the lease until it is told to end.
fn renew(
    node: &mut Registration,
    said: &Receiver<Said>,
    told: &Mutex<Members>,
    tell: &impl Fn(News),
) {
    let mut is_told = false;
    // It was given or renewed just now.
    let mut wait = node.rest(clock::monotonic());
    while goes_on(said, wait, clock::monotonic) {
        wait = match turn(node, told, tell, &clock::monotonic) {
            Ok(rest) => {
                if std::mem::take(&mut is_told) {
                    tracing::info!("etcd answers again");
                }
                rest
            }
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "the lease is not renewed: writes end with it");
                }
                AGAIN
            }
        };
    }
}

/// Takes a step, and tells what is new; for how long nothing is to be done then.
fn turn<S: Store>(
    node: &mut Registration<S>,
    told: &Mutex<Members>,
    tell: &impl Fn(News),
    clock: &impl Fn() -> Time,
) -> Result<Duration, EtcdError> {
    // Who registers anew is told who is there then before it is told of its lease: they may have
    // taken what it served. What the other thread saw before is told before, too.
    let mut before = (!node.stands()).then(|| lock(told));
    let (news, rest) = node.step(clock)?;
    if let Some(before) = before.as_mut().filter(|_| node.stands()) {
        tell_members(before, node.members.clone(), tell);
    }
    tell(news);
    Ok(rest)
}

fn lock(told: &Mutex<Members>) -> MutexGuard<'_, Members> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells who is there, if that is new.
fn tell_members(before: &mut Members, members: BTreeMap<usize, Member>, tell: &impl Fn(News)) {
    if before.as_ref() != Some(&members) {
        tell(News::Members(members.clone()));
        *before = Some(members);
    }
}

/// Waits for so long, or until it is to look. False: it is to end.
///
/// Leases end while the machine sleeps, and threads do not wake up then: it looks at a clock that
/// knows of that now and again.
fn goes_on(said: &Receiver<Said>, wait: Duration, clock: impl Fn() -> Time) -> bool {
    let until = clock() + wait;
    loop {
        let left = until.since(clock());
        match said.recv_timeout(left.min(AGAIN)) {
            Ok(Said::Look) => return true,
            Err(RecvTimeoutError::Timeout) if left > Duration::ZERO => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(Said::End) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// Looks at the keys whenever one changed.
fn watch(
    mut etcd: Etcd,
    name: &str,
    patience: Duration,
    tell: &impl Fn(News),
    told: &Mutex<Members>,
    is_over: &AtomicBool,
) {
    let leave = leave_key(name);
    let mut is_leaving = false;
    while !is_over.load(Ordering::Acquire) {
        let looked = {
            // Held while etcd is asked, so that what is told later is no older.
            let mut before = lock(told);
            etcd.entries().map(|(entries, read)| {
                if !is_leaving && entries.iter().any(|entry| entry.key == leave) {
                    is_leaving = true;
                    tell(News::Leave);
                }
                tell_members(&mut before, members(&entries), tell);
                read.revision
            })
        };
        if looked.and_then(|at| etcd.wait(at, patience)).is_err() {
            // The other thread says so.
            thread::sleep(AGAIN);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Where it panicked it has ended.
        let _ = self.say.send(Said::End);
        if self.ended.recv_timeout(ENDS_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("etcd does not answer: others wait until this node's lease is over");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NAME, SECONDS, joined, me};
    use super::*;
    use crate::ring::Lease;
    use rhythm_etcd::HeldLease;
    use rhythm_etcd::testing::Memory;
    use std::cell::{Cell, RefCell};
    use std::io::{BufRead, BufReader};
    use std::net::{TcpListener, TcpStream};

    /// The clock goes on while the machine sleeps, and the wait does not.
    #[test]
    fn who_rests_sees_that_a_lease_is_over_when_the_machine_has_slept() {
        let (say, said) = mpsc::channel();
        let day = Duration::from_secs(86_400);
        let slept = Cell::new(false);
        let sleeps = || match slept.replace(true) {
            true => Time::ZERO + day,
            false => Time::ZERO,
        };
        assert!(goes_on(&said, day, sleeps));
        say.send(Said::Look).expect("it is heard");
        assert!(goes_on(&said, day, clock::monotonic));
        say.send(Said::End).expect("it is heard");
        assert!(!goes_on(&said, Duration::ZERO, clock::monotonic));
        drop(say);
        assert!(!goes_on(&said, day, clock::monotonic));
    }

    /// They may have taken what it served.
    #[test]
    fn who_registers_anew_is_told_who_is_there_before_its_lease() {
        let memory = Memory::default();
        let mut node = joined(&memory);
        let before = node.lease.number;
        let told = Mutex::new(Some(node.members.clone()));
        memory.with(|model| model.revoke(before));
        let third = memory.with(|model| model.grant(60, Duration::ZERO));
        let other = r#"{"name": "other", "client": "h:1", "backbone": "127.0.0.1:2"}"#;
        let mut store = memory.clone();
        assert!(store.put("nodes/63", other, third).expect("it answers"));
        let heard = RefCell::new(Vec::new());
        let tell = |news| heard.borrow_mut().push(news);
        for _ in 0..2 {
            turn(&mut node, &told, &tell, &|| memory.now()).expect("etcd answers");
        }
        let heard = heard.into_inner();
        let [
            News::Lease(none),
            News::Members(members),
            News::Lease(lease),
        ] = &heard[..]
        else {
            panic!("{heard:?}");
        };
        assert_eq!(none.until, Time::ZERO);
        let mut names: Vec<&str> = members.values().map(|member| &*member.name).collect();
        names.sort_unstable();
        assert_eq!(names, [NAME, "other"]);
        assert!(lease.number != before && lease.until > memory.now());
    }

    /// The system takes the connections, and nobody answers.
    #[test]
    fn an_end_waits_two_seconds_for_an_etcd_that_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = listener.local_addr().expect("it has one");
        let etcd = Etcd::new(&format!("{at},{at}/ring")).expect("a place");
        let (mut held, now) = (HeldLease::new(SECONDS), clock::monotonic());
        let number = held.grant(&mut Memory::default(), now).expect("it answers");
        let (until, revision) = (held.until(), 1);
        let lease = Lease {
            until,
            number,
            revision,
        };
        let node = Registration::of((etcd, me(), held), 7, lease, BTreeMap::new());
        let kept = node.keep(|_| {}).expect("there are threads");
        // A renewal is under way, and takes as long as the end of the lease that would follow.
        let renews = |stream: &TcpStream| {
            let mut line = String::new();
            let read = BufReader::new(stream).read_line(&mut line);
            read.is_ok() && line.contains("/v3/lease/keepalive")
        };
        let mut streams = Vec::new();
        while !streams.last().is_some_and(renews) {
            streams.push(listener.accept().expect("somebody asks").0);
        }
        let begun = clock::monotonic();
        drop(kept);
        let took = clock::monotonic().since(begun);
        assert!(took >= ENDS_WITHIN && took < 2 * ENDS_WITHIN, "{took:?}");
    }
}
