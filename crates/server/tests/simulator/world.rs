//! The world: virtual time, sockets with bounded buffers, and a network that splits, delays and
//! resets.
//!
//! A *link* is one simulated TCP connection. Its near end is the server's and is named by a
//! [`ConnectionId`]; its far end belongs to an *actor* (a client, or a backend's server), which is
//! told what happens by [`FarEvent`]s. The world is the server's [`Port`] and calls its [`Handler`]
//! as the epoll driver would: what is ready is told in any order, level triggered, sometimes not
//! all of it in a turn, an id is never told of after it was closed, and input not before `resume`.
//!
//! Actors use what is in [`actors`]; what the server sees is in [`driver`].
//!
//! Everything that is chosen is chosen by the world's dice, so a seed is a run.

mod actors;
mod driver;

use rhythm_engine::device::conformance::Dice;
use rhythm_net::{ConnectionId, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;

/// Names a link for the whole run.
pub(crate) type LinkId = usize;
/// Names an actor.
pub(crate) type ActorId = usize;

pub(crate) const MICROSECOND: u64 = 1_000;
pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// What happens at a moment in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client's connection request reaches the listener.
    Knock(LinkId),
    /// A connection of the server's stands (true) or is refused.
    Connected(LinkId, bool),
    /// Bytes of the far end arrive.
    Arrive(LinkId),
    /// Bytes of the server leave for the far end.
    Leave(LinkId),
    /// A socket that took less than it could takes bytes again.
    Room(LinkId),
    /// A reset by the far end or the network arrives at the server.
    Reset(LinkId),
    /// An actor asked to be woken.
    Wake(ActorId, u32),
    /// Nothing, but a turn happens.
    Turn,
}

/// What an actor is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarEvent {
    /// Its connection stands, or the server opened one to it.
    Connected(LinkId),
    /// Its connection was refused.
    Refused(LinkId),
    /// Bytes came: [`World::take`] has them.
    Received(LinkId),
    /// The server closed, all it sent has been received.
    Finished(LinkId),
    /// The connection was reset: by the server (`true`), or by the network.
    Reset(LinkId, bool),
    /// The time it asked for has come.
    Wake(u32),
}

/// How the network and the sockets behave in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Net {
    /// Most that bytes are delayed, nanoseconds.
    pub(crate) delay_max: u64,
    /// One chunk in so many is cut at a random place; 0: none.
    pub(crate) split: usize,
    /// One send in so many takes less than fits; 0: none.
    pub(crate) short: usize,
    /// Bytes of the server's socket buffer for output.
    pub(crate) send_buffer: usize,
    /// Bytes of the server's socket buffer for input.
    pub(crate) receive_buffer: usize,
    /// Most bytes told in one `received`.
    pub(crate) read_max: usize,
    /// One chunk in so many is answered by a reset; 0: none.
    pub(crate) reset: usize,
    /// One accept in so many fails for want of file descriptors and is tried again later; 0: none.
    pub(crate) accept_fails: usize,
    /// One outgoing connection in so many fails, at once or later; 0: none.
    pub(crate) connect_fails: usize,
    /// Most outgoing connections.
    pub(crate) outgoing_max: usize,
    /// Most connections of clients; more wait.
    pub(crate) connections_max: usize,
    /// What a send costs the server: nanoseconds for each, and for each kilobyte.
    pub(crate) send_cost: (u64, u64),
    /// One turn in so many it costs [`DEAR`] times as much; 0: none.
    pub(crate) dear: usize,
}

/// As where the system has to find new memory for what is sent.
const DEAR: u64 = 20;

/// Where the near end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    /// Not known to the server yet.
    Backlog,
    /// Being opened by the server.
    Connecting,
    /// `Connected` has come and is to be told.
    Connected,
    /// Open.
    Open,
    /// Refused or reset, which is to be told.
    Failed(io::ErrorKind),
    /// The server closed it; what is in `out` is still delivered.
    Closed,
    /// It is gone.
    Gone,
}

