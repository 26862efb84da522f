//! Reader: from bytes of a connection to whole requests (paper, section 3.2, *Reader*).
//!
//! Requests are parsed where the driver received them. Only what is left at the end, part of a
//! request, or one that has to wait, is copied into the connection.

use crate::client::{Body, Stall, Tail};
use crate::intake::parser::Taken;
use crate::pipeline::Pipeline;
use rhythm_net::{ConnectionId, Port};
use rhythm_protocol::http::body::{ChunkLimits, ChunkedDecoder};
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{Framing, RequestHead, parse_head};

/// How far the parsing of a connection's bytes came.
struct Parsed {
    /// Bytes of requests that are done with.
    used: usize,
    /// What is known of the request that follows them, if its head is complete.
    body: Option<Body>,
    /// The rest is of no interest: the connection takes no more requests, or is gone.
    over: bool,
}

impl Parsed {
    /// Where the bytes to be kept end: those of a body that were decoded as they came are not
    /// needed again.
    fn end(&self, length: usize) -> usize {
        match &self.body {
            Some(body) if body.chunked.is_some() && body.complete.is_none() => {
                self.used + body.head_length
            }
            _ => length,
        }
    }
}

impl Pipeline {
    /// Bytes arrived.
    pub(crate) fn read(&mut self, port: &mut dyn Port, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.clients.get(id) else {
            return;
        };
        if connection.last_taken {
            return;
        }
        match connection.tail.take() {
            None => {
                // The head is this pipeline's own for the time of the call, and lent out to nobody
                // else.
                let mut head = std::mem::take(&mut self.head);
                head.clear();
                let parsed = self.parse(port, id, &mut head, bytes, None);
                if parsed.over || parsed.used == bytes.len() {
                    self.head = head;
                } else if let Some(connection) = self.clients.get(id) {
                    let bytes = bytes[parsed.used..parsed.end(bytes.len())].to_vec();
                    let body = parsed.body;
                    connection.tail = Some(Box::new(Tail { bytes, head, body }));
                }
            }
            Some(mut tail) => {
                tail.bytes.extend_from_slice(bytes);
                if connection.stall.is_some() {
                    connection.tail = Some(tail);
                } else {
                    self.read_tail(port, id, tail);
                }
            }
        }
        self.clients.settle(port, id);
    }

    /// A stall is over: takes up the connection's input again. `waited`: it waited for a context.
    pub(crate) fn proceed(&mut self, port: &mut dyn Port, id: ConnectionId, waited: bool) {
        let Some(connection) = self.clients.get(id) else {
            return;
        };
        if connection.stall.is_none() || (connection.stall == Some(Stall::Context)) != waited {
            return;
        }
        connection.stall = None;
        if let Some(tail) = connection.tail.take() {
            self.read_tail(port, id, tail);
        }
        let resumes = |connection: &mut crate::client::Connection| {
            connection.stall.is_none() && !connection.last_taken
        };
        if self.clients.get(id).is_some_and(resumes) {
            port.resume(id);
        }
        self.clients.settle(port, id);
    }

    fn read_tail(&mut self, port: &mut dyn Port, id: ConnectionId, mut tail: Box<Tail>) {
        let body = tail.body.take();
        let Tail { bytes, head, .. } = &mut *tail;
        let parsed = self.parse(port, id, head, bytes, body);
        if parsed.over || parsed.used == tail.bytes.len() {
            return;
        }
        tail.bytes.truncate(parsed.end(tail.bytes.len()));
        tail.bytes.drain(..parsed.used);
        tail.body = parsed.body;
        if let Some(connection) = self.clients.get(id) {
            connection.tail = Some(tail);
        }
    }

    /// Parses as many requests as there are, and hands them on.
    fn parse(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        head: &mut RequestHead,
        bytes: &[u8],
        mut body: Option<Body>,
    ) -> Parsed {
        let mut used = 0;
        loop {
            let over = Parsed {
                used,
                body: None,
                over: true,
            };
            let pipelined_max = self.clients.limits.pipelined_max;
            let Some(connection) = self.clients.get(id) else {
                return over;
            };
            if connection.last_taken {
                return over;
            }
            if used == bytes.len() {
                return Parsed {
                    used,
                    body: None,
                    over: false,
                };
            }
            if connection.under_way() >= pipelined_max && connection.stall.is_none() {
                connection.stall = Some(Stall::Pipelined);
                port.pause(id);
            }
            if connection.stall.is_some() {
                return Parsed {
                    used,
                    body,
                    over: false,
                };
            }
            let rest = &bytes[used..];
            let mut begun = match body.take() {
                Some(body) => body,
                None => {
                    let limits = &self.epoch.site.head_limits;
                    match parse_head(head, rest, limits) {
                        Err(error) => {
                            self.refuse(port, id, error.status());
                            return over;
                        }
                        Ok(Progress::Partial) => {
                            return Parsed {
                                used,
                                body: None,
                                over: false,
                            };
                        }
                        Ok(Progress::Complete { head_len }) => Body {
                            head_length: head_len,
                            ..Body::default()
                        },
                    }
                }
            };
            if begun.complete.is_none() {
                match self.frame(head, rest, &mut begun) {
                    Ok(true) => {}
                    Ok(false) => {
                        if head.expect_continue() && !std::mem::replace(&mut begun.continued, true)
                        {
                            // The content is asked for only where it would be of use.
                            if let Some(status) = self.early_refusal(head, rest) {
                                self.refuse(port, id, status);
                                return over;
                            }
                            self.clients.send_continue(port, id);
                        }
                        return Parsed {
                            used,
                            body: Some(begun),
                            over: false,
                        };
                    }
                    Err(status) => {
                        self.refuse(port, id, status);
                        return over;
                    }
                }
            }
            let length = begun.complete.unwrap_or(0);
            let content = match begun.chunked {
                Some(_) => &begun.decoded[..],
                None => &rest[begun.head_length..begun.head_length + length],
            };
            match self.take(port, id, head, rest, content) {
                Taken::Taken => used += begun.head_length + length,
                Taken::Later => {
                    if let Some(connection) = self.clients.get(id) {
                        connection.stall = Some(Stall::Context);
                        port.pause(id);
                        self.waiters.push_back(id);
                        self.metrics.stalls.add(1);
                    }
                    return Parsed {
                        used,
                        body: Some(begun),
                        over: false,
                    };
                }
            }
        }
    }

    /// Whether the body that follows a head is complete; then `body.complete` is its length as
    /// sent.
    fn frame(&self, head: &RequestHead, bytes: &[u8], body: &mut Body) -> Result<bool, u16> {
        let body_max = self.epoch.site.settings.body_max;
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
                    .map_err(|e| e.status())?;
                body.complete = decoded.done.then_some(decoded.consumed);
            }
        }
        Ok(body.complete.is_some())
    }
}
