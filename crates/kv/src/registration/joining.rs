//! How a node comes to have a place among the others.

use super::keys::{create, leave_key, members, numbers, under};
use super::node::Registration;
use crate::ring::{Lease, Member, NODES_MAX};
use rhythm_etcd::{AGAIN, Entry, Etcd, EtcdError, HeldLease, Store};
use rhythm_net::{Time, clock};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// How long a node that begins waits for etcd.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

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
    /// Another node has one of its addresses.
    #[error(
        "{flag} {at} is that of another node, {name}, which is registered: clients or nodes would \
         find one of the two there. Give each its own, or, where that one has died, begin again \
         when its lease is over"
    )]
    AddressTaken {
        /// Which of the addresses, by its flag.
        flag: &'static str,
        /// The address.
        at: String,
        /// What the other is called.
        name: String,
    },
    /// It is to end, and has no place.
    #[error("it was told to end before it was registered")]
    Ended,
    /// There are as many nodes as there may be.
    #[error("the ring has {nodes_max} nodes already, and may have no more")]
    RingFull {
        /// So many.
        nodes_max: usize,
    },
}

impl Registration {
    /// Registers a node under a lease of so many seconds. Where one of its name, or with one of its
    /// addresses, is there, which may be one that died, it waits until that one's lease is over.
    /// Where etcd does not answer, it is asked again for ten seconds: its members may be about to
    /// agree on a leader. What is waited for, `waits` is told; before each time that it may come to
    /// stand in etcd it is asked whether it `may`.
    ///
    /// # Errors
    /// etcd does not answer, there is no number left, another node has the name or an address, and
    /// lives, or it may not: then it does not stand there, as far as etcd answers.
    pub fn new(
        etcd: Etcd,
        me: Member,
        seconds: u64,
        mut waits: impl FnMut(&str),
        may: impl Fn() -> bool,
    ) -> Result<Registration, RegistrationError> {
        let until = clock::monotonic() + ANSWERS_WITHIN;
        let mut joining = Joining::new(etcd, me, seconds);
        let mut is_told = false;
        loop {
            let stepped = match may() {
                true => joining.step(clock::monotonic()),
                false => Err(RegistrationError::Ended),
            };
            // Who did not answer is asked last, and a name that is looked up is waited for on.
            match stepped {
                Ok(None) => waits(joining.waits_for.as_deref().unwrap_or("etcd")),
                Err(RegistrationError::Etcd(error @ EtcdError::Silent { .. }))
                    if clock::monotonic() < until =>
                {
                    waits(&format!("etcd: {error}"));
                    if !std::mem::replace(&mut is_told, true) {
                        let seconds = ANSWERS_WITHIN.as_secs();
                        tracing::warn!(%error, "it is asked again, for {seconds} s");
                    }
                }
                Ok(Some(registration)) => return Ok(registration),
                Err(error) => {
                    // Where it has a place by now, nobody is to count on that.
                    joining.held.give_up();
                    let _ = joining.held.end(&mut joining.store);
                    return Err(error);
                }
            }
            thread::sleep(AGAIN);
        }
    }
}

/// A node that has no place yet.
pub(super) struct Joining<S> {
    store: S,
    me: Member,
    held: HeldLease,
    /// Since when etcd answers.
    since: Option<Time>,
    /// Why it has no place yet, where another is in its way.
    pub(super) waits_for: Option<String>,
}

/// What another has that a node is to have.
enum Taken {
    Name,
    /// By its flag; and that address.
    Address(&'static str, String),
}

impl Taken {
    /// What of a node's another has.
    fn of(me: &Member, other: &Member) -> Option<Taken> {
        if other.name == me.name {
            Some(Taken::Name)
        } else if other.at() == me.at() {
            Some(Taken::Address("--client", me.at()))
        } else if other.backbone == me.backbone {
            Some(Taken::Address("--backbone", me.backbone.to_string()))
        } else {
            None
        }
    }
}

impl<S: Store + Clone> Joining<S> {
    pub(super) fn new(store: S, me: Member, seconds: u64) -> Joining<S> {
        Joining {
            store,
            me,
            held: HeldLease::new(seconds),
            since: None,
            waits_for: None,
        }
    }

