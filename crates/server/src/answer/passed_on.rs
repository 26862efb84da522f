//! Requests that a page passes on to another server (`else = "proxy"`), between the two.

use crate::flight::lane_requests::Whole;
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
    /// Where its head and its content are, in its cohort, which is not free before they are taken.
    pub(crate) whole: Whole,
}

impl PassedOn {
    /// Its head, as it was read when it came, of these bytes of it; nothing, where that is none.
    pub(crate) fn head(&self, bytes: &[u8]) -> Option<RequestHead> {
        // It was within the service's own limits.
        let limits = HeadLimits {
            head_max: HEAD_CAPACITY,
            target_max: HEAD_CAPACITY,
            headers_max: HEADERS_CAPACITY,
        };
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, bytes.get(..self.whole.head_bytes)?, &limits);
        matches!(parsed, Ok(Progress::Complete { .. })).then_some(head)
    }

    /// As a host takes it.
    pub(crate) fn request<'a>(
        &self,
        peer: Client,
        head: &'a RequestHead,
        bytes: &'a [u8],
    ) -> Request<'a> {
        let (bytes, content) = bytes.split_at(self.whole.head_bytes);
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
