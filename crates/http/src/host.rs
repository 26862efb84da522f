//! Hosts: what answers requests without a cohort, at once or later.
//!
//! ```text
//!                 request ---> answered at once: answer, or begin .. finish
//!                    |
//!                    +-------> kept in the host's own table under its slot, answered later:
//!                              from notified (another thread's or a device's waker), from tick,
//!                              from content, from room
//!    content, pieces --> Wait: the client is slowed down until Answers::resume
//!    room            <-- append gave Wait, and the client has taken what was unsent
//!    gone            <-- the client went away; nothing is owed to it any more
//! ```
//!
//! For who writes one:
//!
//! - A request is named by its [`AnswerSlot`] for as long as its answer is owed. Keep what you need
//!   of it under that name; the head's bytes are valid for the call only.
//! - Return from `request` whether or not it is answered. What is not answered then must be later,
//!   within a time that you bound yourself with `tick`: nobody else gives it up.
//! - Answers may be given in any order. Each goes out in its turn; until then it is kept, so a
//!   stream that is early gets [`Flow::Wait`] soon.
//! - `append` always takes what it is given, so a piece is as large as what the host has at hand at
//!   one time. After [`Flow::Wait`], append no more to that answer until `room` names it. Memory is
//!   bounded by the client limits' `unsent_max` and one piece.
//! - Content comes whole, unless `takes_pieces` says that it is to come in pieces. An answer may be
//!   finished before all content came; the connection ends with it then.
//! - After `gone`, or `Flow::Gone`, or when it is answered, the slot names nothing: using it does
//!   nothing. Of one that it has answered the host is told no more.
//! - A source that fails in the middle of a body has no other way to say so than
//!   [`Answers::abandon`]; a whole answer, or an error, in place of what is left is the same.
//! - A host may have connections of its own, to whatever it gets its answers from: it opens them
//!   by [`Answers::port`], and is told what happens to those that it `owns`.

pub(crate) mod hosts;
pub(crate) mod server;

use crate::answer::body::Body;
use crate::answer::error_page::{ErrorPage, write_error};
use crate::answer::framing::Framing;
use crate::answer::{AnswerShape, AnswerSlot, Answered, Given, HostId};
use crate::clients::Clients;
use crate::clients::connection::Begun;
use crate::clients::stream::Flow;
use rhythm_net::{Client, ConnectionId, Ended, Port, Time, Token};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::request::RequestHead;
use rhythm_protocol::http::response::{ResponseWriter, has_no_content};

/// A request's content.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It follows in pieces.
    Pieces,
}

/// A request for a host.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Names the answer that is owed to it.
    pub slot: AnswerSlot,
    /// What the answer's shape takes from it.
    pub shape: AnswerShape,
    /// Where the client is.
    pub peer: Client,
    /// Its head.
    pub head: &'a RequestHead,
    /// The bytes that the head's offsets are of.
    pub bytes: &'a [u8],
    /// Its content.
    pub content: Content<'a>,
}

/// What answers requests without a cohort. See the module's text.
pub trait Host {
    /// A request came. It is answered by its slot, now or later.
    fn request(&mut self, answers: &mut Answers<'_>, request: Request<'_>);

    /// Whether this request's content, which is yet to come, is to come in pieces as it arrives.
    /// Else it is collected up to the limit of requests. A request that has none asks for another
    /// protocol: what would be its content is all that follows. Where that is taken, its answer is
    /// [`Answers::switch`], or the connection ends with it.
    fn takes_pieces(&self, head: &RequestHead, bytes: &[u8]) -> bool {
        let _ = (head, bytes);
        false
    }

    /// Whether a client is gone that sends no more while it is owed an answer: what asks others,
    /// who may take long, is to leave off then. Else it may still read.
    fn ends_with_input(&self) -> bool {
        false
    }

    /// A piece of the content of a request; the last may be empty. With [`Flow::Wait`] no more is
    /// read from the client until [`Answers::resume`].
    fn content(
        &mut self,
        answers: &mut Answers<'_>,
        slot: AnswerSlot,
        piece: &[u8],
        is_last: bool,
    ) -> Flow {
        let _ = (answers, slot, piece, is_last);
        Flow::More
    }

    /// An answer for which [`Flow::Wait`] was said has room again, or it is the turn of one that
    /// waits for that ([`Clients::await_turn`](crate::Clients::await_turn)).
    fn room(&mut self, answers: &mut Answers<'_>, slot: AnswerSlot) {
        let _ = (answers, slot);
    }

