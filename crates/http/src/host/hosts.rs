//! The hosts of a thread: which answers a request, and what each is told.
//!
//! ```text
//!   Next::Head ----> take_early --> Host::request, if it takes the content in pieces
//!   Next::Piece ---> piece -------> Host::content
//!   Next::Request -> take --------> Host::request
//!   news of Clients > follow -----> Host::room, Host::gone
//!   wakers, time ---> notified, tick
//!   connections of a host's own --> owner, then connected, received, ended, writable
//! ```
//!
//! Whoever owns [`Clients`] owns these beside them, and passes on what its driver tells. Nothing
//! here calls back: what was answered is taken out of a list ([`Hosts::given`]).

use crate::answer::{Given, HostId, Owed};
use crate::clients::Clients;
use crate::clients::input::Reading;
use crate::clients::stall::Stall;
use crate::clients::stream::Flow;
use crate::host::{Answers, Content, Host, Request};
use rhythm_net::{ConnectionId, Ended, Port, Time, Token};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::request::Framing;
use std::fmt;

/// Hosts by their names. See the module's text.
#[derive(Default)]
pub struct Hosts {
    hosts: Vec<(String, Box<dyn Host>)>,
    given: Vec<Given>,
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.hosts.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}

/// An event, and all that a host may need to answer in it.
pub struct Event<'a> {
    /// Who is answered.
    pub clients: &'a mut Clients,
    /// Where the effects go.
    pub port: &'a mut dyn Port,
    /// The date of answers.
    pub date: &'a DateCache,
    /// When it is.
    pub now: Time,
}

impl Hosts {
    /// These hosts, each with its name.
    ///
    /// # Panics
    /// With more than 65536 of them.
    pub fn new(hosts: Vec<(String, Box<dyn Host>)>) -> Hosts {
        assert!(hosts.len() <= 1 << 16, "a host's name is 16 bits");
        Hosts {
            hosts,
            given: Vec::new(),
        }
    }

    /// The host of this name.
    pub fn find(&self, name: &str) -> Option<HostId> {
        let index = self.hosts.iter().position(|(known, _)| known == name)?;
        Some(HostId(index as u16))
    }

    /// The host that this connection is of.
    pub fn owner(&self, connection: ConnectionId) -> Option<HostId> {
        let index = (self.hosts.iter()).position(|(_, host)| host.owns(connection))?;
        Some(HostId(index as u16))
    }

    /// The answers that have been given since this was asked last. They are forgotten with that.
    pub fn given(&mut self) -> impl Iterator<Item = Given> {
        self.given.drain(..)
    }

