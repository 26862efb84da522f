//! Requests under way: one entry for each lane of a cohort.
//!
//! A request is answered exactly once: answering takes its entry away. What outlives the request's
//! bytes, for the access log and for conditions, lies in an arena that is the cohort's own, so that
//! a request costs no allocation.

use crate::backend::Failure;
use crate::flight::timeline::Came;
use crate::observe::access_log::LogEntry;
use crate::site::lengths::RequestKey;
use crate::trace::{Origin, Place};
use rhythm_engine::cohort::{Arena, LaneError, Share, View};
use rhythm_engine::session::SessionId;
use rhythm_engine::settings::AccessLogFormat;
use rhythm_http::{AnswerShape, AnswerSlot};
use rhythm_net::{Client, ConnectionId, Time};
use rhythm_protocol::http::conditional::Conditions;
use rhythm_protocol::http::request::RequestHead;
use std::rc::Rc;

/// A client's request between its parsing and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneRequest {
    /// Where the answer goes.
    pub(crate) slot: AnswerSlot,
    /// What the answer's shape takes from it.
    pub(crate) shape: AnswerShape,
    /// When its last byte came.
    pub(crate) arrived: Time,
    /// When its first byte came, where that was noted.
    began: Option<Time>,
    /// Who sends it, as a number.
    client: u64,
    /// By which the length of its answer is found again.
    pub(crate) key: RequestKey,
    /// What is kept of its bytes.
    kept: Kept,
    /// Who sends it has no session, and is yet to be told by which id he is known.
    pub(crate) is_new_visitor: bool,
    /// It came with a message, which its page shows.
    pub(crate) has_flash: bool,
    /// Which failure a backend told of, by its index.
    failure: Option<u8>,
}

impl LaneRequest {
    /// Who sends it, as a number, and by which connection.
    pub(crate) fn client(&self) -> (u64, ConnectionId) {
        (self.client, self.slot.connection)
    }

    /// When it came.
    pub(crate) fn came(&self) -> Came {
        Came {
            began: self.began.unwrap_or(self.arrived),
            arrived: self.arrived,
        }
    }
}

/// What of a request's bytes lies in the arena.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Where the client is and what the access log says of the request, if there is a log.
    line: Option<(Client, View)>,
    /// Index of its conditions, if it has any and they matter.
    conditions: Option<u32>,
    /// Index of where it comes from, if that is known.
    origin: Option<u32>,
    /// Index of all of it, if it may go on to another server.
    whole: Option<u32>,
}

/// A request that is kept whole: where its bytes are, of which so many are the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    view: View,
    pub(crate) head_bytes: usize,
}

/// Bytes that what is told of single requests takes for a lane at most, in tables that double when
/// they grow: half of it for where its request comes from.
pub(crate) const WATCH_BYTES: usize = 1536;

const _: () = assert!(2 * size_of::<KeptOrigin>() <= WATCH_BYTES / 2);

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
struct KeptOrigin {
    origin: Origin,
    /// Its `tracestate`.
    state: Option<View>,
    /// Before which stages it asked a backend: a bit for each.
    asked: u64,
    /// Before which of them that failed, by each of [`CALL_ERRORS`].
    failed: [u64; CALL_ERRORS.len()],
}

/// What calls fail with. Whatever else it is counts as the first.
const CALL_ERRORS: [LaneError; 5] = [
    LaneError::BackendFailed,
    LaneError::BackendRefused,
    LaneError::BackendTimeout,
    LaneError::BadAnswer,
    LaneError::TextTooLong,
];

/// The values of [`Conditions`], in the order of its fields.
type KeptConditions = [Option<View>; 6];

/// The requests of a cohort, by lane.
#[derive(Debug)]
pub(crate) struct LaneRequests {
    /// `None`: the lane is answered, or has moved to another cohort.
    lanes: Vec<Option<LaneRequest>>,
    /// What each lane's cookie names, known or not; `None` too where its page does not look.
    sessions: Vec<Option<SessionId>>,
    /// How many are not answered.
    left: usize,
    /// What is kept of their bytes.
    arena: Arena,
    conditions: Vec<KeptConditions>,
    origins: Vec<KeptOrigin>,
    wholes: Vec<Whole>,
    /// Why lanes fail, where a backend said it: each different failure once, as far as a number of
    /// 8 bits goes.
    failures: Vec<Failure>,
}

/// What the log tells of a request that has no more than its line, too, with what stands between
/// its parts.
const VERSION: &[u8] = b" HTTP/1.1\0\0";

