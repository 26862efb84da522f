//! From what a borrower wants to a loan: a donor is chosen and asked, and where it has less than it
//! had said, the next one. (Paper, section 5.3: records may be stale; "we employ handshake and
//! retry mechanisms to address this".)

use super::Monitor;
use super::Now;
use super::keeper::{Keeper, Kept, Record};
use super::nodes::Node;
use super::policy::{Candidate, hops};
use super::rat::{Granting, Loan, Standing};
use super::rrt::Channel;
use crate::loan::{LoanId, LoanKey};
use crate::name::NodeName;
use crate::wire::{Message, NODE_LOANS_MAX, NotLent, Reason};
use std::net::SocketAddr;

impl<K: Keeper> Monitor<K> {
    /// A node wants memory of another.
    pub(super) fn borrow(&mut self, node: &NodeName, request: u64, bytes: u64, now: Now) {
        let (_, borrowed) = self.rat.counts(node);
        let why = if self.rat.count() >= self.settings.loans_max || borrowed >= NODE_LOANS_MAX {
            Some(NotLent::TooMany)
        } else if !self.keeper.has_room() {
            tracing::error!("nothing is lent: there is no room on the disk for the journal");
            Some(NotLent::NoDisk)
        } else if bytes == 0 {
            Some(NotLent::NoRoom {
                most: self.most_for(node),
            })
        } else {
            None
        };
        match why {
            Some(why) => self.not_lent(node, request, why),
            None => self.ask_next(node, request, bytes, Vec::new(), now),
        }
    }

    fn not_lent(&mut self, node: &NodeName, request: u64, why: NotLent) {
        self.figures.not_lent += 1;
        self.tell(node, Message::NotLent { request, why });
    }

    /// The most that a node other than this has.
    fn most_for(&self, borrower: &NodeName) -> u64 {
        let others = self.rrt.rows().filter(|(name, _)| *name != borrower);
        let there = others.filter(|(name, _)| self.nodes.connection(name).is_some());
        there
            .map(|(_, resource)| resource.free())
            .max()
            .unwrap_or(0)
    }

    /// Who could lend so much to a node.
    fn candidates(&self, borrower: &NodeName, bytes: u64, tried: &[NodeName]) -> Vec<Candidate> {
        let place = |node: &NodeName| self.nodes.get(node).map_or("", |node: &Node| &node.place);
        let here = place(borrower);
        let candidate = |(name, free): (&NodeName, u64)| {
            let link = self.tst.between(borrower, name);
            let between = |loan: &Loan| loan.lender == *name;
            let back = |loan: &Loan| loan.borrower == *borrower;
            let borrowed = self.rat.borrowed_by(borrower);
            let lent = self.rat.borrowed_by(name);
            Candidate {
                node: name.clone(),
                hops: hops(here, place(name)),
                latency: link.and_then(|link| link.latency),
                bandwidth: link.and_then(|link| link.bandwidth),
                loss_permille: link.map_or(0, |link| link.loss_permille),
                loans: self.rat.counts(name).0,
                // Both ways: they go over the same link.
                loans_here: borrowed.filter(|(_, loan)| between(loan)).count()
                    + lent.filter(|(_, loan)| back(loan)).count(),
                left: free - bytes,
            }
        };
        (self.rrt.rows())
            .filter(|(name, _)| *name != borrower && !tried.contains(name))
            .filter(|(name, _)| self.nodes.connection(name).is_some())
            .filter(|(name, _)| self.rat.counts(name).0 < NODE_LOANS_MAX)
            .map(|(name, resource)| (name, resource.free()))
            .filter(|(_, free)| *free >= bytes)
            .map(candidate)
            .collect()
    }

    /// Asks the best donor of those who were not asked.
    pub(super) fn ask_next(
        &mut self,
        borrower: &NodeName,
        request: u64,
        bytes: u64,
        tried: Vec<NodeName>,
        now: Now,
    ) {
        let candidates = self.candidates(borrower, bytes, &tried);
        let Some(donor) = self.policy.choose(&candidates) else {
            let most = self.most_for(borrower);
            return self.not_lent(borrower, request, NotLent::NoRoom { most });
        };
        let lender = donor.node.clone();
        self.last += 1;
        let id = LoanId(self.last);
        let key = LoanKey((self.random)());
        self.effects.records.push(Record::Begun(Kept {
            loan: id,
            lender: lender.clone(),
            borrower: borrower.clone(),
            bytes,
            since: now.unix_seconds,
            stands: false,
        }));
        self.rrt.ask(&lender, bytes);
        let (loan, of_donor) = (id, key.clone());
        self.tell(
            &lender,
            Message::Grant {
                loan,
                bytes,
                key: of_donor,
            },
        );
        let until = now.at + self.settings.grant_within;
        let granting = Granting {
            request,
            tried,
            until,
            key,
        };
        let loan = Loan {
            lender,
            borrower: borrower.clone(),
            bytes,
            since: now.unix_seconds,
            channel: Channel::Crma,
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
            self.rrt.lend(node, loan.bytes, address);
            let lent = Message::Lent {
                request: granting.request,
                loan: id,
                bytes: loan.bytes,
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
            self.rrt.set_idle(node, idle, self.rat.asked_of(node));
            if let Standing::Granting(granting) = loan.standing {
                self.figures.stale += 1;
                self.ask_another(&loan.borrower, loan.bytes, granting, node, now);
            }
        }
    }

    /// A donor did not answer in time, or is not there any more: it may lend all the same, and is
    /// told that it need not.
    pub(super) fn not_answered(&mut self, id: LoanId, now: Now) {
        let Some(loan) = self.rat.get(id).cloned() else {
            return;
        };
        if let Standing::Granting(granting) = loan.standing {
            self.end(id, Reason::NoAnswer);
            self.ask_another(&loan.borrower, loan.bytes, granting, &loan.lender, now);
        }
    }

    fn ask_another(
        &mut self,
        borrower: &NodeName,
        bytes: u64,
        granting: Granting,
        asked: &NodeName,
        now: Now,
    ) {
        let mut tried = granting.tried;
        tried.push(asked.clone());
        self.ask_next(borrower, granting.request, bytes, tried, now);
    }
}
