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

/// Requests that are known at most.
const CELLS: usize = 4096;

/// What tells a request from others; `None` where nobody will ask.
pub(crate) type RequestKey = Option<u64>;

/// A request, and the length of its answer.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    key: u64,
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
    /// answers have so many bytes at most, as far as is known, with what its cookie names.
    #[inline]
    pub(crate) fn expected<'a>(
        &self,
        page: (u32, u32),
        of_page: usize,
        request: Incoming<'a>,
        session: impl FnOnce() -> Option<&'a [u8]>,
    ) -> (Expected, RequestKey) {
        if of_page <= LONG_BYTES {
            return (Expected::bytes(of_page), None);
        }
        let mut hasher = DefaultHasher::new();
        (self.secret, page, session()).hash(&mut hasher);
        request.head.target().of(request.bytes).hash(&mut hasher);
        request.content.hash(&mut hasher);
        let key = hasher.finish();
        let cell = self.cells[cell_of(key)];
        let expected = match cell.key == key {
            true => Expected::bytes(cell.bytes as usize),
            false => Expected {
                bytes: of_page,
                is_guess: true,
            },
        };
        (expected, Some(key))
    }

    /// A request was answered with so many bytes.
    #[inline]
    pub(crate) fn answered(&mut self, key: RequestKey, bytes: u64) {
        if let Some(key) = key {
            self.cells[cell_of(key)] = Cell { key, bytes };
        }
    }
}

fn cell_of(key: u64) -> usize {
    (key % CELLS as u64) as usize
}
