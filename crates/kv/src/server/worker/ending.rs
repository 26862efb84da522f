//! A server's end: what has come is answered, and who has his answers is closed.

use super::relief::CLOSED_MAX;
use super::{Client, Worker};
use rhythm_net::{Port, Time};

/// It looks what has come, in one turn for so many clients: as many the loop tells of at a time, at
/// least.
const LOOKED_AT: usize = 512;

impl Worker {
    /// It is to end, when that was said.
    pub(super) fn end(&mut self, port: &mut dyn Port) {
        port.stop_accepting();
        self.ends_at = self.shared.standing.ends_at();
        self.look_again(self.clients.len());
    }

    /// Looks what so many clients have sent, before it closes those that owe nothing.
    pub(super) fn look_again(&mut self, clients: usize) {
        // This turn may be over for some of them.
        self.looks = self.looks.max(2 + clients / LOOKED_AT);
        self.is_closing_idle = true;
    }

    /// A step of the end. Who waits for a place is let in when there is one, and read.
    pub(super) fn go_on_ending(&mut self, port: &mut dyn Port, now: Time) {
        if self.looks == 0 {
            self.close_idle(port);
        }
        if !self.waiting.is_empty() {
            self.let_waiting_in(port, now);
        }
    }

    /// Whether all that is to be done was done, or its time is over.
    pub(super) fn has_ended(&self) -> bool {
        let is_over = self.ends_at == Some(Time::ZERO);
        let is_alone =
            self.clients.is_empty() && self.waiting.is_empty() && self.backlog.is_empty();
        is_over || self.ends_at.is_some() && self.looks == 0 && is_alone
    }

    /// Closes connections that owe nothing, and sees to it that it goes on if there may be more.
    fn close_idle(&mut self, port: &mut dyn Port) {
        // Commands of one that is stalled have come, and are still to be executed.
        let is_idle = |client: &Client| client.owes_nothing() && !client.is_stalled;
        let idle = self.clients.iter().filter(|(_, client)| is_idle(client));
        let idle: Vec<_> = idle.map(|(id, _)| id).take(CLOSED_MAX).collect();
        self.is_closing_idle = idle.len() == CLOSED_MAX;
        for id in idle {
            port.close(id);
            self.forget(id);
        }
    }
}