    /// The client to which this answer is owed is gone. Told once, unless it was learned from
    /// [`Flow::Gone`].
    fn gone(&mut self, slot: AnswerSlot) {
        let _ = slot;
    }

    /// Is this a connection of the host's own? Its events, and only those, are passed on.
    fn owns(&self, connection: ConnectionId) -> bool {
        let _ = connection;
        false
    }

    /// A connection it asked for is open.
    fn connected(&mut self, answers: &mut Answers<'_>, connection: ConnectionId) {
        let _ = (answers, connection);
    }

    /// Bytes came in on a connection of its own; all of them are taken.
    fn received(&mut self, answers: &mut Answers<'_>, connection: ConnectionId, bytes: &[u8]) {
        let _ = (answers, connection, bytes);
    }

    /// The input of a connection of its own ended, or it could not be opened.
    fn ended(&mut self, answers: &mut Answers<'_>, connection: ConnectionId, how: Ended) {
        let _ = (answers, connection, how);
    }

    /// The socket of a connection of its own takes bytes again.
    fn writable(&mut self, answers: &mut Answers<'_>, connection: ConnectionId) {
        let _ = (answers, connection);
    }

    /// Somebody used a waker: another thread has something for this one.
    fn notified(&mut self, answers: &mut Answers<'_>, token: Token) {
        let _ = (answers, token);
    }

    /// The time asked for by [`Host::wake_at`] has come.
    fn tick(&mut self, answers: &mut Answers<'_>) {
        let _ = answers;
    }

    /// When `tick` is to be called at the latest.
    fn wake_at(&self) -> Option<Time> {
        None
    }
}

/// What a host answers with.
pub struct Answers<'a> {
    pub(crate) host: HostId,
    pub(crate) clients: &'a mut Clients,
    pub(crate) port: &'a mut dyn Port,
    pub(crate) date: &'a DateCache,
    pub(crate) now: Time,
    pub(crate) given: &'a mut Vec<Given>,
}

