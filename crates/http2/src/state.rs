//! What is kept of connections beside the handler: by the driver's names and by the handler's.

use crate::carrier::Carrier;
use crate::figures::Figures;
use crate::options::Options;
use crate::stream::Stream;
use h2::Reason;
use rhythm_net::sparse::Sparse;
use rhythm_net::{Client, ConnectionId, ConnectionTable, Key, Role, Slab, Time, TimerWheel};
use rhythm_protocol::http::client::ResponseHead;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A connection by the driver's name.
pub(crate) enum Outer {
    /// One that goes through.
    Plain(Plain),
    /// One that speaks HTTP/2.
    Carrier(Box<Carrier>),
}

/// A connection that is the handler's as it is.
pub(crate) struct Plain {
    pub(crate) inner: ConnectionId,
    pub(crate) role: Role,
    pub(crate) peer: Client,
    /// As long as it may turn out to speak HTTP/2: how many bytes of the preface have come.
    pub(crate) preface: Option<usize>,
}

/// A connection by the handler's name.
pub(crate) enum Inner {
    /// The driver's name for it.
    Plain(ConnectionId),
    Stream(Box<Stream>),
}

/// The name by which the handler knows a connection.
pub(crate) fn inner_id(key: Key) -> ConnectionId {
    ConnectionId::new(key.slot(), key.generation())
}

pub(crate) fn key_of(inner: ConnectionId) -> Key {
    Key::new(inner.slot(), inner.generation())
}

/// See the module's text.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) figures: Arc<Figures>,
    pub(crate) outer: ConnectionTable<Outer>,
    pub(crate) inner: Slab<Inner>,
    /// How many there are of each.
    pub(crate) carriers: usize,
    pub(crate) streams: usize,
    /// Requests of carriers that nobody was told of.
    asked: usize,
    /// Carriers that have something to do.
    pub(crate) busy: VecDeque<ConnectionId>,
    /// Until when a carrier may go on as it does, by slot.
    pub(crate) timers: TimerWheel,
    /// No more clients are let in.
    pub(crate) is_draining: bool,
    pub(crate) now: Time,
    /// Lines of the log about clients that were told to stop.
    sent_away: Sparse,
    /// Used again for every answer.
    pub(crate) parsed: ResponseHead,
}

impl State {
    pub(crate) fn new(options: Options, figures: Arc<Figures>, now: Time) -> State {
        State {
            options,
            figures,
            outer: ConnectionTable::new(),
            inner: Slab::new(),
            carriers: 0,
            streams: 0,
            asked: 0,
            busy: VecDeque::new(),
            timers: TimerWheel::new(now),
            is_draining: false,
            now,
            sent_away: Sparse::default(),
            parsed: ResponseHead::new(),
        }
    }

    /// Tells of a client that was told to stop.
    #[cold]
    pub(crate) fn say_sent_away(&mut self, peer: Client) {
        if let Some(left_out) = self.sent_away.line(self.now) {
            tracing::warn!(
                %peer,
                left_out,
                "a connection of HTTP/2 was closed: its client takes requests back that it has \
                 just sent, without end; where that is an attack, bar it before this server"
            );
        }
    }

    /// Takes in a connection of the driver's: the handler's name for it.
    pub(crate) fn add(
        &mut self,
        id: ConnectionId,
        role: Role,
        peer: Client,
        may_carry: bool,
    ) -> ConnectionId {
        let inner = inner_id(self.inner.insert(Inner::Plain(id)));
        let plain = Plain {
            inner,
            role,
            peer,
            preface: may_carry.then_some(0),
        };
        let before = self.outer.insert(id, Outer::Plain(plain));
        debug_assert!(before.is_none(), "a connection that is gone is forgotten");
        inner
    }

    /// Forgets a connection that goes through, by the driver's name.
    pub(crate) fn forget_plain(&mut self, id: ConnectionId) -> Option<Plain> {
        match self.outer.remove(id)? {
            Outer::Plain(plain) => {
                self.inner.remove(key_of(plain.inner));
                Some(plain)
            }
            carrier => {
                self.outer.insert(id, carrier);
                None
            }
        }
    }

    pub(crate) fn plain(&mut self, id: ConnectionId) -> Option<&mut Plain> {
        match self.outer.get_mut(id)? {
            Outer::Plain(plain) => Some(plain),
            Outer::Carrier(_) => None,
        }
    }

    pub(crate) fn carrier(&mut self, id: ConnectionId) -> Option<&mut Carrier> {
        match self.outer.get_mut(id)? {
            Outer::Carrier(carrier) => Some(carrier),
            Outer::Plain(_) => None,
        }
    }

    pub(crate) fn stream(&mut self, key: Key) -> Option<&mut Stream> {
        match self.inner.get_mut(key)? {
            Inner::Stream(stream) => Some(stream),
            Inner::Plain(_) => None,
        }
    }

