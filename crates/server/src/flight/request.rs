//! Requests under way: one entry a lane, found by the ticket that the lane carries through its
//! cohorts.
//!
//! A ticket is answered exactly once: answering takes the entry away, and a ticket that is shown
//! again, or whose place was given to another request since, finds nothing.

use crate::observe::access_log::LogEntry;
use rhythm_engine::session::SessionId;
use rhythm_http::{AnswerShape, AnswerSlot};
use rhythm_net::Time;
use rhythm_protocol::http::conditional::Conditions;

/// What a lane carries: index and generation of an entry.
pub(crate) type Ticket = u64;

/// The ticket of a lane that moved to another cohort, and of no request.
pub(crate) const NO_TICKET: Ticket = u64::MAX;

/// A request between its parsing and its answer.
#[derive(Debug)]
pub(crate) struct Request {
    /// Where the answer goes.
    pub(crate) slot: AnswerSlot,
    /// What the answer's form takes from it.
    pub(crate) shape: AnswerShape,
    /// When its last byte came.
    pub(crate) arrived: Time,
    /// The session its cookie names, known or not.
    pub(crate) session: Option<SessionId>,
    /// Its conditions and range, where its page can answer with a file.
    pub(crate) kept: Option<Box<KeptConditions>>,
    /// What the access log says of it, if there is a log.
    pub(crate) line: Option<Box<LogEntry>>,
}

/// A request's conditions, kept beyond its bytes.
#[derive(Debug)]
pub(crate) struct KeptConditions([Option<Box<[u8]>>; 6]);

impl KeptConditions {
    /// Keeps them, if there are any.
    pub(crate) fn new(conditions: &Conditions<'_>) -> Option<Box<KeptConditions>> {
        let values = [
            conditions.if_match,
            conditions.if_unmodified_since,
            conditions.if_none_match,
            conditions.if_modified_since,
            conditions.if_range,
            conditions.range,
        ];
        let any = values.iter().any(Option::is_some);
        any.then(|| Box::new(KeptConditions(values.map(|value| value.map(Box::from)))))
    }

    /// The conditions.
    pub(crate) fn get(&self) -> Conditions<'_> {
        let [
            if_match,
            if_unmodified_since,
            if_none_match,
            if_modified_since,
            if_range,
            range,
        ] = self.0.each_ref().map(|value| value.as_deref());
        Conditions {
            if_match,
            if_unmodified_since,
            if_none_match,
            if_modified_since,
            if_range,
            range,
        }
    }
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    request: Option<Request>,
}

/// The requests under way in a pipeline. Its size is bounded by the lanes of the cohort pool.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Requests {
    /// Takes a request in and gives its ticket.
    pub(crate) fn insert(&mut self, request: Request) -> Ticket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[index as usize];
        entry.request = Some(request);
        u64::from(entry.generation) << 32 | u64::from(index)
    }

    /// Takes a request out, to answer it.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Request> {
        let (index, generation) = (ticket as u32, (ticket >> 32) as u32);
        let entry = self.entries.get_mut(index as usize)?;
        if entry.generation != generation {
            return None;
        }
        let request = entry.request.take()?;
        // One generation is never given, so that no ticket is NO_TICKET.
        entry.generation = (entry.generation + 1) % u32::MAX;
        self.free.push(index);
        Some(request)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
