//! A node's place among the others: a key under a lease, and two threads that keep it and look at
//! the others' keys.

use crate::checksum::checksum;
use crate::ring::{Lease, Member, NODES_MAX};
use rhythm_etcd::{Entry, Etcd, EtcdError};
use rhythm_net::{Time, clock};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a lease is renewed in its time.
const RENEWALS: u32 = 3;
/// Clocks do not run alike: a lease ends here by so much of it sooner (a fraction).
const MARGIN: u32 = 10;
/// How long after etcd did not answer it is asked again.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a node that begins waits for etcd; and one that ends, until its lease is ended.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Why a node is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// etcd does not answer, or refuses.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// Another node has the name.
    #[error(
        "a node called {name} is registered already, of {at}: take another name, end that one, or, \
         where it has died, begin again when its lease is over"
    )]
    NameTaken {
        /// Which.
        name: String,
        /// Where clients find the other.
        at: String,
    },
    /// There are as many nodes as there may be.
    #[error("the ring has {nodes_max} nodes already, and may have no more")]
    RingFull {
        /// So many.
        nodes_max: usize,
    },
}

/// What is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These nodes are there, by their numbers.
    Members(BTreeMap<usize, Member>),
    /// The lease was renewed, or is another.
    Lease(Lease),
    /// This node is asked to leave.
    Leave,
    /// Its name or number is another's now: it cannot go on.
    Replaced,
}

/// A node that is registered.
#[derive(Clone, Debug)]
pub struct Registration {
    etcd: Etcd,
    me: Member,
    seconds: u64,
    /// Its key stands under the lease, as far as is known.
    stands: bool,
    /// The lease is to be ended: others take its key for gone.
    is_void: bool,
    /// Its number among the nodes.
    pub number: usize,
    /// Its lease at the start.
    pub lease: Lease,
    /// Who was there then, it among them; or when it registered anew.
    pub members: BTreeMap<usize, Member>,
}

impl PartialEq for Registration {
    fn eq(&self, other: &Registration) -> bool {
        self.lease == other.lease
    }
}

impl Eq for Registration {}

/// The nodes that are there.
///
/// # Errors
/// No server answers, or it refuses.
pub fn registered(etcd: &mut Etcd) -> Result<Vec<Member>, EtcdError> {
    let (entries, _) = etcd.entries()?;
    Ok(members(&entries).into_values().collect())
}

/// The members among the keys.
fn members(entries: &[Entry]) -> BTreeMap<usize, Member> {
    let entries = entries.iter();
    let member = |entry: &Entry| {
        let number = entry.key.strip_prefix("nodes/")?.parse().ok()?;
        let value: serde_json::Value = serde_json::from_str(&entry.value).ok()?;
        let of = |field: &str| value[field].as_str();
        let (host, port) = of("client")?.rsplit_once(':')?;
        let member = Member {
            name: of("name")?.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
            backbone: of("backbone")?.parse().ok()?,
        };
        (number < NODES_MAX).then_some((number, member))
    };
    entries.filter_map(member).collect()
}

/// The lease under which the key of a number is, if there is one.
fn under(entries: &[Entry], number: usize) -> Option<i64> {
    let key = place_key(number);
    let entry = entries.iter().find(|entry| entry.key == key);
    entry.map(|entry| entry.lease)
}

/// A lease that was given or renewed for so many seconds, by what was asked for at a time.
fn lease((number, revision): (i64, i64), seconds: u64, asked: Time) -> Lease {
    let lasts = Duration::from_secs(seconds);
    let until = asked + (lasts - lasts / MARGIN);
    Lease {
        until,
        number,
        revision,
    }
}

impl Registration {
    /// Registers a node under a lease of so many seconds. Where one of its name is there, which may
    /// be one that died, it waits until that one's lease is over. Where etcd does not answer, it is
    /// asked again for ten seconds: its members may be about to agree on a leader.
    ///
    /// # Errors
    /// etcd does not answer, there is no number left, or another node has the name and lives.
    pub fn new(
        mut etcd: Etcd,
        me: Member,
        seconds: u64,
    ) -> Result<Registration, RegistrationError> {
        let until = clock::monotonic() + ANSWERS_WITHIN;
        let (mut granted, mut is_told) = (None, false);
        loop {
            // Who did not answer is asked last, and a name that is looked up is waited for on.
            match Registration::once(&mut etcd, &me, seconds, &mut granted) {
                Err(RegistrationError::Etcd(error @ EtcdError::Silent { .. }))
                    if clock::monotonic() < until =>
                {
                    if !std::mem::replace(&mut is_told, true) {
                        let seconds = ANSWERS_WITHIN.as_secs();
                        tracing::warn!(%error, "it is asked again, for {seconds} s");
                    }
                    thread::sleep(AGAIN);
                }
                done => return done,
            }
        }
    }

