//! The thread: borrowers, the connection to the monitor, datagrams, and at a turn's end what the
//! agent does.

use super::super::meminfo;
use super::super::{Agent, Effect, Lender, Status};
use crate::identity::{Identity, Party, Session, TlsError};
use crate::incoming::Stream;
use crate::wire::{Local, MESSAGE_MAX, Message, SMALL_MAX};
use rhythm_net::sparse::Sparse;
use rhythm_net::{
    Accepted, ConnectionId, ConnectionTable, Datagram, DatagramId, Ended, Handler, Key, Peer, Port,
    Role, Time,
};
use std::fmt::Display;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// What connections and datagrams are for.
pub(super) const OF_BORROWERS: Role = Role(0);
pub(super) const PROBES: Role = Role(1);
/// How often the system is asked for its memory.
const READ_EVERY: Duration = Duration::from_secs(1);
/// How much longer than borrowers have, to give back, an agent waits that ends.
const LEAVE_MORE: Duration = Duration::from_secs(1);

/// What it is asked from another thread.
pub(super) enum Order {
    /// To tell how everything is.
    Tell(SyncSender<Status>),
    /// To end, when what is lent has come back.
    Leave,
}

/// See the head of this file.
pub(super) struct Worker<L> {
    agent: Agent<L>,
    monitors: Vec<Peer>,
    /// What the monitors are shown, in TLS.
    identity: Option<Arc<Identity>>,
    /// The connection to the monitor, if one is there or begun.
    line: Option<(ConnectionId, Stream)>,
    borrowers: ConnectionTable<Stream>,
    read_at: Time,
    reclaim_within: Duration,
    leave_until: Option<Time>,
    is_over: bool,
    /// Of lines about the monitor, borrowers, and memory.
    refused: Sparse,
    garbage: Sparse,
    unread: Sparse,
}

impl<L: Lender> Worker<L> {
    pub(super) fn new(agent: Agent<L>, monitors: Vec<Peer>, reclaim_within: Duration) -> Worker<L> {
        Worker {
            agent,
            monitors,
            identity: None,
            line: None,
            borrowers: ConnectionTable::new(),
            read_at: Time::ZERO,
            reclaim_within,
            leave_until: None,
            is_over: false,
            refused: Sparse::every(Duration::from_secs(10)),
            garbage: Sparse::default(),
            unread: Sparse::every(Duration::from_secs(60)),
        }
    }

    /// The monitor is reached in TLS, and shown this.
    pub(super) fn shows(mut self, identity: Arc<Identity>) -> Worker<L> {
        self.identity = Some(identity);
        self
    }

    /// Begins a connection to the monitor of this number.
    fn connect(&mut self, port: &mut dyn Port, at: usize) -> Result<(), String> {
        let monitor = self.monitors.get(at).ok_or("none was named")?;
        let stream = self.stream().map_err(|error| error.to_string())?;
        let id = port.connect(monitor).map_err(|error| error.to_string())?;
        self.line = Some((id, stream));
        Ok(())
    }

    /// A connection to a monitor, which is to be opened.
    fn stream(&self) -> Result<Stream, TlsError> {
        match &self.identity {
            None => Ok(Stream::default()),
            Some(identity) => Ok(Stream::sealed(Session::connect(identity, Party::Monitor)?)),
        }
    }

    /// What fails in TLS with the monitor, and with which.
    fn why_not(&self, error: &TlsError, now: Time) -> String {
        match self.monitors.get(self.agent.status(now).monitor) {
            Some(monitor) => format!("{monitor}: {error}"),
            None => error.to_string(),
        }
    }

    /// TLS with the monitor fails.
    fn not_sealed(&mut self, port: &mut dyn Port, error: &TlsError, now: Time) {
        // The agent has it disconnected.
        self.agent.refused(self.why_not(error, now), now);
        self.flush(port, now);
    }

    fn has_left(&self) -> bool {
        self.leave_until.is_some() && self.agent.has_left()
    }

