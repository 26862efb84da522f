//! The streams of bytes to and from one neighbor, in pieces that may be lost, doubled, damaged, and
//! come out of order.
//!
//! ```text
//!   unsent --> under way (64 pieces at most, fewer after losses) --> acknowledged: gone
//!                 ^                    |
//!                 +-- sent again ------+  three that were sent later have come, or nothing was
//!                                         heard of it for too long (twice as long each time)
//!
//!   received:  1 2 3 4 | 6 7   bytes up to 4 are the reader's; 6 and 7 wait for 5
//! ```
//!
//! A stream has a number, which says of which life of its sender it is, and is greater than those
//! of its earlier ones in that life. Pieces name both sides' streams; where one of them is another
//! than before, both directions begin anew, and what was under way is lost, as it is with a
//! connection that breaks.
//!
//! Of the neighbor's lives one counts. Another one, be its number greater or, where a clock was set
//! back, less, may be a second node of its name, and counts when nothing was heard of the first for
//! a while: then that is forgotten, and the neighbor called.
//!
//! Memory is bounded by who writes: [`Stream::held`] says how much there is.

use super::super::node::life;
use super::piece::Piece;
use rhythm_net::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Pieces under way at one time: a word has a bit for each.
const WINDOW: usize = 64;
/// So many at least, however many were lost: those of all neighbors find room with a receiver, and
/// what says that a node is there gets through where much is lost for other reasons.
const WINDOW_MIN: usize = 16;
/// One is lost when so many that were sent later have come.
const LATER: u64 = 3;
/// The shortest and the longest that is waited for an acknowledgment.
const AGAIN_MIN: Duration = Duration::from_millis(5);
const AGAIN_MAX: Duration = Duration::from_millis(50);
/// Room for bytes that is kept where there are none.
const KEPT: usize = 1 << 20;
/// How often who is not known yet is called.
const CALL_EVERY: Duration = Duration::from_millis(100);
/// A neighbor that is not known to be there is forgotten when it was silent for so long.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(500);

/// What became of a piece that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// It is late.
    Nothing,
    /// It is of the neighbor's stream; with it that begins.
    Part,
    First,
    /// It is of another life of the neighbor than that which counts.
    Another,
}

/// Bytes that were sent, and are not known to have come with all before them.
#[derive(Clone, Copy, Debug)]
struct Sent {
    length: usize,
    /// How many were sent before it, those that were sent again counted again.
    order: u64,
    at: Time,
    is_again: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    /// It is taken for lost, or was not sent yet: it is to be sent.
    Lost,
    Came,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Stream {
    mine: u64,
    /// The neighbor's; 0: it was not heard of.
    theirs: u64,
    heard_at: Time,
    call_at: Time,
    /// Bytes of the pieces that were sent, the first of which has the place `first`, and behind
    /// them those that were not.
    bytes: VecDeque<u8>,
    sent: VecDeque<Sent>,
    sent_bytes: usize,
    first: u64,
    orders: u64,
    /// How many may be under way; up to `calm` it grows fast.
    window: usize,
    calm: usize,
    grown: usize,
    /// Losses of what was sent before this are one with the last.
    reckoned: u64,
    /// How long an acknowledgment takes, and how much that varies; none came yet.
    trip: Option<(Duration, Duration)>,
    /// When what is under way is sent again, and how often it was since something came.
    again_at: Time,
    agains: u32,
    /// The place of the next piece; what came behind it, by its distance.
    next: u64,
    later: VecDeque<Option<Vec<u8>>>,
    /// Bytes in order, for the reader to take.
    pub(super) coming: Vec<u8>,
    owes_ack: bool,
}

impl Stream {
    /// One of this number.
    pub(super) fn new(mine: u64, now: Time) -> Stream {
        Stream {
            mine,
            theirs: 0,
            heard_at: now,
            call_at: now,
            bytes: VecDeque::new(),
            sent: VecDeque::new(),
            sent_bytes: 0,
            first: 1,
            orders: 0,
            window: WINDOW / 2,
            calm: WINDOW,
            grown: 0,
            reckoned: 0,
            trip: None,
            again_at: Time::NEVER,
            agains: 0,
            next: 1,
            later: VecDeque::new(),
            coming: Vec::new(),
            owes_ack: false,
        }
    }

