//! What is kept of connections beside the handler: by the driver's names and by the handler's.

use crate::carrier::{Asked, Carrier};
use crate::figures::Figures;
use crate::options::Options;
use crate::ready::Mark;
use crate::shares::Shares;
use crate::stream::Stream;
use h2::Reason;
use rhythm_net::sparse::Sparse;
use rhythm_net::{Client, ConnectionId, ConnectionTable, Key, Role, Slab, Time, TimerWheel};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// For how long requests are taken that were on their way when their peer was told; later ones are
/// refused, which says that they may be sent again. For as long, in a drain, a peer is waited for
/// that takes nothing of what it is owed, and all of them once the handler is done.
pub(crate) const LAST_MOMENT: Duration = Duration::from_secs(2);

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
    /// Streams whose carriers are forgotten: the handler is yet to be told.
    pub(crate) lost: Vec<Key>,
    /// How many there are of each.
    pub(crate) carriers: usize,
    pub(crate) streams: usize,
    /// Whose they are, with the requests that nobody was told of.
    under_way: Shares,
    /// Whose the carriers are whose clients send further ahead than others.
    wide: Shares,
    /// These are those.
    pub(crate) wide_carriers: Vec<ConnectionId>,
    /// Those that are to be such once others are not.
    pub(crate) waiting: VecDeque<ConnectionId>,
    /// One may be found for them.
    pub(crate) has_place: bool,
    /// Carriers that have something to do.
    pub(crate) busy: VecDeque<ConnectionId>,
    /// Until when a carrier may go on as it does, by slot.
    pub(crate) timers: TimerWheel,
    /// Since when no more clients are let in, and all are told to begin nothing more.
    pub(crate) draining: Option<Time>,
    /// Since when the handler is done, as long as it is.
    pub(crate) finished: Option<Time>,
    pub(crate) now: Time,
    /// Lines of the log about clients that were told to stop.
    sent_away: Sparse,
}