    /// Registers a node, under the lease that was `granted` before if there is one still.
    fn once(
        etcd: &mut Etcd,
        me: &Member,
        seconds: u64,
        granted: &mut Option<i64>,
    ) -> Result<Registration, RegistrationError> {
        let begun = clock::monotonic();
        let mut asked = begun;
        if let Some(lease) = *granted
            && etcd.keep_alive(lease)?.is_none()
        {
            *granted = None;
        }
        let mut number = match *granted {
            Some(lease) => lease,
            None => etcd.grant(seconds)?,
        };
        *granted = Some(number);
        let mut is_told = false;
        loop {
            let (entries, revision) = etcd.entries()?;
            let there = members(&entries);
            let named = there.iter().find(|(_, other)| other.name == me.name);
            if let Some((&place, other)) = named {
                if under(&entries, place) == Some(number) {
                    return Ok(Registration {
                        members: there,
                        etcd: etcd.clone(),
                        me: me.clone(),
                        seconds,
                        stands: true,
                        is_void: false,
                        number: place,
                        lease: lease((number, revision), seconds, asked),
                    });
                }
                let (name, at) = (&me.name, format!("{}:{}", other.host, other.port));
                if clock::monotonic().since(begun) > Duration::from_secs(3 * seconds + 5) {
                    let name = name.clone();
                    return Err(RegistrationError::NameTaken { name, at });
                }
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!(
                        name,
                        at,
                        "waiting for the lease of a node of this name to end"
                    );
                }
            } else {
                let free = numbers(&me.name).find(|number| !there.contains_key(number));
                let nodes_max = NODES_MAX;
                let place = free.ok_or(RegistrationError::RingFull { nodes_max })?;
                // What it was told in an earlier life; while one of its name lives, that is told.
                etcd.delete(&leave_key(&me.name))?;
                if create(etcd, place, me, number)? {
                    continue;
                }
            }
            thread::sleep(AGAIN);
            let now = clock::monotonic();
            if now.since(asked) >= Duration::from_secs(seconds) / RENEWALS {
                asked = now;
                if etcd.keep_alive(number)?.is_none() {
                    number = etcd.grant(seconds)?;
                    *granted = Some(number);
                }
            }
        }
    }

    /// What the keys of the ring begin with.
    pub fn prefix(&self) -> &str {
        self.etcd.prefix()
    }

    /// Seconds that a lease lasts.
    pub fn lasts(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

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
            let (etcd, name, number) = (self.etcd.clone(), self.me.name.clone(), self.number);
            let patience = Duration::from_secs(self.seconds);
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
            let mut keeper = self;
            let mut is_told = false;
            let every = Duration::from_secs(keeper.seconds) / RENEWALS;
            let mut wait = every;
            while goes_on(&said, wait, clock::monotonic) {
                let number = keeper.lease.number;
                // Who registers anew is told who is there then before it is told of its lease:
                // they may have taken what it served. What the other thread saw before is told
                // before, too.
                let mut before = (!keeper.stands).then(|| lock(&told));
                match keeper.renew() {
                    Ok(news) => {
                        if std::mem::take(&mut is_told) {
                            tracing::info!("etcd answers again");
                        }
                        if let Some(before) = before.as_mut().filter(|_| keeper.stands) {
                            tell_members(before, keeper.members.clone(), &*tell);
                        }
                        tell(news);
                        wait = match keeper.stands {
                            true => every,
                            false if keeper.is_void => Duration::ZERO,
                            // It has one for which it is to register.
                            false if keeper.lease.number != number => Duration::ZERO,
                            false => AGAIN,
                        };
                    }
                    Err(error) => {
                        wait = AGAIN;
                        if !std::mem::replace(&mut is_told, true) {
                            tracing::warn!(%error, "the lease is not renewed: writes end with it");
                        }
                    }
                }
            }
            if let Err(error) = keeper.etcd.revoke(keeper.lease.number) {
                tracing::warn!(%error, "the lease is not ended: others wait until it is over");
            }
        })?;
        Ok(Kept {
            say,
            ended,
            is_over,
        })
    }

    /// Renews the lease; where it is gone, registers anew. One whose key is gone counts no more,
    /// though it is there: others have heard that this node is not, and take what it serves.
    fn renew(&mut self) -> Result<News, EtcdError> {
        if self.is_void {
            self.etcd.revoke(self.lease.number)?;
            self.is_void = false;
        }
        let asked = clock::monotonic();
        let Lease {
            number,
            mut revision,
            ..
        } = self.lease;
        let seconds = match self.etcd.keep_alive(number)? {
            Some(_) if self.stands && !self.has_key()? => {
                tracing::warn!("this node's key in etcd was removed: it registers anew");
                (self.stands, self.is_void) = (false, true);
                return Ok(self.without_lease(number));
            }
            Some(seconds) => seconds,
            None => {
                tracing::warn!("the lease was over: others may have taken what this node served");
                let number = self.etcd.grant(self.seconds)?;
                // Whatever becomes of the rest, it is this one that is renewed from now on.
                self.stands = false;
                return Ok(self.without_lease(number));
            }
        };
        if !self.stands {
            let (entries, _) = self.etcd.entries()?;
            let name = &self.me.name;
            let is_replaced = members(&entries)
                .iter()
                .any(|(number, other)| (*number == self.number) != (other.name == *name));
            if is_replaced {
                return Ok(News::Replaced);
            }
            // It may have been done before, though nobody said so.
            create(&mut self.etcd, self.number, &self.me, number)?;
            let (entries, at) = self.etcd.entries()?;
            revision = at;
            match under(&entries, self.number) {
                Some(of) if of == number => {
                    (self.stands, self.members) = (true, members(&entries));
                }
                Some(_) => return Ok(News::Replaced),
                // Another's, which is gone again; or the lease is: the next renewal sees to it.
                None => return Ok(self.without_lease(number)),
            }
        }
        self.lease = lease((number, revision), seconds, asked);
        Ok(News::Lease(self.lease))
    }

    /// Whether its key stands under its lease.
    fn has_key(&mut self) -> Result<bool, EtcdError> {
        let (entry, _) = self.etcd.get(&place_key(self.number))?;
        Ok(entry.is_some_and(|entry| entry.lease == self.lease.number))
    }

    /// It counts as one whose lease is over, whatever etcd says of this one.
    fn without_lease(&mut self, number: i64) -> News {
        self.lease = Lease {
            until: Time::ZERO,
            number,
            ..self.lease
        };
        News::Lease(self.lease)
    }
}