/// What stands behind the target of a request that has no field, and behind a head.
const BARE_VERSION: &[u8] = b" HTTP/1.0";
const HEAD_END: &[u8] = b"\r\n\r\n";

/// The bit of a stage; those far behind have one together.
fn bit_of(stage: u32) -> u64 {
    1 << stage.min(63)
}

impl LaneRequests {
    /// Those of a cohort that has its memory of this share, and texts of at most so many bytes: no
    /// more is kept of its requests.
    pub(crate) fn of_share(share: &Rc<Share>, texts_max: usize) -> LaneRequests {
        LaneRequests {
            lanes: Vec::new(),
            sessions: Vec::new(),
            left: 0,
            arena: Arena::of_share(share, texts_max.saturating_add(VERSION.len())),
            conditions: Vec::new(),
            origins: Vec::new(),
            wholes: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// All are answered: empties it.
    pub(crate) fn rest(&mut self) {
        debug_assert_eq!(self.left, 0, "a context was freed with requests in it");
        self.lanes.clear();
        self.sessions.clear();
        self.conditions.clear();
        self.origins.clear();
        self.wholes.clear();
        self.failures.clear();
        self.arena.rest(0);
    }

    /// Gives the memory of what was kept back.
    pub(crate) fn forget(&mut self) {
        self.arena.forget();
    }

    /// Bytes of memory for what is kept.
    pub(crate) fn capacity(&self) -> usize {
        self.arena.capacity()
    }

    /// How many are not answered.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Whether there is room to keep what matters of a request of so many bytes.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        self.arena.reserve(bytes + VERSION.len())
    }

    /// Bytes that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.arena.bytes().len()
    }

    /// How many lanes there are, answered or not.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Where a lane's answer goes; `None` where it is answered.
    pub(crate) fn connection(&self, lane: usize) -> Option<ConnectionId> {
        (self.lanes[lane].as_ref()).map(|request| request.slot.connection)
    }

    /// Who has sent a lane's request, as a number, and by which connection; `None` where it is
    /// answered.
    pub(crate) fn client(&self, lane: usize) -> Option<(u64, ConnectionId)> {
        (self.lanes[lane].as_ref()).map(|request| (request.client, request.slot.connection))
    }

    /// What each lane's cookie names.
    pub(crate) fn sessions(&self) -> &[Option<SessionId>] {
        &self.sessions
    }

    /// Takes in the request of the next lane.
    #[inline]
    pub(crate) fn push(
        &mut self,
        slot: AnswerSlot,
        shape: AnswerShape,
        arrived: Time,
        session: Option<SessionId>,
        client: u64,
        key: RequestKey,
    ) {
        let request = LaneRequest {
            slot,
            shape,
            arrived,
            began: None,
            client,
            key,
            kept: Kept::default(),
            is_new_visitor: false,
            has_flash: false,
            failure: None,
        };
        self.lanes.push(Some(request));
        self.sessions.push(session);
        self.left += 1;
    }

    /// The last lane's, to keep more of it.
    fn last(&mut self) -> &mut LaneRequest {
        let last = self.lanes.last_mut().and_then(Option::as_mut);
        last.expect("the request that was just taken in")
    }

    /// The first byte of the last lane's request came then.
    pub(crate) fn began(&mut self, began: Option<Time>) {
        self.last().began = began;
    }

    /// The id of the last lane's visitor is new to him.
    pub(crate) fn is_of_new_visitor(&mut self) {
        self.last().is_new_visitor = true;
    }

    /// The last lane's page shows the message that its request came with.
    pub(crate) fn took_flash(&mut self) {
        self.last().has_flash = true;
    }

    /// Keeps what the access log will say of the last lane's request, in this format, and whether
    /// it came by HTTP/2.
    pub(crate) fn keep_line(
        &mut self,
        peer: Client,
        by: (AccessLogFormat, bool),
        head: &RequestHead,
        bytes: &[u8],
    ) {
        let view = self
            .arena
            .push_with(|out| LogEntry::write(head, bytes, by, out));
        self.last().kept.line = Some((peer, view));
    }

