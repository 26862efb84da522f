//! What a worker does when something happens: the driver's events, and time.

use super::super::client::Phase;
use super::super::walk::Walk;
use super::{SCAN, START_EVERY, STARTS, Worker};
use rhythm_net::{ConnectionId, Ended, Handler, Port, Time};
use std::convert::Infallible;

impl<W: Walk> Worker<W> {
    /// The end has come: no user arrives any more, and those who think or have not begun are done.
    fn stop(&mut self, port: &mut dyn Port) {
        self.is_stopping = true;
        for index in 0..self.clients.len() {
            if matches!(self.clients[index].phase, Phase::Idle | Phase::Waiting(_)) {
                self.timers.clear(index as u32);
                self.leave(port, index, self.end);
                self.flush(port, index);
            }
        }
    }

    /// Gives up requests that take too long.
    fn scan(&mut self, port: &mut dyn Port, now: Time) {
        let timeout = self.setup.options.timeout;
        for index in 0..self.clients.len() {
            let first = self.clients[index].pending.front();
            if first.is_some_and(|pending| now.since(pending.sent) > timeout) {
                self.give_up(port, index, "timeout");
            }
        }
    }
}

impl<W: Walk> rhythm_net::Worker for Worker<W> {
    type Command = Infallible;
}

impl<W: Walk> Handler for Worker<W> {
    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        if let Some(index) = self.session(connection) {
            self.clients[index].is_connected = true;
            // A layer tells of a connection once it has greeted the server.
            self.counts.handshakes += u64::from(self.setup.connector.is_some());
            self.writable(port, index);
        }
    }

    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], _: Time) {
        if let Some(index) = self.session(connection) {
            self.take_in(port, index, bytes, false);
        }
    }

    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        if let Some(index) = self.session(connection) {
            self.writable(port, index);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, _: Time) {
        let Some(index) = self.session(connection) else {
            return;
        };
        let reason = match how {
            Ended::PeerFinished => "connection closed before the answer".to_owned(),
            Ended::Failed(kind) => format!("connection failed: {kind}"),
        };
        if how == Ended::PeerFinished {
            // An answer without a length ends here.
            self.take_in(port, index, b"", true);
        }
        let client = &mut self.clients[index];
        if client.connection != Some(connection) {
            return;
        }
        if client.pending.is_empty() {
            if let Some(connection) = self.disconnected(index) {
                port.close(connection);
            }
        } else {
            self.lost(port, index, &reason);
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if !self.is_stopping && now >= self.end {
            self.stop(port);
        }
        if !self.is_stopping && now >= self.next_start {
            let until = self.clients.len().min(self.started + STARTS);
            for index in self.started..until {
                self.arrive(port, index, now);
                self.flush(port, index);
            }
            self.started = until;
            let all = self.started == self.clients.len();
            self.next_start = if all { Time::NEVER } else { now + START_EVERY };
        }
        while !self.is_stopping
            && now >= self.next_arrival
            && let Some(mean) = self.arrival_mean
            && let Some(index) = self.idle.pop()
        {
            let due = self.next_arrival;
            self.next_arrival = due + self.rng.exponential(mean);
            self.arrive(port, index as usize, due);
            self.flush(port, index as usize);
        }
        let mut due = Vec::new();
        self.timers.expire(now, |index| due.push(index as usize));
        for index in due {
            match self.clients[index].phase {
                Phase::Waiting(_) if self.is_stopping => self.leave(port, index, now),
                Phase::Waiting(Some(ask)) => self.ask(index, ask, now),
                Phase::Waiting(None) if self.arrival_mean.is_none() => {
                    self.arrive(port, index, now)
                }
                Phase::Waiting(None) => self.leave(port, index, now),
                _ => continue,
            }
            self.flush(port, index);
        }
        if now >= self.next_scan {
            self.next_scan = now + SCAN;
            self.scan(port, now);
        }
    }

    fn idle(&mut self, _: &mut dyn Port, _: Time) {
        if self.finished() {
            self.report();
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let own = self.next_scan.min(self.next_start);
        if self.is_stopping {
            return Some(own);
        }
        let timers = self.timers.wake_at().unwrap_or(Time::NEVER);
        let own = own.min(timers).min(self.end);
        // Who is due waits where there is no session.
        Some(match self.idle.is_empty() {
            true => own,
            false => own.min(self.next_arrival),
        })
    }

    fn finished(&self) -> bool {
        self.done == self.clients.len()
    }
}