fn create(etcd: &mut Etcd, place: usize, me: &Member, lease: i64) -> Result<bool, EtcdError> {
    let value = json!({
        "name": me.name,
        "client": format!("{}:{}", me.host, me.port),
        "backbone": me.backbone.to_string(),
    });
    etcd.create(&place_key(place), &value.to_string(), lease)
}

/// The key of a node, by its number.
fn place_key(number: usize) -> String {
    format!("nodes/{number}")
}

/// The key by which a node is asked to leave.
pub(super) fn leave_key(name: &str) -> String {
    format!("leave/{name}")
}

/// All numbers, those first that a node of this name is to have: where all leases have ended, who
/// begins is not to take the number of one that is about to register anew.
fn numbers(name: &str) -> impl Iterator<Item = usize> {
    let first = (checksum([0, 0], name.as_bytes()) % NODES_MAX as u64) as usize;
    (first..first + NODES_MAX).map(|number| number % NODES_MAX)
}

/// The members that were told of last.
type Members = Option<BTreeMap<usize, Member>>;

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

/// What the thread that renews the lease is told.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// The node's key may be gone.
    Look,
    /// Nobody needs it any more.
    End,
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
            etcd.entries().map(|(entries, revision)| {
                if !is_leaving && entries.iter().any(|entry| entry.key == leave) {
                    is_leaving = true;
                    tell(News::Leave);
                }
                tell_members(&mut before, members(&entries), tell);
                revision
            })
        };
        if looked.and_then(|at| etcd.wait(at, patience)).is_err() {
            // The other thread says so.
            thread::sleep(AGAIN);
        }
    }
}

/// A node that is kept registered.
#[derive(Debug)]
pub struct Kept {
    say: Sender<Said>,
    /// Nothing is said: it is over when the thread is.
    ended: Receiver<Infallible>,
    is_over: Arc<AtomicBool>,
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
mod tests;
