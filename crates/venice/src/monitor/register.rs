//! Nodes that come and go, and what they know of loans compared with what the monitor knows.
//!
//! A loan stands when the monitor and both ends know it. What one end does not know is undone at
//! the other: it was lost on the way, or that end began anew.

use super::Monitor;
use super::Now;
use super::connection::Connection;
use super::deadline::Deadline;
use super::effects::Effect;
use super::keeper::{Keeper, Record};
use super::nodes::Node;
use super::rat::Standing;
use crate::loan::LoanId;
use crate::name::NodeName;
use crate::resource::Share;
use crate::wire::{Message, NODES_MAX, Reason, Register, TurnedAway};
use std::collections::{BTreeMap, BTreeSet};

impl<K: Keeper> Monitor<K> {
    /// Whoever has this connection is this node.
    pub(super) fn register(&mut self, id: u64, register: Register, now: Now) {
        let name = register.name.clone();
        match self.nodes.get(&name) {
            None if self.nodes.count() >= NODES_MAX => {
                return self.turn_away(id, TurnedAway::TooMany);
            }
            Some(Node {
                incarnation,
                connection: Some(before),
                ..
            }) => {
                if *incarnation != register.incarnation {
                    return self.turn_away(id, TurnedAway::NameTaken);
                }
                // Its end of that one is gone.
                let before = *before;
                self.connections.remove(&before);
                self.effects.effects.push(Effect::Close(before));
                self.lost(&name, now);
            }
            _ => {}
        }
        self.connections.insert(id, Connection::Node(name.clone()));
        let node = Node {
            incarnation: register.incarnation,
            connection: Some(id),
            place: register.place,
            probe: Some(register.probe),
            heard_at: now.at,
            dead_at: Deadline::new(now.at + self.settings.dead_after),
        };
        self.nodes.insert(name.clone(), node);
        self.rrt.register(&name, &register.offers);
        let heartbeat_ms = u32::try_from(self.settings.heartbeat.as_millis()).unwrap_or(u32::MAX);
        self.effects.send(id, Message::Registered { heartbeat_ms });
        self.peers_changed(now);
        self.compare_lent(id, &name, register.lent.into_iter().collect());
        self.compare_borrowed(id, &name, &register.borrowed.into_iter().collect());
        tracing::info!(node = %name, "a node is there");
        self.ask_again(now);
    }

    /// Compares what a node says it lends.
    fn compare_lent(&mut self, id: u64, name: &NodeName, mut lent: BTreeMap<LoanId, Share>) {
        let rows = self.rat.lent_by(name);
        let rows: Vec<_> = rows
            .map(|(loan, row)| (loan, row.share, row.standing.clone()))
            .collect();
        for (loan, share, standing) in rows {
            let is_known = lent.get(&loan) == Some(&share);
            match standing {
                Standing::Live { .. } if is_known => {
                    lent.remove(&loan);
                }
                // It is revoked with what else is not known.
                _ if is_known => {}
                Standing::Live { .. } => {
                    self.break_for_borrower(loan, Reason::NotKnown);
                    self.drop_loan(loan);
                }
                _ => self.drop_loan(loan),
            }
        }
        for loan in lent.into_keys() {
            self.effects.send(id, Message::Revoke { loan });
        }
    }

    /// Compares what a node says it borrows.
    fn compare_borrowed(&mut self, id: u64, name: &NodeName, borrowed: &BTreeSet<LoanId>) {
        let lost = self.rat.borrowed_by(name);
        let lost = lost.filter(|(loan, row)| row.is_live() && !borrowed.contains(loan));
        let lost: Vec<LoanId> = lost.map(|(loan, _)| loan).collect();
        for loan in lost {
            self.end(loan, Reason::NotKnown);
        }
        for loan in borrowed {
            let why = match self.rat.get(*loan).filter(|row| row.borrower == *name) {
                Some(row) if row.is_live() => continue,
                Some(row) => match row.standing {
                    Standing::Ending(why) => why,
                    _ => Reason::NotKnown,
                },
                None => Reason::NotKnown,
            };
            self.effects.send(id, Message::Broken { loan: *loan, why });
        }
    }

    /// The connection to a node is gone. It may come again; what was on its way is lost.
    pub(super) fn lost(&mut self, name: &NodeName, now: Now) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.connection = None;
            node.dead_at.hasten(now.at + self.settings.gone_after);
        }
        self.peers_changed(now);
        // It asks again when it is there again.
        self.waiting.forget(name);
        let of_borrower = self.rat.borrowed_by(name);
        let of_borrower = of_borrower.filter(|(_, row)| row.granting().is_some());
        let of_borrower: Vec<LoanId> = of_borrower.map(|(loan, _)| loan).collect();
        for loan in of_borrower {
            // It asks again when it is there again.
            self.end(loan, Reason::NotKnown);
        }
        let of_donor = self.rat.lent_by(name);
        let of_donor = of_donor.filter(|(_, row)| row.granting().is_some());
        let of_donor: Vec<LoanId> = of_donor.map(|(loan, _)| loan).collect();
        for loan in of_donor {
            self.not_heard(loan, now);
        }
    }

    /// A node is taken for dead: what it lent is gone, and what it borrowed is given back.
    pub(super) fn dead(&mut self, name: &NodeName, now: Now) {
        tracing::warn!(node = %name, "a node is taken for dead");
        self.figures.died += 1;
        self.gone(name, now);
    }

    /// A node ends, as somebody wants it to.
    pub(super) fn left(&mut self, name: &NodeName, now: Now) {
        tracing::info!(node = %name, "a node has left");
        self.gone(name, now);
    }

    fn gone(&mut self, name: &NodeName, now: Now) {
        if let Some(connection) = self.nodes.connection(name) {
            self.close(connection, now);
        }
        self.nodes.remove(name);
        self.rrt.remove(name);
        self.tst.remove(name);
        let lent: Vec<LoanId> = self.rat.lent_by(name).map(|(loan, _)| loan).collect();
        for loan in lent {
            self.break_for_borrower(loan, Reason::DonorGone);
            self.drop_loan(loan);
        }
        let borrowed = self.rat.borrowed_by(name).filter(|(_, row)| row.is_live());
        let borrowed: Vec<LoanId> = borrowed.map(|(loan, _)| loan).collect();
        for loan in borrowed {
            self.end(loan, Reason::BorrowerGone);
        }
        self.ask_again(now);
    }

    /// A row is no more.
    pub(super) fn drop_loan(&mut self, loan: LoanId) {
        if self.rat.remove(loan).is_some() {
            self.effects.records.push(Record::Gone(loan));
        }
    }
}
