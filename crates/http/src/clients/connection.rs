//! A client's connection: what is kept of it between two events.

use crate::answer::framing::Framing;
use crate::answer::{AnswerShape, AnswerSlot, Answered, Given, HostId, Owed};
use crate::clients::input::Input;
use crate::clients::no_room::Expected;
use crate::clients::stall::Stall;
use crate::limits::ClientLimits;
use rhythm_net::{Accepted, Client, ConnectionId, Outgoing, Role, Time};
use rhythm_protocol::http::request::{Method, RequestHead};
use smallvec::SmallVec;
use std::num::NonZeroU32;
use std::time::Duration;

/// Who takes all that it is owed in so long is in good time.
const SOON: Duration = Duration::from_secs(10);

/// What a connection's timer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For the first byte of its first request.
    First,
    /// For the rest of a head.
    Head,
    /// For the rest of a body.
    Body,
    /// For another request.
    Idle,
    /// For the client to take its answers.
    Output,
    /// For us.
    Answer,
}

impl Waiting {
    /// How long it may last.
    pub(crate) fn limit(self, limits: &ClientLimits) -> Duration {
        match self {
            Waiting::First | Waiting::Head => limits.header_timeout,
            Waiting::Body => limits.body_timeout,
            Waiting::Idle | Waiting::Answer => limits.idle_timeout,
            Waiting::Output => limits.send_timeout,
        }
    }
}

/// An answer that is ready before its turn, or is not whole yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) ordinal: u32,
    pub(crate) progress: Progress,
    /// What of it is to be sent when its turn comes.
    pub(crate) bytes: Vec<u8>,
    /// It is the connection's last.
    pub(crate) close: bool,
    /// Its host waits for room.
    pub(crate) waits: bool,
    /// Its client is gone when it sends no more.
    pub(crate) ends_with_input: bool,
    /// Bytes that are expected of it, until it is begun.
    pub(crate) expected: usize,
    /// Bytes of memory that it takes elsewhere.
    pub(crate) beside: usize,
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A host has yet to begin it.
    Awaited(HostId),
    /// A host goes on appending to it.
    Begun(Begun),
    /// It is whole.
    Finished,
    /// It cannot be finished: the connection ends in its place.
    Abandoned,
}

/// An answer in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) host: HostId,
    pub(crate) framing: Framing,
    /// Its status, and the bytes of its body so far.
    pub(crate) answered: Answered,
}

impl Pending {
    pub(crate) fn new(ordinal: u32, progress: Progress, bytes: Vec<u8>, close: bool) -> Pending {
        Pending {
            ordinal,
            progress,
            bytes,
            close,
            waits: false,
            ends_with_input: false,
            expected: 0,
            beside: 0,
        }
    }

    /// How the end of its body is told, where that is begun.
    pub(crate) fn framing_mut(&mut self) -> Option<&mut Framing> {
        match &mut self.progress {
            Progress::Begun(begun) => Some(&mut begun.framing),
            _ => None,
        }
    }

    /// The host that is yet to finish it.
    pub(crate) fn host(&self) -> Option<HostId> {
        match self.progress {
            Progress::Awaited(host) | Progress::Begun(Begun { host, .. }) => Some(host),
            Progress::Finished | Progress::Abandoned => None,
        }
    }
}

/// Bytes that are expected of an answer of which there is nothing yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) ordinal: u32,
    pub(crate) bytes: usize,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Client,
    /// That of the listener at which it arrived.
    pub(crate) role: Role,
    /// Input that no whole request was made of yet.
    pub(crate) input: Option<Box<Input>>,
    /// Its input is being read, and there is some behind the last request that was taken.
    pub(crate) more: bool,
    /// It asked for what it asked for last before it was answered, or for a long answer, or
    /// announced content.
    pub(crate) is_patient: bool,
    /// The request whose content is being taken in pieces.
    pub(crate) receiving: Option<u32>,
    /// What is received is no content, but what another protocol says, for as long as it likes.
    pub(crate) is_tunnel: bool,
    pub(crate) stall: Option<Stall>,
    /// Its stall is over, as somebody is about to be told.
    pub(crate) may_go_on: bool,
    /// No further request is taken: one asked for the connection's end, or was malformed.
    pub(crate) last_taken: bool,
    /// The client sends no more.
    pub(crate) peer_finished: bool,
    /// Requests taken so far.
    pub(crate) requests: u32,
    /// Whose turn it is.
    pub(crate) next_answer: u32,
    /// Answers that are too early or not whole.
    pub(crate) pending: Vec<Pending>,
    pub(crate) outgoing: Outgoing,
    /// How long the answer is expected to be to the request that was taken last, or waits to be;
    /// `None` where nothing is known and it is not waited for.
    pub(crate) expected: Option<Expected>,
    /// Its part of what all connections hold (`held.rs`).
    pub(crate) held: usize,
    /// What is expected of the requests under way.
    pub(crate) promises: SmallVec<[Promise; 1]>,
    /// The last answer is written: close when everything is sent.
    pub(crate) closing: bool,
    /// `100 Continue` is due when this many answers are written.
    pub(crate) continue_at: Option<u32>,
    pub(crate) waiting: Waiting,
    /// The client has taken all that there is of the answer whose turn it is, and was behind with
    /// it: until then it still is.
    pub(crate) even_at: Time,
    /// Until when it is expected to take some more, if it takes what it is owed fast enough
    /// ([`Connection::took`]), and when it took some last.
    pub(crate) takes_until: Time,
    pub(crate) took_at: Time,
    /// When it began to, and how many requests there were then.
    pub(crate) since: Time,
    pub(crate) since_requests: u32,
    /// When the first of the input came that is kept.
    pub(crate) input_since: Option<Time>,
    /// Lines that the heads of answers get beside their own, by the answers' places.
    pub(crate) added: Vec<(u32, Box<[u8]>)>,
}