    fn is_line(&self, id: ConnectionId) -> bool {
        self.line.as_ref().is_some_and(|(line, _)| *line == id)
    }

    /// A connection is gone, or is to be.
    fn end(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        port.abort(id);
        if self.is_line(id) {
            self.line = None;
            self.agent.disconnected(now);
        } else if self.borrowers.remove(id).is_some() {
            self.agent.client_closed(id.as_u64());
        }
    }

    /// Does what the agent has to be done, until there is nothing more.
    fn flush(&mut self, port: &mut dyn Port, now: Time) {
        loop {
            let effects = self.agent.flush();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.act(port, effect, now);
            }
        }
    }

    fn act(&mut self, port: &mut dyn Port, effect: Effect, now: Time) {
        match effect {
            Effect::Connect(at) => {
                if let Err(why) = self.connect(port, at) {
                    self.not_reached(&why, now);
                    self.agent.disconnected(now);
                }
            }
            Effect::Disconnect => {
                if let Some((id, _)) = self.line.take() {
                    port.abort(id);
                }
            }
            Effect::Say(message) => {
                if let Some((id, stream)) = &mut self.line {
                    let id = *id;
                    if !stream.send(port, id, &message) {
                        self.end(port, id, now);
                    }
                }
            }
            Effect::Tell(client, local) => {
                let id = ConnectionId::from(Key::from_u64(client));
                let stream = self.borrowers.get_mut(id);
                if stream.is_some_and(|stream| !stream.send(port, id, &local)) {
                    self.end(port, id, now);
                }
            }
            Effect::Drop(client) => {
                let id = ConnectionId::from(Key::from_u64(client));
                if self.borrowers.remove(id).is_some() {
                    port.abort(id);
                }
            }
            Effect::Probe(to, bytes) => {
                let (index, role) = (0, PROBES);
                // One that is lost says something of the link.
                port.send_datagrams(DatagramId { index, role }, &[Datagram::new(to, &bytes)]);
            }
        }
    }

    fn not_reached(&mut self, why: &str, now: Time) {
        let at = self.agent.status(now).monitor;
        if let (Some(left_out), Some(monitor)) = (self.refused.line(now), self.monitors.get(at)) {
            tracing::warn!(%monitor, why, left_out, "the monitor is not reached");
        }
    }

    /// Messages of the monitor.
    fn of_line(&mut self, port: &mut dyn Port, bytes: &[u8], now: Time) {
        if let Some((id, stream)) = &mut self.line
            && let Err(error) = stream.push(port, *id, bytes)
        {
            return self.not_sealed(port, &error, now);
        }
        while let Some((id, stream)) = &mut self.line {
            let id = *id;
            match stream.take::<Message>(MESSAGE_MAX) {
                Ok(Some(message)) => {
                    self.agent.received(message, now);
                    self.flush(port, now);
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "what is at the monitor's address is none");
                    return self.end(port, id, now);
                }
            }
        }
    }

    /// Messages of a borrower.
    fn of_borrower(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        if let Some(stream) = self.borrowers.get_mut(id)
            && let Err(error) = stream.push(port, id, bytes)
        {
            // They are not in TLS.
            return self.not_understood(port, id, &error, now);
        }
        while let Some(stream) = self.borrowers.get_mut(id) {
            match stream.take::<Local>(SMALL_MAX) {
                Ok(Some(local)) => {
                    self.agent.client_said(id.as_u64(), local, now);
                    self.flush(port, now);
                }
                Ok(None) => return,
                Err(error) => {
                    return self.not_understood(port, id, &error, now);
                }
            }
        }
    }

    /// What a borrower says is no good. Any program that may open the socket is one.
    fn not_understood(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        error: &dyn Display,
        now: Time,
    ) {
        if let Some(left_out) = self.garbage.line(now) {
            tracing::warn!(%error, left_out, "a borrower is disconnected");
        }
        self.end(port, id, now);
    }

    fn read_memory(&mut self, now: Time) {
        if self.read_at > now {
            return;
        }
        self.read_at = now + READ_EVERY;
        match meminfo::available() {
            Ok(available) => self.agent.memory(available, now),
            Err(error) => {
                self.agent.memory_unknown();
                if self.unread.line(now).is_some() {
                    tracing::error!(%error, "nothing more is lent: memory is not known");
                }
            }
        }
    }
}

