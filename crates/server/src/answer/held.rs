//! Answers that are held until the store of all machines has what they do to a session, so that
//! whoever has one finds his session at every machine as it says.
//!
//! What is held is bounded in bytes: beyond it requests that would do something to a session are
//! refused before they do.

use crate::answer::hosted::HostedLine;
use crate::answer::sessions::ToKeep;
use crate::answer::slow::Watched;
use crate::backend::{Asker, Failure};
use crate::flight::telling::{StoreAnswer, Telling, What};
use crate::flight::timeline::Came;
use crate::host::files::FileStream;
use crate::observe::metrics::PageMetrics;
use crate::site::Site;
use crate::trace::Span;
use rhythm_http::{AnswerShape, AnswerSlot, Answered};
use rhythm_net::{Slab, Time};
use std::sync::Arc;

/// Bytes of all answers that are held; one is, however long it is.
const HELD_BYTES_MAX: usize = 16 << 20;

/// What an answer takes beside its body, and what it says to the store, about.
const BESIDE: usize = 2048;

/// An answer.
pub(crate) enum Ready {
    /// Its bytes.
    Whole(Answered, Vec<u8>),
    /// A file's, which is yet to be read.
    Stream(FileStream),
}

/// One that is held.
pub(crate) struct Held {
    pub(crate) of: Parts,
    pub(crate) to_keep: ToKeep,
    /// How much of it the store has not answered.
    unanswered: usize,
    /// Why it does not have it, if something has failed.
    pub(crate) failure: Option<Failure>,
    /// What was to be changed is there.
    pub(crate) is_there: bool,
    bytes: usize,
}

/// What a held answer is made of.
pub(crate) struct Parts {
    pub(crate) slot: AnswerSlot,
    pub(crate) shape: AnswerShape,
    pub(crate) ready: Ready,
    /// What the log says of its request, if there is a log.
    pub(crate) line: Option<HostedLine>,
    pub(crate) site: Arc<Site>,
    /// Which that is of those that are served beside each other.
    pub(crate) site_index: usize,
    /// Index of its page, and the page's figures.
    pub(crate) page: usize,
    pub(crate) metrics: Arc<PageMetrics>,
    pub(crate) launched: Time,
    pub(crate) came: Came,
    /// Where its time went, if somebody asks.
    pub(crate) watched: Option<Watched>,
    /// Its span, if it is recorded.
    pub(crate) span: Option<Span>,
}

/// See the module's text.
#[derive(Default)]
pub(crate) struct HeldAnswers {
    held: Slab<Held>,
    bytes: usize,
    /// What the store is yet to be told.
    pub(crate) tellings: Vec<Telling>,
}

impl HeldAnswers {
    /// Whether there is room for an answer with a body of so many bytes.
    pub(crate) fn has_room(&self, body: usize) -> bool {
        self.bytes == 0 || self.bytes + body + BESIDE <= HELD_BYTES_MAX
    }

    /// Holds an answer until the store has this.
    pub(crate) fn hold(&mut self, parts: Parts, mut to_keep: ToKeep, asker: Asker) {
        let writes = std::mem::take(&mut to_keep.writes);
        let body = match &parts.ready {
            Ready::Whole(_, bytes) => bytes.len(),
            Ready::Stream(stream) => stream.memory(),
        };
        let records: usize = writes.iter().map(|write| write.record.len()).sum();
        let bytes = body + records + BESIDE;
        self.bytes += bytes;
        let held = self.held.insert(Held {
            of: parts,
            to_keep,
            unanswered: writes.len(),
            failure: None,
            is_there: true,
            bytes,
        });
        let telling = |write| Telling { held, write, asker };
        self.tellings.extend(writes.into_iter().map(telling));
    }

    /// The store has answered: gives the answer that need not be held any more, if one need not.
    pub(crate) fn answered(&mut self, answer: &StoreAnswer) -> Option<Held> {
        let held = self.held.get_mut(answer.held)?;
        held.unanswered -= 1;
        match answer.outcome {
            Ok(is_there) => held.is_there &= is_there || answer.what != What::Changes,
            Err(failure) => held.failure = held.failure.or(Some(failure)),
        }
        if held.unanswered > 0 {
            return None;
        }
        let held = self.held.remove(answer.held)?;
        self.bytes -= held.bytes;
        Some(held)
    }
}