    /// All carriers.
    pub(crate) fn carriers(&self) -> Vec<ConnectionId> {
        let all = self.outer.iter();
        let all = all.filter(|(_, outer)| matches!(outer, Outer::Carrier(_)));
        all.map(|(id, _)| id).collect()
    }

    /// Streams of a carrier that wait for their answers, or for their peer to take them.
    pub(crate) fn owed(&mut self, id: ConnectionId) -> usize {
        let State { outer, inner, .. } = self;
        let Some(Outer::Carrier(carrier)) = outer.get_mut(id) else {
            return 0;
        };
        let is_owed = |key: &&Key| match inner.get(**key) {
            Some(Inner::Stream(stream)) => stream.is_owed(),
            _ => false,
        };
        carrier.streams.iter().filter(is_owed).count()
    }

    /// Refuses requests of a carrier that nobody was told of, where there are too many of all.
    pub(crate) fn refuse_too_many(&mut self, id: ConnectionId) {
        let (others, most) = (self.streams + self.asked, self.options.all_streams_max);
        let Some(carrier) = self.carrier(id) else {
            return;
        };
        let others = others - carrier.asked_counted;
        let mut refused = 0;
        while others + carrier.asked.len() > most
            && let Some((_, mut respond)) = carrier.asked.pop_back()
        {
            respond.send_reset(Reason::REFUSED_STREAM);
            refused += 1;
        }
        self.count_asked(id);
        if refused > 0 {
            self.figures.refused.add(refused);
            self.mark(id);
        }
    }

    /// Counts anew requests of a carrier that nobody was told of.
    pub(crate) fn count_asked(&mut self, id: ConnectionId) {
        if let Some(carrier) = self.carrier(id) {
            let now = carrier.asked.len();
            let before = std::mem::replace(&mut carrier.asked_counted, now);
            self.asked = self.asked - before + now;
        }
    }

    /// The carrier that has been without a stream for the longest, and for long enough to give way.
    pub(crate) fn longest_idle(&self) -> Option<ConnectionId> {
        if self.carriers == 0 {
            return None;
        }
        let idle = self.outer.iter().filter_map(|(id, outer)| match outer {
            Outer::Carrier(it) if it.is_idle() && !it.is_blocked() && !it.is_busy => {
                Some((it.since, id))
            }
            _ => None,
        });
        let (since, id) = idle.min()?;
        (self.now.since(since) >= self.options.yield_after).then_some(id)
    }

    /// Notes that a carrier has something to do.
    pub(crate) fn mark(&mut self, id: ConnectionId) {
        if let Some(carrier) = self.carrier(id).filter(|carrier| !carrier.is_busy) {
            carrier.is_busy = true;
            self.busy.push_back(id);
        }
    }

    /// Takes a stream out, and lets its carrier see to what follows.
    pub(crate) fn remove_stream(&mut self, key: Key) -> Option<Stream> {
        self.stream(key)?;
        let Some(Inner::Stream(stream)) = self.inner.remove(key) else {
            return None;
        };
        self.streams -= 1;
        self.figures.streams.set(self.streams as u64);
        let (id, now) = (stream.carrier, self.now);
        if let Some(carrier) = self.carrier(id) {
            carrier.streams.retain(|other| *other != key);
            carrier.since = now;
        }
        self.mark(id);
        Some(*stream)
    }

    /// Ends a stream that is no good.
    pub(crate) fn reset_stream(&mut self, key: Key, reason: Reason) {
        if let Some(stream) = self.remove_stream(key) {
            stream.reset(reason);
        }
    }

    /// Forgets a carrier that is gone, whose streams are ended.
    pub(crate) fn forget_carrier(&mut self, id: ConnectionId) {
        if let Some(carrier) = self.carrier(id) {
            let counted = carrier.asked_counted;
            self.asked -= counted;
            self.outer.remove(id);
            self.carriers -= 1;
            self.figures.connections.set(self.carriers as u64);
            self.timers.clear(id.slot());
        }
    }

    /// Has the carrier's time run as is due now.
    pub(crate) fn set_timer(&mut self, id: ConnectionId) {
        let (idle, stall) = (self.options.idle, self.options.stall);
        let idle = match self.is_draining {
            true => idle.min(FAREWELL),
            false => idle,
        };
        let Some(carrier) = self.carrier(id) else {
            return;
        };
        let deadline = match carrier.is_idle() {
            _ if carrier.is_blocked() => Some(carrier.since + stall),
            true => Some(carrier.since + idle),
            false => None,
        };
        if deadline != self.timers.deadline(id.slot()) {
            match deadline {
                Some(deadline) => self.timers.set(id.slot(), deadline),
                None => self.timers.clear(id.slot()),
            }
        }
    }
}

/// For how long a peer that was told to begin nothing more may be silent.
const FAREWELL: Duration = Duration::from_millis(500);