impl Connection {
    pub(crate) fn new(accepted: Accepted, now: Time) -> Connection {
        Connection {
            peer: accepted.peer,
            role: accepted.role,
            input: None,
            more: false,
            is_patient: false,
            receiving: None,
            is_tunnel: false,
            stall: None,
            may_go_on: false,
            last_taken: false,
            peer_finished: false,
            requests: 0,
            next_answer: 0,
            pending: Vec::new(),
            outgoing: Outgoing::new(),
            expected: Some(Expected::bytes(0)),
            held: 0,
            promises: SmallVec::new(),
            closing: false,
            continue_at: None,
            waiting: Waiting::First,
            even_at: Time::ZERO,
            takes_until: Time::ZERO,
            took_at: Time::ZERO,
            since: now,
            since_requests: 0,
            input_since: None,
            added: Vec::new(),
        }
    }

    /// What the head of an answer gets that is written now, beside what is its own.
    #[inline]
    pub(crate) fn take_added(&mut self, ordinal: u32) -> Option<Box<[u8]>> {
        if self.added.is_empty() {
            return None;
        }
        let at = self.added.iter().position(|(of, _)| *of == ordinal)?;
        let (_, lines) = self.added.swap_remove(at);
        if self.added.is_empty() {
            // An idle connection has no memory.
            self.added = Vec::new();
        }
        Some(lines)
    }

    /// What it is owed there.
    #[inline]
    pub(crate) fn owe(&mut self, slot: AnswerSlot, shape: AnswerShape) -> Owed {
        Owed {
            slot,
            shape,
            peer: self.peer,
            role: self.role,
            began: self.input_since.take(),
        }
    }

    /// Requests whose answers are not written yet.
    #[inline]
    pub(crate) fn under_way(&self) -> u32 {
        self.requests.wrapping_sub(self.next_answer)
    }

    /// Takes one more request and gives its place in the order.
    #[inline]
    pub(crate) fn take_request(&mut self, last: bool) -> u32 {
        let ordinal = self.requests;
        self.requests = self.requests.wrapping_add(1);
        self.last_taken |= last;
        ordinal
    }

    /// As if the last request had not been taken: its bytes are kept, to be read again.
    pub(crate) fn put_back_request(&mut self, ordinal: u32) {
        if !self.is_due(ordinal) {
            // An answer before it has turned out to be the last.
            return;
        }
        self.requests = self.requests.wrapping_sub(1);
        debug_assert_eq!(self.requests, ordinal, "the last that was taken");
        // It would not have been taken after another that was to be the last.
        self.last_taken = false;
    }

    /// An answer has turned out to be the last, by whose end the client knows that it is whole:
    /// what was asked for behind it is not answered. What there is of answers to that.
    pub(crate) fn cut_behind(&mut self, ordinal: u32) -> Vec<Pending> {
        let next = self.next_answer;
        let is_behind = |of: u32| of.wrapping_sub(next) > ordinal.wrapping_sub(next);
        self.last_taken = true;
        self.requests = ordinal.wrapping_add(1);
        self.receiving = self.receiving.filter(|of| !is_behind(*of));
        self.continue_at = self.continue_at.filter(|of| !is_behind(*of));
        self.added.retain(|(of, _)| !is_behind(*of));
        let behind = self
            .pending
            .extract_if(.., |pending| is_behind(pending.ordinal));
        behind.collect()
    }

    /// What an answer's shape takes from a request that is taken now.
    #[inline]
    pub(crate) fn shape(
        &self,
        head: &RequestHead,
        requests_max: Option<NonZeroU32>,
    ) -> AnswerShape {
        let last = requests_max.is_some_and(|most| self.requests + 1 >= most.get());
        AnswerShape {
            head_only: head.method() == Method::Head,
            http10: head.is_http10(),
            close: !head.keep_alive() || last,
            json: false,
            accepts: head.accepts(),
        }
    }