impl State {
    pub(crate) fn new(options: Options, figures: Arc<Figures>, now: Time) -> State {
        State {
            options,
            figures,
            outer: ConnectionTable::new(),
            inner: Slab::new(),
            lost: Vec::new(),
            carriers: 0,
            streams: 0,
            under_way: Shares::new(options.all_streams_max),
            wide: Shares::new(WIDE_MAX),
            wide_carriers: Vec::new(),
            waiting: VecDeque::new(),
            has_place: false,
            busy: VecDeque::new(),
            timers: TimerWheel::new(now),
            draining: None,
            finished: None,
            now,
            sent_away: Sparse::default(),
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
                 just sent, or changes its settings, without end; where that is an attack, bar it \
                 before this server"
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

    /// How many more requests of a carrier may begin: fewer where streams wait for their answers,
    /// or for their peer to take them.
    pub(crate) fn room(&mut self, id: ConnectionId) -> usize {
        let State { outer, inner, .. } = self;
        let Some(Outer::Carrier(carrier)) = outer.get_mut(id) else {
            return 0;
        };
        let is_owed = |key: &&Key| match inner.get(**key) {
            Some(Inner::Stream(stream)) => stream.is_owed(),
            _ => false,
        };
        OWED_MAX.saturating_sub(carrier.streams.iter().filter(is_owed).count())
    }

    /// Takes requests of a carrier that have come among those under way. Those for which its client
    /// has no share are refused: its peer may ask again.
    pub(crate) fn admit(&mut self, id: ConnectionId) {
        let may = !self.takes_no_more();
        let State {
            outer,
            under_way,
            figures,
            ..
        } = self;
        let Some(Outer::Carrier(carrier)) = outer.get_mut(id) else {
            return;
        };
        let (client, asked) = (carrier.client, carrier.asked.len());
        // Some were taken back meanwhile.
        (asked..carrier.admitted).for_each(|_| under_way.give(client));
        let before = carrier.admitted.min(asked);
        let may = may && !carrier.is_parting;
        let admitted = (before..asked).take_while(|_| may && under_way.take(client));
        carrier.admitted = before + admitted.count();
        carrier.may_begin |= carrier.admitted > before;
        let refused = asked - carrier.admitted;
        for mut asked in carrier.asked.drain(carrier.admitted..) {
            asked.respond.send_reset(Reason::REFUSED_STREAM);
        }
        if refused > 0 {
            figures.refused.add(refused as u64);
            self.mark(id);
        }
    }

    /// Takes the first request of a carrier that nobody was told of, with its share: where there is
    /// room, or it has waited for long enough.
    pub(crate) fn next_asked(&mut self, id: ConnectionId, has_room: bool) -> Option<Asked> {
        let now = self.now;
        let carrier = self.carrier(id)?;
        let first = carrier.asked.front()?;
        if !has_room && now.since(first.since) < WAIT_MAX {
            return None;
        }
        carrier.admitted -= 1;
        carrier.asked.pop_front()
    }

    /// A client has no request under way any more that [`State::next_asked`] gave.
    pub(crate) fn give_share(&mut self, id: ConnectionId) {
        if let Some(Outer::Carrier(carrier)) = self.outer.get_mut(id) {
            self.under_way.give(carrier.client);
        }
    }

    /// The streams of a carrier that have something to do.
    pub(crate) fn take_ready(&mut self, id: ConnectionId, keys: &mut Vec<Key>) {
        let State { outer, inner, .. } = self;
        let Some(Outer::Carrier(carrier)) = outer.get_mut(id) else {
            return;
        };
        if !carrier.is_blocked() && std::mem::take(&mut carrier.puts_off) {
            for key in &carrier.streams {
                if let Some(Inner::Stream(stream)) = inner.get(*key)
                    && stream.wants_write
                {
                    stream.mark.set();
                }
            }
            // Whoever is told last, when the socket may be full again, is told first soon.
            let is_any = !carrier.streams.is_empty();
            carrier.streams.rotate_left(usize::from(is_any));
        }
        carrier.ready.take(keys);
    }

    /// Has a carrier's client send further ahead, once there is memory for that: its contents are
    /// long, or one that nobody takes keeps the others from coming.
    pub(crate) fn widen(&mut self, id: ConnectionId) {
        let Some(carrier) = self.carrier(id) else {
            return;
        };
        if carrier.is_wide || carrier.waits_for_place || carrier.is_parting {
            return;
        }
        let client = carrier.client;
        let has_place = self.wide.take(client) || {
            self.part_for(client);
            self.wide.take(client)
        };
        if let Some(Outer::Carrier(carrier)) = self.outer.get_mut(id) {
            if has_place {
                carrier.widen();
                self.wide_carriers.push(id);
                // Its client is to be told.
                self.mark(id);
            } else {
                carrier.waits_for_place = true;
                self.waiting.push_back(id);
            }
        }
    }

    /// Has a carrier without contents, if there is one, give its place to a client.
    fn part_for(&mut self, client: u64) {
        let is_found = |id: &ConnectionId| match self.outer.get(*id) {
            Some(Outer::Carrier(carrier)) => {
                self.wide.may_have_of(client, carrier.client)
                    && carrier.asked.is_empty()
                    && !self.has_content(carrier)
            }
            _ => false,
        };
        let Some(at) = self.wide_carriers.iter().position(is_found) else {
            return;
        };
        let id = self.wide_carriers.remove(at);
        if let Some(Outer::Carrier(carrier)) = self.outer.get_mut(id) {
            carrier.part();
            self.wide.give(carrier.client);
        }
        self.mark(id);
    }

    /// Whether more of the contents of a carrier's streams may come.
    fn has_content(&self, carrier: &Carrier) -> bool {
        let has_content = |key: &Key| match self.inner.get(*key) {
            Some(Inner::Stream(stream)) => stream.has_content(),
            _ => false,
        };
        carrier.streams.iter().any(has_content)
    }

    /// Widens carriers that wait for that, where there may be places again: a few, so that nobody
    /// else waits.
    pub(crate) fn widen_waiting(&mut self) {
        if self.waiting.is_empty() || !std::mem::take(&mut self.has_place) {
            return;
        }
        for _ in 0..self.waiting.len().min(RETRIES) {
            let Some(id) = self.waiting.pop_front() else {
                return;
            };
            if let Some(carrier) = self.carrier(id) {
                carrier.waits_for_place = false;
            }
            if let Some(Outer::Carrier(carrier)) = self.outer.get(id)
                && self.has_content(carrier)
            {
                self.widen(id);
            }
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
        let id = stream.carrier;
        if let Some(Outer::Carrier(carrier)) = self.outer.get_mut(id) {
            carrier.streams.retain(|other| *other != key);
            self.has_place |= carrier.is_wide;
            carrier.since = self.now;
            carrier.may_begin = true;
            self.under_way.give(carrier.client);
        }
        self.mark(id);
        Some(*stream)
    }

    /// Begins a stream of a carrier, which has its client's share: the handler's name for it.
    pub(crate) fn add_stream(
        &mut self,
        id: ConnectionId,
        begin: impl FnOnce(Arc<Mark>) -> Stream,
    ) -> Option<ConnectionId> {
        let Some(Outer::Carrier(carrier)) = self.outer.get_mut(id) else {
            return None;
        };
        // Its name is known once it has a place.
        let key = self.inner.insert(Inner::Plain(id));
        let mark = Mark::new(key, carrier.ready.clone());
        mark.set();
        if let Some(place) = self.inner.get_mut(key) {
            *place = Inner::Stream(Box::new(begin(mark)));
        }
        carrier.streams.push(key);
        self.streams += 1;
        self.figures.streams.set(self.streams as u64);
        self.figures.requests.add(1);
        Some(inner_id(key))
    }

    /// Ends a stream that is no good.
    pub(crate) fn reset_stream(&mut self, key: Key, reason: Reason) {
        if let Some(stream) = self.remove_stream(key) {
            stream.reset(reason);
        }
    }

    /// Forgets a carrier that is gone, but for its streams, of which the handler is told next.
    pub(crate) fn forget_carrier(&mut self, id: ConnectionId) {
        if let Some(Outer::Carrier(carrier)) = self.outer.get_mut(id) {
            let client = carrier.client;
            let under_way = carrier.admitted + carrier.streams.len();
            (0..under_way).for_each(|_| self.under_way.give(client));
            self.lost.append(&mut carrier.streams);
            if carrier.is_wide {
                self.wide.give(client);
                self.wide_carriers.retain(|other| *other != id);
                self.has_place = true;
            }
            if carrier.waits_for_place {
                self.waiting.retain(|other| *other != id);
            }
            self.outer.remove(id);
            self.carriers -= 1;
            self.figures.connections.set(self.carriers as u64);
            self.timers.clear(id.slot());
        }
    }

    /// Has the carrier's time run as is due now.
    pub(crate) fn set_timer(&mut self, id: ConnectionId) {
        let Options {
            idle,
            farewell,
            stall,
            ..
        } = self.options;
        let (idle, stall) = match self.draining.is_some() {
            true => (idle.min(farewell), stall.min(LAST_MOMENT)),
            false => (idle, stall),
        };
        let Some(carrier) = self.carrier(id) else {
            return;
        };
        let is_owed = carrier.is_leaving && carrier.is_idle() && carrier.has_unsent();
        let deadline = match carrier.asked.front() {
            _ if carrier.is_blocked() || is_owed => Some(carrier.since + stall),
            _ if carrier.is_idle() => Some(carrier.since + idle),
            waiting => waiting.map(|asked| asked.since + WAIT_MAX),
        };
        if deadline != self.timers.deadline(id.slot()) {
            match deadline {
                Some(deadline) => self.timers.set(id.slot(), deadline),
                None => self.timers.clear(id.slot()),
            }
        }
    }
}

/// So many requests of a carrier wait for their answers, or for its peer to take them: then the
/// others wait here until some do not, so that nobody has a hundred times another's share of what
/// is behind. Answers that are made in pieces over a long time (events) do not wait.
const OWED_MAX: usize = 16;
/// But no longer than this: those before them may be slow.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// So many carriers' clients send further ahead than others.
pub(crate) const WIDE_MAX: usize = 64;
/// So many that wait for that are looked at, at once.
const RETRIES: usize = 8;
