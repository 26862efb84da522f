//! What was written: it goes to who has copies, and whoever waits for it is told when they have it.

use super::super::local::Local;
use super::super::ticket::Ticket;
use super::super::written::Written;
use super::effects::Effects;
use super::progress::{Waiter, Waiting};
use super::{Node, bits};
use rhythm_net::Time;
use std::collections::{BTreeMap, BTreeSet};

impl Node {
    /// A worker wrote this in ranges that it may write. Under `acked` the ticket, where answers
    /// wait for it, is released when the targets have it. Of what nobody waits for nothing is kept,
    /// however long nothing is confirmed.
    pub fn written(&mut self, awaits: Option<Ticket>, written: &Written, local: &Local<'_, '_>) {
        let (batch, ranges) = self.replicate(written, local);
        if let Some(ticket) = awaits.filter(|_| self.options.acked) {
            let mut behind = match written.shown() {
                0 => Vec::new(),
                _ => self.not_taken(),
            };
            behind.retain(|other| other.worker != ticket.worker);
            let ranges = ranges | written.shown();
            self.await_copies(batch, ranges, behind, Waiter::Worker(ticket));
        }
    }

    /// All that a worker wrote under its tickets up to this one has come here.
    pub fn took(&mut self, ticket: Ticket) {
        let Ticket { worker, number } = ticket;
        if let Some(taken) = self.taken.get_mut(worker) {
            *taken = number;
        }
        if self.options.scheme.is_chain() {
            self.waiting.took(&self.taken, self.batch);
        }
    }

    /// What workers may have written, and not handed over. Whoever reads the store sees that at
    /// once, and nobody else has it.
    pub(super) fn not_taken(&self) -> Vec<Ticket> {
        let wrote = self.view.wrote().zip(&self.taken);
        let open = wrote.filter(|(of, taken)| of.number > **taken);
        open.map(|(of, _)| of).collect()
    }

    pub(super) fn await_copies(
        &mut self,
        batch: u64,
        ranges: u64,
        behind: Vec<Ticket>,
        waiter: Waiter,
    ) {
        self.waiting.push(Waiting {
            batch,
            ranges,
            behind,
            flushes: false,
            waiter,
        });
    }

    /// Sends the targets what was written, as a batch: its number, and the ranges that it is of.
    pub(super) fn replicate(&mut self, written: &Written, local: &Local<'_, '_>) -> (u64, u64) {
        let (mut reached, mut ranges) = (0_u64, 0_u64);
        if written.flushed() {
            reached |= self.flush_all(local);
            ranges = u64::MAX;
        }
        let mut passed: BTreeMap<usize, BTreeSet<&[u8]>> = BTreeMap::new();
        for key in written.keys() {
            let range = self.view.placement().range(key);
            ranges |= 1 << range;
            if !self.serves(range) {
                // Another does since.
                self.disputed |= 1 << range;
                self.wrote_late(range, local.now());
                continue;
            }
            if self.is_straight_now(range) {
                reached |= self.targets[range];
            }
            if self.options.scheme.is_chain() {
                passed.entry(range).or_default().insert(key);
                continue;
            }
            let of = self.of(range);
            for node in bits(self.targets[range]) {
                (self.peers[node].link).write(|out| local.tell(of, key, out));
            }
        }
        self.batch += 1;
        for (range, keys) in passed {
            self.pass_on(range, &keys, self.batch, local);
        }
        for node in bits(reached) {
            self.peers[node].link.mark(self.batch);
        }
        if let Some(second) = written.flushes_at() {
            self.flush_at(second);
        }
        (self.batch, ranges)
    }

    /// Whether a node has all of a batch that it is to have. One that is not there is to have
    /// nothing.
    pub(super) fn has(&self, node: usize, batch: u64) -> bool {
        !self.is_alive(node)
            || (self.peers[node].link.confirmed()).is_none_or(|confirmed| confirmed >= batch)
    }

    pub(super) fn release(&mut self, now: Time, out: &mut Effects) {
        let disputed = std::mem::take(&mut self.disputed);
        if disputed != 0 {
            self.give_up(disputed, out);
        }
        if now >= self.may_write_until() || self.holds_back(now) {
            return;
        }
        self.forget_confirmed();
        let confirmed = self.confirmed();
        while let Some(waiter) = self.waiting.next(confirmed) {
            match waiter {
                Waiter::Worker(ticket) => out.released.push(ticket),
                Waiter::Answer(origin, answer) => {
                    self.answers_held -= answer.len();
                    self.answer(origin, answer, out);
                }
            }
        }
    }