impl Answers<'_> {
    /// The time of the event at hand.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Where the host opens and uses connections of its own.
    pub fn port(&mut self) -> &mut dyn Port {
        self.port
    }

    /// Bytes that pieces may have together for connections to hold no more than is well: less than
    /// there is room for, for who makes several at a time.
    pub fn room(&self) -> usize {
        self.clients.room()
    }

    /// Gives a whole answer. `fields` writes the head's fields beside Content-Length, Connection
    /// and Date.
    pub fn answer<'b>(
        &mut self,
        slot: AnswerSlot,
        shape: AnswerShape,
        status: u16,
        body: impl Into<Body<'b>>,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        let (date, body) = (self.date, body.into());
        let length = body.length() as u64;
        let framing = Framing::of(status, Some(length), shape);
        let (sent, body_length) = match framing {
            Framing::None => (Body::Empty, 0),
            _ => (body, length),
        };
        let is_given = (self.clients).answer(self.port, slot, shape, self.now, |shape, out| {
            write_head(out, status, shape, Some(length), date, fields);
            sent
        });
        let answered = Answered {
            status,
            body_length,
        };
        self.note_given(slot, is_given, answered);
    }

    /// Gives an error as a small page, with a sentence that may say more.
    pub fn error(&mut self, slot: AnswerSlot, shape: AnswerShape, status: u16, detail: &str) {
        let date = self.date;
        let mut answered = Answered::bare(status);
        let is_given = (self.clients).answer(self.port, slot, shape, self.now, |shape, out| {
            answered = write_error(out, status, None, shape, date, detail, |_| {});
            Body::Empty
        });
        self.note_given(slot, is_given, answered);
    }

    /// Gives an error as a page of the caller's, if there is one, else as by [`Answers::error`].
    /// `fields` writes more of the head's fields.
    pub fn error_page(
        &mut self,
        slot: AnswerSlot,
        shape: AnswerShape,
        status: u16,
        page: Option<&ErrorPage>,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        let date = self.date;
        let mut answered = Answered::bare(status);
        let is_given = (self.clients).answer(self.port, slot, shape, self.now, |shape, out| {
            answered = write_error(out, status, page, shape, date, "", fields);
            Body::Empty
        });
        self.note_given(slot, is_given, answered);
    }

    /// Begins an answer that says that another protocol is spoken from now on (101): what is
    /// appended is that, as it is, and so are the pieces of the request's content. `fields` writes
    /// all of the head's fields. It is over when it is finished, as is the connection.
    pub fn switch(
        &mut self,
        slot: AnswerSlot,
        shape: AnswerShape,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        let begun = Begun {
            host: self.host,
            framing: Framing::Close,
            answered: Answered::bare(101),
        };
        (self.clients).begin(self.port, slot, shape, begun, self.now, |_, out| {
            fields(&mut ResponseWriter::new(out, 101));
            let line = out.len();
            ResponseWriter::resume(out).end();
            line
        });
    }

    /// An answer was given whole. Where it was begun before, it was not: a second head would stand
    /// in the body of the first.
    fn note_given(&mut self, slot: AnswerSlot, is_given: bool, answered: Answered) {
        if is_given {
            self.given.push((slot, Some(answered)));
        } else if self.clients.has_begun(slot) {
            self.abandon(slot);
        } else if let Some(sent) = self.clients.forget_gone(slot) {
            self.given.push((slot, sent));
        }
    }

    /// Begins an answer whose body is appended in pieces. Its length is told if it is known, or if
    /// the answer is finished before anything of it is sent; else it is sent in chunks, or to a
    /// client of HTTP/1.0 up to the connection's end.
    pub fn begin(
        &mut self,
        slot: AnswerSlot,
        shape: AnswerShape,
        status: u16,
        length: Option<u64>,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        let framing = Framing::of(status, length, shape);
        let (date, host) = (self.date, self.host);
        let begun = Begun {
            host,
            framing,
            answered: Answered::bare(status),
        };
        (self.clients).begin(self.port, slot, shape, begun, self.now, |shape, out| {
            write_head(out, status, shape, length, date, fields)
        });
    }

    /// Appends a piece to the body of an answer that was begun. One that gets longer than it said
    /// is abandoned.
    pub fn append(&mut self, slot: AnswerSlot, piece: &[u8]) -> Flow {
        self.append_within(slot, piece, usize::MAX)
    }

    /// As [`Answers::append`], for who can make the next piece while the socket has something left:
    /// [`Flow::Wait`] with so many bytes unsent, however many more the limits would let wait.
    pub fn append_within(&mut self, slot: AnswerSlot, piece: &[u8], unsent_max: usize) -> Flow {
        let flow = (self.clients).append(self.port, slot, piece, unsent_max, self.now);
        if flow == Flow::Gone {
            // It need not be finished, and is not told of again.
            let sent = self.clients.forget_gone(slot).flatten();
            self.given.push((slot, sent));
        }
        flow
    }

    /// Ends an answer that was begun. One that is shorter than it said is abandoned.
    pub fn finish(&mut self, slot: AnswerSlot) {
        let answered = self.clients.finish(self.port, slot, self.now);
        let gone = self.clients.forget_gone(slot);
        self.given.push((slot, answered.or(gone.flatten())));
    }

    /// Gives an answer up, begun or not: its connection is dropped in its place.
    pub fn abandon(&mut self, slot: AnswerSlot) {
        let sent = self.clients.sent(slot);
        self.clients.abandon(self.port, slot, self.now);
        let gone = self.clients.forget_gone(slot);
        self.given.push((slot, sent.or(gone.flatten())));
    }

    /// So many bytes that an answer took of memory elsewhere ([`Clients::keeps_beside`]) it takes
    /// no more: its connection holds less.
    pub fn keeps_less(&mut self, slot: AnswerSlot, bytes: usize) {
        self.clients.keeps_less_beside(slot, bytes);
    }

    /// Takes the content of a request again, after [`Flow::Wait`].
    pub fn resume(&mut self, slot: AnswerSlot) {
        self.clients.resume(slot.connection);
    }
}

/// Writes the head of an answer of a host. Gives where its line of chunks begins, or would.
fn write_head(
    out: &mut Vec<u8>,
    status: u16,
    shape: AnswerShape,
    length: Option<u64>,
    date: &DateCache,
    fields: impl FnOnce(&mut ResponseWriter<'_>),
) -> usize {
    fields(&mut ResponseWriter::new(out, status));
    let line = out.len();
    let mut head = ResponseWriter::resume(out);
    match length {
        _ if has_no_content(status) => {}
        Some(length) => drop(head.content_length(length)),
        None if shape.http10 => {}
        None => drop(head.chunked()),
    }
    head.connection(!shape.close, shape.http10).date(date).end();
    line
}