    /// The shape of an answer that is written now: whether the connection ends with it may have
    /// been decided since its request was taken.
    #[inline]
    pub(crate) fn shape_now(
        &mut self,
        ordinal: u32,
        mut shape: AnswerShape,
        draining: bool,
    ) -> AnswerShape {
        let is_last = ordinal.wrapping_add(1) == self.requests;
        let ends = draining && is_last && self.input.is_none() && !self.more;
        self.last_taken |= ends;
        shape.close |= ends;
        shape
    }

    /// The answer whose turn it is is written: the next one's turn.
    #[inline]
    pub(crate) fn turn_over(&mut self, close: bool) {
        self.next_answer = self.next_answer.wrapping_add(1);
        self.even_at = Time::ZERO;
        self.closing |= close;
    }

    /// What the outbox holds of the answer whose turn it is will be sent, or is not to grow: its
    /// framing is not open any more.
    pub(crate) fn decide(&mut self, outbox: &mut Vec<u8>) {
        if let Some(index) = self.position(self.next_answer)
            && let pending = &mut self.pending[index]
            // Else it is still here.
            && pending.bytes.is_empty()
            && let Some(framing) = pending.framing_mut()
        {
            framing.decide(outbox);
        }
    }

    /// Where an answer stands in `pending`.
    pub(crate) fn position(&self, ordinal: u32) -> Option<usize> {
        (self.pending.iter()).position(|pending| pending.ordinal == ordinal)
    }

    /// Whether an answer is owed and nothing is known of it.
    pub(crate) fn owes(&self, ordinal: u32) -> bool {
        self.is_due(ordinal) && self.position(ordinal).is_none()
    }

    /// Whether an answer is owed and nothing of it was given: else its slot names nothing.
    #[inline]
    pub(crate) fn is_unanswered(&self, ordinal: u32) -> bool {
        let progress = || self.position(ordinal).map(|at| self.pending[at].progress);
        self.is_due(ordinal)
            && (self.pending.is_empty() || matches!(progress(), None | Some(Progress::Awaited(_))))
    }

    /// Whether an answer is a request's that was taken, and is not written to its end.
    #[inline]
    pub(crate) fn is_due(&self, ordinal: u32) -> bool {
        ordinal.wrapping_sub(self.next_answer) < self.under_way()
    }

    /// Whether bytes that arrive are of interest.
    pub(crate) fn takes_input(&self) -> bool {
        !self.last_taken || self.receiving.is_some()
    }

    /// An answer ends: content of its request that is still to come is not wanted any more. Whether
    /// there is some; then the connection must end, since nobody looks for the next request in it.
    pub(crate) fn drop_content(&mut self, ordinal: u32) -> bool {
        let is_receiving = self.receiving == Some(ordinal);
        if is_receiving {
            self.receiving = None;
            self.last_taken = true;
        }
        is_receiving
    }

