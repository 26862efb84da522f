//! From what a borrower wants to a loan: a donor is chosen and asked, and where it has less than it
//! had said, the next one. (Paper, section 5.3: records may be stale; "we employ handshake and
//! retry mechanisms to address this".)

use super::COME_WITHIN;
use super::Monitor;
use super::Now;
use super::deadline::Deadline;
use super::effects::Effect;
use super::keeper::{Keeper, Kept, Record};
use super::nodes::Node;
use super::policy::{Candidate, hops};
use super::rat::{Granting, Loan, Standing};
use super::wanted::{Asking, Wanted};
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::resource::Share;
use crate::wire::{Message, NODE_LOANS_MAX, NotLent, Reason};
use std::net::SocketAddr;

/// Of those who wait so many are asked for at a time: nodes are heard in between.
pub(super) const ASKED_AT_ONCE: usize = 64;

impl<K: Keeper> Monitor<K> {
    /// A node wants something of another, and not of those who lend it these.
    pub(super) fn borrow(
        &mut self,
        node: &NodeName,
        (request, share): (u64, Share),
        apart: &[LoanId],
        now: Now,
    ) {
        // As if they had been asked.
        let lends = |loan: &LoanId| self.rat.get(*loan).filter(|loan| loan.borrower == *node);
        let tried: Vec<NodeName> = apart
            .iter()
            .filter_map(|loan| Some(lends(loan)?.lender.clone()))
            .collect();
        // What waits counts as had: one node's is not to keep others from waiting.
        let (_, borrowed) = self.rat.counts(node);
        let wanted = borrowed + self.waiting.count_of(node);
        let why = if self.rat.count() >= self.settings.loans_max || wanted >= NODE_LOANS_MAX {
            Some(NotLent::TooMany)
        } else if !self.keeper.has_room() {
            Some(NotLent::NoDisk)
        } else if !share.is_lent() {
            Some(NotLent::NoRoom {
                most: self.most_for(node, &tried, share),
            })
        } else {
            None
        };
        if let Some(why) = why {
            return self.not_lent(node, request, why);
        }
        // So long who is gone may take to come again, where a monitor begins, too.
        let may_take = self.settings.dead_after.max(COME_WITHIN);
        let wanted = Wanted {
            borrower: node.clone(),
            request,
            share,
            tried,
            turn: self.waiting.turn(now.at + may_take),
        };
        // Where others are just asked for, they come first.
        match self.asking.is_some() && self.may_wait() {
            true => self.waiting.insert(wanted),
            false => self.ask_next(wanted, now),
        }
    }

    fn may_wait(&self) -> bool {
        self.waiting.count() < self.settings.loans_max
    }

    fn not_lent(&mut self, node: &NodeName, request: u64, why: NotLent) {
        self.figures.not_lent += 1;
        self.tell(node, Message::NotLent { request, why });
    }

    /// The most that a node other than this has, but for those that would have had enough and were
    /// tried.
    fn most_for(&self, borrower: &NodeName, tried: &[NodeName], share: Share) -> Share {
        let others = self.rrt.of(share.kind);
        let others = others.filter(|(name, _)| *name != borrower);
        let others = others
            .filter(|(name, resource)| resource.free() < share.amount || !tried.contains(name));
        let there = others.filter(|(name, _)| self.nodes.connection(name).is_some());
        let most = there.map(|(_, resource)| resource.free()).max();
        Share {
            amount: most.unwrap_or(0),
            ..share
        }
    }

    /// Who could lend so much to a node.
    fn candidates(&self, borrower: &NodeName, share: Share, tried: &[NodeName]) -> Vec<Candidate> {
        let able: Vec<(&NodeName, u64)> = (self.rrt.of(share.kind))
            .map(|(name, resource)| (name, resource.free()))
            .filter(|(name, free)| *free >= share.amount && *name != borrower)
            .filter(|(name, _)| !tried.contains(name))
            .filter(|(name, _)| self.nodes.connection(name).is_some())
            .filter(|(name, _)| self.rat.counts(name).0 < NODE_LOANS_MAX)
            .collect();
        if able.is_empty() {
            return Vec::new();
        }
        let place = |node: &NodeName| self.nodes.get(node).map_or("", |node: &Node| &node.place);
        let here = place(borrower);
        // Both ways: they go over the same link.
        let between = self.rat.between(borrower);
        let candidate = |(name, free): (&NodeName, u64)| {
            let link = self.tst.between(borrower, name);
            Candidate {
                node: name.clone(),
                hops: hops(here, place(name)),
                latency: link.and_then(|link| link.latency),
                bandwidth: link.and_then(|link| link.bandwidth),
                loss_permille: link.map_or(0, |link| link.loss_permille),
                loans: self.rat.counts(name).0,
                loans_here: between.get(name).copied().unwrap_or(0),
                left: free - share.amount,
            }
        };
        able.into_iter().map(candidate).collect()
    }

