//! A server of nothing but a host: connections, requests, and what answers them.

use crate::clients::Clients;
use crate::connection::Stall;
use crate::host::{Answers, Content, Host, Request};
use crate::input::{Next, Reading};
use crate::limits::{ClientLimits, RequestLimits};
use crate::stream::Flow;
use rhythm_net::workers::Worker;
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Port, Time, Token};
use rhythm_protocol::http::date::DateCache;
use std::convert::Infallible;

/// Serves a host to all clients. One worker thread drives it.
#[derive(Debug)]
pub struct HostServer<H> {
    host: H,
    clients: Clients,
    limits: RequestLimits,
    date: DateCache,
    expired: Vec<ConnectionId>,
}

impl<H: Host> HostServer<H> {
    /// A server without connections.
    pub fn new(host: H, clients: ClientLimits, limits: RequestLimits, now: Time) -> HostServer<H> {
        HostServer {
            host,
            clients: Clients::new(clients, now),
            limits,
            date: DateCache::new(0),
            expired: Vec::new(),
        }
    }

    /// The host and what it answers with.
    fn split<'a>(&'a mut self, port: &'a mut dyn Port, now: Time) -> (&'a mut H, Answers<'a>) {
        self.date.update(port.wall_clock().unix_seconds);
        let answers = Answers {
            clients: &mut self.clients,
            port,
            date: &self.date,
            now,
        };
        (&mut self.host, answers)
    }

    /// Hands on the requests in a connection's input, as many as there are.
    fn read(&mut self, port: &mut dyn Port, mut reading: Reading<'_>, now: Time) {
        loop {
            match self.clients.next(port, &mut reading, &self.limits, now) {
                Next::Nothing => break,
                Next::Head => {
                    if self.host.takes_pieces(reading.head(), reading.bytes()) {
                        self.take(port, &mut reading, now, true);
                    }
                }
                Next::Expects => self.clients.send_continue(port, reading.connection(), now),
                Next::Request => {
                    self.take(port, &mut reading, now, false);
                    reading.taken();
                }
                Next::Piece => {
                    let Some((slot, is_last)) = reading.piece() else {
                        unreachable!("a piece is at hand");
                    };
                    let (host, mut answers) = self.split(port, now);
                    let flow = host.content(&mut answers, slot, reading.content(), is_last);
                    if flow == Flow::Wait && !is_last {
                        self.clients.stall(port, slot.connection, Stall::Host);
                    }
                    reading.taken();
                }
                Next::Refuse(status) => self.refuse(port, reading.connection(), status, now),
            }
        }
        self.clients.read_done(port, reading, now);
    }

    /// Hands a request to the host.
    fn take(&mut self, port: &mut dyn Port, reading: &mut Reading<'_>, now: Time, pieces: bool) {
        let accepted = self.clients.accept(reading.connection(), reading.head());
        let Some((slot, shape, peer)) = accepted else {
            return;
        };
        if pieces {
            self.clients.expect_pieces(slot);
        }
        let (host, mut answers) = self.split(port, now);
        let request = Request {
            slot,
            shape,
            peer,
            head: reading.head(),
            bytes: reading.bytes(),
            content: match pieces {
                true => Content::Pieces,
                false => Content::Whole(reading.content()),
            },
        };
        host.request(&mut answers, request);
        self.clients.await_host(slot);
        if pieces {
            reading.in_pieces(slot);
        }
    }

    fn refuse(&mut self, port: &mut dyn Port, id: ConnectionId, status: u16, now: Time) {
        if let Some((slot, shape, _)) = self.clients.accept_last(port, id) {
            let (_, mut answers) = self.split(port, now);
            answers.error(slot, shape, status, "");
        }
    }

    /// Sees to what an event has made possible.
    fn follow(&mut self, port: &mut dyn Port, now: Time) {
        while self.clients.has_news() {
            while let Some(slot) = self.clients.next_gone() {
                self.host.gone(slot);
            }
            while let Some(slot) = self.clients.next_roomy() {
                let (host, mut answers) = self.split(port, now);
                host.room(&mut answers, slot);
            }
            while let Some(id) = self.clients.next_unstalled() {
                if let Some(reading) = self.clients.proceed(id, false) {
                    self.read(port, reading, now);
                }
            }
        }
    }
}

impl<H: Host> Handler for HostServer<H> {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, now: Time) {
        self.clients.opened(accepted.connection, accepted.peer, now);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        if let Some(reading) = self.clients.read(id, bytes) {
            self.read(port, reading, now);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        match how {
            Ended::PeerFinished => self.clients.peer_finished(port, id, now),
            Ended::Failed(_) => self.clients.remove(id),
        }
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        self.clients.writable(port, id, now);
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        let (host, mut answers) = self.split(port, now);
        host.notified(&mut answers, token);
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let mut expired = std::mem::take(&mut self.expired);
        self.clients.expire(port, now, &mut expired);
        for id in expired.drain(..) {
            self.refuse(port, id, 408, now);
        }
        self.expired = expired;
        if self.host.wake_at().is_some_and(|at| at <= now) {
            let (host, mut answers) = self.split(port, now);
            host.tick(&mut answers);
        }
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            self.follow(port, now);
            self.clients.flush(port, now);
            if !self.clients.has_news() {
                break;
            }
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let times = [self.clients.wake_at(), self.host.wake_at()];
        times.into_iter().flatten().min()
    }
}

impl<H: Host> Worker for HostServer<H> {
    type Command = Infallible;
}