    /// Both directions begin anew.
    fn clear(&mut self, mine: u64, theirs: u64) {
        let (heard_at, call_at) = (self.heard_at, self.call_at);
        *self = Stream {
            theirs,
            heard_at,
            ..Stream::new(mine, call_at)
        };
    }

    /// Forgets a neighbor that is silent, and not known to be there. What is sent to it from then
    /// on nobody takes for what was sent before.
    pub(super) fn look(&mut self, is_there: bool, now: Time) {
        let is_silent = now.since(self.heard_at) >= FORGOTTEN_AFTER;
        if self.is_met() && !is_there && is_silent {
            self.clear(self.mine + 1, 0);
        }
    }

    /// The number of this side's stream, and of the neighbor's.
    pub(super) fn numbers(&self) -> (u64, u64) {
        (self.mine, self.theirs)
    }

    /// What comes is no good: a new stream.
    pub(super) fn begin_anew(&mut self) {
        self.clear(self.mine + 1, self.theirs);
        // So that the other knows.
        self.owes_ack = true;
    }

    /// Bytes that the neighbor is not known to have.
    pub(super) fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the neighbor was heard of.
    pub(super) fn is_met(&self) -> bool {
        self.theirs != 0
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// A piece came.
    pub(super) fn take(&mut self, piece: &Piece<'_>, now: Time) -> Took {
        if self.is_met() && life(piece.stream) != life(self.theirs) {
            return Took::Another;
        }
        if piece.stream < self.theirs {
            return Took::Nothing;
        }
        let is_first = piece.stream > self.theirs;
        if is_first {
            self.clear(self.mine, piece.stream);
            self.owes_ack = true;
        }
        self.heard_at = now;
        if piece.peer == self.mine {
            self.acknowledged(piece.ack, piece.got, now);
            if piece.seq > 0 {
                self.accept(piece.seq, piece.bytes[0]);
            }
        } else {
            // It does not know this stream yet; what it says is about another.
            self.owes_ack = true;
        }
        match is_first {
            true => Took::First,
            false => Took::Part,
        }
    }

    fn accept(&mut self, seq: u64, bytes: &[u8]) {
        self.owes_ack = true;
        let Some(ahead) = seq.checked_sub(self.next).map(|ahead| ahead as usize) else {
            return;
        };
        if ahead >= WINDOW {
            return;
        }
        if ahead > 0 {
            if self.later.len() < ahead {
                self.later.resize(ahead, None);
            }
            self.later[ahead - 1].get_or_insert_with(|| bytes.to_vec());
            return;
        }
        self.coming.extend_from_slice(bytes);
        self.next += 1;
        // The front is that of the next place.
        while let Some(bytes) = self.later.pop_front() {
            let Some(bytes) = bytes else { break };
            self.coming.extend_from_slice(&bytes);
            self.next += 1;
        }
    }

    /// Which of the places from the next on have come.
    fn got(&self) -> u64 {
        let places = self.later.iter().enumerate();
        places.fold(0, |set, (at, bytes)| {
            set | u64::from(bytes.is_some()) << (at + 1)
        })
    }

    fn acknowledged(&mut self, ack: u64, got: u64, now: Time) {
        let (mut latest, mut came) = (None, 0);
        let mut count = |sent: &Sent, trip: &mut Option<(Duration, Duration)>| {
            if sent.fate != Fate::Came {
                came += 1;
                latest = latest.max(Some(sent.order));
                if !sent.is_again {
                    *trip = Some(measured(*trip, now.since(sent.at)));
                }
            }
        };
        while self.first <= ack
            && let Some(sent) = self.sent.pop_front()
        {
            count(&sent, &mut self.trip);
            self.first += 1;
            self.sent_bytes -= sent.length;
            self.bytes.drain(..sent.length);
        }
        // What it says may be of before what is known by now.
        if ack.checked_add(1) == Some(self.first) {
            for (at, sent) in self.sent.iter_mut().enumerate() {
                if got & 1 << at != 0 {
                    count(sent, &mut self.trip);
                    sent.fate = Fate::Came;
                }
            }
        }
        let Some(latest) = latest else { return };
        (self.agains, self.again_at) = (0, now + self.patience());
        self.grow(came);
        let mut lost = None;
        for sent in &mut self.sent {
            if sent.fate == Fate::UnderWay && sent.order + LATER <= latest {
                sent.fate = Fate::Lost;
                lost = lost.max(Some(sent.order));
            }
        }
        if lost.is_some_and(|lost| lost >= self.reckoned) {
            self.shrink(self.window / 2);
        }
        if self.sent.is_empty() {
            self.again_at = Time::NEVER;
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
    }

    fn grow(&mut self, came: usize) {
        self.grown += came;
        let each = if self.window < self.calm {
            1
        } else {
            self.window
        };
        let more = self.grown / each;
        self.grown -= more * each;
        self.window = WINDOW.min(self.window + more);
    }

    fn shrink(&mut self, to: usize) {
        self.window = to.max(WINDOW_MIN);
        self.calm = self.window;
        self.reckoned = self.orders;
    }

    /// How long an acknowledgment is waited for.
    fn patience(&self) -> Duration {
        let usual = self
            .trip
            .map_or(AGAIN_MAX, |(trip, varies)| trip + 4 * varies);
        (usual.max(AGAIN_MIN) * (1 << self.agains.min(8))).min(AGAIN_MAX)
    }

    /// Has `send` send what may be sent now: pieces that lack the ends' names.
    pub(super) fn flush(&mut self, piece_max: usize, now: Time, mut send: impl FnMut(Piece<'_>)) {
        let mut piece = Piece {
            from: 0,
            to: 0,
            ring: 0,
            stream: self.mine,
            peer: self.theirs,
            seq: 0,
            ack: self.next - 1,
            got: self.got(),
            bytes: [&[], &[]],
        };
        if self.theirs == 0 {
            if self.call_at <= now {
                self.call_at = now + CALL_EVERY;
                send(piece);
            }
            return;
        }
        if self.again_at <= now {
            self.again_at = Time::NEVER;
            self.agains += 1;
            for sent in &mut self.sent {
                if sent.fate == Fate::UnderWay {
                    sent.fate = Fate::Lost;
                }
            }
            self.shrink(WINDOW_MIN);
        }
        let is_under_way = |sent: &&Sent| sent.fate == Fate::UnderWay;
        let mut under_way = self.sent.iter().filter(is_under_way).count();
        let again_at = now + self.patience();
        let (mut at, mut start) = (0, 0);
        while under_way < self.window && at < WINDOW {
            if at == self.sent.len() {
                let length = piece_max.min(self.bytes.len() - self.sent_bytes);
                if length == 0 {
                    break;
                }
                self.sent_bytes += length;
                self.sent.push_back(Sent {
                    length,
                    order: 0,
                    at: now,
                    is_again: false,
                    fate: Fate::Lost,
                });
            } else {
                self.sent[at].is_again |= self.sent[at].fate == Fate::Lost;
            }
            let sent = &mut self.sent[at];
            if sent.fate == Fate::Lost {
                (sent.fate, sent.at, sent.order) = (Fate::UnderWay, now, self.orders);
                self.orders += 1;
                under_way += 1;
                piece.seq = self.first + at as u64;
                piece.bytes = range(&self.bytes, start, sent.length);
                send(piece);
                self.owes_ack = false;
                self.again_at = self.again_at.min(again_at);
            }
            start += sent.length;
            at += 1;
        }
        if std::mem::take(&mut self.owes_ack) {
            send(Piece {
                seq: 0,
                bytes: [&[], &[]],
                ..piece
            });
        }
    }

    /// When `flush` is to be called at the latest.
    pub(super) fn wake_at(&self) -> Time {
        match self.theirs {
            0 => self.call_at,
            _ => self.again_at,
        }
    }
}

/// How long acknowledgments take, and how much that varies, with one more (RFC 6298).
fn measured(before: Option<(Duration, Duration)>, trip: Duration) -> (Duration, Duration) {
    match before {
        None => (trip, trip / 2),
        Some((usual, varies)) => (
            (7 * usual + trip) / 8,
            (3 * varies + usual.abs_diff(trip)) / 4,
        ),
    }
}

/// Some of the bytes, in two parts.
fn range(bytes: &VecDeque<u8>, start: usize, length: usize) -> [&[u8]; 2] {
    let (front, back) = bytes.as_slices();
    let (from, to) = (start, start + length);
    let less = front.len();
    [
        &front[from.min(less)..to.min(less)],
        &back[from.saturating_sub(less)..to.saturating_sub(less)],
    ]
}
