//! A template of heads: what the last one looked like, so that the next is compared instead of
//! parsed.
//!
//! Most requests of a time have the same header lines: those of one kind of client, or of one
//! client again and again, differ in the request line and in some values, such as the cookie's. A
//! [`HeadTemplate`] keeps the bytes of a head and what was found in it. Another head is like it
//! where its header lines, block by block, are the same bytes but in values that nothing in the
//! head hangs on, or only the length of the content, and what differs there is neither space nor
//! control character nor beyond ASCII. Then its lines are the template's, as far further on as its
//! request line is longer, and only that line is parsed, if it is another. A head that is not like
//! it is parsed as any is.
//!
//! It holds what a head *is*, never what it asks for: with a template and without one a head is the
//! same, for any bytes.

use super::line::RequestLine;
use super::parsed::{HeadLimits, RequestHead};
use crate::http::head::{HEAD_CAPACITY, Known, decimal};
use crate::scan::{Simd, find_byte};

/// Bytes of a block that is compared at once.
const BLOCK: usize = 64;

/// Longer heads make no template.
const BYTES_MAX: usize = 2048;

/// A template is kept for so many heads in a row that are not like it, at most, and at first: where
/// none is like another, few are made templates in vain.
const WORTH_MAX: u8 = 8;

/// What the last heads looked like. See the module's text.
#[derive(Debug, Default)]
pub struct HeadTemplate {
    /// A head's bytes; none: there is no template yet.
    bytes: Vec<u8>,
    /// How many of them are the request line, its end included.
    line_length: usize,
    /// Of each block of the header lines, the last of which may overlap the one before, the bytes
    /// in which others may differ.
    free: Vec<u64>,
    /// What was found in it.
    head: RequestHead,
    /// The limits that it keeps.
    limits: HeadLimits,
    /// Heads that were like it, less those that were not: at 0 another takes its place.
    worth: u8,
}

impl HeadTemplate {
    /// Makes `head`, of which nothing is parsed yet, the head that `bytes` begin with, if that is
    /// like the template, and gives its length.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &mut self,
        s: S,
        head: &mut RequestHead,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Option<usize> {
        let (own_line, own_fields) = self.bytes.split_at_checked(self.line_length)?;
        if own_fields.is_empty() || self.limits != *limits {
            return None;
        }
        let window = &bytes[..bytes.len().min(limits.head_max).min(HEAD_CAPACITY)];
        let (line, line_length) = match window.starts_with(own_line) {
            true => (self.head.line, self.line_length),
            false => request_line(s, window, limits)?,
        };
        let fields = window[line_length..].get(..own_fields.len())?;
        if !is_like(s, fields, own_fields, &self.free) {
            return None;
        }
        head.line = line;
        let by = (line_length as u16).wrapping_sub(self.line_length as u16);
        head.headers.become_like(&self.head.headers, by);
        head.pending = self.head.pending;
        let length = head.headers.known(Known::ContentLength);
        let length = length.map(|value| decimal(value.of(bytes)));
        head.pending.content_length = length.flatten();
        if length == Some(None) || head.finish().is_err() {
            // Whoever parses it finds the same.
            head.clear();
            return None;
        }
        head.cursor.finished = true;
        self.worth = (self.worth + 1).min(WORTH_MAX);
        Some(line_length + fields.len())
    }

    /// Takes note of a head that is not like it: perhaps it is the template from now on.
    #[cold]
    pub(super) fn missed(&mut self, head: &RequestHead, bytes: &[u8], limits: &HeadLimits) {
        if self.worth > 0 {
            self.worth -= 1;
            return;
        }
        let Some(line_end) = memchr::memchr(b'\n', bytes) else {
            return;
        };
        if head.line.empty_lines > 0 || bytes.len() > BYTES_MAX {
            return;
        }
        self.worth = WORTH_MAX;
        self.line_length = line_end + 1;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head.clone_from(head);
        self.limits = *limits;
        let length = bytes.len() - self.line_length;
        self.free.clear();
        self.free.resize(length.div_ceil(BLOCK), 0);
        for header in head.headers() {
            if header.known.is_some_and(RequestHead::is_judged) {
                continue;
            }
            let value = header.value.range();
            for (index, free) in self.free.iter_mut().enumerate() {
                let block = self.line_length + block_start(index, length);
                let start = value.start.max(block);
                let end = value.end.min(block + BLOCK);
                if start < end {
                    *free |= !0 >> (BLOCK - (end - start)) << (start - block);
                }
            }
        }
    }
}

/// Where a block of so many bytes starts.
#[inline(always)]
fn block_start(index: usize, length: usize) -> usize {
    (index * BLOCK).min(length.saturating_sub(BLOCK))
}

/// The request line that stands at the start of `window`, and its length with its end, if it is
/// there and sound.
#[inline(always)]
fn request_line<S: Simd>(s: S, window: &[u8], limits: &HeadLimits) -> Option<(RequestLine, usize)> {
    let end = find_byte(s, window, 0, window.len(), b'\n');
    if end == window.len() || window[..end].last() != Some(&b'\r') {
        return None;
    }
    let mut line = RequestLine::default();
    (line.parse(s, window, 0, end - 1, limits.target_max, true)).ok()?;
    Some((line, end + 1))
}

/// Whether header lines are like those of a template, as many bytes.
#[inline(always)]
fn is_like<S: Simd>(s: S, fields: &[u8], own: &[u8], free: &[u64]) -> bool {
    // A loop, since a closure is not always compiled with the instructions of `s`.
    for (index, free) in free.iter().enumerate() {
        let start = block_start(index, own.len());
        let block = s.load(&fields[start..]);
        let differ = s.differ(block, s.load(&own[start..]));
        // A value begins and ends with what is no space, as it does in the template.
        if differ != 0 && differ & (!free | s.unprintable(block) | s.eq(block, b' ')) != 0 {
            return false;
        }
    }
    true
}