    /// Keeps where the last lane's request comes from, and its `tracestate`.
    pub(crate) fn keep_origin<'a>(
        &mut self,
        origin: Origin,
        states: impl Iterator<Item = &'a [u8]>,
    ) {
        let has_state = origin.trace.is_some_and(|place| place.has_state);
        let state = has_state.then(|| {
            self.arena.push_with(|out| {
                for (at, state) in states.enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(state);
                }
            })
        });
        self.last().kept.origin = Some(self.origins.len() as u32);
        self.origins.push(KeptOrigin {
            origin,
            state,
            asked: 0,
            failed: [0; CALL_ERRORS.len()],
        });
    }

    /// Where a request comes from, if that is known.
    pub(crate) fn origin(&self, request: &LaneRequest) -> Option<&Origin> {
        let kept = &self.origins[request.kept.origin? as usize];
        Some(&kept.origin)
    }

    /// The places in traces of those of its requests that are recorded, answered or not.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = Place> {
        self.origins
            .iter()
            .filter_map(|kept| kept.origin.recorded())
    }

    /// The line of a request, if it is kept, with what else is.
    pub(crate) fn line_bytes(&self, request: &LaneRequest) -> Option<&[u8]> {
        request.kept.line.map(|(_, view)| self.arena.get(view))
    }

    /// Whether a backend was asked for a request before this stage, by what is known of it.
    pub(crate) fn has_asked(&self, request: &LaneRequest, stage: u32) -> bool {
        let kept = request.kept.origin.map(|at| &self.origins[at as usize]);
        kept.is_some_and(|kept| kept.asked & bit_of(stage) != 0)
    }

    /// What a backend was asked for a lane before this stage has failed so, whether or not its page
    /// can do without.
    pub(crate) fn call_failed(&mut self, lane: usize, stage: u32, error: LaneError) {
        let request = self.lanes[lane].as_ref();
        if let Some(at) = request.and_then(|request| request.kept.origin) {
            let known = CALL_ERRORS.iter().position(|known| *known == error);
            self.origins[at as usize].failed[known.unwrap_or(0)] |= bit_of(stage);
        }
    }

    /// What a call before this stage has failed with, if it has, by what is known of its request.
    pub(crate) fn call_error(&self, request: &LaneRequest, stage: u32) -> Option<LaneError> {
        let kept = &self.origins[request.kept.origin? as usize];
        let failed = kept.failed.iter().zip(CALL_ERRORS);
        let mut failed = failed.filter(|(stages, _)| *stages & bit_of(stage) != 0);
        failed.next().map(|(_, error)| error)
    }

    /// A lane asks a backend before this stage: where it is known where its request comes from,
    /// appends the lines that tell the backend of it, if it takes such.
    pub(crate) fn ask(&mut self, lane: usize, stage: u32, out: Option<&mut Vec<u8>>) {
        let request = self.lanes[lane].as_ref();
        let Some(at) = request.and_then(|request| request.kept.origin) else {
            return;
        };
        let kept = &mut self.origins[at as usize];
        kept.asked |= bit_of(stage);
        if let Some(out) = out {
            let span = kept.origin.trace.map(|place| place.call_span(stage));
            let state = kept.state.map(|view| self.arena.get(view));
            kept.origin.write(span, state.into_iter(), out);
        }
    }

    /// Whether it is known of any where it comes from.
    #[inline]
    pub(crate) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Keeps the conditions of the last lane's request, if it has any.
    pub(crate) fn keep_conditions(&mut self, conditions: &Conditions<'_>) {
        let values = [
            conditions.if_match,
            conditions.if_unmodified_since,
            conditions.if_none_match,
            conditions.if_modified_since,
            conditions.if_range,
            conditions.range,
        ];
        if values.iter().any(Option::is_some) {
            let kept = values.map(|value| value.map(|bytes| self.arena.push(bytes)));
            let index = self.conditions.len() as u32;
            self.conditions.push(kept);
            self.last().kept.conditions = Some(index);
        }
    }

    /// Bytes by which a whole request of this head and content, up to its last field, is longer
    /// than what is kept of others.
    pub(crate) fn whole_bytes(head_bytes: usize, content: &[u8]) -> usize {
        head_bytes + BARE_VERSION.len() + HEAD_END.len() + content.len()
    }

    /// Keeps all of the last lane's request, since it may go on to another server.
    pub(crate) fn keep_whole(&mut self, head: &RequestHead, bytes: &[u8], content: &[u8]) {
        let fields = head.headers().last().map(|last| last.value);
        let (end, version) = match fields {
            Some(last) => (last.range().end, &b""[..]),
            // Newer ones have a Host at least.
            None => (head.target().range().end, BARE_VERSION),
        };
        let mut head_bytes = 0;
        let view = self.arena.push_with(|out| {
            let start = out.len();
            out.extend_from_slice(&bytes[..end]);
            out.extend_from_slice(version);
            out.extend_from_slice(HEAD_END);
            head_bytes = out.len() - start;
            out.extend_from_slice(content);
        });
        self.last().kept.whole = Some(self.wholes.len() as u32);
        self.wholes.push(Whole { view, head_bytes });
    }

    /// Where all of a request is, if it was kept.
    pub(crate) fn whole(&self, request: &LaneRequest) -> Option<Whole> {
        self.wholes.get(request.kept.whole? as usize).copied()
    }

    /// The bytes of a request that is kept whole, until its cohort is free.
    pub(crate) fn bytes_of(&self, whole: Whole) -> &[u8] {
        self.arena.get(whole.view)
    }

    /// A backend says why a lane fails.
    pub(crate) fn keep_failure(&mut self, lane: usize, failure: Failure) {
        let request = self.lanes[lane].as_mut();
        let request = request.expect("a lane that asks is not answered");
        let known = self.failures.iter().position(|known| *known == failure);
        if let Ok(index) = u8::try_from(known.unwrap_or(self.failures.len())) {
            if known.is_none() {
                self.failures.push(failure);
            }
            request.failure = Some(index);
        }
    }

    /// Why a request fails that fails with this error: as a backend said it, if it did.
    pub(crate) fn failure(&self, request: &LaneRequest, error: LaneError) -> Failure {
        let said = request
            .failure
            .map(|index| self.failures[usize::from(index)]);
        said.filter(|failure| failure.error == error)
            .unwrap_or(error.into())
    }

    /// Takes a lane's request out, to answer it. `None`: it is answered, or has moved.
    #[inline]
    pub(crate) fn take(&mut self, lane: usize) -> Option<LaneRequest> {
        let request = self.lanes[lane].take();
        self.left -= usize::from(request.is_some());
        request
    }

    /// What a lane's cookie names.
    pub(crate) fn session(&self, lane: usize) -> Option<&SessionId> {
        self.sessions[lane].as_ref()
    }

    /// What the access log says of a request for the site of this index, if there is a log.
    pub(crate) fn line(&self, request: &LaneRequest, site: usize) -> Option<LogEntry<'_>> {
        let (peer, view) = request.kept.line?;
        Some(LogEntry {
            site: Some(site),
            peer,
            request: self.arena.get(view),
            id: self.origin(request).and_then(|origin| origin.id),
        })
    }

    /// The conditions of a request.
    pub(crate) fn conditions(&self, request: &LaneRequest) -> Conditions<'_> {
        let Some(index) = request.kept.conditions else {
            return Conditions::default();
        };
        let kept = self.conditions[index as usize];
        let [
            if_match,
            if_unmodified_since,
            if_none_match,
            if_modified_since,
            if_range,
            range,
        ] = kept.map(|value| value.map(|view| self.arena.get(view)));
        Conditions {
            if_match,
            if_unmodified_since,
            if_none_match,
            if_modified_since,
            if_range,
            range,
        }
    }

    /// Moves the requests of some lanes, in their order, behind those of another cohort.
    pub(crate) fn move_lanes(&mut self, lanes: &[usize], into: &mut LaneRequests) {
        for &lane in lanes {
            let request = self.take(lane).expect("a lane that waits is not answered");
            let session = self.sessions[lane];
            let LaneRequest {
                slot,
                shape,
                arrived,
                client,
                key,
                ..
            } = request;
            into.push(slot, shape, arrived, session, client, key);
            into.last().began = request.began;
            into.last().is_new_visitor = request.is_new_visitor;
            into.last().has_flash = request.has_flash;
            if let Some((peer, view)) = request.kept.line {
                let view = into.arena.push(self.arena.get(view));
                into.last().kept.line = Some((peer, view));
            }
            if let Some(at) = request.kept.origin {
                let kept = self.origins[at as usize];
                let state = kept.state.map(|view| self.arena.get(view));
                into.keep_origin(kept.origin, state.into_iter());
                if let Some(moved) = into.origins.last_mut() {
                    (moved.asked, moved.failed) = (kept.asked, kept.failed);
                }
            }
            into.keep_conditions(&self.conditions(&request));
            if let Some(whole) = self.whole(&request) {
                let view = into.arena.push(self.bytes_of(whole));
                into.last().kept.whole = Some(into.wholes.len() as u32);
                into.wholes.push(Whole { view, ..whole });
            }
        }
    }
}
