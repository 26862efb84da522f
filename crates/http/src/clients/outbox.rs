//! The one buffer that all connections of a thread share, and that stays hot in the cache.
//!
//! What is long and lies still for the moment, such as a page's fragments, need not go through it:
//! it is *gathered*, sent from where it lies between the buffer's own bytes.

use crate::answer::body::Body;
use rhythm_net::{ConnectionId, Flushed, Outgoing, Part, Port};

/// The shared buffer is sent when it holds this much: what stays in the second-level cache.
pub(crate) const OUTBOX_BYTES: usize = 64 * 1024;

/// Beyond this, which few answers need, its memory is not kept.
pub(crate) const KEPT_BYTES: usize = 8 * OUTBOX_BYTES;

/// A part of at least this size is gathered; to copy a shorter one costs less than the system's
/// care for one slice more.
const GATHERED_BYTES_MIN: usize = 4096;

/// Parts gathered in one sending; further ones are copied.
const GATHERED_MAX: usize = 4;

/// Where so much of a body would be copied into the buffer, a buffer is made of all of it: what of
/// that the socket does not take is kept, and not copied again.
pub(crate) const COPIED_MAX: usize = 4 * OUTBOX_BYTES;

/// The shared buffer, and whom what is in it is for.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) to: Option<ConnectionId>,
}

/// Parts that lie elsewhere, each with where it goes between the bytes of the outbox.
pub(crate) struct Gathered<'a> {
    parts: [(usize, Part<'a>); GATHERED_MAX],
    count: usize,
}

impl Gathered<'_> {
    /// No parts.
    pub(crate) const NONE: Gathered<'static> = Gathered {
        parts: [(0, Part::Lent(&[])); GATHERED_MAX],
        count: 0,
    };

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Outbox {
    /// An empty one.
    pub(crate) fn new() -> Outbox {
        Outbox {
            bytes: Vec::with_capacity(OUTBOX_BYTES * 2),
            to: None,
        }
    }

    /// Whether it holds bytes for this connection.
    #[inline]
    pub(crate) fn is_for(&self, id: ConnectionId) -> bool {
        self.to == Some(id)
    }

    /// Whether it holds bytes for another connection than this.
    #[inline]
    pub(crate) fn is_for_another(&self, id: ConnectionId) -> bool {
        self.to.is_some_and(|to| to != id)
    }

    /// Whether it is to be sent before anything is added.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= OUTBOX_BYTES
    }

    /// Whether the system has the memory that a body may need; it is taken with that.
    #[inline]
    pub(crate) fn has_memory(&mut self, body: &Body<'_>) -> bool {
        self.bytes.try_reserve(body.length()).is_ok()
    }

    /// Whether too much of a body would be copied if it were gathered.
    #[cold]
    pub(crate) fn is_too_long(body: &Body<'_>) -> bool {
        let (mut copied, mut count) = (body.length(), 0);
        body.each(&mut |part| {
            let length = part.bytes().len();
            if length >= GATHERED_BYTES_MIN && count < GATHERED_MAX {
                (copied, count) = (copied - length, count + 1);
            }
        });
        copied >= COPIED_MAX
    }

    /// Appends a body, but for its long parts, which are left where they lie.
    #[inline]
    pub(crate) fn gather<'a>(&mut self, body: &Body<'a>) -> Gathered<'a> {
        let mut gathered = Gathered::NONE;
        let Gathered { parts, count } = &mut gathered;
        body.each(&mut |part| {
            let bytes = part.bytes();
            if bytes.len() >= GATHERED_BYTES_MIN && *count < GATHERED_MAX {
                parts[*count] = (self.bytes.len(), part);
                *count += 1;
            } else {
                self.bytes.extend_from_slice(bytes);
            }
        });
        gathered
    }

    /// Sends what it holds and what was gathered, or so many bytes of a buffer behind it.
    #[inline]
    pub(crate) fn send(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        outgoing: &mut Outgoing,
        gathered: &Gathered<'_>,
        (behind, length): (&mut Vec<u8>, usize),
    ) -> Flushed {
        let flushed = if length > 0 {
            debug_assert!(gathered.is_empty(), "it is all that follows");
            outgoing.send_own(port, id, &self.bytes, (behind, length))
        } else if gathered.is_empty() {
            outgoing.send(port, id, &self.bytes)
        } else {
            let mut parts = [Part::Lent(&[]); 2 * GATHERED_MAX + 1];
            let mut before = 0;
            for (two, (at, part)) in parts.chunks_mut(2).zip(&gathered.parts[..gathered.count]) {
                two[0] = Part::Lent(&self.bytes[before..*at]);
                two[1] = *part;
                before = *at;
            }
            let count = 2 * gathered.count;
            parts[count] = Part::Lent(&self.bytes[before..]);
            let is_last_empty = before == self.bytes.len();
            outgoing.gather(port, id, &parts[..count + usize::from(!is_last_empty)])
        };
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        flushed
    }

    /// This connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        if self.is_for(id) {
            self.to = None;
            self.bytes.clear();
        }
    }

    /// What must hold between two events.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.to.is_none() && !self.bytes.is_empty() {
            return Err("bytes for nobody wait to be sent".to_owned());
        }
        Ok(())
    }
}
