//! What borrowers do, and what they are told.

use super::events::Event;
use super::world::{Client, Mode, Node, World};
use rhythm_venice::loan::LoanId;
use rhythm_venice::resource::{Kind, Share};
use rhythm_venice::wire::{APART_MAX, Local, Reason};
use std::time::Duration;

impl World {
    /// A borrower of this node comes, wants something, gives it back, or goes.
    pub(crate) fn client(&mut self, node: usize) {
        let at = self.soon(2000);
        self.events.at(at, Event::Client { node });
        if self.nodes[node].agent.is_none() || !self.has_faults {
            return;
        }
        if self.nodes[node].clients.len() < 3 && self.random.bool() {
            self.come(node);
        }
        let clients = self.nodes[node].clients.len();
        if clients == 0 {
            return;
        }
        let index = self.random.usize(..clients);
        let client = &self.nodes[node].clients[index];
        let (id, loan) = (client.id, client.loans.first().copied());
        match self.random.u8(..10) {
            0 => {
                self.nodes[node].clients.swap_remove(index);
                self.with_agent(node, |agent, _| agent.client_closed(id));
            }
            1..=2 if loan.is_some() => self.give_back(node, id, loan),
            3 if loan.is_some() => {
                let renew = Local::Renew {
                    loan: loan.expect("there is one"),
                };
                self.with_agent(node, |agent, now| agent.client_said(id, renew, now));
            }
            _ => {
                let most = if self.random.u8(..10) == 0 { 200 } else { 40 };
                let share = match self.random.u8(..3) {
                    0 => {
                        let kinds = [Kind::Fft, Kind::Aes, Kind::Device];
                        Share::of_one(kinds[self.random.usize(..3)], self.random.bool())
                    }
                    _ => Share::memory(self.random.u64(1..most)),
                };
                self.want(node, index, share);
            }
        }
    }

    pub(crate) fn come(&mut self, node: usize) -> usize {
        self.count += 1;
        let id = self.count;
        let client = Client {
            id,
            ..Client::default()
        };
        self.nodes[node].clients.push(client);
        self.with_agent(node, |agent, _| agent.client_opened(id));
        self.nodes[node].clients.len() - 1
    }

    pub(crate) fn want(&mut self, node: usize, index: usize, share: Share) {
        let client = &mut self.nodes[node].clients[index];
        if !std::mem::replace(&mut client.waits, true) {
            // Some want it of another than lends already.
            let apart: Vec<LoanId> = match self.random.bool() {
                true => client.loans.iter().take(APART_MAX).copied().collect(),
                false => Vec::new(),
            };
            let id = client.id;
            let borrow = Local::Borrow {
                request: 1,
                share,
                apart,
            };
            self.with_agent(node, |agent, now| agent.client_said(id, borrow, now));
        }
    }

    pub(crate) fn give_back(&mut self, node: usize, client: u64, loan: Option<LoanId>) {
        if let Some(loan) = loan {
            let mut clients = self.nodes[node].clients.iter_mut();
            if let Some(of) = clients.find(|of| of.id == client) {
                of.loans.remove(&loan);
            }
            self.counts.given_back += 1;
            let back = Local::GiveBack { loan };
            self.with_agent(node, |agent, now| agent.client_said(client, back, now));
        }
    }

    /// When all is well, a little can be borrowed.
    pub(crate) fn can_borrow(&mut self) {
        let lent = self.counts.lent;
        let has_room = |node: &Node| {
            let memory = node.memory.lock().expect("one thread");
            let (size, taken) = memory.sums(Kind::Memory);
            taken < size
        };
        if self.nodes.iter().skip(1).any(has_room) {
            let index = self.come(0);
            self.want(0, index, Share::memory(1));
            self.run_for(Duration::from_secs(10));
            assert!(
                self.counts.lent > lent,
                "nothing is lent though there is room"
            );
        }
    }

    /// A borrower is told something.
    pub(crate) fn told(&mut self, node: usize, client: u64, local: Local) {
        let mut clients = self.nodes[node].clients.iter_mut();
        let of = clients.find(|of| of.id == client);
        let of = of.expect("who is gone is told nothing");
        match local {
            Local::Lent {
                loan,
                share,
                key,
                donor,
                ..
            } => {
                of.waits = false;
                of.loans.insert(loan);
                self.counts.lent += 1;
                self.counts.accelerators += u64::from(share.kind != Kind::Memory);
                let known = self.told.insert(loan, (client, key.clone()));
                assert!(known.is_none(), "{loan:?} is told to two borrowers");
                let same = self.told.values().filter(|(_, other)| *other == key);
                assert_eq!(same.count(), 1, "the key of {loan:?} is another's, too");
                // The donor has it, with this key, unless it has died or taken it back.
                let lender = self.nodes.iter().find(|node| node.at == donor);
                let memory = lender.expect("a node").memory.lock().expect("one thread");
                assert_eq!(memory.keys.get(&loan), Some(&key), "the key of {loan:?}");
                if let Some((_, lent)) = memory.loans.get(&loan) {
                    assert_eq!(*lent, share);
                }
                assert_ne!(donor, self.nodes[node].at, "a node borrows of itself");
            }
            Local::NotLent { .. } => {
                of.waits = false;
                self.counts.not_lent += 1;
            }
            Local::Broken { loan, why } => {
                assert!(of.loans.remove(&loan), "{loan:?} was not its own");
                let is_lost = self.mode == Mode::OnlyMonitors;
                assert!(!is_lost, "{loan:?} is lost at {:?}: {why}", self.now);
                self.counts.broken += 1;
                self.counts.reclaimed += u64::from(why == Reason::DonorNeedsIt);
            }
            Local::ReclaimWanted { loan, .. } => {
                let gives = self.random.bool();
                if gives {
                    self.give_back(node, client, Some(loan));
                }
            }
            Local::Stands { loan, stands } => {
                assert_eq!(stands, of.loans.contains(&loan), "{loan:?}");
            }
            other => panic!("a borrower is told {other:?}"),
        }
    }
}