#[derive(Debug)]
struct Link {
    actor: ActorId,
    near: Near,
    far_gone: bool,
    id: Option<ConnectionId>,
    outgoing: bool,
    /// Sent by the far end and on its way.
    coming: VecDeque<u8>,
    /// Arrived and not told.
    inbox: VecDeque<u8>,
    /// The far end's last byte is in `coming`, has arrived, was told.
    fin: [bool; 3],
    /// It was reset, which is told behind what had arrived before.
    is_broken: bool,
    paused: bool,
    /// Bytes told to the server.
    handed: u64,
    /// Since when bytes have been waiting to be read.
    unread_since: Option<u64>,
    /// When the server last was told of bytes, or sent some.
    active: u64,
    /// When the server closed: how long bytes had been waiting, how long nothing had happened, and
    /// the time.
    at_close: (u64, u64, u64),
    /// Bytes the server sent that are on their way.
    out: VecDeque<u8>,
    /// Bytes that came to the far end and were not taken.
    received: Vec<u8>,
    wants_writable: bool,
    /// Does the far end read?
    reads: bool,
    /// At most so many bytes at a time arrive, with this gap.
    pace: Option<(usize, u64)>,
    /// Events under way.
    arriving: bool,
    leaving: bool,
    is_ready: bool,
    /// In the backlog: for a place.
    waits: bool,
}

/// Faults planted into the world itself, to see them found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// None.
    #[default]
    None,
    /// One send in fifty claims to have taken bytes that are lost.
    LoseBytes,
    /// One send in fifty is delivered twice.
    RepeatBytes,
    /// One `writable` in five is not told.
    ForgetWritable,
    /// Time-outs are compared with the clock, whatever is not told of yet.
    HideLateness,
    /// Turns take no time, by what the server is told of them.
    HideTurns,
}

/// Moves the first bytes of a queue behind others, in two pieces at most: byte by byte it takes a
/// third of a run.
fn move_bytes(from: &mut VecDeque<u8>, count: usize, into: &mut impl for<'a> Extend<&'a u8>) {
    let (first, second) = from.as_slices();
    let first = &first[..count.min(first.len())];
    into.extend(first);
    into.extend(&second[..count - first.len()]);
    from.drain(..count);
}

/// See the module's text.
pub(crate) struct World {
    pub(crate) now: u64,
    /// Until when this turn takes, by what was done in it.
    turn_until: u64,
    /// To send costs more in this turn.
    is_dear: bool,
    pub(crate) dice: Dice,
    pub(crate) net: Net,
    pub(crate) sabotage: Sabotage,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    queued: u64,
    links: Vec<Link>,
    slots: Vec<(u32, Option<LinkId>)>,
    free: Vec<u32>,
    ready: Vec<LinkId>,
    /// So many of them are left of the last turn.
    left: usize,
    /// Up to when all that came is told of.
    heard: u64,
    /// The next turn tells of little of what is ready.
    is_late: bool,
    outgoing: usize,
    accepting: bool,
    /// When the server took no more clients; before, later than any time.
    pub(crate) stopped_accepting: u64,
    /// Who answers on an address.
    pub(crate) servers: Vec<(SocketAddr, ActorId)>,
    /// To be told to actors.
    pub(crate) far_events: VecDeque<(ActorId, FarEvent)>,
    /// The first thing that was wrong.
    pub(crate) failure: Option<String>,
    /// A hash of everything that happened.
    pub(crate) hash: u64,
    /// Print what happens.
    pub(crate) trace: bool,
    scratch: Vec<u8>,
}

impl World {
    pub(crate) fn new(dice: Dice, net: Net, trace: bool) -> World {
        World {
            // Not at the origin of the clock: nothing may count on that.
            now: 1_000 * SECOND,
            turn_until: 0,
            is_dear: false,
            dice,
            net,
            sabotage: Sabotage::None,
            queue: BinaryHeap::new(),
            queued: 0,
            links: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            left: 0,
            heard: 1_000 * SECOND,
            is_late: false,
            outgoing: 0,
            accepting: true,
            stopped_accepting: u64::MAX,
            servers: Vec::new(),
            far_events: VecDeque::new(),
            failure: None,
            hash: 0xcbf2_9ce4_8422_2325,
            trace,
            scratch: Vec::new(),
        }
    }

