//! How one of several monitors comes to lead, and knows whether it still does.

use super::loading::{LoadError, Loaded, load};
use super::rows::{LEADER, Place};
use super::term::Term;
use crate::monitor::keeper::State;
use rhythm_etcd::{At, Entry, EtcdError, HeldLease, Store};
use rhythm_net::Time;
use std::sync::Arc;
use std::time::Duration;

/// A leader that has not looked whether it leads for so many of its leases hangs: it looks when it
/// does anything, and sleeps no longer than its lease lasts.
const HANGS_AFTER: u32 = 3;

/// Who leads.
#[derive(Clone, Debug)]
pub enum Standing {
    /// This monitor does, and did not before: it begins with what is kept.
    Begins(Arc<Term>, Box<(State, Loaded)>),
    /// This monitor does, as before.
    Leads,
    /// Another one does, as of a revision of etcd.
    Follows(Option<Place>, i64),
    /// Nobody does.
    Vacant,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Election<S> {
    store: S,
    me: Place,
    /// The lease under which its key is, or is to be.
    lease: HeldLease,
    term: Option<Arc<Term>>,
    /// The term that was given up since the monitor's thread hung, and when that had looked last.
    /// Until it looks again it cannot lead, and would have what is kept read for nothing.
    hung: Option<(Arc<Term>, Time)>,
}

impl<S: Store> Election<S> {
    /// A monitor that is at this place, with leases of so many seconds.
    pub fn new(store: S, me: Place, seconds: u64) -> Election<S> {
        Election {
            store,
            me,
            lease: HeldLease::new(seconds),
            term: None,
            hung: None,
        }
    }

    /// Where it is itself.
    pub(super) fn place(&self) -> &Place {
        &self.me
    }

    /// What it asks.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Likewise.
    pub(super) fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// How long a lease lasts.
    pub fn lasts(&self) -> Duration {
        self.lease.lasts()
    }

    /// For how long nothing is to be done, where it leads.
    pub(super) fn rest(&self, now: Time) -> Duration {
        self.lease.rest(now)
    }

    /// Whether it led when it looked last.
    pub fn leads(&self) -> bool {
        self.term.is_some()
    }

    /// Renews its lease if it leads, and tries to lead if nobody does. Time passes as it asks.
    ///
    /// # Errors
    /// etcd does not answer, or what is kept there cannot be read. If it leads, it does until its
    /// term ends.
    pub fn step(&mut self, clock: &impl Fn() -> Time) -> Result<Standing, LoadError> {
        let now = clock();
        let hangs_after = HANGS_AFTER * self.lasts();
        if let Some(term) = &self.term {
            // In this order: who is deposed meanwhile has looked since.
            let looked_at = term.looked_at();
            let (stands, silent) = (term.stands(now), now.since(looked_at));
            if stands && silent > hangs_after {
                self.hung = Some((Arc::clone(term), looked_at));
                tracing::error!(
                    ?silent,
                    "the monitor's thread hangs: another one is to lead"
                );
            }
            if !stands || silent > hangs_after {
                self.give_up();
            }
        }
        if self.lease.end(&mut self.store)? {
            return Ok(Standing::Vacant);
        }
        if !self.lease.renew(&mut self.store, now)? {
            // It is gone, or there was none.
            self.give_up();
        }
        let (entry, read) = match self.store.get(LEADER)? {
            (None, _) if self.term.is_some() => {
                // Somebody removed its key. Another term has another lease.
                self.give_up();
                return Ok(Standing::Vacant);
            }
            (None, _) if self.hangs() => return Ok(Standing::Vacant),
            (None, _) => self.apply(now)?,
            found => found,
        };
        self.lease.confirm(read);
        let Some(entry) = entry else {
            return Ok(Standing::Vacant);
        };
        match self.lease.number() {
            Some(lease) if lease == entry.lease => {
                if let Some(term) = &self.term {
                    term.prolong(self.lease.until());
                    return Ok(Standing::Leads);
                }
                let begun = self.begin(lease, clock);
                if begun.is_err() {
                    self.give_up();
                }
                begun
            }
            _ => {
                self.give_up();
                let place = Place::read(&entry.value);
                Ok(Standing::Follows(place, read.revision))
            }
        }
    }

    /// Reads what is kept, under its lease. That may take longer than the lease lasts, and so it is
    /// renewed meanwhile.
    fn begin(&mut self, lease: i64, clock: &impl Fn() -> Time) -> Result<Standing, LoadError> {
        let held = &mut self.lease;
        let mut still = |store: &mut S| {
            let now = clock();
            match !held.is_due(now) || held.renew(store, now)? {
                true => Ok(()),
                false => Err(LoadError::Late),
            }
        };
        let loaded = load(&mut self.store, &mut still)?;
        // The last page may have been slow, too.
        still(&mut self.store)?;
        let (entry, read) = self.store.get(LEADER)?;
        self.lease.confirm(read);
        let (until, now) = (self.lease.until(), clock());
        if entry.is_none_or(|entry| entry.lease != lease) || until <= now {
            return Err(LoadError::Late);
        }
        let term = Arc::new(Term::new(lease, self.lasts(), until, now));
        self.term = Some(Arc::clone(&term));
        Ok(Standing::Begins(term, Box::new(loaded)))
    }

    /// Whether the monitor's thread hangs, as far as it is known.
    fn hangs(&mut self) -> bool {
        let hangs = |(term, looked_at): &(Arc<Term>, Time)| term.looked_at() == *looked_at;
        if !self.hung.as_ref().is_some_and(hangs) {
            self.hung = None;
        }
        self.hung.is_some()
    }

    /// Creates the key; what stands there then.
    fn apply(&mut self, now: Time) -> Result<(Option<Entry>, At), EtcdError> {
        let lease = self.lease.grant(&mut self.store, now)?;
        // It may have been done though it says that it was not, if it was asked twice.
        self.store.create(LEADER, &self.me.text(), lease)?;
        self.store.get(LEADER)
    }

    /// Leads no more, if it did.
    fn give_up(&mut self) {
        if let Some(term) = self.term.take() {
            term.end();
        }
        self.lease.give_up();
    }

    /// Ends its term, so that another can lead at once.
    ///
    /// # Errors
    /// etcd does not answer: others wait until the lease is over.
    pub(super) fn resign(&mut self) -> Result<(), EtcdError> {
        self.give_up();
        self.lease.end(&mut self.store).map(drop)
    }
}
