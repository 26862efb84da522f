//! A node's place among the others: a key under a lease, which is renewed.

use super::keys::{create, members, place_key, under};
use crate::ring::{Lease, Member};
use rhythm_etcd::{AGAIN, Etcd, EtcdError, HeldLease, Store};
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::time::Duration;

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
pub struct Registration<S = Etcd> {
    store: S,
    me: Member,
    held: HeldLease,
    /// Its key stands under the lease, as far as is known.
    stands: bool,
    /// Its number among the nodes.
    pub number: usize,
    /// Its lease, as it was told of last.
    pub lease: Lease,
    /// Who was there when it registered, it among them.
    pub members: BTreeMap<usize, Member>,
}

impl Registration {
    /// What the keys of the ring begin with.
    pub fn prefix(&self) -> &str {
        self.store.prefix()
    }

    /// Seconds that a lease lasts.
    pub fn lasts(&self) -> Duration {
        self.held.lasts()
    }
}

impl<S: Store> Registration<S> {
    /// A node whose key stands under the lease that it holds.
    pub(super) fn of(
        (store, me, held): (S, Member, HeldLease),
        number: usize,
        lease: Lease,
        members: BTreeMap<usize, Member>,
    ) -> Registration<S> {
        Registration {
            store,
            me,
            held,
            stands: true,
            number,
            lease,
            members,
        }
    }

    pub(super) fn store(&self) -> &S {
        &self.store
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.me.name
    }

    /// For how long it need not be renewed.
    pub(super) fn rest(&self, now: Time) -> Duration {
        self.held.rest(now)
    }

    /// Whether its key stands under its lease, as far as is known.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// Renews the lease; where it is gone, registers anew. One whose key is gone counts no more,
    /// though it is there: others have heard that this node is not, and take what it serves. What
    /// is new, and for how long nothing is to be done then.
    ///
    /// # Errors
    /// etcd does not answer, or refuses: the lease is held for as long as before.
    pub(super) fn step(
        &mut self,
        clock: &impl Fn() -> Time,
    ) -> Result<(News, Duration), EtcdError> {
        self.held.end(&mut self.store)?;
        let now = clock();
        if !self.held.renew(&mut self.store, now)? {
            if std::mem::take(&mut self.stands) {
                tracing::warn!("the lease was over: others may have taken what this node served");
            }
            // Whatever becomes of the rest, it is this one that is renewed from now on; the next
            // step registers for it.
            let number = self.held.grant(&mut self.store, now)?;
            return Ok((self.without_lease(number), Duration::ZERO));
        }
        let number = self.held.number().unwrap_or_default();
        if self.stands {
            let (entry, read) = self.store.get(&place_key(self.number))?;
            self.held.confirm(read);
            if entry.is_none_or(|entry| entry.lease != number) {
                tracing::warn!("this node's key in etcd was removed: it registers anew");
                self.stands = false;
                self.held.give_up();
                return Ok((self.without_lease(number), Duration::ZERO));
            }
        } else if let Some(news) = self.register(number)? {
            return Ok((news, AGAIN));
        }
        self.lease = Lease {
            until: self.held.until(),
            number,
            ..self.lease
        };
        Ok((News::Lease(self.lease), self.held.rest(clock())))
    }

    /// Has its key under a lease that it did not have before; or what is new, where it cannot be.
    fn register(&mut self, number: i64) -> Result<Option<News>, EtcdError> {
        let (entries, _) = self.store.entries()?;
        let name = &self.me.name;
        let is_replaced = members(&entries)
            .iter()
            .any(|(number, other)| (*number == self.number) != (other.name == *name));
        if is_replaced {
            return Ok(Some(News::Replaced));
        }
        // It may have been done before, though nobody said so.
        create(&mut self.store, self.number, &self.me, number)?;
        let (entries, read) = self.store.entries()?;
        self.held.confirm(read);
        Ok(match under(&entries, self.number) {
            Some(of) if of == number => {
                (self.stands, self.members) = (true, members(&entries));
                self.lease.revision = read.revision;
                None
            }
            Some(_) => Some(News::Replaced),
            // Another's, which is gone again; or the lease is: the next renewal sees to it.
            None => Some(self.without_lease(number)),
        })
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

    /// Takes the node's key away, and its lease: it does not come, after all.
    pub(crate) fn withdraw(mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the lease is not ended: others wait until it is over");
        }
    }

    /// Ends the lease, so that others need not wait for that.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub(super) fn end(&mut self) -> Result<(), EtcdError> {
        self.held.give_up();
        self.held.end(&mut self.store).map(drop)
    }
}
