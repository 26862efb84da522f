//! A request under way: what is owed to the server, what came of its answer, and how long the next
//! step may take.

use super::request::{self, Ends};
use super::shares::Holder;
use super::timers::{Due, Timer, Timers};
use super::told::Cause;
use super::upstream::Tried;
use crate::answer_reader::AnswerReader;
use rhythm_http::{AnswerShape, AnswerSlot};
use rhythm_net::{ConnectionId, Outgoing, Time};
use std::io::Write;

/// Bytes around a chunk.
pub(super) const FRAME_BYTES: usize = 32;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a connection.
    Waiting,
    /// One is being opened.
    Connecting,
    /// The request is sent, as far as it came, and nothing of an answer is there.
    Asked,
    /// The answer has begun.
    Answering,
    /// Another protocol is spoken.
    Tunnel,
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) slot: AnswerSlot,
    pub(super) shape: AnswerShape,
    /// What it has in common with others that go to the same server.
    pub(super) key: u64,
    /// Who holds its connection.
    pub(super) holder: Holder,
    pub(super) route: u32,
    /// Which of its servers.
    pub(super) upstream: usize,
    /// It is under way there.
    pub(super) is_on: bool,
    pub(super) phase: Phase,
    pub(super) connection: Option<ConnectionId>,
    /// What is owed to the server.
    pub(super) owed: Outgoing,
    /// The request's head with the content that came with it, until it is sent, or, where it may
    /// be sent again, until the answer begins.
    head: Vec<u8>,
    is_repeatable: bool,
    /// Its connection is for it alone.
    pub(super) is_last: bool,
    /// Bytes of the request that count as held by its client until all is sent.
    pub(super) beside: usize,
    /// How often it was.
    pub(super) retries: u32,
    /// Its connection was used before.
    pub(super) is_reused: bool,
    /// The servers that could not be reached, a bit each.
    pub(super) tried: u64,
    /// Those of them that it waits for, since they may be about to be there again, and why no
    /// connection was opened.
    pub(super) refused: Option<(u64, Cause)>,
    /// Which places of the one at hand could not.
    pub(super) places: Tried,
    /// How the content ends, how much of it came, and whether that is all.
    pub(super) ends: Ends,
    pub(super) content: u64,
    pub(super) has_content: bool,
    /// What came before there was a connection, or before the server said that it speaks the other
    /// protocol.
    pub(super) early: Vec<u8>,
    /// The client is not asked for more.
    pub(super) client_waits: bool,
    /// Nor the server.
    pub(super) server_waits: bool,
    pub(super) reader: AnswerReader,
    /// Its answer tells its id, and none that the server has for it.
    pub(super) tells_id: bool,
    pub(super) began: Time,
    /// Until when it waits for a connection, once it does.
    pub(super) waits_until: Option<Time>,
    /// When it first waited for one that refuses connections: it may do so again and again.
    pub(super) refused_at: Option<Time>,
    until: Time,
    timer: Option<Timer>,
}

/// A request as it came.
pub(super) struct Asked {
    pub(super) slot: AnswerSlot,
    pub(super) shape: AnswerShape,
    /// What it has in common with others that go to the same server.
    pub(super) key: u64,
    /// The client's number.
    pub(super) asker: u64,
    pub(super) route: u32,
    /// Its head as it is sent, with the content that came with it.
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Ends,
    /// All of its content is there.
    pub(super) is_whole: bool,
    /// It may be sent again.
    pub(super) is_repeatable: bool,
    /// Its connection is for it alone.
    pub(super) is_last: bool,
    /// Its answer tells its id.
    pub(super) tells_id: bool,
}

impl Exchange {
    pub(super) fn new(asked: Asked, now: Time) -> Exchange {
        let is_upgrade = asked.ends == Ends::Upgrade;
        Exchange {
            slot: asked.slot,
            shape: asked.shape,
            key: asked.key,
            holder: Holder {
                asker: asked.asker,
                is_tunnel: is_upgrade,
            },
            route: asked.route,
            upstream: 0,
            is_on: false,
            phase: Phase::Waiting,
            connection: None,
            owed: Outgoing::new(),
            head: asked.bytes,
            is_repeatable: asked.is_repeatable,
            is_last: asked.is_last,
            beside: 0,
            tells_id: asked.tells_id,
            retries: 0,
            is_reused: false,
            tried: 0,
            refused: None,
            places: Tried::default(),
            ends: asked.ends,
            content: 0,
            has_content: asked.is_whole,
            early: Vec::new(),
            client_waits: false,
            server_waits: false,
            reader: AnswerReader::new(asked.shape.head_only, is_upgrade),
            began: now,
            waits_until: None,
            refused_at: None,
            until: Time::NEVER,
            timer: None,
        }
    }

