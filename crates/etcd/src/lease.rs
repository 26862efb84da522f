//! A lease, as who holds it knows of it: until when it surely holds it, and when it is to ask
//! again. Without a clock of its own or a thread.
//!
//! # Until when it is surely held
//!
//! It is counted from before it was asked for, and ends a tenth sooner, since clocks do not run
//! alike: so who holds it knows that it does not before etcd lets another one take its place.
//!
//! A grant is etcd's word: a majority has it. A renewal is not. etcd has whoever takes itself for
//! its leader renew leases, and one that was deposed and does not know it yet (its disk hangs, and
//! its thread with it) renews them for nobody: its successor ends them
//! (<https://github.com/etcd-io/etcd/issues/15247>; from etcd 3.4.29 and 3.5.11 on it asks a
//! majority first). So a renewal counts once something was read behind it of no later term of
//! etcd's than it was asked in. The read asks a majority; no leader of a later term was elected
//! before it, then, and so none before the renewal: who renewed was the leader. Who holds a lease
//! looks at the key under it anyway, so this costs nothing.

use crate::error::EtcdError;
use crate::store::{At, Renewed, Store};
use rhythm_net::Time;
use std::time::Duration;

/// How often a lease is renewed in its time.
const RENEWALS: u32 = 3;
/// Clocks do not run alike: a lease ends here by so much of it sooner (a fraction).
const MARGIN: u32 = 10;
/// How long after etcd did not answer, or not what was hoped for, it is asked again.
pub const AGAIN: Duration = Duration::from_millis(200);

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct HeldLease {
    seconds: u64,
    number: Option<i64>,
    until: Time,
    due: Time,
    /// For how long a renewal is good, and its term: nothing was read since.
    renewed: Option<(Time, u64)>,
    /// One that is to be ended, so that others need not wait for that.
    given_up: Option<i64>,
}

impl HeldLease {
    /// None yet; each that it is given is for so many seconds.
    pub fn new(seconds: u64) -> HeldLease {
        HeldLease {
            seconds,
            number: None,
            until: Time::ZERO,
            due: Time::ZERO,
            renewed: None,
            given_up: None,
        }
    }

