//! Reader: from bytes of a connection to whole requests (paper, section 3.2, *Reader*).
//!
//! Whoever owns the [`Clients`] pulls:
//!
//! ```text
//!   received --> read --> next: a request --> taken, or refused, or stalled ----+
//!   stall over --> proceed --^                                                   |
//!                            +---------------------------------------------------+
//!                            +-- nothing more --> read_done: what is left is kept
//! ```
//!
//! Requests are parsed where the driver received them. Only what is left at the end, part of a
//! request, or one that has to wait, is copied into the connection.

use crate::answer::form::AnswerForm;
use crate::client::{Body, Clients, Stall, Tail, Turn};
use crate::site::Site;
use rhythm_net::{ConnectionId, Port};
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{Framing, Method, RequestHead, parse_head};
use std::net::IpAddr;

/// A whole request, where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) head: &'a RequestHead,
    /// The bytes that the head's offsets are of.
    pub(crate) bytes: &'a [u8],
    pub(crate) content: &'a [u8],
}

/// What comes next in a connection's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole request: to be [taken](Reading::taken), or to be stalled.
    Request,
    /// The client waits to be asked for a request's content: [`Clients::send_continue`], or a
    /// refusal.
    Expects,
    /// A request that is to be refused with this status.
    Refuse(u16),
    /// Nothing for now.
    Nothing,
}

/// A connection's input while it is being read.
pub(crate) struct Reading<'a> {
    id: ConnectionId,
    tail: Box<Tail>,
    /// Bytes where they were received, unless they are appended to those of the tail.
    received: &'a [u8],
    /// Bytes of requests that are done with.
    used: usize,
    /// Where the bytes to be kept end, once those of a body were decoded as they came.
    end: Option<usize>,
    /// The rest is of no interest: the connection takes no more requests, or is gone.
    over: bool,
    /// A stall was over.
    resumes: bool,
}

impl<'a> Reading<'a> {
    fn new(id: ConnectionId, tail: Box<Tail>, received: &'a [u8], resumes: bool) -> Reading<'a> {
        Reading {
            id,
            tail,
            received,
            used: 0,
            end: None,
            over: false,
            resumes,
        }
    }

    /// Whose input it is.
    pub(crate) fn connection(&self) -> ConnectionId {
        self.id
    }

    /// All bytes, those included that are done with.
    fn all(&self) -> &[u8] {
        match self.tail.bytes.is_empty() {
            true => self.received,
            false => &self.tail.bytes,
        }
    }

    /// The request at hand; without its content before that is complete.
    pub(crate) fn request(&self) -> Incoming<'_> {
        let bytes = &self.all()[self.used..];
        let content = match &self.tail.body {
            None => &[],
            Some(body) if body.chunked.is_some() => &body.decoded[..],
            Some(body) => &bytes[body.head_length..][..body.complete.unwrap_or(0)],
        };
        Incoming {
            head: &self.tail.head,
            bytes,
            content,
        }
    }

    /// The request at hand is done with.
    pub(crate) fn taken(&mut self) {
        let body = self.tail.body.take().expect("a request is at hand");
        let length = body.complete.expect("all of it");
        self.used += body.head_length + length;
    }

    /// What the bytes that are not done with begin with.
    fn next(&mut self, site: &Site) -> Next {
        let Tail { bytes, head, body } = &mut *self.tail;
        let all = match bytes.is_empty() {
            true => self.received,
            false => bytes,
        };
        let rest = &all[self.used..];
        let body = match body {
            Some(body) => body,
            None => match parse_head(head, rest, &site.head_limits) {
                Err(error) => return Next::Refuse(error.status()),
                Ok(Progress::Partial) => return Next::Nothing,
                Ok(Progress::Complete { head_len }) => body.insert(Body {
                    head_length: head_len,
                    ..Body::default()
                }),
            },
        };
        if body.complete.is_some() {
            return Next::Request;
        }
        let collected = collect(head, rest, site.settings.body_max, body);
        if body.chunked.is_some() && body.complete.is_none() {
            self.end = Some(self.used + body.head_length);
        }
        match collected {
            Err(status) => Next::Refuse(status),
            Ok(()) if body.complete.is_some() => Next::Request,
            Ok(()) if head.expect_continue() && !body.continued => {
                body.continued = true;
                Next::Expects
            }
            Ok(()) => Next::Nothing,
        }
    }
}

/// Collects the body that follows a head: `body.complete` is its length as sent once it is there.
///
/// # Errors
/// The status of the refusal of one that is too long or malformed.
fn collect(head: &RequestHead, bytes: &[u8], body_max: usize, body: &mut Body) -> Result<(), u16> {
    let after = &bytes[body.head_length..];
    match head.framing() {
        Framing::None => body.complete = Some(0),
        Framing::Length(length) => {
            let length = usize::try_from(length)
                .ok()
                .filter(|length| *length <= body_max);
            let length = length.ok_or(413u16)?;
            body.complete = (after.len() >= length).then_some(length);
        }
        Framing::Chunked => {
            let limits = ChunkLimits {
                body_max: body_max as u64,
                ..ChunkLimits::default()
            };
            let decoder = body
                .chunked
                .get_or_insert_with(|| ChunkedDecoder::new(&limits));
            let decoded = decoder
                .decode(after, &mut body.decoded)
                .map_err(|error| error.status())?;
            body.complete = decoded.done.then_some(decoded.consumed);
        }
    }
    Ok(())
}