    /// What waits of these ranges is not confirmed any more.
    fn give_up(&mut self, ranges: u64, out: &mut Effects) {
        self.give_up_if(|waiting| waiting.ranges & ranges != 0, out);
    }

    /// A node is lost: it may be there again, with all it had, and was not told of what was flushed
    /// meanwhile.
    pub(super) fn lose_flushes(&mut self, node: usize, out: &mut Effects) {
        if let Some(confirmed) = self.peers[node].link.confirmed() {
            self.give_up_if(|of| of.flushes && of.batch > confirmed, out);
        }
    }

    fn give_up_if(&mut self, is_lost: impl Fn(&Waiting) -> bool, out: &mut Effects) {
        for waiting in std::mem::take(&mut self.waiting) {
            let is_lost = is_lost(&waiting);
            match (is_lost, waiting.waiter) {
                (false, waiter) => self.waiting.push(Waiting { waiter, ..waiting }),
                (_, Waiter::Worker(ticket)) => out.broken.push(ticket),
                (_, Waiter::Answer(origin, answer)) => {
                    self.answers_held -= answer.len();
                    self.lose_answer(origin, out);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Lease, Options, Placement, Road, Roster, Scheme, Terms, View};
    use super::super::queue::Queue;
    use super::*;
    use crate::store::{Store, StoreOptions};
    use std::sync::Arc;
    use std::time::Duration;

    /// A store has at once what a worker writes, and the node hears of it when its turn ends: who
    /// reads it before is shown what nobody else has.
    #[test]
    fn what_a_chain_shows_waits_for_what_other_workers_have_not_handed_over() {
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            ..StoreOptions::default()
        });
        let mut store = Store::worker(&Arc::new(store.expect("memory"))).expect("a seat");
        let mut pinned = store.pin();
        let mut local = Local::new(&mut pinned, 1);
        let view = Arc::new(View::new(Placement::whole(), 0).with_workers(3));
        let options = Options {
            scheme: Scheme::Chain,
            acked: true,
            ..Options::default()
        };
        let (terms, roster, now) = (Terms::new("node", []), Roster::round(1, 1), Time::ZERO);
        let mut node = Node::new(terms, 1, options, Arc::clone(&view), roster, now);
        let (mut out, mut written) = (Effects::default(), Written::default());
        node.tick(&mut local, now, &mut out);
        let ticket = |worker, number| Ticket { worker, number };
        written.shows(1);
        let mut released = |node: &mut Node| {
            node.flush(now, &mut out);
            std::mem::take(&mut out.released)
        };
        // Its own turn that follows is none of these.
        view.writes(ticket(0, 2));
        view.writes(ticket(1, 7));
        node.written(Some(ticket(0, 1)), &written, &local);
        node.took(ticket(0, 1));
        assert_eq!(released(&mut node), []);
        // What the third writes came later.
        view.writes(ticket(2, 9));
        node.took(ticket(1, 6));
        assert_eq!(released(&mut node), []);
        node.took(ticket(1, 7));
        assert_eq!(released(&mut node), [ticket(0, 1)]);
        // One that the node executes waits likewise; what shows nothing does not.
        let road = Road::to_server(0);
        node.forward(ticket(1, 8), road, b"get".to_vec(), now, &mut out);
        let executes = std::mem::take(&mut out.executes);
        let nothing = Written::default();
        node.executed(&executes[0], b"END".to_vec(), &nothing, &local, &mut out);
        node.flush(now, &mut out);
        assert_eq!(out.answers, []);
        node.took(ticket(2, 9));
        node.took(ticket(0, 2));
        node.flush(now, &mut out);
        assert_eq!(out.answers, [(ticket(1, 8), Ok(b"END".to_vec()))]);
    }

    #[test]
    fn what_is_to_be_answered_at_once_waits_for_no_copies() {
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            ..StoreOptions::default()
        });
        let mut store = Store::worker(&Arc::new(store.expect("memory"))).expect("a seat");
        let mut pinned = store.pin();
        let mut local = Local::new(&mut pinned, 1);
        let view = Arc::new(View::new(Placement::whole(), 0).with_workers(1));
        let options = Options {
            acked: true,
            ..Options::default()
        };
        let (terms, roster, now) = (Terms::new("node", []), Roster::round(1, 1), Time::ZERO);
        let mut node = Node::new(terms, 1, options, view, roster, now);
        let mut out = Effects::default();
        node.tick(&mut local, now, &mut out);
        let ticket = |number| Ticket { worker: 0, number };
        for (number, at_once) in [(1, true), (2, false)] {
            let road = Road::to_server(0);
            node.forward(ticket(number), road, b"touch".to_vec(), now, &mut out);
            let executes = std::mem::take(&mut out.executes);
            let mut written = Written::default();
            written.key(b"k");
            if at_once {
                written.answer_at_once();
            }
            let answer = b"TOUCHED".to_vec();
            node.executed(&executes[0], answer, &written, &local, &mut out);
            assert_eq!(out.answers.len(), usize::from(at_once), "{number}");
            node.flush(now, &mut out);
            assert_eq!(std::mem::take(&mut out.answers).len(), 1, "{number}");
        }
    }

    /// Its lease is over, or somebody keeps it from confirming anything, for however long.
    #[test]
    fn of_what_nobody_waits_for_nothing_is_kept_while_nothing_is_confirmed() {
        let store = Store::new(StoreOptions {
            memory: 1 << 20,
            ..StoreOptions::default()
        });
        let mut store = Store::worker(&Arc::new(store.expect("memory"))).expect("a seat");
        let mut pinned = store.pin();
        let mut local = Local::new(&mut pinned, 1);
        let view = Arc::new(View::new(Placement::whole(), 0).with_workers(1));
        let options = Options {
            acked: true,
            lease: Some(Duration::from_secs(3)),
            ..Options::default()
        };
        let (terms, roster, now) = (Terms::new("node", []), Roster::round(1, 1), Time::ZERO);
        let mut node = Node::new(terms, 1, options, view, roster, now);
        let (mut out, mut written) = (Effects::default(), Written::default());
        written.key(b"k");
        let ticket = |number| Ticket { worker: 0, number };
        let at = |seconds| now + Duration::from_secs(seconds);
        let lease = |until| Lease {
            until,
            number: 1,
            revision: 1,
        };
        node.renewed(lease(at(3)), now, &mut out);
        node.tick(&mut local, at(1), &mut out);
        assert!(node.serves(0));
        for number in 0..1000 {
            node.written(None, &written, &local);
            node.took(ticket(number));
            node.flush(at(4), &mut out);
        }
        assert!(node.waiting.is_empty());
        node.written(Some(ticket(1000)), &written, &local);
        node.flush(at(4), &mut out);
        assert_eq!(out.released, []);
        node.renewed(lease(at(6)), at(4), &mut out);
        node.flush(at(4), &mut out);
        assert_eq!(out.released, [ticket(1000)]);
    }

    #[test]
    fn what_waits_is_let_go_in_order_and_of_the_batch_in_which_all_before_it_was() {
        let ticket = |worker, number| Ticket { worker, number };
        let (mut queue, mut taken) = (Queue::default(), vec![0; 2]);
        let waits = |batch, behind| Waiting {
            batch,
            ranges: 1,
            behind,
            flushes: false,
            waiter: Waiter::Worker(ticket(0, batch)),
        };
        let first = |queue: &mut Queue, confirmed| match queue.next(confirmed)? {
            Waiter::Worker(of) => Some(of.number),
            Waiter::Answer(..) => None,
        };
        for (batch, behind) in [
            (1, vec![ticket(1, 2)]),
            (2, vec![ticket(1, 1)]),
            (3, vec![]),
        ] {
            queue.push(waits(batch, behind));
        }
        taken[1] = 1;
        queue.took(&taken, 4);
        assert_eq!(first(&mut queue, 9), None);
        taken[1] = 2;
        queue.took(&taken, 5);
        // What comes later is none of theirs.
        queue.took(&taken, 6);
        assert_eq!(first(&mut queue, 4), None);
        let all = [
            first(&mut queue, 5),
            first(&mut queue, 5),
            first(&mut queue, 5),
        ];
        assert_eq!(all, [Some(1), Some(2), Some(3)]);
        assert!(queue.is_empty());
        // What comes when it was emptied is looked at, too.
        queue.push(waits(7, vec![ticket(1, 3)]));
        queue.push(waits(8, vec![]));
        taken[1] = 3;
        queue.took(&taken, 8);
        drop(std::mem::take(&mut queue));
        queue.push(waits(9, vec![ticket(1, 4)]));
        taken[1] = 4;
        queue.took(&taken, 9);
        assert_eq!(first(&mut queue, 9), Some(9));
    }
}