    /// Takes a piece of content, as it is to be sent.
    pub(super) fn take(&mut self, piece: &[u8], is_last: bool) {
        self.content += piece.len() as u64;
        self.has_content |= is_last;
        let is_chunked = self.ends == Ends::Chunked;
        let write = |out: &mut Vec<u8>| {
            if is_chunked && !piece.is_empty() {
                // Writing to memory cannot fail.
                let _ = write!(out, "{:x}\r\n", piece.len());
            }
            out.extend_from_slice(piece);
            if is_chunked && !piece.is_empty() {
                out.extend_from_slice(b"\r\n");
            }
            if is_chunked && is_last {
                out.extend_from_slice(b"0\r\n\r\n");
            }
        };
        let is_early = match self.phase {
            Phase::Waiting | Phase::Connecting => true,
            Phase::Asked | Phase::Answering => self.ends == Ends::Upgrade,
            Phase::Tunnel => false,
        };
        match is_early {
            true => write(&mut self.early),
            false => {
                self.owed.make_room(piece.len() + FRAME_BYTES);
                self.owed.write(write);
            }
        }
    }

    /// There is a connection: what is there of the request is owed to the server, whose URL has
    /// this for a Host, if it is to be told that.
    pub(super) fn owe(&mut self, authority: Option<&str>) {
        let mut head = match self.is_repeatable {
            true => self.head.clone(),
            false => std::mem::take(&mut self.head),
        };
        if let Some(authority) = authority {
            request::set_host(&mut head, authority);
        }
        self.owed = Outgoing::new();
        self.owed.push_own(head);
        if self.ends != Ends::Upgrade {
            self.owed.push_own(std::mem::take(&mut self.early));
        }
    }

    /// Has what is not sent of the request count as held by its client: so many bytes.
    pub(super) fn counts_unsent(&mut self) -> usize {
        self.beside = self.head.len() + self.owed.unsent();
        self.beside
    }

    /// Whether all that came is sent and the client has more to send: how long it takes for that is
    /// seen to where it is read.
    pub(super) fn is_the_clients_turn(&self) -> bool {
        self.owed.is_empty() && !self.has_content && self.ends != Ends::Upgrade
    }

    /// Whether it may be sent again on another connection, which it was not too often.
    pub(super) fn may_be_sent_again(&self, retries_max: u32) -> bool {
        let is_untouched = self.phase == Phase::Asked && !self.reader.is_touched();
        is_untouched && self.is_repeatable && self.retries < retries_max
    }

    /// Its answer has begun.
    pub(super) fn begins(&mut self, phase: Phase) {
        self.phase = phase;
        self.head = Vec::new();
        if phase == Phase::Answering {
            // Of what was to follow in another protocol nothing is sent.
            self.early = Vec::new();
        }
    }

    /// Until when its next step may take.
    pub(super) fn wait_until(&mut self, until: Time, timers: &mut Timers) {
        self.until = until;
        if let Some(timer) = self.timer {
            if timer.0 <= until {
                // It is looked at then.
                return;
            }
            timers.clear(timer);
        }
        self.timer = (until < Time::NEVER).then(|| timers.set(until, Due::Exchange(self.slot)));
    }

    /// Its timer is due: whether its time is over.
    pub(super) fn is_late(&mut self, now: Time, timers: &mut Timers) -> bool {
        self.timer = None;
        let is_late = self.until <= now;
        if !is_late {
            self.wait_until(self.until, timers);
        }
        is_late
    }

    /// It is over.
    pub(super) fn over(&mut self, timers: &mut Timers) {
        if let Some(timer) = self.timer.take() {
            timers.clear(timer);
        }
    }
}
