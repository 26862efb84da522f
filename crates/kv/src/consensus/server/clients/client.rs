//! A client: what it asked, what is answered, and what it is told of what it watches.

use super::super::watches::Watches;
use super::backlog::{Backlog, Line};
use crate::consensus::keyspace::Outcome;
use crate::consensus::node::{Answer, Ticket};
use crate::consensus::text::{How, Parser, Wanted};
use crate::input::Input;
use crate::wire::Rules;
use rhythm_net::{ConnectionId, Outgoing, Time};
use std::collections::VecDeque;

/// Bytes of answers that a client may leave untaken.
pub(super) const UNTAKEN_MAX: usize = 1 << 20;
/// Bytes from which on no more is added that a client is told of what it watches, until it has
/// taken them.
pub(super) const PIECE: usize = 64 << 10;
/// What a client may watch.
const WATCHES_MAX: usize = 16;

/// Something that the node was asked.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) ticket: Ticket,
    pub(super) how: How,
    /// Bytes of the value in its answer, or in the one that is likely.
    pub(super) bytes: usize,
    pub(super) answer: Option<Answer>,
}

/// A client.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) input: Input,
    pub(super) parser: Parser,
    pub(super) asked: VecDeque<Wanted>,
    /// What the node was asked, and has answered or not; and the bytes of all of that.
    pub(super) waits: VecDeque<Wait>,
    pub(super) awaited: usize,
    /// When bytes last came from it, or were taken by it.
    pub(super) moved: Time,
    /// Since when what comes next waits for room at the node.
    pub(super) stalled: Option<Time>,
    pub(super) is_listed: bool,
    /// Of those that wait: whether they may change something; none: by itself.
    pub(super) kind: Option<bool>,
    /// A key of the `get` at hand could not be read.
    pub(super) in_error: bool,
    pub(super) lease: Option<u64>,
    /// Prefixes, and the revisions behind which changes are told; and that of the last one told.
    pub(super) watches: Vec<(Vec<u8>, u64)>,
    pub(super) told: u64,
    /// Where in the backlog the first is that it is to be told yet, if others were told before.
    pub(super) behind: Option<u64>,
    /// Some keys of a `get` are said, and not yet all.
    pub(super) is_amid: bool,
    pub(super) out: Outgoing,
    /// Nothing more comes, or nothing more is wanted.
    pub(super) is_closing: bool,
}

impl Client {
    /// Takes the next command from what came. False: there is none.
    pub(super) fn parse(&mut self, rules: &Rules) -> bool {
        while self.asked.is_empty() {
            let (bytes, lease) = (self.input.rest(), self.lease);
            match (self.parser).next(rules, bytes, lease, &mut self.asked) {
                0 => return false,
                taken => self.input.take(taken),
            }
        }
        true
    }

    /// Whether what was asked first is answered.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.waits.front(), Some(wait) if wait.answer.is_some())
    }

    /// Bytes that it holds: of what it sent and was not asked yet, and of answers.
    pub(super) fn holds(&self) -> usize {
        let asked = self.asked.iter().map(Wanted::bytes);
        self.input.capacity() + asked.sum::<usize>() + self.out.unsent() + self.awaited
    }

    /// Whether it is in the midst of a command, and has all answers: none but it can go on.
    pub(super) fn is_amid_command(&self) -> bool {
        let is_owed = !self.waits.is_empty() || !self.asked.is_empty() || !self.out.is_empty();
        !self.input.is_empty() && !is_owed
    }

    /// Whether changes may be told now: not within an answer, nor before it knows that it watches.
    pub(super) fn may_be_told(&self) -> bool {
        let begins = matches!(
            self.waits.front(),
            Some(Wait {
                how: How::Watch(_),
                answer: Some(_),
                ..
            })
        );
        !self.is_amid && !begins
    }

    /// Whether it can go on with what it is behind with.
    pub(super) fn is_to_catch_up(&self) -> bool {
        self.behind.is_some() && self.may_be_told()
    }

    /// Whether something can be said now.
    pub(super) fn has_to_say(&self, backlog: &Backlog) -> bool {
        self.is_answered() || backlog.may_look() && self.is_to_catch_up()
    }

    /// Is told some of that, as far as this turn allows.
    fn catch_up(&mut self, backlog: &mut Backlog, said: &mut Vec<u8>) {
        while backlog.may_look()
            && said.len() < PIECE
            && let Some(place) = self.behind
        {
            let line = backlog.look_at(place, 1);
            self.behind = line.map(|_| place + 1);
            if let Some(line) = line.filter(|line| self.is_to_be_told(line)) {
                self.told = line.revision;
                said.extend_from_slice(line.text());
            }
        }
    }

    /// Whether a change is one that it watches, and was not told.
    fn is_to_be_told(&self, line: &Line) -> bool {
        let watches = |(prefix, from): &(Vec<u8>, u64)| {
            line.revision > *from && line.key().starts_with(prefix)
        };
        line.revision > self.told && self.watches.iter().any(watches)
    }

    /// Says what is answered, in the order in which it was asked, and between that what it is
    /// behind with, as far as there is room.
    pub(super) fn say(&mut self, backlog: &mut Backlog, said: &mut Vec<u8>) {
        loop {
            if self.may_be_told() {
                self.catch_up(backlog, said);
            }
            if said.len() >= UNTAKEN_MAX || !self.is_answered() {
                break;
            }
            let Some(Wait {
                how,
                bytes,
                answer: Some(answer),
                ..
            }) = self.waits.pop_front()
            else {
                break;
            };
            self.awaited -= bytes;
            how.say(&answer, &mut self.in_error, said);
            self.is_amid = matches!(how, How::Get { is_last: false, .. });
            if let (How::Open | How::Attach(_), Answer::Done(Outcome::Alive(lease))) = (how, answer)
            {
                self.lease = Some(lease);
            }
        }
    }
}

/// A client watches a prefix from a revision on: among its own watches, and all. False: it watches
/// as many as it may.
pub(super) fn watch(
    own: &mut Vec<(Vec<u8>, u64)>,
    all: &mut Watches,
    id: ConnectionId,
    prefix: &[u8],
    revision: u64,
) -> bool {
    let is_known = own.iter().any(|(known, _)| known == prefix);
    if !is_known && own.len() >= WATCHES_MAX {
        return false;
    }
    if all.begin(prefix, id, revision) {
        own.push((prefix.to_vec(), revision));
    }
    true
}
