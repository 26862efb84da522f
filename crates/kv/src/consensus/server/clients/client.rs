//! A client: what it asked, what is answered, and what it is told of what it watches.

use super::super::watches::Watches;
use crate::consensus::keyspace::{Change, Outcome};
use crate::consensus::node::{Answer, Ticket};
use crate::consensus::text::{How, Parser, Wanted};
use crate::input::Input;
use crate::wire::Rules;
use rhythm_net::{ConnectionId, Outgoing, Time};
use std::collections::VecDeque;

/// Bytes of answers that a client may leave untaken.
pub(super) const UNTAKEN_MAX: usize = 1 << 20;
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
    /// Prefixes, and the revision of the change that was told last.
    pub(super) watches: Vec<Vec<u8>>,
    pub(super) told: u64,
    /// Some keys of a `get` are said, and not yet all; and what is to be told behind it, or behind
    /// the answer that a watch begins with.
    pub(super) is_amid: bool,
    pub(super) told_later: Vec<u8>,
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

    /// Bytes of answers that it holds.
    pub(super) fn holds(&self) -> usize {
        self.out.unsent() + self.told_later.len() + self.awaited
    }

    /// Whether it takes too little of what it is told.
    pub(super) fn is_slow(&self) -> bool {
        self.out.unsent() + self.told_later.len() > 2 * UNTAKEN_MAX
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

    /// It watches a prefix from a revision on.
    pub(super) fn watch(
        &mut self,
        id: ConnectionId,
        prefix: Vec<u8>,
        revision: u64,
        watches: &mut Watches,
    ) {
        if watches.begin(&prefix, id, revision) {
            self.watches.push(prefix);
        }
        // The first gives way to the one too many.
        if self.watches.len() > WATCHES_MAX {
            watches.end(&self.watches.remove(0), id);
        }
    }

    /// Notes a change that it is to be told of, once, for whichever of its watches.
    pub(super) fn tell(&mut self, change: &Change) {
        if self.told == change.revision || self.is_slow() {
            return;
        }
        self.told = change.revision;
        let what = if change.is_deleted { "delete" } else { "set" };
        self.told_later.extend_from_slice(b"CHANGED ");
        self.told_later.extend_from_slice(&change.key);
        let rest = format!(" {} {what}\r\n", change.revision);
        self.told_later.extend_from_slice(rest.as_bytes());
    }

    /// Says what is answered, in the order in which it was asked, as far as there is room.
    pub(super) fn say(&mut self, said: &mut Vec<u8>) {
        while said.len() < UNTAKEN_MAX
            && self.is_answered()
            && let Some(Wait {
                how,
                bytes,
                answer: Some(answer),
                ..
            }) = self.waits.pop_front()
        {
            self.awaited -= bytes;
            how.say(&answer, &mut self.in_error, said);
            self.is_amid = matches!(how, How::Get { is_last: false, .. });
            if !self.is_amid {
                said.append(&mut self.told_later);
            }
            if let (How::Open | How::Attach(_), Answer::Done(Outcome::Alive(lease))) = (how, answer)
            {
                self.lease = Some(lease);
            }
        }
    }
}