impl Clients {
    /// Begins to read what a connection received. `None` where nobody is interested in it.
    pub(crate) fn read<'a>(&mut self, id: ConnectionId, received: &'a [u8]) -> Option<Reading<'a>> {
        let connection = self.get(id)?;
        if connection.last_taken {
            return None;
        }
        let tail = match connection.tail.take() {
            Some(mut tail) => {
                tail.bytes.extend_from_slice(received);
                tail
            }
            None => self.spare.take().unwrap_or_default(),
        };
        Some(Reading::new(id, tail, received, false))
    }

    /// Takes up a connection's input again where its stall is over: that for a context (`waited`),
    /// or any other. `None` where it is not.
    pub(crate) fn proceed(&mut self, id: ConnectionId, waited: bool) -> Option<Reading<'static>> {
        let connection = self.get(id)?;
        if (connection.stall? == Stall::Context) != waited {
            return None;
        }
        connection.stall = None;
        let tail = connection.tail.take();
        let tail = tail.unwrap_or_else(|| self.spare.take().unwrap_or_default());
        Some(Reading::new(id, tail, &[], true))
    }

    /// Finds what comes next in the input.
    #[inline]
    pub(crate) fn next(
        &mut self,
        port: &mut dyn Port,
        reading: &mut Reading<'_>,
        site: &Site,
    ) -> Next {
        let pipelined_max = self.limits.pipelined_max;
        let Some(connection) = self.get(reading.id).filter(|c| !c.last_taken) else {
            reading.over = true;
            return Next::Nothing;
        };
        if reading.used == reading.all().len() {
            return Next::Nothing;
        }
        if connection.under_way() >= pipelined_max && connection.stall.is_none() {
            connection.stall = Some(Stall::Pipelined);
            port.pause(reading.id);
        }
        match connection.stall {
            Some(_) => Next::Nothing,
            None => reading.next(site),
        }
    }

    /// Keeps what is left of the input, and settles the connection.
    pub(crate) fn read_done(&mut self, port: &mut dyn Port, mut reading: Reading<'_>) {
        let id = reading.id;
        let length = reading.all().len();
        let end = reading.end.unwrap_or(length);
        let done = reading.over || reading.used == length;
        if !done && let Some(connection) = self.get(id).filter(|c| !c.last_taken) {
            let mut tail = reading.tail;
            if tail.bytes.is_empty() {
                tail.bytes
                    .extend_from_slice(&reading.received[reading.used..end]);
            } else {
                tail.bytes.truncate(end);
                tail.bytes.drain(..reading.used);
            }
            connection.tail = Some(tail);
        } else {
            // Its memory but for the bytes, for the next connection that is read.
            reading.tail.bytes = Vec::new();
            reading.tail.head.clear();
            reading.tail.body = None;
            self.spare = Some(reading.tail);
        }
        if reading.resumes
            && self
                .get(id)
                .is_some_and(|connection| connection.stall.is_none() && !connection.last_taken)
        {
            port.resume(id);
        }
        self.settle(port, id);
    }

    /// Takes no more input from a connection for now. Whether it was taken until now.
    pub(crate) fn stall(&mut self, port: &mut dyn Port, id: ConnectionId, stall: Stall) -> bool {
        let Some(connection) = self.get(id) else {
            return false;
        };
        connection.stall = Some(stall);
        port.pause(id);
        true
    }

    /// Takes one more request of a connection: where its answer goes, how that is to look, and who
    /// the client is. `None` where that is gone.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        id: ConnectionId,
        head: &RequestHead,
    ) -> Option<(Turn, AnswerForm, IpAddr)> {
        let (draining, requests_max) = (self.draining, self.limits.requests_max);
        let connection = self.get(id)?;
        let last = requests_max.is_some_and(|most| connection.requests + 1 >= most.get());
        let close = !head.keep_alive() || draining || last;
        let form = AnswerForm {
            head_only: head.method() == Method::Head,
            http10: head.is_http10(),
            close,
        };
        let turn = Turn {
            connection: id,
            sequence: connection.take_request(close),
            close,
        };
        Some((turn, form, connection.peer.ip()))
    }

    /// Takes what cannot be understood, or is not wanted, as a connection's last request, and reads
    /// no more from it: where the next one begins is not known. `None` where the client is gone.
    pub(crate) fn accept_last(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
    ) -> Option<(Turn, AnswerForm, IpAddr)> {
        let connection = self.get(id)?;
        let form = AnswerForm {
            close: true,
            ..AnswerForm::default()
        };
        let turn = Turn {
            connection: id,
            sequence: connection.take_request(true),
            close: true,
        };
        port.pause(id);
        Some((turn, form, connection.peer.ip()))
    }
}
