//! What the ring tells a worker, and what of the ring falls due.

use super::super::orders::Told;
use super::lane::UNSENT_MAX;
use super::{Worker, recount};
use rhythm_net::{ConnectionId, Flushed, Port, Time};
use rhythm_observe::TimeHistogram;

impl Worker {
    /// What of the ring falls due.
    pub(super) fn tick_ring(&mut self, now: Time) {
        let Some(ring) = &mut self.ring else {
            return;
        };
        for id in ring.tick(now) {
            if let Some(client) = self.clients.get_mut(id)
                && std::mem::take(&mut client.waits_for_room)
            {
                self.line.push(id, client);
            }
        }
    }

    /// The ring told something.
    pub(super) fn told(&mut self, port: &mut dyn Port, told: Told, now: Time) {
        let Some(ring) = &mut self.ring else {
            return;
        };
        if let Some(fence) = told.fence {
            ring.fence(fence, now);
        }
        let mut moved = Vec::new();
        // First: that all tickets up to one are released is said of the others of them. There may
        // be as many as turns in a lease.
        if !told.broken.is_empty() {
            let mut broken = told.broken;
            broken.sort_unstable();
            for id in ring.broken(&broken) {
                // Nobody knows what became of its writes.
                if let Some(client) = self.clients.get_mut(id) {
                    client.held.give_up(&broken);
                    moved.push(id);
                }
            }
        }
        let figures = self.shared.figures(self.index);
        let record = |of: &TimeHistogram, since: Time| {
            of.record(now.since(since).as_nanos() as u64, 1);
        };
        if let Some(ticket) = told.released {
            while let Some(since) = ring.waited_since(ticket) {
                record(&figures.for_copies, since);
            }
            for id in ring.released(ticket) {
                if let Some(client) = self.clients.get_mut(id) {
                    client.held.release(ticket);
                    moved.push(id);
                }
            }
        }
        for (number, answer) in told.answers {
            let Some((id, since)) = ring.answered(number) else {
                continue;
            };
            record(&figures.for_answers, since);
            if let Some(client) = self.clients.get_mut(id) {
                client.held.answer(number, answer);
                moved.push(id);
            }
        }
        moved.sort_unstable();
        moved.dedup();
        for id in moved {
            self.move_on(port, id, now);
        }
    }

    /// Sends what a connection's answers no longer wait for, and has it go on.
    fn move_on(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.moved = now;
        if client.held.flush(&mut client.out, port, id) == Flushed::Gone {
            return self.forget(id);
        }
        if client.held.is_broken() || client.is_closing && client.owes_nothing() {
            port.close(id);
            return self.forget(id);
        }
        let waits = client.waits_for_room || client.held.is_full();
        if client.is_stalled && !waits && client.unsent() < UNSENT_MAX / 2 {
            self.line.push(id, client);
        }
        recount(&mut self.held, client);
    }
}
