//! What a node lends of its memory, and when it wants that back.
//!
//! As much is idle as it may lend and does not, and as is free above what it keeps for itself. One
//! reading below that has it want back what it lacks, the newest loans first; it lends again after
//! a run of readings above. (Infiniswap, NSDI 2017, section 4.4, waits likewise before it takes
//! memory as free.)

use super::lender::Lender;
use crate::loan::{LoanId, LoanKey};
use crate::wire::NODE_LOANS_MAX;
use rhythm_net::Time;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Readings above what is kept free, after one below, from which on it is lent again.
const HIGH_READINGS: u32 = 20;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Lending<L> {
    lender: L,
    /// The most that is lent, and what is kept free for the node itself, in bytes.
    pub(super) size: u64,
    keep_free: u64,
    within: Duration,
    /// What the system last said is available, in bytes.
    available: u64,
    highs: u32,
    /// What is wanted back, and when it is taken.
    reclaims: BTreeMap<LoanId, Time>,
    is_leaving: bool,
}

impl<L: Lender> Lending<L> {
    pub(super) fn new(lender: L, size: u64, keep_free: u64, within: Duration) -> Lending<L> {
        Lending {
            lender,
            size,
            keep_free,
            within,
            available: 0,
            highs: HIGH_READINGS,
            reclaims: BTreeMap::new(),
            is_leaving: false,
        }
    }

    pub(super) fn lent(&self) -> Vec<(LoanId, u64)> {
        self.lender.lent()
    }