    /// A host and what it answers with.
    fn of<'a>(
        &'a mut self,
        id: HostId,
        event: &'a mut Event<'_>,
    ) -> (&'a mut dyn Host, Answers<'a>) {
        let answers = Answers {
            host: id,
            clients: &mut *event.clients,
            port: &mut *event.port,
            date: event.date,
            now: event.now,
            given: &mut self.given,
        };
        (&mut *self.hosts[usize::from(id.0)].1, answers)
    }

    /// Hands the whole request at hand to a host.
    pub fn take(&mut self, id: HostId, mut event: Event<'_>, reading: &Reading<'_>) {
        let content = Content::Whole(reading.content());
        let request = request_of(reading, reading.owed(), content);
        self.request(id, &mut event, request);
    }

    /// Hands a whole request to a host that was taken before, for which something else did not give
    /// the answer.
    pub fn hand(&mut self, id: HostId, mut event: Event<'_>, request: Request<'_>) {
        self.request(id, &mut event, request);
    }

    /// Hands the request whose head is at hand to a host if that takes the content in pieces; then
    /// gives what is owed to it.
    pub fn take_early(
        &mut self,
        id: HostId,
        mut event: Event<'_>,
        reading: &mut Reading<'_>,
    ) -> Option<Owed> {
        let host = &self.hosts[usize::from(id.0)].1;
        if !host.takes_pieces(reading.head(), reading.bytes()) {
            return None;
        }
        let owed = (event.clients).accept(reading.connection(), reading.head())?;
        let is_tunnel = reading.head().framing() == Framing::None;
        event.clients.expect_pieces(owed.slot, is_tunnel);
        let request = request_of(reading, owed, Content::Pieces);
        self.request(id, &mut event, request);
        let asked_for = reading.head().expect_continue();
        reading.in_pieces(id, owed.slot);
        if asked_for && reading.bytes().is_empty() {
            (event.clients).continue_with(event.port, owed.slot, event.now);
        }
        Some(owed)
    }

    fn request(&mut self, id: HostId, event: &mut Event<'_>, request: Request<'_>) {
        let slot = request.slot;
        let (host, mut answers) = self.of(id, event);
        host.request(&mut answers, request);
        if answers.given.iter().all(|(given, _)| *given != slot) {
            let ends = host.ends_with_input();
            (answers.clients).await_host_while(answers.port, slot, id, ends);
        }
    }

    /// Hands the piece of content at hand to its host, and takes no more where that says so.
    pub fn piece(&mut self, mut event: Event<'_>, reading: &mut Reading<'_>) {
        let Some((id, slot, is_last)) = reading.piece() else {
            unreachable!("a piece is at hand");
        };
        let (host, mut answers) = self.of(id, &mut event);
        let flow = host.content(&mut answers, slot, reading.content(), is_last);
        if flow == Flow::Wait && !is_last {
            (answers.clients).stall(answers.port, slot.connection, Stall::Host);
        }
        reading.taken();
    }

    /// Tells hosts of clients that are gone, and of answers that have room again. Whether there was
    /// anything to tell.
    pub fn follow(&mut self, mut event: Event<'_>) -> bool {
        let mut any = false;
        loop {
            if let Some((id, given)) = event.clients.next_gone() {
                self.hosts[usize::from(id.0)].1.gone(given.0);
                self.given.push(given);
            } else if let Some((id, slot)) = event.clients.next_roomy() {
                let (host, mut answers) = self.of(id, &mut event);
                host.room(&mut answers, slot);
            } else {
                return any;
            }
            any = true;
        }
    }

    /// A connection that a host asked for is open.
    pub fn connected(&mut self, id: HostId, mut event: Event<'_>, connection: ConnectionId) {
        let (host, mut answers) = self.of(id, &mut event);
        host.connected(&mut answers, connection);
    }

    /// Bytes came in on a host's own connection.
    pub fn received(
        &mut self,
        id: HostId,
        mut event: Event<'_>,
        connection: ConnectionId,
        bytes: &[u8],
    ) {
        let (host, mut answers) = self.of(id, &mut event);
        host.received(&mut answers, connection, bytes);
    }

    /// A host's own connection ended.
    pub fn ended(
        &mut self,
        id: HostId,
        mut event: Event<'_>,
        connection: ConnectionId,
        how: Ended,
    ) {
        let (host, mut answers) = self.of(id, &mut event);
        host.ended(&mut answers, connection, how);
    }

    /// The socket of a host's own connection takes bytes again.
    pub fn writable(&mut self, id: HostId, mut event: Event<'_>, connection: ConnectionId) {
        let (host, mut answers) = self.of(id, &mut event);
        host.writable(&mut answers, connection);
    }

    /// Somebody used a waker.
    pub fn notified(&mut self, event: Event<'_>, token: Token) {
        self.each(
            event,
            |_| true,
            |host, answers| {
                host.notified(answers, token);
            },
        );
    }

    /// Time has passed.
    pub fn tick(&mut self, event: Event<'_>) {
        let now = event.now;
        let is_due = |host: &dyn Host| host.wake_at().is_some_and(|at| at <= now);
        self.each(event, is_due, |host, answers| host.tick(answers));
    }

    fn each(
        &mut self,
        event: Event<'_>,
        is_meant: impl Fn(&dyn Host) -> bool,
        tell: impl Fn(&mut dyn Host, &mut Answers<'_>),
    ) {
        for (index, (_, host)) in self.hosts.iter_mut().enumerate() {
            if is_meant(&**host) {
                let mut answers = Answers {
                    host: HostId(index as u16),
                    clients: &mut *event.clients,
                    port: &mut *event.port,
                    date: event.date,
                    now: event.now,
                    given: &mut self.given,
                };
                tell(&mut **host, &mut answers);
            }
        }
    }

    /// When [`Hosts::tick`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        (self.hosts.iter())
            .filter_map(|(_, host)| host.wake_at())
            .min()
    }
}

/// The request at hand, with what is owed to it.
fn request_of<'a>(reading: &'a Reading<'_>, owed: Owed, content: Content<'a>) -> Request<'a> {
    let Owed {
        slot, shape, peer, ..
    } = owed;
    Request {
        slot,
        shape,
        peer,
        head: reading.head(),
        bytes: reading.bytes(),
        content,
    }
}