impl<L: Lender> Handler for Worker<L> {
    fn opened(&mut self, _: &mut dyn Port, accepted: Accepted, _: Time) {
        let id = accepted.connection;
        self.borrowers.insert(id, Stream::default());
        self.agent.client_opened(id.as_u64());
    }

    fn connected(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        if let Some((line, stream)) = &mut self.line
            && *line == id
        {
            self.refused.end();
            match stream.begin(port, id) {
                true => self.agent.connected(now),
                false => self.end(port, id, now),
            }
        }
    }

    fn received(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8], now: Time) {
        match self.is_line(id) {
            true => self.of_line(port, bytes, now),
            false => self.of_borrower(port, id, bytes, now),
        }
    }

    fn datagrams(
        &mut self,
        _: &mut dyn Port,
        _: DatagramId,
        datagrams: &[Datagram<'_>],
        now: Time,
    ) {
        for datagram in datagrams.iter().filter(|datagram| !datagram.is_truncated) {
            self.agent.probed(datagram.peer, datagram.bytes, now);
        }
    }

    fn ended(&mut self, port: &mut dyn Port, id: ConnectionId, how: Ended, now: Time) {
        let line = self.line.as_ref().filter(|(line, _)| *line == id);
        let is_greeting = line.is_some_and(|(_, stream)| stream.is_greeting());
        match how {
            Ended::PeerFinished if is_greeting => {
                return self.not_sealed(port, &TlsError::Closed, now);
            }
            Ended::Failed(ErrorKind::ConnectionReset) if is_greeting => {
                self.agent
                    .cut_off(self.why_not(&TlsError::Closed, now), now);
                return self.flush(port, now);
            }
            _ => {}
        }
        if self.is_line(id)
            && let Ended::Failed(kind) = how
        {
            self.not_reached(&kind.to_string(), now);
        }
        self.end(port, id, now);
    }

    fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) {
        let stream = match &mut self.line {
            Some((line, stream)) if *line == id => Some(stream),
            _ => self.borrowers.get_mut(id),
        };
        if stream.is_some_and(|stream| !stream.writable(port, id)) {
            self.end(port, id, now);
        }
    }

    fn tick(&mut self, _: &mut dyn Port, now: Time) {
        self.read_memory(now);
        self.agent.tick(now);
    }

    fn idle(&mut self, port: &mut dyn Port, now: Time) {
        self.flush(port, now);
        if self.leave_until.is_some_and(|until| until <= now) || self.has_left() {
            self.is_over = true;
            // They are to hear it of this agent, and not of donors whose loans end for it.
            for (id, _) in std::mem::take(&mut self.borrowers).iter() {
                port.abort(id);
            }
            self.agent.farewell();
            self.flush(port, now);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        let agent = self.agent.wake_at();
        let all = [agent, Some(self.read_at), self.leave_until];
        all.into_iter().flatten().min()
    }

    fn finished(&self) -> bool {
        self.is_over
    }
}

impl<L: Lender> rhythm_net::Worker for Worker<L> {
    type Command = Order;

    fn obey(&mut self, _: &mut dyn Port, order: Order, now: Time) {
        match order {
            Order::Tell(to) => {
                // Who asked may have left.
                let _ = to.try_send(self.agent.status(now));
            }
            Order::Leave => {
                let status = self.agent.status(now);
                let loans = status.lent.len();
                tracing::info!(loans, "the agent ends, and wants back what it lends");
                self.leave_until = Some(now + self.reclaim_within + LEAVE_MORE);
                self.agent.leave(now);
            }
        }
    }
}
