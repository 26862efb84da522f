//! What holds after every step.
//!
//! - No range of a donor's memory is in two loans, no accelerator is lent alone to two, or while
//!   it is shared, and no more is lent than there is.
//! - A loan's number is given to one donor and one borrower, ever; so is its key.
//! - Where nothing is under way between a node and the monitor, these agree on what the node lends
//!   and borrows: so what is in the table is at both ends, or is being undone.
//! - Where nothing goes wrong but with monitors and etcd, no loan is broken.
//! - What a donor wants back is not waited for longer than was said.
//! - A monitor that says something as the one that leads is the one that etcd has.

use super::monitors::{self, Part};
use super::world::{Mode, World};
use rhythm_venice::loan::LoanId;
use rhythm_venice::resource::{Kind, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl World {
    /// Checks those to whom something happened, and from time to time all.
    pub(crate) fn check(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        if self.counts.steps.is_multiple_of(256) {
            touched = (0..self.nodes.len()).collect();
        }
        touched.dedup();
        touched.iter().for_each(|node| self.check_node(*node));
    }

    fn check_node(&self, index: usize) {
        {
            let node = &self.nodes[index];
            let memory = node.memory.lock().expect("one thread");
            for kind in Kind::ALL {
                let mut end = 0;
                let mut ranges: Vec<_> = memory.of(kind).collect();
                ranges.sort();
                for (at, amount) in ranges {
                    assert!(at >= end, "{kind}: {} lends it twice", node.name);
                    end = at + amount;
                }
            }
            let jobs = [Kind::Fft, Kind::Aes, Kind::Device];
            jobs.iter().for_each(|kind| memory.check_sharing(*kind));
            drop(memory);
            let Some(agent) = &node.agent else {
                return;
            };
            let status = agent.status(self.now);
            let late = status
                .reclaims
                .iter()
                .filter(|(_, left)| *left == Duration::ZERO);
            // It is taken in the next tick, which is due.
            assert!(
                late.count() == 0 || agent.wake_at().is_some_and(|at| at <= self.now),
                "{}: what was wanted back is waited for",
                node.name
            );
        }
        self.check_agreement(index);
    }

    fn check_agreement(&self, index: usize) {
        {
            let node = &self.nodes[index];
            let Some(agent) = &node.agent else {
                return;
            };
            let Some(id) = self.network.of(index) else {
                return;
            };
            let connection = &self.network.connections[&id];
            let process = &self.monitors[connection.monitor];
            let Some(Part::Leads(monitor)) = process.part.as_ref().filter(|_| !process.is_stopped)
            else {
                return;
            };
            let is_whole = connection.cut.iter().all(|cut| *cut > self.now);
            let status = agent.status(self.now);
            let is_known = monitor.nodes().get(&node.name);
            if !is_whole
                || !connection.monitor_has
                || connection.under_way > 0
                || !status.is_registered
                || !is_known.is_some_and(|known| known.is_connected())
            {
                return;
            }
            let rows = || monitor.rat().rows();
            let lent: BTreeSet<(LoanId, Share)> = status.lent.into_iter().collect();
            let of_table: BTreeSet<(LoanId, Share)> = rows()
                .filter(|(_, loan)| loan.lender == node.name)
                .inspect(|(id, loan)| assert!(loan.is_live(), "{id:?} hangs: {loan:?}"))
                .map(|(id, loan)| (id, loan.share))
                .collect();
            assert_eq!(lent, of_table, "what {} lends", node.name);
            let borrowed: BTreeSet<(LoanId, Share)> = status.borrowed.into_iter().collect();
            let of_table: BTreeSet<(LoanId, Share)> = rows()
                .filter(|(_, loan)| loan.borrower == node.name && loan.is_live())
                .map(|(id, loan)| (id, loan.share))
                .collect();
            assert_eq!(borrowed, of_table, "what {} borrows", node.name);
            // And so do its borrowers, to whom nothing is ever under way.
            let held = node
                .clients
                .iter()
                .flat_map(|client| client.loans.iter().copied());
            let held: BTreeSet<LoanId> = held.collect();
            let ids: BTreeSet<LoanId> = borrowed.iter().map(|(id, _)| *id).collect();
            assert_eq!(held, ids, "what borrowers of {} hold", node.name);
        }
    }

    /// After a while without faults, in which all borrowers have left.
    pub(crate) fn check_quiet(&self) {
        let monitor = self.leader().expect("one leads");
        assert_eq!(monitor.rat().count(), 0, "loans are left");
        let mut donors = BTreeMap::new();
        for node in &self.nodes {
            let memory = node.memory.lock().expect("one thread");
            for loan in memory.keys.keys() {
                let other = donors.insert(*loan, &node.name);
                assert_eq!(other, None, "{loan:?} was given to {} too", node.name);
            }
            assert!(
                memory.loans.is_empty(),
                "{} did not get back {memory:?}",
                node.name
            );
            let sizes = memory.sizes.clone();
            drop(memory);
            let agent = node.agent.as_ref().expect("it is there");
            let status = agent.status(self.now);
            assert!(status.is_registered, "{} is not registered", node.name);
            assert_eq!(
                status.offers.len(),
                sizes.len(),
                "{} lends all kinds",
                node.name
            );
            for offer in status.offers {
                let size = sizes[&offer.kind];
                assert_eq!(offer.idle, size, "{} lends all again", node.name);
                let row = monitor.rrt().get(&node.name, offer.kind);
                let row = row.expect("it is registered");
                assert_eq!(row.free(), size, "the monitor knows of it");
            }
        }
        assert!(self.kept.lock().expect("one thread").loans.is_empty());
        let mut etcd = self.etcd.lock().expect("one thread");
        let (loans, _) = etcd.model().page("loans", None, 1);
        assert_eq!(loans, [], "loans are kept");
    }

    /// It is about to say something.
    pub(crate) fn check_leads(&self, monitor: usize) {
        let leads = matches!(self.monitors[monitor].part, Some(Part::Leads(_)));
        if !leads || self.mode == Mode::Folder {
            return;
        }
        let mut etcd = self.etcd.lock().expect("one thread");
        if etcd.is_ahead() {
            return;
        }
        let leader = etcd.model().keys().get("leader").cloned();
        let at = format!("{}", monitors::place(monitor).agents);
        assert!(
            leader
                .as_ref()
                .is_some_and(|leader| leader.value.contains(&at)),
            "{at} takes itself for the one that leads, and that is {leader:?}"
        );
    }
}
