//! One connection that speaks HTTP/2: h2's end of it, and what goes in and out of that.

use crate::figures::Figures;
use crate::frames::Frames;
use crate::options::Options;
use crate::pipe::Pipe;
use crate::ready::Ready;
use bytes::Bytes;
use h2::server::{Builder, Connection, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use rhythm_net::{Client, ConnectionId, Flushed, Key, Outgoing, Port, Role, Time};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// How many more requests than were answered a peer may take back, or frames of settings send.
const PATIENCE: u32 = 200;
/// With so many bytes given to h2, they are sent before the handler's call is over.
pub(crate) const QUEUED_MAX: usize = 64 * 1024;

/// So many bytes of a request's content may come ahead of whoever takes it.
const STREAM_WINDOW: u32 = 128 * 1024;
/// So many of all requests of a carrier, as long as its client is not let send further ahead.
pub(crate) const WINDOW: usize = 64 * 1024;
/// So many where it is: then some whose content nobody takes leave the others their share.
pub(crate) const WIDE_WINDOW: u32 = 1024 * 1024;

/// A request that has come, and nobody was told of.
pub(crate) struct Asked {
    pub(crate) request: Request<RecvStream>,
    /// By what it is answered.
    pub(crate) respond: SendResponse<Bytes>,
    /// When it came.
    pub(crate) since: Time,
}

enum Protocol {
    /// The peer's first settings are still to come.
    Greeting(Handshake<Pipe, Bytes>),
    Open(Connection<Pipe, Bytes>),
    /// Nothing more is to be had of it.
    Over,
}

/// How a carrier ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// All is said: what is held is still to be sent.
    Ended,
    /// The connection is gone.
    Gone,
}

/// A connection with streams.
pub(crate) struct Carrier {
    pub(crate) role: Role,
    pub(crate) peer: Client,
    /// Its client's number.
    pub(crate) client: u64,
    protocol: Protocol,
    pipe: Pipe,
    frames: Frames,
    /// What the socket has not taken.
    pub(crate) held: Outgoing,
    /// Streams that nobody has been told of.
    pub(crate) asked: VecDeque<Asked>,
    /// As many of them as have their client's share.
    pub(crate) admitted: usize,
    /// More of them may begin than when that was looked at last.
    pub(crate) may_begin: bool,
    /// Those that the handler has.
    pub(crate) streams: Vec<Key>,
    /// Those of them that have something to do.
    pub(crate) ready: Arc<Ready>,
    /// Some of them would send, and wait for the socket.
    pub(crate) puts_off: bool,
    /// Its client may send further ahead than others.
    pub(crate) is_wide: bool,
    /// It is to be, once there is memory for that.
    pub(crate) waits_for_place: bool,
    /// It has given that memory to another: no more requests are taken, whose contents might come.
    pub(crate) is_parting: bool,
    /// Bytes given to h2 since all was sent.
    queued: usize,
    /// It stands in the line of those that have something to do.
    pub(crate) is_busy: bool,
    pub(crate) is_paused: bool,
    /// Nothing is taken in any more; what is held goes, then it is closed.
    pub(crate) is_closing: bool,
    /// Its peer is to begin nothing more, and is told so once it has greeted.
    pub(crate) is_leaving: bool,
    over: Option<Over>,
    patience: u32,
    /// Its peer was told to stop, of which the log has not told.
    pub(crate) is_sent_away: bool,
    streams_max: usize,
    /// When it had a stream last, or begun; where bytes are held, when the socket took some; where
    /// it is leaving, when something was sent.
    pub(crate) since: Time,
    figures: Arc<Figures>,
}

impl Carrier {
    pub(crate) fn new(
        role: Role,
        (peer, client): (Client, u64),
        options: &Options,
        figures: Arc<Figures>,
        now: Time,
    ) -> Carrier {
        let pipe = Pipe::default();
        let handshake = Builder::new()
            .max_concurrent_streams(options.streams_max)
            .max_header_list_size(options.head_bytes_max)
            .initial_window_size(STREAM_WINDOW)
            .max_send_buffer_size(crate::stream::SEND_MAX)
            .handshake(pipe.clone());
        Carrier {
            role,
            peer,
            client,
            protocol: Protocol::Greeting(handshake),
            pipe,
            frames: Frames::new(),
            held: Outgoing::new(),
            asked: VecDeque::new(),
            admitted: 0,
            may_begin: false,
            streams: Vec::new(),
            ready: Arc::default(),
            puts_off: false,
            is_wide: false,
            waits_for_place: false,
            is_parting: false,
            queued: 0,
            is_busy: false,
            is_paused: false,
            is_closing: false,
            is_leaving: false,
            over: None,
            patience: PATIENCE,
            is_sent_away: false,
            streams_max: options.streams_max as usize,
            since: now,
            figures,
        }
    }