    /// What is lent, in bytes.
    pub(super) fn lent_bytes(&self) -> u64 {
        let lent = self.lender.lent();
        lent.iter()
            .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// What could be lent now, in bytes.
    pub(super) fn idle(&self) -> u64 {
        if self.is_leaving || !self.reclaims.is_empty() || self.highs < HIGH_READINGS {
            return 0;
        }
        let unlent = self.size.saturating_sub(self.lent_bytes());
        unlent.min(self.available.saturating_sub(self.keep_free))
    }

    /// Whether borrowers reach it in TLS.
    pub(super) fn is_sealed(&self) -> bool {
        self.lender.is_sealed()
    }

    /// Lends, if there is room: where it is served, or what there is.
    pub(super) fn grant(
        &mut self,
        id: LoanId,
        bytes: u64,
        key: &LoanKey,
    ) -> Result<SocketAddr, u64> {
        let idle = self.idle();
        let lent = self.lender.lent();
        if bytes > idle
            || lent.len() >= NODE_LOANS_MAX
            || lent.iter().any(|(known, _)| *known == id)
        {
            return Err(idle);
        }
        let granted = self.lender.grant(id, bytes, key).map_err(|_| 0_u64)?;
        // Until the system is asked again.
        self.available = self.available.saturating_sub(bytes);
        Ok(granted)
    }

    /// Takes a loan back.
    pub(super) fn revoke(&mut self, id: LoanId) {
        self.reclaims.remove(&id);
        self.lender.revoke(id);
    }

    /// The system says what is available: what is wanted back now.
    pub(super) fn read(&mut self, available: u64, now: Time) -> Vec<LoanId> {
        self.available = available;
        if available >= self.keep_free {
            self.highs = self.highs.saturating_add(1);
            return Vec::new();
        }
        self.highs = 0;
        let mut lent = self.lender.lent();
        lent.sort_unstable();
        let wanted = |id: &LoanId| self.reclaims.contains_key(id);
        let coming = lent
            .iter()
            .filter(|(id, _)| wanted(id))
            .map(|(_, bytes)| bytes);
        let mut lacking = (self.keep_free - available).saturating_sub(coming.sum());
        let mut ids = Vec::new();
        for (id, bytes) in lent.iter().rev().filter(|(id, _)| !wanted(id)) {
            if lacking == 0 {
                break;
            }
            lacking = lacking.saturating_sub(*bytes);
            ids.push(*id);
        }
        self.want(&ids, now);
        ids
    }

    /// The system does not say what is available: nothing more is lent until it does.
    pub(super) fn unread(&mut self) {
        self.available = 0;
    }

    /// The node ends: all that is wanted back now.
    pub(super) fn leave(&mut self, now: Time) -> Vec<LoanId> {
        self.is_leaving = true;
        let lent = self.lender.lent().into_iter().map(|(id, _)| id);
        let ids: Vec<LoanId> = lent.filter(|id| !self.reclaims.contains_key(id)).collect();
        self.want(&ids, now);
        ids
    }

    fn want(&mut self, ids: &[LoanId], now: Time) {
        let until = now + self.within;
        self.reclaims.extend(ids.iter().map(|id| (*id, until)));
    }

    /// Whether the node has nothing lent, and lends nothing any more.
    pub(super) fn has_left(&self) -> bool {
        self.is_leaving && self.lender.lent().is_empty()
    }

    /// What is wanted back, and for how long that is waited for.
    pub(super) fn reclaims(&self, now: Time) -> Vec<(LoanId, Duration)> {
        let reclaims = self.reclaims.iter();
        reclaims.map(|(id, at)| (*id, at.since(now))).collect()
    }

    /// Takes what was wanted back and did not come in time.
    pub(super) fn take_late(&mut self, now: Time) -> Vec<LoanId> {
        let late = self.reclaims.iter().filter(|(_, at)| **at <= now);
        let late: Vec<LoanId> = late.map(|(id, _)| *id).collect();
        late.iter().for_each(|id| self.revoke(*id));
        late
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.reclaims.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::lender::NoRoom;

    #[derive(Debug, Default)]
    struct Shelf(Vec<(LoanId, u64)>);

    impl Lender for Shelf {
        fn grant(&mut self, loan: LoanId, bytes: u64, _: &LoanKey) -> Result<SocketAddr, NoRoom> {
            self.0.push((loan, bytes));
            Ok(([127, 0, 0, 1], 1).into())
        }

        fn revoke(&mut self, loan: LoanId) {
            self.0.retain(|(id, _)| *id != loan);
        }

        fn lent(&self) -> Vec<(LoanId, u64)> {
            self.0.clone()
        }
    }

    const NOW: Time = Time::from_nanos(1);

    fn lending() -> Lending<Shelf> {
        let mut lending = Lending::new(Shelf::default(), 100, 50, Duration::from_secs(1));
        assert_eq!(lending.idle(), 0, "nothing is known of the system");
        assert_eq!(lending.read(1000, NOW), []);
        lending
    }

    fn grant(lending: &mut Lending<Shelf>, id: u64, bytes: u64) -> Result<SocketAddr, u64> {
        lending.grant(LoanId(id), bytes, &LoanKey([0; 32]))
    }

    #[test]
    fn what_is_lent_is_bounded_by_the_setting_and_by_what_is_free() {
        let mut lending = lending();
        assert_eq!(lending.idle(), 100);
        assert!(grant(&mut lending, 1, 60).is_ok());
        assert_eq!(grant(&mut lending, 2, 60), Err(40));
        assert_eq!(grant(&mut lending, 1, 1), Err(40), "the same number twice");
        lending.read(80, NOW);
        assert_eq!(lending.idle(), 30);
        lending.revoke(LoanId(1));
        assert_eq!(lending.lent_bytes(), 0);
    }

    #[test]
    fn what_a_node_lacks_is_wanted_back_the_newest_first_and_then_taken() {
        let mut lending = lending();
        for id in 1..=3 {
            assert!(grant(&mut lending, id, 30).is_ok());
        }
        // It lacks 40: two loans.
        assert_eq!(lending.read(10, NOW), [LoanId(3), LoanId(2)]);
        assert_eq!(lending.read(10, NOW), [], "they are on their way");
        assert_eq!(lending.idle(), 0);
        assert_eq!(lending.take_late(NOW), []);
        let until = lending.wake_at().expect("a time");
        assert_eq!(until, NOW + Duration::from_secs(1));
        lending.revoke(LoanId(3));
        assert_eq!(lending.take_late(until), [LoanId(2)]);
        assert_eq!(lending.lent(), [(LoanId(1), 30)]);
        // It lends again after a while.
        for _ in 0..HIGH_READINGS {
            assert_eq!(lending.idle(), 0);
            lending.read(1000, NOW);
        }
        assert_eq!(lending.idle(), 70);
    }

    #[test]
    fn nothing_is_lent_of_what_is_not_known() {
        let mut lending = lending();
        assert!(grant(&mut lending, 1, 30).is_ok());
        lending.unread();
        assert_eq!(grant(&mut lending, 2, 1), Err(0));
        assert_eq!(lending.reclaims(NOW), [], "what is lent stays so");
        lending.read(1000, NOW);
        assert!(grant(&mut lending, 2, 1).is_ok());
    }

    #[test]
    fn a_node_that_leaves_wants_all_back() {
        let mut lending = lending();
        assert!(grant(&mut lending, 1, 30).is_ok());
        assert_eq!(lending.leave(NOW), [LoanId(1)]);
        assert_eq!(grant(&mut lending, 2, 1), Err(0));
        assert!(!lending.has_left());
        lending.revoke(LoanId(1));
        assert!(lending.has_left());
    }
}