    /// Takes a place if there is one; none: another of its name is there yet.
    pub(super) fn step(&mut self, now: Time) -> Result<Option<Registration<S>>, RegistrationError> {
        let since = *self.since.get_or_insert(now);
        let stepped = self.look(since, now);
        if stepped.is_err() {
            // It is waited for anew, and the lease may be over by then.
            self.since = None;
        }
        stepped
    }

    fn look(
        &mut self,
        since: Time,
        now: Time,
    ) -> Result<Option<Registration<S>>, RegistrationError> {
        if self.held.is_due(now) {
            // Where it is gone there is to be another.
            self.held.renew(&mut self.store, now)?;
        }
        let lease = self.held.grant(&mut self.store, now)?;
        let (mut entries, mut revision) = self.entries()?;
        let mut there = members(&entries);
        if self.in_the_way(&there).is_none() {
            self.take(&there, lease)?;
            (entries, revision) = self.entries()?;
            there = members(&entries);
        }
        // Its own key is that of one of its name, too.
        let Some((number, taken)) = self.in_the_way(&there) else {
            return Ok(None);
        };
        if matches!(taken, Taken::Name) && under(&entries, number) == Some(lease) {
            let lease = Lease {
                until: self.held.until(),
                number: lease,
                revision,
            };
            let (store, me, held) = (self.store.clone(), self.me.clone(), self.held.clone());
            let registered = Registration::of((store, me, held), number, lease, there);
            return Ok(Some(registered));
        }
        let other = &there[&number];
        if now.since(since) > 3 * self.held.lasts() + Duration::from_secs(5) {
            let name = other.name.clone();
            return Err(match taken {
                Taken::Name => {
                    let at = other.at();
                    RegistrationError::NameTaken { name, at }
                }
                Taken::Address(flag, at) => RegistrationError::AddressTaken { flag, at, name },
            });
        }
        let (name, at) = (&other.name, other.at());
        let why = match taken {
            Taken::Name => format!("another node called {name}, of {at},"),
            Taken::Address(flag, at) => format!("node {name}, which has {flag} {at}, too,"),
        };
        let why = format!("{why} to end, or its lease to be over");
        if self.waits_for.as_ref() != Some(&why) {
            tracing::info!("waiting for {why}");
            self.waits_for = Some(why);
        }
        Ok(None)
    }

    /// A node that has what this one is to have, by its number; this one itself, once it has its
    /// place. One of its name comes first.
    fn in_the_way(&self, there: &BTreeMap<usize, Member>) -> Option<(usize, Taken)> {
        let taken = |(number, other): (&usize, &Member)| {
            Taken::of(&self.me, other).map(|taken| (*number, taken))
        };
        let mut all = there.iter().filter_map(taken);
        let first = all.next();
        match first {
            Some((_, Taken::Address(..))) => all
                .find(|(_, taken)| matches!(taken, Taken::Name))
                .or(first),
            _ => first,
        }
    }

    /// Takes a number that is free; it may be another's by then.
    fn take(
        &mut self,
        there: &BTreeMap<usize, Member>,
        lease: i64,
    ) -> Result<(), RegistrationError> {
        let free = numbers(&self.me.name).find(|number| !there.contains_key(number));
        let nodes_max = NODES_MAX;
        let place = free.ok_or(RegistrationError::RingFull { nodes_max })?;
        // What it was told in an earlier life; while one of its name lives, that is told.
        self.store.delete(&leave_key(&self.me.name))?;
        create(&mut self.store, place, &self.me, lease)?;
        Ok(())
    }

    /// All keys, and the revision at which they are so.
    fn entries(&mut self) -> Result<(Vec<Entry>, i64), EtcdError> {
        let (entries, read) = self.store.entries()?;
        self.held.confirm(read);
        Ok((entries, read.revision))
    }
}
