//! What a node lends, and when it wants that back.
//!
//! As much is idle as it may lend and does not; of memory, as is free above what it keeps for
//! itself. One reading below that has it want back what it lacks, the newest loans of memory first;
//! it lends memory again after a run of readings above. (Infiniswap, NSDI 2017, section 4.4, waits
//! likewise before it takes memory as free.)

use super::lender::Lender;
use crate::loan::{LoanId, LoanKey};
use crate::resource::{Kind, Offer, Share};
use crate::wire::NODE_LOANS_MAX;
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Readings above what is kept free, after one below, from which on it is lent again.
const HIGH_READINGS: u32 = 20;

/// How often it is looked whether a loan that is over is undone.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Lending<L> {
    lender: L,
    /// The most that is lent, of each kind once, in their order.
    most: Vec<Share>,
    /// Memory that is kept free for the node itself, in bytes.
    keep_free: u64,
    within: Duration,
    /// What the system last said is available, in bytes.
    available: u64,
    highs: u32,
    /// What is wanted back, and when it is taken.
    reclaims: BTreeMap<LoanId, Time>,
    /// What is over, and whether that is so for who lent it, too, is looked at then: memory is
    /// zeroed first.
    undoing: BTreeSet<LoanId>,
    look_at: Time,
    is_leaving: bool,
}

impl<L: Lender> Lending<L> {
    pub(super) fn new(lender: L, most: &[Share], keep_free: u64, within: Duration) -> Lending<L> {
        let mut most = most.to_vec();
        most.sort_unstable();
        most.dedup_by_key(|share| share.kind);
        Lending {
            lender,
            most,
            keep_free,
            within,
            available: 0,
            highs: HIGH_READINGS,
            reclaims: BTreeMap::new(),
            undoing: BTreeSet::new(),
            look_at: Time::ZERO,
            is_leaving: false,
        }
    }

    pub(super) fn lent(&self) -> Vec<(LoanId, Share)> {
        self.lender.lent()
    }

    /// The most that is lent of each kind, and what of that could be lent now.
    pub(super) fn offers(&self) -> Vec<Offer> {
        let lent = self.lender.lent();
        let offer = |most: &Share| Offer {
            kind: most.kind,
            size: most.amount,
            idle: self.idle(most, &lent),
        };
        self.most.iter().map(offer).collect()
    }

    fn idle(&self, most: &Share, lent: &[(LoanId, Share)]) -> u64 {
        if self.is_leaving {
            return 0;
        }
        let of_kind = lent.iter().map(|(_, share)| share);
        let of_kind = of_kind.filter(|share| share.kind == most.kind);
        let taken = of_kind.fold(0_u64, |sum, share| sum.saturating_add(share.amount));
        let unlent = most.amount.saturating_sub(taken);
        match most.kind {
            Kind::Memory if !self.reclaims.is_empty() || self.highs < HIGH_READINGS => 0,
            Kind::Memory => unlent.min(self.available.saturating_sub(self.keep_free)),
            _ => unlent,
        }
    }

    /// Whether borrowers of that kind reach it in TLS.
    pub(super) fn is_sealed(&self, kind: Kind) -> bool {
        self.lender.is_sealed(kind)
    }

    /// Lends, if there is room: where it is served, or what there is.
    pub(super) fn grant(
        &mut self,
        id: LoanId,
        share: Share,
        key: &LoanKey,
    ) -> Result<SocketAddr, u64> {
        let lent = self.lender.lent();
        let most = self.most.iter().find(|most| most.kind == share.kind);
        let idle = most.map_or(0, |most| self.idle(most, &lent));
        if share.amount > idle
            || lent.len() >= NODE_LOANS_MAX
            || lent.iter().any(|(known, _)| *known == id)
        {
            return Err(idle);
        }
        let granted = self.lender.grant(id, share, key).map_err(|_| 0_u64)?;
        if share.kind == Kind::Memory {
            // Until the system is asked again.
            self.available = self.available.saturating_sub(share.amount);
        }
        Ok(granted)
    }

    /// Takes a loan back.
    pub(super) fn revoke(&mut self, id: LoanId) {
        self.reclaims.remove(&id);
        self.lender.revoke(id);
    }

