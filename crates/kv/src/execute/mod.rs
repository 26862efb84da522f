//! What commands do to the store, and the answers to them: memcached's semantics.
//!
//! ```text
//!   command --> Turn::execute --> ascii, meta, binary: the form of the answer
//!                                    |
//!                                    v
//!                                 operation: store, add to a number ... whichever the protocol
//! ```
//!
//! A [`Turn`] is one thread's time with the store: it executes commands one by one, in their order,
//! and appends their answers. Who calls it has hashed and prefetched their keys before.

mod ascii;
mod binary;
mod meta;
mod operation;
mod packet;
mod refuse;
mod stats;
#[cfg(test)]
mod tests;

use crate::ring::{Ticket, Written};
use crate::shared::{Clock, Counter, Counters, Shared};
use crate::store::{Hash, Item, Large, Pinned};
use crate::wire::{Command, Commands, Kind, Refusal};
use std::sync::Arc;

/// What is to happen behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next command.
    Next,
    /// The connection is closed when its answers are sent.
    Close,
}

/// A long value of an answer, which is not copied, and where in the answer it belongs.
type Long = Option<(usize, Arc<Large>)>;

/// A thread's turn with the store.
pub struct Turn<'a> {
    pinned: Pinned<'a>,
    clock: Clock,
    shared: &'a Shared,
    counters: &'a Counters,
    long: Long,
    /// What was written, where somebody wants to know.
    written: Option<&'a mut Written>,
    /// Under which others of the ring will hear of it; none: that was said, or nobody asks.
    announces: Option<Ticket>,
    /// What writes is executed, and not refused.
    may_write: bool,
}

/// What a command is executed on.
#[derive(Clone, Copy)]
pub struct Parsed<'a> {
    /// What was parsed.
    pub bytes: &'a [u8],
    /// The commands in it.
    pub commands: &'a Commands,
}

impl<'a> Turn<'a> {
    /// A turn with what `pinned` shows, at a time.
    pub fn new(
        pinned: Pinned<'a>,
        clock: Clock,
        shared: &'a Shared,
        counters: &'a Counters,
    ) -> Turn<'a> {
        Turn {
            pinned,
            clock,
            shared,
            counters,
            long: None,
            written: None,
            announces: None,
            may_write: true,
        }
    }

    /// Has it refuse all that writes, unless this node of a ring may.
    pub(crate) fn writing_if(self, may_write: bool) -> Turn<'a> {
        Turn { may_write, ..self }
    }

    /// Has it note there what is written, so that it is known whatever becomes of the turn.
    pub(crate) fn noting(self, written: &'a mut Written) -> Turn<'a> {
        let written = Some(written);
        Turn { written, ..self }
    }

    /// Has it say before its first write that there is one, under this ticket.
    pub(crate) fn announcing(self, ticket: Option<Ticket>) -> Turn<'a> {
        Turn {
            announces: ticket,
            ..self
        }
    }

    /// It is about to write.
    #[inline]
    fn announce(&mut self) {
        if let Some(ticket) = self.announces.take()
            && let Some(view) = &self.shared.ring
        {
            view.writes(ticket);
        }
    }

    /// What was written so far, if that is noted.
    pub(crate) fn written(&self) -> Option<&Written> {
        self.written.as_deref()
    }

    /// Starts loading what of the table a key needs.
    #[inline]
    pub fn prefetch(&self, hash: Hash) {
        self.pinned.prefetch(hash);
    }

    /// Starts loading the items that may be a key's.
    #[inline]
    pub fn prefetch_item(&self, hash: Hash) {
        self.pinned.prefetch_item(hash);
    }

    /// Lets others have memory that may be read in this turn. To be called between connections, and
    /// where one takes long: a turn's end would be late.
    #[inline]
    pub fn make_way(&mut self) {
        self.pinned.make_way();
    }

    /// The same whether others wait or not: where much was replaced, it is not kept any longer.
    pub(crate) fn renew(&mut self) {
        self.pinned.renew();
    }

    /// What commands have cost so far beside their own bytes, in bytes of values that were made of
    /// others, copied or looked through. (Answers are not in it.)
    #[inline]
    pub(crate) fn work(&self) -> usize {
        self.pinned.work()
    }

    fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    /// Counts a command that is refused.
    fn refused(&self, key: &[u8], why: Refusal) {
        match why {
            Refusal::TooLarge => self.count(Counter::StoreTooLarge),
            Refusal::BadChunk => self.count(Counter::CmdSet),
            Refusal::Flush | Refusal::FlushTime => return self.count(Counter::CmdFlush),
        }
        self.shared.prefixes.stored(key);
    }

    /// Where in the answer of the command executed last a long value belongs, which is not copied.
    pub(crate) fn take_long(&mut self) -> Option<(usize, Arc<Large>)> {
        self.long.take()
    }

    /// Executes a command and appends its answer to `out`, but for a long value, which is to be
    /// [taken](Self::take_long) before the next. `hash` is its key's; of no meaning where it has
    /// none.
    pub(crate) fn execute(
        &mut self,
        parsed: Parsed<'_>,
        command: &Command,
        hash: Hash,
        out: &mut Vec<u8>,
    ) -> Then {
        let Parsed { bytes, commands } = parsed;
        let key = command.key.of(bytes, &commands.decoded);
        let at = HashedKey { hash, key };
        if !self.may_write && refuse::refuse(command.kind, commands, out) {
            return Then::Next;
        }
        match command.kind {
            Kind::Get {
                with_cas,
                touch,
                is_last,
                ..
            } => {
                self.get(at, with_cas, touch, out);
                if is_last {
                    out.extend_from_slice(b"END\r\n");
                }
            }
            Kind::Store { store, quiet } => self.store_line(at, &store, bytes, quiet, out),
            Kind::Meta { verb, index } => {
                let flags = &commands.meta[index as usize];
                self.meta(at, verb, flags, bytes, out);
            }
            Kind::Binary { index } => {
                let request = &commands.binary[index as usize];
                self.binary(at, request, bytes, out);
            }
            Kind::Fetch { touch } => self.fetch(at, touch),
            Kind::Drop => self.remove(at),
            Kind::Say(text) => out.extend_from_slice(text.as_bytes()),
            Kind::Refuse { why, quiet } => {
                self.refused(key, why);
                if !quiet {
                    out.extend_from_slice(why.text().as_bytes());
                }
            }
            Kind::Close => return Then::Close,
            Kind::Shutdown { graceful } => {
                self.shared.shut_down(graceful);
                return Then::Close;
            }
            kind => self.line(at, kind, bytes, out),
        }
        Then::Next
    }
}

/// A key with its hash.
#[derive(Clone, Copy)]
struct HashedKey<'a> {
    hash: Hash,
    key: &'a [u8],
}

/// Appends an item's value, or notes where it belongs.
fn value(item: &Item<'_>, long: &mut Long, out: &mut Vec<u8>) {
    debug_assert!(long.is_none(), "an answer has one value, and each is taken");
    match item.large() {
        Some(large) => *long = Some((out.len(), large)),
        None => out.extend_from_slice(item.value()),
    }
}

/// Appends a number in decimal.
fn number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