    /// Whether nothing of it is under way and nothing is kept for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way() == 0 && self.outgoing.is_empty() && self.input.is_none()
    }

    /// What it waits for, for its timer.
    pub(crate) fn waits_for(&self) -> Waiting {
        if !self.outgoing.is_empty() {
            Waiting::Output
        } else if self.receiving.is_some()
            && !self.is_tunnel
            && self.stall.is_none()
            && self.continue_at.is_none()
        {
            // Whoever was not asked for it yet, as answers before his own are due, waits for us.
            Waiting::Body
        } else if self.under_way() > 0 || self.stall.is_some() {
            Waiting::Answer
        } else {
            match &self.input {
                Some(input) if input.has_head() => Waiting::Body,
                // Empty lines are no request yet (RFC 9112, section 2.2).
                Some(input) if input.is_partial() => Waiting::Head,
                _ if self.requests == 0 => Waiting::First,
                _ => Waiting::Idle,
            }
        }
    }

    /// Whether the answer whose turn it is comes in pieces, of which there was one.
    pub(crate) fn is_midway(&self) -> bool {
        let of_turn = self.position(self.next_answer);
        of_turn.is_some_and(|at| matches!(self.pending[at].progress, Progress::Begun(_)))
    }

    /// Since when it is waited for the client to go on with an answer, if that is now: it is as far
    /// behind as it is with what it took of it before. The time in which it had taken all there was
    /// is on its side.
    pub(crate) fn output_since(&self, now: Time) -> Time {
        Time::ZERO + (now.since(Time::ZERO)).saturating_sub(self.even_at.since(now))
    }

    /// The client took so many bytes, and its socket takes more. At that rate it has all that it is
    /// owed [soon](SOON), or it is not fast.
    pub(crate) fn took(&mut self, bytes: u64, now: Time) {
        let since = self.took_at.max(self.since);
        let took = now.since(since);
        let owed = self.outgoing.unsent() as u128 * took.as_nanos();
        if owed <= u128::from(bytes) * SOON.as_nanos() {
            // As long again, and as much for what comes between.
            self.takes_until = now + 2 * took;
        }
        self.took_at = now;
    }

    /// Whether it is done with: all is answered, and no more will be asked.
    pub(crate) fn is_over(&self) -> bool {
        self.closing || self.peer_finished && self.under_way() == 0 && self.stall.is_none()
    }

    /// Bytes of answers that the client has not taken, or that are expected of hosts'.
    pub(crate) fn unsent(&self) -> usize {
        let early = (self.pending.iter()).map(|pending| pending.bytes.len() + pending.expected);
        self.outgoing.unsent() + early.sum::<usize>()
    }

    /// Bytes of memory that it holds beside itself.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        let early = (self.pending.iter()).map(|pending| pending.bytes.capacity() + pending.beside);
        let early = early.sum::<usize>() + self.pending.capacity() * size_of::<Pending>();
        let input = self.input.as_ref().map_or(0, |input| input.memory());
        let added = self.added.iter().map(|(_, lines)| lines.len());
        let added = added.sum::<usize>() + self.added.capacity() * size_of::<(u32, Box<[u8]>)>();
        let promises = match self.promises.spilled() {
            true => self.promises.capacity() * size_of::<Promise>(),
            false => 0,
        };
        self.outgoing.capacity() + early + input + added + promises
    }

    /// No more input is taken for now.
    pub(crate) fn stop(&mut self, stall: Stall) {
        self.stall = Some(stall);
        self.may_go_on = false;
    }

    /// Why no further request is looked for, if so much is under way already.
    #[inline]
    pub(crate) fn too_much(&self, pipelined_max: u32, budget: usize) -> Option<Stall> {
        if self.under_way() >= pipelined_max {
            return Some(Stall::Pipelined);
        }
        let is_over = self.under_way() > 0 && self.unsent() >= budget;
        is_over.then_some(Stall::Output)
    }

    /// Takes note of how long the answer is expected to be to the request that was taken last.
    /// Whether it may go on, if that is so: alone, or where those under way fit a budget if they
    /// are all as long.
    #[inline]
    pub(crate) fn note_expected(&mut self, expected: Option<Expected>, budget: usize) -> bool {
        self.expected = expected;
        self.fits(self.unknown().saturating_sub(1), budget)
    }

    /// Requests under way of whose answers there is nothing yet, hosts' aside.
    #[inline]
    pub(crate) fn unknown(&self) -> u32 {
        self.under_way() - self.pending.len() as u32
    }

    /// Whether one more answer fits a budget beside so many others.
    #[inline]
    fn fits(&self, others: u32, budget: usize) -> bool {
        let unsent = self.unsent();
        let fit = |expected: Expected| {
            let all = (expected.bytes).saturating_mul(others as usize + 1);
            unsent.saturating_add(all) <= budget
        };
        others == 0 && unsent == 0 || self.expected.is_some_and(fit)
    }

    /// Whether its stall ends by what it waited for.
    pub(crate) fn stall_is_over(&self, pipelined_max: u32, budget: usize) -> bool {
        match self.stall {
            // Not for one at a time where more fit.
            Some(Stall::Output) => {
                self.outgoing.is_empty() && self.fits(self.unknown(), budget / 2)
            }
            Some(Stall::Pipelined) => self.under_way() <= pipelined_max / 2,
            Some(Stall::Context | Stall::Memory | Stall::Turn | Stall::Room | Stall::Host)
            | None => false,
        }
    }

    /// The hosts that must be told that the client is gone, and of their answers, of which
    /// `unsent` bytes beside those kept here were not sent, what was.
    pub(crate) fn hosted(
        &self,
        id: ConnectionId,
        unsent: usize,
    ) -> impl Iterator<Item = (HostId, Given)> {
        let hosted = move |pending: &Pending| {
            let slot = AnswerSlot {
                connection: id,
                ordinal: pending.ordinal,
            };
            Some((pending.host()?, (slot, self.sent_of(pending, unsent))))
        };
        self.pending.iter().filter_map(hosted)
    }

    /// What of an answer in pieces was sent, if its head was.
    pub(crate) fn sent_of(&self, pending: &Pending, unsent: usize) -> Option<Answered> {
        let Progress::Begun(begun) = pending.progress else {
            return None;
        };
        let unsent = (self.outgoing.unsent() + unsent + pending.bytes.len()) as u64;
        let Answered {
            status,
            body_length,
        } = begun.answered;
        let is_turn = pending.ordinal == self.next_answer;
        is_turn.then(|| Answered {
            status,
            body_length: body_length.saturating_sub(unsent),
        })
    }
}