    /// How long one lasts.
    pub fn lasts(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The one that it has, as far as it knows.
    pub fn number(&self) -> Option<i64> {
        self.number
    }

    /// Until when it surely has it; [`Time::ZERO`]: it has none.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Whether it is time to renew it.
    pub fn is_due(&self, now: Time) -> bool {
        now >= self.due
    }

    /// For how long it need not be renewed; a moment at least.
    pub fn rest(&self, now: Time) -> Duration {
        self.due.since(now).max(AGAIN)
    }

    /// Is given one, unless it has one; its number. `now` is no later than when it is asked for.
    ///
    /// # Errors
    /// etcd does not answer, or it refuses.
    pub fn grant(&mut self, store: &mut impl Store, now: Time) -> Result<i64, EtcdError> {
        if let Some(number) = self.number {
            return Ok(number);
        }
        let number = store.grant(self.seconds)?;
        self.number = Some(number);
        self.until = ends(now, self.seconds);
        self.due = now + self.lasts() / RENEWALS;
        Ok(number)
    }

    /// Renews it, which counts once it is [confirmed](HeldLease::confirm). False: it is gone, or
    /// there was none. `now` is no later than when it is asked for.
    ///
    /// # Errors
    /// etcd does not answer, or it refuses: it is held for as long as before.
    pub fn renew(&mut self, store: &mut impl Store, now: Time) -> Result<bool, EtcdError> {
        let Some(number) = self.number else {
            return Ok(false);
        };
        let Some(Renewed { seconds, term }) = store.keep_alive(number)? else {
            self.lose();
            return Ok(false);
        };
        self.renewed = Some((ends(now, seconds), term));
        self.due = now + self.lasts() / RENEWALS;
        Ok(true)
    }

    /// Something was read after it was renewed: the renewal counts, unless etcd had an election
    /// meanwhile. Then it is to be renewed again soon.
    pub fn confirm(&mut self, read: At) {
        if let Some((until, term)) = self.renewed.take() {
            match read.term <= term {
                true => self.until = until,
                false => self.due = Time::ZERO,
            }
        }
    }

    /// It counts no more, and is to be [ended](HeldLease::end).
    pub fn give_up(&mut self) {
        self.given_up = self.number.or(self.given_up);
        self.lose();
    }

    /// Ends the one that was given up. False: none was.
    ///
    /// # Errors
    /// etcd does not answer, or it refuses: it is still to be ended.
    pub fn end(&mut self, store: &mut impl Store) -> Result<bool, EtcdError> {
        let Some(number) = self.given_up else {
            return Ok(false);
        };
        store.revoke(number)?;
        self.given_up = None;
        Ok(true)
    }

    fn lose(&mut self) {
        (self.number, self.renewed) = (None, None);
        (self.until, self.due) = (Time::ZERO, Time::ZERO);
    }
}

/// When a lease ends here that was asked for at a time.
fn ends(asked: Time, seconds: u64) -> Time {
    let lasts = Duration::from_secs(seconds);
    asked + (lasts - lasts / MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Memory;

    const SECONDS: u64 = 10;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// A lease that was given at the beginning.
    fn granted() -> (HeldLease, Memory) {
        let (mut lease, mut store) = (HeldLease::new(SECONDS), Memory::default());
        let number = lease.grant(&mut store, at(0)).expect("it answers");
        assert_eq!(
            store.with(|model| model.leases().collect::<Vec<_>>()),
            [number]
        );
        (lease, store)
    }

    /// What stands somewhere is read.
    fn read(store: &mut Memory) -> At {
        store.get("key").expect("it answers").1
    }

    #[test]
    fn it_is_held_from_before_it_was_asked_for_and_a_tenth_less_long() {
        let (mut lease, mut store) = granted();
        let number = lease.number();
        assert_eq!(lease.until(), at(9000));
        assert!(!lease.is_due(at(3333)) && lease.is_due(at(3334)));
        assert_eq!(lease.rest(at(334)).as_millis(), 2999);
        // One that is held is not given again.
        let again = lease.grant(&mut store, at(1)).expect("it has one");
        assert_eq!((Some(again), lease.until()), (number, at(9000)));
        // It is asked for at four seconds, and etcd does it at five.
        store.pass(Duration::from_secs(5));
        assert!(lease.renew(&mut store, at(4000)).expect("it is there"));
        assert_eq!(lease.until(), at(9000), "nothing was read since");
        lease.confirm(read(&mut store));
        assert_eq!(lease.until(), at(13_000));
        // What was renewed once is confirmed once.
        lease.confirm(read(&mut store));
        assert_eq!(lease.until(), at(13_000));
        store.pass(Duration::from_secs(10));
        assert!(!lease.renew(&mut store, at(15_000)).expect("it is gone"));
        assert_eq!((lease.number(), lease.until()), (None, Time::ZERO));
        assert!(
            !lease
                .renew(&mut store, at(15_000))
                .expect("nobody is asked")
        );
        let other = lease.grant(&mut store, at(15_000)).expect("it answers");
        assert!(Some(other) != number && lease.until() == at(24_000));
    }

    /// It ends when its successor says so, whatever the deposed one said.
    #[test]
    fn what_a_deposed_leader_of_etcd_renewed_does_not_count() {
        let (mut lease, mut store) = granted();
        store.pass(Duration::from_secs(1));
        store.elect();
        for seconds in [4, 8] {
            store.pass(Duration::from_secs(4));
            let now = at(seconds * 1000);
            assert!(lease.renew(&mut store, now).expect("it says so"));
            lease.confirm(read(&mut store));
            assert_eq!(lease.until(), at(9000), "as the one before gave it");
            assert!(lease.is_due(now), "it is asked again");
            assert_eq!(lease.rest(now), AGAIN);
        }
        store.pass(Duration::from_secs(1));
        store.depose();
        assert!(
            lease
                .renew(&mut store, at(10_000))
                .expect("it is there yet")
        );
        lease.confirm(read(&mut store));
        assert_eq!(lease.until(), at(19_000));
    }

    #[test]
    fn who_is_not_answered_holds_it_for_as_long_as_before() {
        let (mut lease, mut store) = granted();
        store.be_silent(true);
        let due = at(3334);
        lease.renew(&mut store, due).expect_err("nobody answers");
        assert!(lease.number().is_some() && lease.is_due(due));
        assert_eq!((lease.until(), lease.rest(due)), (at(9000), AGAIN));
        // What is given up is not held any more, and ended when etcd answers again.
        lease.give_up();
        assert_eq!((lease.number(), lease.until()), (None, Time::ZERO));
        lease.end(&mut store).expect_err("nobody answers");
        // There is no other one.
        lease.give_up();
        store.be_silent(false);
        assert!(lease.end(&mut store).expect("it answers"));
        assert_eq!(store.with(|model| model.leases().count()), 0);
        assert!(!lease.end(&mut store).expect("there is none"));
    }
}
