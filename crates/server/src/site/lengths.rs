//! How long answers were, request by request: of pages that may be long.
//!
//! A page may be long for one and short for another, by its parameters and its session. So that
//! who asks for little does not wait for the room that others' answers take, a request is expected
//! to be answered with as many bytes as the same one was before; one that is new, with as many as
//! the page's longest of late (`sizes.rs`).
//!
//! It is a table of fixed size, in which a request is found by a hash that clients cannot tell.
//! What has lost its cell to another is as if it were new.

use rhythm_http::{Expected, Incoming, LONG_BYTES};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;

/// Requests that are known at most.
const CELLS: usize = 4096;

/// What tells a request from others; `None` where nobody will ask.
pub(crate) type RequestKey = Option<NonZeroU64>;

/// The request that has a cell, if one has, and the length of its answer.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    key: RequestKey,
    bytes: u64,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Lengths {
    cells: Box<[Cell]>,
    secret: u128,
}

impl Lengths {
    /// Bytes of memory that the table takes.
    pub(crate) const BYTES: usize = CELLS * size_of::<Cell>();

    /// Nothing is known yet. The secret is for hashes.
    pub(crate) fn new(secret: u128) -> Lengths {
        Lengths {
            cells: vec![Cell::default(); CELLS].into_boxed_slice(),
            secret,
        }
    }

    /// How long the answer to a request may be, and its key: of a page (of which epoch) whose
    /// answers are expected to have so many bytes at most, or of which nothing is known. All that a
    /// page may read tells requests apart: headers and cookies, too.
    #[inline]
    pub(crate) fn expected(
        &self,
        page: (u32, u32),
        of_page: Option<Expected>,
        request: Incoming<'_>,
    ) -> (Option<Expected>, RequestKey) {
        if let Some(Expected { bytes, .. }) = of_page
            && bytes <= LONG_BYTES
        {
            return (Some(Expected::bytes(bytes)), None);
        }
        let mut hasher = DefaultHasher::new();
        (self.secret, page).hash(&mut hasher);
        request.head.target().of(request.bytes).hash(&mut hasher);
        for header in request.head.headers() {
            header.name.of(request.bytes).hash(&mut hasher);
            header.value.of(request.bytes).hash(&mut hasher);
        }
        request.content.hash(&mut hasher);
        let key = NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN);
        let cell = self.cells[cell_of(key)];
        let expected = match cell.key == Some(key) {
            true => Some(Expected::bytes(cell.bytes as usize)),
            false => of_page,
        };
        (expected, Some(key))
    }

    /// A request was answered with so many bytes.
    #[inline]
    pub(crate) fn answered(&mut self, key: RequestKey, bytes: u64) {
        if let Some(number) = key {
            self.cells[cell_of(number)] = Cell { key, bytes };
        }
    }
}

fn cell_of(key: NonZeroU64) -> usize {
    (key.get() % CELLS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_http::KnownBy;
    use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head};

    #[test]
    fn all_that_a_page_may_read_tells_requests_apart() {
        let mut lengths = Lengths::new(7);
        let limits = HeadLimits::default();
        let mut expected = |text: &str, answered: Option<u64>| {
            let mut head = RequestHead::new();
            let parsed = parse_head(&mut head, text.as_bytes(), &limits);
            assert!(parsed.is_ok(), "{parsed:?}");
            let request = Incoming {
                head: &head,
                bytes: text.as_bytes(),
                content: b"",
            };
            let of_page = Expected {
                bytes: LONG_BYTES + 1,
                by: KnownBy::Page,
            };
            let (expected, key) = lengths.expected((0, 1), Some(of_page), request);
            if let Some(bytes) = answered {
                lengths.answered(key, bytes);
            }
            let known = expected.filter(|expected| expected.by == KnownBy::Itself);
            known.map(|expected| expected.bytes)
        };
        let with = |line: &str| format!("GET /a?n=1 HTTP/1.1\r\nHost: h\r\n{line}\r\n");
        let [plain, long, named] = [with(""), with("X-N: 9\r\n"), with("Cookie: n=9\r\n")];
        assert_eq!(expected(&plain, Some(90)), None);
        assert_eq!(expected(&long, Some(7000)), None);
        assert_eq!(expected(&named, None), None);
        assert_eq!(expected(&plain, None), Some(90));
        assert_eq!(expected(&long, None), Some(7000));
    }
}
