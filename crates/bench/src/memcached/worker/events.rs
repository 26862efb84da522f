//! What a worker does when something happens: the driver's events, and time.

use super::{SCAN, Worker};
use rhythm_net::clock::monotonic;
use rhythm_net::{ConnectionId, Datagram, DatagramId, Ended, Handler, Port, Time};
use std::convert::Infallible;

impl Worker {
    /// Gives up requests that take too long.
    fn scan(&mut self, port: &mut dyn Port, now: Time) {
        let patience = self.setup.options.patience();
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if client.retry_at.is_some_and(|at| at <= now) {
                self.connect(port, index);
                continue;
            }
            if self.nodes > 1 && client.retry_at.is_some() {
                // The client's other ways go on.
                self.refill(port, index, now);
                continue;
            }
            let first = client.pending.front();
            if first.is_none_or(|asked| now.since(asked.sent) <= patience) {
                continue;
            }
            if self.address.is_none() {
                self.give_up(port, index, "no answer in time");
                continue;
            }
            while let Some(first) = self.clients[index].pending.front()
                && now.since(first.sent) > patience
            {
                self.lose(index, 0);
            }
            self.refill(port, index, now);
        }
    }
}

impl rhythm_net::Worker for Worker {
    type Command = Infallible;
}

impl Handler for Worker {
    fn connected(&mut self, port: &mut dyn Port, connection: ConnectionId, now: Time) {
        if let Some(index) = self.client(connection) {
            self.clients[index].is_connected = true;
            self.counts.connections += 1;
            self.refill(port, index, now);
        }
    }

    fn received(&mut self, port: &mut dyn Port, connection: ConnectionId, bytes: &[u8], _: Time) {
        if let Some(index) = self.client(connection) {
            self.take_in(port, index, bytes);
        }
    }

    fn datagrams(
        &mut self,
        port: &mut dyn Port,
        socket: DatagramId,
        datagrams: &[Datagram<'_>],
        _: Time,
    ) {
        let index = socket.index as usize;
        if index >= self.clients.len() {
            return;
        }
        for datagram in datagrams {
            // Strangers may send what they like.
            if Some(datagram.peer) == self.address {
                self.take_in_datagram(index, datagram.bytes);
            }
        }
        self.refill(port, index, monotonic());
    }

    fn writable(&mut self, port: &mut dyn Port, connection: ConnectionId, _: Time) {
        if let Some(index) = self.client(connection) {
            let flushed = self.clients[index].out.writable(port, connection);
            self.flushed(port, index, flushed);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, connection: ConnectionId, how: Ended, _: Time) {
        if let Some(index) = self.client(connection) {
            let reason = match how {
                Ended::PeerFinished => "connection closed by the server".to_owned(),
                Ended::Failed(kind) => format!("connection failed: {kind}"),
            };
            self.give_up(port, index, &reason);
        }
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        if !self.is_stopping && now >= self.until {
            self.stop(port);
        }
        self.arrive(port, now);
        if !self.has_begun {
            self.begin(port, now);
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
        let mut at = self.next_scan;
        if !self.is_stopping {
            at = at.min(self.until);
            if !self.is_full {
                at = at.min(self.next_due);
            }
        }
        Some(at)
    }

    fn finished(&self) -> bool {
        self.done == self.clients.len()
    }
}