    /// Whether there is nothing for it to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.asked.is_empty()
    }

    /// Whether the socket takes nothing.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.held.is_empty()
    }

    /// More has come. Of a peer that is told to stop nothing is looked at any more.
    pub(crate) fn take_in(&mut self, bytes: &[u8]) {
        let settings = self.frames.settings(bytes);
        if self.bears(settings) {
            self.pipe.push(bytes);
        }
    }

    /// Whether so much more is borne of the peer; it is told to stop where it is not.
    fn bears(&mut self, more: u32) -> bool {
        if let Some(patience) = self.patience.checked_sub(more) {
            self.patience = patience;
            return true;
        }
        match &mut self.protocol {
            Protocol::Open(connection) => {
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                self.is_sent_away = true;
            }
            // It has sent them all before it could be greeted.
            Protocol::Greeting(_) | Protocol::Over => self.end(),
        }
        false
    }

    /// Nothing more will come.
    pub(crate) fn end_input(&mut self) {
        self.pipe.end();
    }

    /// Bytes that h2 does not take in yet: it waits for its own to go.
    pub(crate) fn unread(&self) -> usize {
        self.pipe.unread()
    }

    /// So many bytes were given to a stream. Whether they are to be sent now.
    pub(crate) fn has_queued(&mut self, bytes: usize) -> bool {
        self.queued += bytes;
        self.queued >= QUEUED_MAX
    }

    /// A request was answered.
    pub(crate) fn has_answered(&mut self) {
        self.patience = (self.patience + 1).min(PATIENCE);
    }

    /// The peer has taken a request back; who does so without end is told to stop.
    pub(crate) fn has_reset(&mut self) {
        self.figures.resets.add(1);
        self.bears(1);
    }

    /// Forgets requests that were taken back before anybody was told of them. Whether there were
    /// any.
    fn forget_resets(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.asked.len();
        (self.asked).retain_mut(|asked| asked.respond.poll_reset(cx).is_pending());
        for _ in self.asked.len()..before {
            self.has_reset();
        }
        self.asked.len() < before
    }

    /// Has its client send further ahead from now on.
    pub(crate) fn widen(&mut self) {
        if let Protocol::Open(connection) = &mut self.protocol {
            connection.set_target_window_size(WIDE_WINDOW);
        }
        self.is_wide = true;
    }

    /// Gives the memory back that its client may send ahead to. What it was told of that it cannot
    /// be told to forget: so it may send no more contents, and goes on over another connection.
    pub(crate) fn part(&mut self) {
        self.is_wide = false;
        self.is_parting = true;
        self.say_farewell();
    }

    /// Whether h2 has something of an answer that the handler is done with: its peer gives no room
    /// for it.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(&self.protocol, Protocol::Open(connection) if connection.has_streams())
    }

    /// Tells the peer to begin nothing more, now or when it has greeted.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        self.say_farewell();
    }

    fn say_farewell(&mut self) {
        if let Protocol::Open(connection) = &mut self.protocol {
            connection.graceful_shutdown();
        }
    }

    /// Ends it without a request under way: what the peer asked for and was not answered, it may
    /// ask for elsewhere (RFC 9113, section 6.8), since it is told which was the last that was
    /// seen.
    pub(crate) fn say_last_word(&mut self) {
        if let Protocol::Open(connection) = &mut self.protocol {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
    }

    /// Has h2 do what it can, and sends what it wrote. How it ended, if it did.
    pub(crate) fn drive(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        now: Time,
    ) -> Option<Over> {
        let cx = &mut Context::from_waker(Waker::noop());
        let was_blocked = self.is_blocked();
        let mut has_sent = false;
        loop {
            self.poll(cx, now);
            if self.asked.len() > self.streams_max && self.forget_resets(cx) {
                // Its peer may have to be told.
                continue;
            }
            let mut flushed = Flushed::All;
            let held = &mut self.held;
            let has_written = self
                .pipe
                .take_output(|bytes| flushed = held.send(port, id, bytes));
            has_sent |= has_written;
            self.pipe.set_full(self.is_blocked());
            if flushed == Flushed::Gone {
                self.over = Some(Over::Gone);
            }
            if !has_written || self.is_blocked() || self.over == Some(Over::Gone) {
                break;
            }
        }
        if has_sent && self.is_leaving {
            self.since = now;
        }
        match self.is_blocked() {
            false => self.queued = 0,
            true if !was_blocked => self.since = now,
            true => {}
        }
        if self.over.is_some() {
            // Nobody can be answered.
            self.asked.clear();
        }
        self.over
    }

    fn poll(&mut self, cx: &mut Context<'_>, now: Time) {
        if let Protocol::Greeting(handshake) = &mut self.protocol {
            match Pin::new(handshake).poll(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(connection)) => {
                    self.protocol = Protocol::Open(connection);
                    if self.is_leaving {
                        self.say_farewell();
                    }
                }
                Poll::Ready(Err(_)) => self.end(),
            }
        }
        while let Protocol::Open(connection) = &mut self.protocol {
            match connection.poll_accept(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok((request, respond)))) => self.asked.push_back(Asked {
                    request,
                    respond,
                    since: now,
                }),
                Poll::Ready(Some(Err(error))) => {
                    let is_calmed = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
                    self.is_sent_away |= is_calmed && !error.is_remote();
                    self.end();
                }
                Poll::Ready(None) => self.end(),
            }
        }
    }

    fn end(&mut self) {
        self.protocol = Protocol::Over;
        self.over.get_or_insert(Over::Ended);
    }

    /// The socket takes bytes again. What became of those that are held.
    pub(crate) fn writable(&mut self, port: &mut dyn Port, id: ConnectionId, now: Time) -> Flushed {
        let flushed = self.held.writable(port, id);
        self.since = now;
        self.pipe.set_full(self.is_blocked());
        flushed
    }

    /// Gives memory back that is not in use, where there is nothing to do.
    pub(crate) fn shrink(&mut self) {
        self.pipe.shrink();
        if self.streams.capacity() > 8 {
            self.streams = Vec::new();
        }
        if self.asked.capacity() > 8 {
            self.asked = VecDeque::new();
        }
        self.ready.shrink();
    }
}