    /// Takes a loan back, which is then in [`Lending::take_undone`].
    pub(super) fn give_up(&mut self, id: LoanId, now: Time) {
        self.revoke(id);
        self.undoing.insert(id);
        self.look_at = now;
    }

    /// Those that were given up of which nothing is left.
    pub(super) fn take_undone(&mut self, now: Time) -> Vec<LoanId> {
        if self.undoing.is_empty() || self.look_at > now {
            return Vec::new();
        }
        self.look_at = now + LOOK_EVERY;
        let lent: BTreeSet<LoanId> = self.lender.lent().iter().map(|(id, _)| *id).collect();
        let undone = self.undoing.difference(&lent).copied().collect();
        self.undoing.retain(|id| lent.contains(id));
        undone
    }

    /// The system says what is available: what is wanted back now.
    pub(super) fn read(&mut self, available: u64, now: Time) -> Vec<LoanId> {
        self.available = available;
        if available >= self.keep_free {
            self.highs = self.highs.saturating_add(1);
            return Vec::new();
        }
        self.highs = 0;
        let lent = self.lender.lent().into_iter();
        let memory = lent.filter(|(_, share)| share.kind == Kind::Memory);
        let mut lent: Vec<(LoanId, u64)> = memory.map(|(id, share)| (id, share.amount)).collect();
        lent.sort_unstable();
        // Of what is over, the memory is on its way, and nobody has any to give back.
        let wanted = |id: &LoanId| self.is_coming(*id);
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
        let ids: Vec<LoanId> = lent.filter(|id| !self.is_coming(*id)).collect();
        self.want(&ids, now);
        ids
    }

