//! A server of nothing but a host: connections, requests, and what answers them.

use crate::answer::body::Body;
use crate::answer::error_page::write_error;
use crate::answer::{HostId, Owed};
use crate::clients::Clients;
use crate::clients::input::Next;
use crate::clients::reader::Reader;
use crate::host::Host;
use crate::host::hosts::{Event, Hosts};
use crate::limits::{ClientLimits, RequestLimits};
use rhythm_net::workers::Worker;
use rhythm_net::{Accepted, ConnectionId, Ended, Handler, Port, Time, Token};
use rhythm_protocol::http::date::DateCache;
use std::convert::Infallible;
use std::time::Duration;

/// The one there is.
const HOST: HostId = HostId(0);

/// Serves a host to all clients. One worker thread drives it.
#[derive(Debug)]
pub struct HostServer {
    hosts: Hosts,
    clients: Clients,
    limits: RequestLimits,
    date: DateCache,
    expired: Vec<ConnectionId>,
    /// When there was no more input in this turn, for the first time.
    idle_at: Option<Time>,
}

impl HostServer {
    /// A server without connections.
    pub fn new(
        host: impl Host + 'static,
        clients: ClientLimits,
        limits: RequestLimits,
        now: Time,
    ) -> HostServer {
        HostServer {
            hosts: Hosts::new(vec![(String::new(), Box::new(host))]),
            clients: Clients::new(clients, now),
            limits,
            date: DateCache::new(0),
            expired: Vec::new(),
            idle_at: None,
        }
    }

    /// The host, and an event for it.
    fn split<'a>(&'a mut self, port: &'a mut dyn Port, now: Time) -> (&'a mut Hosts, Event<'a>) {
        self.date.update(port.wall_clock().unix_seconds);
        let event = Event {
            clients: &mut self.clients,
            port,
            date: &self.date,
            now,
        };
        (&mut self.hosts, event)
    }

    /// Hands on the requests in a connection's input, as many as there are. Whether it `begins` to
    /// read it.
    fn read<'a>(
        &mut self,
        port: &mut dyn Port,
        now: Time,
        begins: impl FnOnce(&mut Clients) -> Option<Reader<'_, 'a>>,
    ) -> bool {
        let Some(mut reader) = begins(&mut self.clients) else {
            return false;
        };
        let left = loop {
            let next = reader.next(port, &self.limits, now);
            if next == Next::Nothing {
                break reader.leave(port, now);
            }
            let mut reading = reader.pause();
            let id = reading.connection();
            match next {
                Next::Nothing => unreachable!("it is left above"),
                Next::Expects => self.clients.send_continue(port, id, now),
                Next::Refuse { status, .. } => self.refuse(port, id, status, now),
                Next::Head => {
                    let (hosts, event) = self.split(port, now);
                    hosts.take_early(HOST, event, &mut reading);
                }
                Next::Request => {
                    let (hosts, event) = self.split(port, now);
                    hosts.take(HOST, event, &reading);
                    reading.taken();
                }
                Next::Piece => {
                    let (hosts, event) = self.split(port, now);
                    hosts.piece(event, &mut reading);
                }
            }
            // Nobody counts them here.
            drop(self.hosts.given());
            reader = match self.clients.go_on(reading) {
                Ok(reader) => reader,
                Err(left) => break left,
            };
        };
        self.clients.read_done(port, left);
        true
    }

    fn refuse(&mut self, port: &mut dyn Port, id: ConnectionId, status: u16, now: Time) {
        self.date.update(port.wall_clock().unix_seconds);
        let (clients, date) = (&mut self.clients, &self.date);
        if let Some(Owed { slot, shape, .. }) = clients.accept_last(port, id) {
            clients.answer(port, slot, shape, now, |shape, out| {
                write_error(out, status, None, shape, date, "", |_| {});
                Body::Empty
            });
        }
    }

    /// Sees to what an event has made possible.
    fn follow(&mut self, port: &mut dyn Port, now: Time) {
        while self.clients.has_news(now) {
            let (hosts, event) = self.split(port, now);
            hosts.follow(event);
            while let Some(id) = self.clients.next_unstalled(now) {
                self.read(port, now, |clients| clients.proceed(id, false));
            }
        }
        drop(self.hosts.given());
    }
}

impl Handler for HostServer {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, now: Time) {
        self.clients.opened(accepted, now);
    }

    fn crowded(&mut self, port: &mut dyn Port, now: Time) {
        self.clients.make_room(port, now);
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        if !self.read(port, now, |clients| clients.read(id, bytes))
            && self.hosts.owner(id).is_some()
        {
            let (hosts, event) = self.split(port, now);
            hosts.received(HOST, event, id, bytes);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        if self.hosts.owner(id).is_some() {
            let (hosts, event) = self.split(port, now);
            return hosts.ended(HOST, event, id, how);
        }
        self.clients.ended(port, id, how, now);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if self.hosts.owner(id).is_some() {
            let (hosts, event) = self.split(port, now);
            return hosts.writable(HOST, event, id);
        }
        self.clients.writable(port, id, now);
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if self.hosts.owner(id).is_some() {
            let (hosts, event) = self.split(port, now);
            hosts.connected(HOST, event, id);
        }
    }

    fn notified(&mut self, port: &mut dyn Port, token: Token, now: Time) {
        let (hosts, event) = self.split(port, now);
        hosts.notified(event, token);
    }

    fn tick(&mut self, port: &mut dyn Port, now: Time) {
        let mut expired = std::mem::take(&mut self.expired);
        self.clients.expire(port, now, &mut expired);
        for id in expired.drain(..) {
            self.refuse(port, id, 408, now);
        }
        self.expired = expired;
        let (hosts, event) = self.split(port, now);
        hosts.tick(event);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        let began = *self.idle_at.get_or_insert(now);
        loop {
            self.follow(port, now);
            self.clients.flush(port, now);
            (self.clients).next_slice(|| port.clock(now).since(began));
            if !self.clients.has_news(now) {
                break;
            }
        }
    }

    fn turn_ended(&mut self, now: Time) {
        let idle_at = self.idle_at.take();
        let took = idle_at.map_or(Duration::ZERO, |at| now.since(at));
        self.clients.turn_is_over(took);
    }

    fn wake_at(&self) -> Option<Time> {
        let times = [self.clients.wake_at(), self.hosts.wake_at()];
        times.into_iter().flatten().min()
    }
}

impl Worker for HostServer {
    type Command = Infallible;
}