    /// Whether so much could be lent to a node when those who were told to take back loans have.
    fn comes_back(&self, borrower: &NodeName, share: Share, tried: &[NodeName]) -> bool {
        let mut others = (self.rat.ending(share.kind))
            .filter(|(name, _)| *name != borrower && !tried.contains(name));
        others.any(|(name, ending)| {
            let resource = self.rrt.get(name, share.kind);
            let free = resource.map_or(0, |resource| resource.free().saturating_add(ending));
            free >= share.amount && self.nodes.connection(name).is_some()
        })
    }

    /// Asks for what nobody could lend who was there: for some of it now, for the rest in
    /// [`ask_on`](Self::ask_on).
    pub(super) fn ask_again(&mut self, now: Now) {
        match &mut self.asking {
            Some(asking) => asking.again = true,
            None => {
                let (since, behind, again) = (now.at, None, false);
                self.asking = Some(Asking {
                    since,
                    behind,
                    again,
                });
                self.ask_on(now);
            }
        }
    }

    /// Goes on asking for those who wait, where that is not over.
    pub(super) fn ask_on(&mut self, now: Now) {
        let Some(mut asking) = self.asking.take() else {
            return;
        };
        for _ in 0..ASKED_AT_ONCE {
            if let Some(wanted) = self.waiting.take_behind(asking.behind) {
                asking.behind = Some(wanted.turn);
                self.ask_next(wanted, now);
            } else if asking.again {
                (asking.behind, asking.again) = (None, false);
            } else {
                return;
            }
        }
        self.asking = Some(asking);
    }

    /// Asks, and waits no more, for what has waited too long; what is more than it asks for at a
    /// time is due in the next tick.
    pub(super) fn wait_no_more(&mut self, now: Now) {
        for _ in 0..ASKED_AT_ONCE {
            match self.waiting.take_late(now.at) {
                Some(wanted) => self.ask_next(wanted, now),
                None => return,
            }
        }
    }

    /// Asks the best donor of those who were not asked.
    fn ask_next(&mut self, wanted: Wanted, now: Now) {
        let (borrower, share, tried) = (&wanted.borrower, wanted.share, &wanted.tried);
        let candidates = self.candidates(borrower, share, tried);
        let Some(donor) = self.policy.choose(&candidates) else {
            // Who is gone may come again, or is dead soon.
            let is_gone = |(_, node): (_, &Node)| !node.is_connected();
            let may_come = self.settled_at.is_some()
                || self.nodes.rows().any(is_gone)
                || self.comes_back(borrower, share, tried);
            if may_come && now.at < wanted.turn.until && self.may_wait() {
                return self.waiting.insert(wanted);
            }
            let most = self.most_for(borrower, tried, share);
            return self.not_lent(&wanted.borrower, wanted.request, NotLent::NoRoom { most });
        };
        if !self.keeper.has_room() {
            return self.not_lent(&wanted.borrower, wanted.request, NotLent::NoDisk);
        }
        let Wanted {
            borrower,
            request,
            tried,
            turn,
            ..
        } = wanted;
        let lender = donor.node.clone();
        self.last += 1;
        let id = LoanId(self.last);
        let key = LoanKey((self.random)());
        self.effects.records.push(Record::Begun(Kept {
            loan: id,
            lender: lender.clone(),
            borrower: borrower.clone(),
            share,
            since: now.unix_seconds,
            stands: false,
        }));
        self.rrt.ask(&lender, share);
        let (loan, of_donor) = (id, key.clone());
        self.tell(
            &lender,
            Message::Grant {
                loan,
                share,
                key: of_donor,
            },
        );
        let until = Deadline::new(now.at + self.settings.grant_within);
        let granting = Granting {
            request,
            tried,
            turn,
            until,
            key,
        };
        let loan = Loan {
            lender,
            borrower,
            share,
            since: now.unix_seconds,
            standing: Standing::Granting(granting),
        };
        self.rat.insert(id, loan);
    }

