//! One stream: a request that the handler takes for a connection's, and the answer to it.

use crate::answer::{Answer, Broken};
use crate::ready::Mark;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use rhythm_net::ConnectionId;
use std::io::Write;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Most bytes of a stream that wait in h2 to be sent.
pub(crate) const SEND_MAX: usize = 32 * 1024;
/// With so many bytes of a request's content the others of its carrier have their turn.
const RECEIVE_MAX: usize = 16 * 1024;
/// Contents are long from so many bytes on.
const LONG: usize = 32 * 1024;
/// What is behind the content of the last chunk. It needs no room, so that it need not wait for
/// some that its peer has no reason to give.
const CHUNKS_END: &[u8] = b"\r\n0\r\n\r\n";

/// By what an answer is sent.
enum Sender {
    /// Its head is still to come.
    Head(SendResponse<Bytes>),
    Content(SendStream<Bytes>),
}

/// What came of a request's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Nothing,
    Bytes,
    /// The peer has taken the request back.
    Failed,
}

/// A stream that the handler has.
pub(crate) struct Stream {
    /// The connection that it is of, by the driver's name.
    pub(crate) carrier: ConnectionId,
    pub(crate) mark: Arc<Mark>,
    sender: Sender,
    answer: Answer,
    /// The request's content, as long as there may be more.
    content: Option<RecvStream>,
    /// So many bytes of it have come.
    came: usize,
    /// The content goes in chunks.
    is_chunked: bool,
    /// The handler's last send was not taken whole.
    pub(crate) wants_write: bool,
    pub(crate) is_paused: bool,
}

impl Stream {
    pub(crate) fn new(
        carrier: ConnectionId,
        mark: Arc<Mark>,
        respond: SendResponse<Bytes>,
        to_head: bool,
        content: RecvStream,
        is_chunked: bool,
    ) -> Stream {
        Stream {
            carrier,
            mark,
            sender: Sender::Head(respond),
            answer: Answer::new(to_head),
            content: (!content.is_end_stream()).then_some(content),
            came: 0,
            is_chunked,
            wants_write: false,
            is_paused: false,
        }
    }

    /// Takes bytes of the answer, as many as the peer has room for.
    ///
    /// # Errors
    /// Where they are none of an answer, or the stream is gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut taken = 0;
        if self.answer.has_no_head() {
            let (of_head, head) = self.answer.head(bytes)?;
            taken = of_head;
            if let (Some(head), Sender::Head(respond)) = (head, &mut self.sender) {
                let sent = respond.send_response(head, self.answer.is_over());
                self.sender = Sender::Content(sent.map_err(|_| Broken)?);
            }
        }
        if let Sender::Content(sender) = &mut self.sender {
            while taken < bytes.len() {
                let rest = &bytes[taken..];
                sender.reserve_capacity(rest.len().min(SEND_MAX));
                let room = match self.answer.is_chunked() && CHUNKS_END.ends_with(rest) {
                    true => rest.len(),
                    false => sender.capacity(),
                };
                if room == 0 {
                    break;
                }
                let (of_content, content) = self.answer.content(rest, room)?;
                taken += of_content;
                let is_over = self.answer.is_over();
                if is_over || !content.is_empty() {
                    sender.send_data(content, is_over).map_err(|_| Broken)?;
                }
            }
            if taken == bytes.len() {
                // Of the peer's window it keeps none that others may need.
                sender.reserve_capacity(0);
            }
        }
        self.wants_write = taken < bytes.len();
        Ok(taken)
    }

    /// Takes none of so many bytes of the answer, since the socket is full. What room the peer has
    /// is asked for all the same: who has not asked is given none, and would wait without end.
    pub(crate) fn put_off(&mut self, bytes: usize) {
        self.wants_write = true;
        if let Sender::Content(sender) = &mut self.sender {
            sender.reserve_capacity(bytes.min(SEND_MAX));
        }
    }

    /// Whether its answer has not begun though the request is whole, or is not taken.
    pub(crate) fn is_owed(&self) -> bool {
        self.wants_write || (self.answer.has_no_head() && self.content.is_none())
    }

    /// Whether the handler waits to send and may now.
    pub(crate) fn takes_again(&mut self) -> bool {
        let has_room = match &self.sender {
            Sender::Head(_) => true,
            Sender::Content(sender) => sender.capacity() > 0,
        };
        self.wants_write && has_room
    }

    /// Whether there is more of a request's content that is long, or that nobody takes.
    pub(crate) fn is_long(&self) -> bool {
        self.has_content() && (self.is_paused || self.came >= LONG)
    }

    /// Whether more of the request's content may come.
    pub(crate) fn has_content(&self) -> bool {
        self.content.is_some()
    }

    /// Sees what the peer did, and appends what came of the request's content to `out`, unless the
    /// handler wants none. Its mark is set where there is more, or will be.
    pub(crate) fn look(&mut self, out: &mut Vec<u8>) -> Came {
        self.mark.clear();
        let waker = Waker::from(self.mark.clone());
        let cx = &mut Context::from_waker(&waker);
        let reset = match &mut self.sender {
            Sender::Head(respond) => respond.poll_reset(cx),
            Sender::Content(sender) => sender.poll_reset(cx),
        };
        match reset.is_ready() {
            true => Came::Failed,
            false => self.receive(cx, out),
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Came {
        while let (Some(content), false) = (&mut self.content, self.is_paused) {
            if out.len() >= RECEIVE_MAX {
                self.mark.set();
                break;
            }
            match content.poll_data(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Err(_))) => return Came::Failed,
                Poll::Ready(Some(Ok(bytes))) => {
                    // A failure is the stream's, which is told of the next time.
                    let _ = content.flow_control().release_capacity(bytes.len());
                    self.came = self.came.saturating_add(bytes.len());
                    match self.is_chunked {
                        _ if bytes.is_empty() => {}
                        true => {
                            // Vec takes whatever is written.
                            let _ = write!(out, "{:x}\r\n", bytes.len());
                            out.extend_from_slice(&bytes);
                            out.extend_from_slice(b"\r\n");
                        }
                        false => out.extend_from_slice(&bytes),
                    }
                }
                Poll::Ready(None) => {
                    self.content = None;
                    if self.is_chunked {
                        out.extend_from_slice(b"0\r\n\r\n");
                    }
                }
            }
        }
        match out.is_empty() {
            true => Came::Nothing,
            false => Came::Bytes,
        }
    }

    /// The handler has closed it. Whether its answer is whole; if not, the peer is told so.
    pub(crate) fn close(mut self) -> bool {
        let was_over = self.answer.is_over();
        let is_whole = self.answer.close();
        match &mut self.sender {
            Sender::Content(sender) if is_whole && !was_over => {
                // It fails where the stream is gone.
                let _ = sender.send_data(Bytes::new(), true);
            }
            _ if is_whole => {}
            _ => self.reset(Reason::INTERNAL_ERROR),
        }
        is_whole
    }

    /// Ends it as it stands.
    pub(crate) fn reset(mut self, reason: Reason) {
        match &mut self.sender {
            Sender::Head(respond) => respond.send_reset(reason),
            Sender::Content(sender) if !self.answer.is_over() => sender.send_reset(reason),
            Sender::Content(_) => {}
        }
    }
}