    /// Takes note of what happened: into the run's hash, and printed if asked for.
    pub(crate) fn note(&mut self, what: &'static str, a: u64, b: u64) {
        for number in [
            what.len() as u64,
            u64::from(what.as_bytes()[0]),
            a,
            b,
            self.now,
        ] {
            self.mix(number);
        }
        if self.trace {
            eprintln!(
                "{:>14.6} {what} {a} {b}",
                (self.now - 1_000 * SECOND) as f64 / 1e6
            );
        }
    }

    /// A line of the trace.
    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        if self.trace {
            eprintln!(
                "{:>14.6} {}",
                (self.now - 1_000 * SECOND) as f64 / 1e6,
                line()
            );
        }
    }

    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(23);
    }

    fn mix_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word));
        }
    }

    /// Something is wrong; the first thing counts.
    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        if self.failure.is_none() {
            let why = why.into();
            self.say(|| format!("FAILED: {why}"));
            self.failure = Some(why);
        }
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn at(&mut self, time: u64, event: Event) {
        self.queued += 1;
        self.queue
            .push(Reverse((time.max(self.now), self.queued, event)));
    }

    fn delay(&mut self) -> u64 {
        1 + self.dice.below(self.net.delay_max as usize + 1) as u64
    }

    /// One chance in `times`; none for 0.
    fn chance(&mut self, times: usize) -> bool {
        times != 0 && self.dice.once_in(times)
    }

    fn start_arriving(&mut self, link: LinkId) {
        if !std::mem::replace(&mut self.links[link].arriving, true) {
            let at = self.now + self.delay();
            self.at(at, Event::Arrive(link));
        }
    }

    fn start_leaving(&mut self, link: LinkId) {
        if !std::mem::replace(&mut self.links[link].leaving, true) {
            let at = self.now + self.delay();
            self.at(at, Event::Leave(link));
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Turn => {}
            Event::Wake(actor, token) => self.far_events.push_back((actor, FarEvent::Wake(token))),
            Event::Knock(link) => {
                if self.chance(self.net.accept_fails) {
                    let at = self.now + 100 * MILLISECOND;
                    self.at(at, Event::Knock(link));
                } else if !self.accepting {
                    self.links[link].near = Near::Gone;
                    let actor = self.links[link].actor;
                    self.far_events.push_back((actor, FarEvent::Refused(link)));
                } else {
                    self.tell_far(link, FarEvent::Connected(link));
                    self.make_ready(link);
                }
            }
            Event::Connected(link, good) => {
                if self.links[link].near == Near::Connecting {
                    self.links[link].near = match good {
                        true => Near::Connected,
                        false => Near::Failed(io::ErrorKind::ConnectionRefused),
                    };
                    if good {
                        self.tell_far(link, FarEvent::Connected(link));
                    }
                    self.make_ready(link);
                }
            }
            Event::Arrive(link) => self.arrive(link),
            Event::Leave(link) => self.leave(link),
            Event::Room(link) => {
                self.links[link].waits = false;
                self.make_ready(link);
            }
            Event::Reset(link) => match self.links[link].near {
                Near::Connected | Near::Open => {
                    let state = &mut self.links[link];
                    state.out.clear();
                    state.is_broken = state.outgoing && !state.inbox.is_empty();
                    if !state.is_broken {
                        state.near = Near::Failed(io::ErrorKind::ConnectionReset);
                    }
                    self.make_ready(link);
                }
                Near::Backlog => self.links[link].near = Near::Gone,
                Near::Closed => self.links[link].near = Near::Gone,
                Near::Connecting | Near::Failed(_) | Near::Gone => {}
            },
        }
    }

    /// The network resets a link, and both ends learn of it.
    fn cut(&mut self, link: LinkId) {
        self.note("cut", link as u64, 0);
        self.tell_far(link, FarEvent::Reset(link, false));
        self.links[link].far_gone = true;
        self.happen(Event::Reset(link));
    }

    fn arrive(&mut self, link: LinkId) {
        let split = self.chance(self.net.split);
        let cut = self.chance(self.net.reset) && !self.links[link].far_gone;
        let receive_buffer = self.net.receive_buffer;
        let draw = self.dice.roll();
        let state = &mut self.links[link];
        state.arriving = false;
        if state.far_gone || !matches!(state.near, Near::Open | Near::Backlog | Near::Connected) {
            // Nobody is there to take it.
            return;
        }
        if cut {
            return self.cut(link);
        }
        let room = receive_buffer.saturating_sub(state.inbox.len());
        let mut count = state.coming.len().min(room);
        if let Some((bytes, _)) = state.pace {
            count = count.min(bytes);
        } else if split && count > 1 {
            count = 1 + (draw % (count as u64 - 1)) as usize;
        }
        move_bytes(&mut state.coming, count, &mut state.inbox);
        if count > 0 {
            state.unread_since.get_or_insert(self.now);
        }
        let again = !state.coming.is_empty();
        if !again && state.fin[0] {
            state.fin[1] = true;
        }
        // A full inbox is gone on with when the server has read.
        if again && room > count {
            state.arriving = true;
            let gap = state.pace.map(|(_, gap)| gap);
            let at = self.now + gap.unwrap_or_else(|| self.delay());
            self.at(at, Event::Arrive(link));
        }
        self.make_ready(link);
    }

    fn leave(&mut self, link: LinkId) {
        let split = self.chance(self.net.split);
        let cut = self.chance(self.net.reset) && !self.links[link].far_gone;
        let draw = self.dice.roll();
        let state = &mut self.links[link];
        state.leaving = false;
        if state.far_gone || !state.reads {
            return;
        }
        if cut && matches!(state.near, Near::Open | Near::Closed) {
            return self.cut(link);
        }
        let mut count = state.out.len();
        if split && count > 1 {
            count = 1 + (draw % (count as u64 - 1)) as usize;
        }
        move_bytes(&mut state.out, count, &mut state.received);
        let more = !state.out.is_empty();
        let over = !more && state.near == Near::Closed;
        if count > 0 {
            self.tell_far(link, FarEvent::Received(link));
        }
        if over {
            self.links[link].near = Near::Gone;
            self.tell_far(link, FarEvent::Finished(link));
            self.links[link].far_gone = true;
        }
        if more {
            self.start_leaving(link);
        }
        self.make_ready(link);
    }

    fn tell_far(&mut self, link: LinkId, event: FarEvent) {
        if !self.links[link].far_gone {
            self.far_events.push_back((self.links[link].actor, event));
        }
    }

    fn make_ready(&mut self, link: LinkId) {
        if self.has_news(link) && !std::mem::replace(&mut self.links[link].is_ready, true) {
            self.ready.push(link);
        }
    }

    /// What is ready and was not told is ready in the next turn, too.
    fn ready_again(&mut self, link: LinkId) {
        self.make_ready(link);
    }

    /// Whether there is anything to tell the server.
    fn has_news(&self, link: LinkId) -> bool {
        let state = &self.links[link];
        match state.near {
            Near::Backlog => !state.waits,
            Near::Connected | Near::Failed(_) => true,
            Near::Open => self.can_write(link) || self.can_read(link),
            Near::Connecting | Near::Closed | Near::Gone => false,
        }
    }

    fn can_write(&self, link: LinkId) -> bool {
        let state = &self.links[link];
        state.wants_writable && state.out.len() < self.net.send_buffer
    }

    fn can_read(&self, link: LinkId) -> bool {
        let state = &self.links[link];
        !state.paused && !state.fin[2] && (!state.inbox.is_empty() || state.fin[1])
    }
}
