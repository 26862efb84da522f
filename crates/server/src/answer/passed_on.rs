//! Requests that a page passes on to another server (`else = "proxy"`), between the two.

use crate::flight::timeline::Came;
use crate::trace::Origin;
use rhythm_http::{AnswerShape, AnswerSlot, Content, Request};
use rhythm_net::Client;
use rhythm_protocol::http::head::{HEAD_CAPACITY, HEADERS_CAPACITY, Progress};
use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head};

/// See the module's text.
#[derive(Debug)]
pub(crate) struct PassedOn {
    /// Where the answer goes.
    pub(crate) slot: AnswerSlot,
    /// What its shape takes from the request.
    pub(crate) shape: AnswerShape,
    /// The index of the page's site.
    pub(crate) site: usize,
    /// When the request came.
    pub(crate) came: Came,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// Its head and its content, of which so many bytes are the head.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) head_bytes: usize,
}

impl PassedOn {
    /// Its head, as it was read when it came; nothing, where it was not kept.
    pub(crate) fn head(&self) -> Option<RequestHead> {
        // It was within the service's own limits.
        let limits = HeadLimits {
            head_max: HEAD_CAPACITY,
            target_max: HEAD_CAPACITY,
            headers_max: HEADERS_CAPACITY,
        };
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, &self.bytes[..self.head_bytes], &limits);
        matches!(parsed, Ok(Progress::Complete { .. })).then_some(head)
    }

    /// As a host takes it.
    pub(crate) fn request<'a>(&'a self, peer: Client, head: &'a RequestHead) -> Request<'a> {
        let (bytes, content) = self.bytes.split_at(self.head_bytes);
        Request {
            slot: self.slot,
            shape: self.shape,
            peer,
            head,
            bytes,
            content: Content::Whole(content),
        }
    }
}