    /// A donor lends.
    pub(super) fn granted(
        &mut self,
        node: &NodeName,
        id: LoanId,
        (address, is_sealed): (SocketAddr, bool),
    ) {
        let loan = self.rat.get(id).filter(|loan| loan.lender == *node);
        let Some(loan) = loan.cloned() else {
            return self.tell(node, Message::Revoke { loan: id });
        };
        // One that is over was revoked already.
        if let Standing::Granting(granting) = loan.standing {
            self.figures.granted += 1;
            self.effects.records.push(Record::Stands(id));
            self.rat.set(id, Standing::Live { reclaim_at: None });
            self.rrt.lend(node, loan.share, address);
            let lent = Message::Lent {
                request: granting.request,
                loan: id,
                share: loan.share,
                key: granting.key,
                donor: address,
                sealed_by: is_sealed.then(|| node.clone()),
            };
            self.tell(&loan.borrower, lent);
        }
    }

    /// A donor has less than it had said.
    pub(super) fn no_room(&mut self, node: &NodeName, id: LoanId, idle: u64, now: Now) {
        let loan = self.rat.get(id).filter(|loan| loan.lender == *node);
        if let Some(loan) = loan.cloned() {
            self.break_for_borrower(id, Reason::NotKnown);
            self.drop_loan(id);
            let kind = loan.share.kind;
            let asked = self.rat.asked_of(node, kind);
            self.rrt.set_idle(node, kind, idle, asked);
            match loan.standing {
                Standing::Granting(granting) => {
                    self.figures.stale += 1;
                    let wanted = (loan.borrower, loan.share, granting);
                    self.ask_another(wanted, Some(node), now);
                }
                // It was not waited for any more; somebody may wait for what it would give back.
                _ => self.ask_again(now),
            }
        }
    }

    /// A donor did not answer in time: it may lend all the same, and is told that it need not.
    pub(super) fn not_answered(&mut self, id: LoanId, now: Now) {
        if let Some(lender) = self.rat.get(id).map(|loan| loan.lender.clone()) {
            self.ask_no_more(id, Some(&lender), now);
        }
    }

    /// The connection to a donor is gone, and what it answered, if it did: likewise; but when it is
    /// there again it may be asked again.
    pub(super) fn not_heard(&mut self, id: LoanId, now: Now) {
        self.ask_no_more(id, None, now);
    }

    fn ask_no_more(&mut self, id: LoanId, asked: Option<&NodeName>, now: Now) {
        let Some(loan) = self.rat.get(id).cloned() else {
            return;
        };
        if let Standing::Granting(granting) = loan.standing {
            self.end(id, Reason::NoAnswer);
            self.ask_another((loan.borrower, loan.share, granting), asked, now);
        }
    }

    /// Asks for what was asked of a donor, which is not asked again where it is said.
    fn ask_another(
        &mut self,
        (borrower, share, granting): (NodeName, Share, Granting),
        asked: Option<&NodeName>,
        now: Now,
    ) {
        let mut tried = granting.tried;
        tried.extend(asked.cloned());
        let wanted = Wanted {
            borrower,
            request: granting.request,
            share,
            tried,
            turn: granting.turn,
        };
        self.ask_next(wanted, now);
    }

    /// There is no room for what happened to these loans, which are in order: nobody was told of
    /// it yet, and they are over.
    pub(super) fn not_kept(&mut self, loans: &[LoanId]) {
        if loans.is_empty() {
            return;
        }
        let is_one = |loan: &LoanId| loans.binary_search(loan).is_ok();
        let mut refused = 0;
        self.effects.effects.retain_mut(|effect| match effect {
            Effect::Send(_, Message::Grant { loan, .. }) => !is_one(loan),
            Effect::Send(_, message) => {
                if let Message::Lent { request, loan, .. } = message
                    && is_one(loan)
                {
                    refused += 1;
                    let (request, why) = (*request, NotLent::NoDisk);
                    *message = Message::NotLent { request, why };
                }
                true
            }
            Effect::Close(_) => true,
        });
        self.figures.not_lent += refused;
        for id in loans {
            let Some(loan) = self.rat.get(*id) else {
                continue;
            };
            match &loan.standing {
                Standing::Granting(granting) => {
                    let (lender, borrower) = (loan.lender.clone(), loan.borrower.clone());
                    let (request, kind) = (granting.request, loan.share.kind);
                    self.rat.remove(*id);
                    let idle = self.rrt.get(&lender, kind).map(|resource| resource.idle);
                    if let Some(idle) = idle {
                        let asked = self.rat.asked_of(&lender, kind);
                        self.rrt.set_idle(&lender, kind, idle, asked);
                    }
                    self.not_lent(&borrower, request, NotLent::NoDisk);
                }
                Standing::Live { .. } => self.end(*id, Reason::NotKnown),
                // Its donor is told already.
                Standing::Ending(_) => {}
            }
        }
    }
}