    /// Whether a loan is wanted back already, or over and being undone.
    fn is_coming(&self, id: LoanId) -> bool {
        self.reclaims.contains_key(&id) || self.undoing.contains(&id)
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

    /// Takes what was wanted back and did not come in time. It is in [`Lending::take_undone`]
    /// later: whoever registers while it is being undone still has it, and has to say when that is
    /// over.
    pub(super) fn take_late(&mut self, now: Time) -> Vec<LoanId> {
        let late = self.reclaims.iter().filter(|(_, at)| **at <= now);
        let late: Vec<LoanId> = late.map(|(id, _)| *id).collect();
        late.iter().for_each(|id| self.give_up(*id, now));
        late
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        let undone = (!self.undoing.is_empty()).then_some(self.look_at);
        let taken = self.reclaims.values().min().copied();
        undone.into_iter().chain(taken).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::lender::NoRoom;

    /// What is lent; and whether it takes a while to take that back.
    #[derive(Debug, Default)]
    struct Shelf(Vec<(LoanId, Share)>, bool);

    impl Lender for Shelf {
        fn grant(&mut self, loan: LoanId, share: Share, _: &LoanKey) -> Result<SocketAddr, NoRoom> {
            self.0.push((loan, share));
            Ok(([127, 0, 0, 1], 1).into())
        }

        fn revoke(&mut self, loan: LoanId) {
            if !self.1 {
                self.0.retain(|(id, _)| *id != loan);
            }
        }

        fn lent(&self) -> Vec<(LoanId, Share)> {
            self.0.clone()
        }
    }

    const NOW: Time = Time::from_nanos(1);

    /// What of its memory is idle.
    fn idle(lending: &Lending<Shelf>) -> u64 {
        lending.offers()[0].idle
    }

    fn lending() -> Lending<Shelf> {
        let most = [Share::of_all(Kind::Aes, 2), Share::memory(100)];
        let mut lending = Lending::new(Shelf::default(), &most, 50, Duration::from_secs(1));
        assert_eq!(idle(&lending), 0, "nothing is known of the system");
        assert_eq!(lending.read(1000, NOW), []);
        lending
    }

    fn grant(lending: &mut Lending<Shelf>, id: u64, bytes: u64) -> Result<SocketAddr, u64> {
        lending.grant(LoanId(id), Share::memory(bytes), &LoanKey([0; 32]))
    }

    #[test]
    fn what_is_lent_is_bounded_by_the_setting_and_by_what_is_free() {
        let mut lending = lending();
        assert_eq!(idle(&lending), 100);
        assert!(grant(&mut lending, 1, 60).is_ok());
        assert_eq!(grant(&mut lending, 2, 60), Err(40));
        assert_eq!(grant(&mut lending, 1, 1), Err(40), "the same number twice");
        lending.read(80, NOW);
        assert_eq!(idle(&lending), 30);
        lending.revoke(LoanId(1));
        assert_eq!(lending.lent(), []);
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
        assert_eq!(idle(&lending), 0);
        assert_eq!(lending.take_late(NOW), []);
        let until = lending.wake_at().expect("a time");
        assert_eq!(until, NOW + Duration::from_secs(1));
        lending.revoke(LoanId(3));
        assert_eq!(lending.take_late(until), [LoanId(2)]);
        assert_eq!(lending.lent(), [(LoanId(1), Share::memory(30))]);
        // It lends again after a while.
        for _ in 0..HIGH_READINGS {
            assert_eq!(idle(&lending), 0);
            lending.read(1000, NOW);
        }
        assert_eq!(idle(&lending), 70);
    }

    #[test]
    fn the_last_accelerator_is_not_lent_alone_while_it_is_shared() {
        let mut lending = lending();
        let mut grant = |id, is_alone| {
            let share = Share::of_one(Kind::Aes, is_alone);
            lending.grant(LoanId(id), share, &LoanKey([0; 32])).is_ok()
        };
        assert!(grant(1, false) && grant(2, true) && !grant(3, true) && grant(4, false));
        // That there is little memory is nothing to them.
        lending.unread();
        assert_eq!(lending.read(10, NOW), []);
        lending.revoke(LoanId(1));
        lending.revoke(LoanId(4));
        let alone = Share::of_one(Kind::Aes, true);
        let key = LoanKey([0; 32]);
        assert!(lending.grant(LoanId(5), alone, &key).is_ok());
        let shared = Share::of_one(Kind::Aes, false);
        assert_eq!(lending.grant(LoanId(6), shared, &key), Err(0));
        let device = Share::of_one(Kind::Device, false);
        assert_eq!(
            lending.grant(LoanId(7), device, &key),
            Err(0),
            "it has none"
        );
    }

    #[test]
    fn a_loan_is_undone_when_who_lent_it_has_it_no_more() {
        let mut lending = lending();
        assert!(grant(&mut lending, 1, 30).is_ok());
        lending.lender.1 = true;
        lending.give_up(LoanId(1), NOW);
        assert_eq!((lending.take_undone(NOW), idle(&lending)), (vec![], 70));
        let next = NOW + LOOK_EVERY;
        assert_eq!(lending.wake_at(), Some(next));
        lending.lender.1 = false;
        lending.lender.revoke(LoanId(1));
        assert_eq!(lending.take_undone(NOW), [], "it is looked at later");
        assert_eq!(lending.take_undone(next), [LoanId(1)]);
        assert_eq!((lending.wake_at(), idle(&lending)), (None, 100));
    }

    #[test]
    fn what_was_taken_late_is_undone_when_who_lent_it_has_it_no_more() {
        let mut lending = lending();
        assert!(grant(&mut lending, 1, 30).is_ok());
        lending.lender.1 = true;
        assert_eq!(lending.read(30, NOW), [LoanId(1)]);
        let until = NOW + Duration::from_secs(1);
        assert_eq!(lending.take_late(until), [LoanId(1)]);
        assert_eq!(lending.take_undone(until), []);
        lending.lender.1 = false;
        lending.lender.revoke(LoanId(1));
        let next = until + LOOK_EVERY;
        assert_eq!(lending.take_undone(next), [LoanId(1)]);
        assert_eq!((lending.take_late(next), lending.wake_at()), (vec![], None));
    }

    #[test]
    fn what_is_being_undone_is_not_wanted_back() {
        let mut lending = lending();
        for id in 1..=2 {
            assert!(grant(&mut lending, id, 30).is_ok());
        }
        lending.lender.1 = true;
        lending.give_up(LoanId(2), NOW);
        // It lacks 20, and 30 are coming.
        assert_eq!(lending.read(30, NOW), []);
        assert_eq!(lending.reclaims(NOW), []);
        // It lacks 40.
        assert_eq!(lending.read(10, NOW), [LoanId(1)]);
        assert_eq!(lending.leave(NOW), []);
        assert_eq!(lending.reclaims(NOW).len(), 1);
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
