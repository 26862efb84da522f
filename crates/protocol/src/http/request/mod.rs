//! The head of a request (RFC 9112 sections 2 to 6, RFC 9110 sections 4 to 10).
//!
//! One pass over the bytes (see [`super::head`]): each line is parsed as it is found, and headers
//! that decide framing are judged on the way, so that a complete head already says where its body
//! ends. Strict on purpose: whatever two servers could read differently is refused, and the
//! connection must close after any error, since the end of the message is not known.
//!
//! Stricter than the RFCs allow: a bare LF never ends a line; Host is a name of letters, digits and
//! `-._~` or an address in brackets; equal duplicates of Content-Length are refused; so is a second
//! Content-Type. More lenient: targets may hold `[ ] { } | ^` and the backtick, which browsers send
//! unescaped in queries.

mod error;
mod line;
mod parsed;
mod template;

use super::head::{Lines, Progress, scan_head};
use crate::scan::{Level, Simd, Task};

pub use error::RequestError;
pub use line::Method;
pub(crate) use line::TARGET;
pub use parsed::{Framing, HeadLimits, RequestHead};
pub use template::HeadTemplate;

/// Empty lines skipped before a request line (RFC 9112 section 2.2).
const EMPTY_LINES_MAX: u8 = 2;

/// Parses a request head. `bytes` is all of the connection's input from the start of this request:
/// after [`Progress::Partial`] call again with the same bytes and more behind them.
///
/// # Errors
/// As soon as the bytes cannot be the start of a request any more, or exceed `limits`; the same
/// error however the bytes were split.
#[inline]
pub fn parse_head(
    head: &mut RequestHead,
    bytes: &[u8],
    limits: &HeadLimits,
) -> Result<Progress, RequestError> {
    parse_head_with(Level::active(), head, bytes, limits)
}

/// [`parse_head`], quicker where the head is like those before it.
///
/// # Errors
/// As [`parse_head`].
#[inline]
pub fn parse_head_like(
    template: &mut HeadTemplate,
    head: &mut RequestHead,
    bytes: &[u8],
    limits: &HeadLimits,
) -> Result<Progress, RequestError> {
    parse_head_like_with(Level::active(), template, head, bytes, limits)
}

/// [`parse_head_like`] with a level of the caller's choice.
///
/// # Errors
/// As [`parse_head`].
#[inline]
pub fn parse_head_like_with(
    level: Level,
    template: &mut HeadTemplate,
    head: &mut RequestHead,
    bytes: &[u8],
    limits: &HeadLimits,
) -> Result<Progress, RequestError> {
    level.run(ParseHead {
        template: Some(template),
        head,
        bytes,
        limits,
    })
}

/// [`parse_head`] with a level of the caller's choice.
///
/// # Errors
/// As [`parse_head`].
#[inline]
pub fn parse_head_with(
    level: Level,
    head: &mut RequestHead,
    bytes: &[u8],
    limits: &HeadLimits,
) -> Result<Progress, RequestError> {
    level.run(ParseHead {
        template: None,
        head,
        bytes,
        limits,
    })
}

struct ParseHead<'a> {
    template: Option<&'a mut HeadTemplate>,
    head: &'a mut RequestHead,
    bytes: &'a [u8],
    limits: &'a HeadLimits,
}

impl Task for ParseHead<'_> {
    type Output = Result<Progress, RequestError>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Result<Progress, RequestError> {
        let ParseHead {
            template,
            head,
            bytes,
            limits,
        } = self;
        if head.cursor.finished {
            head.clear();
        }
        // What came in part is parsed on from there.
        let mut template = template.filter(|_| head.cursor.scanned() == 0);
        if let Some(template) = &mut template
            && let Some(head_len) = template.apply(s, head, bytes, limits)
        {
            return Ok(Progress::Complete { head_len });
        }
        let mut cursor = head.cursor;
        let mut lines = RequestLines { head, limits };
        let result = scan_head(s, bytes, limits.head_max, &mut cursor, &mut lines);
        cursor.finished = !matches!(result, Ok(Progress::Partial));
        head.cursor = cursor;
        if let (Some(template), Ok(Progress::Complete { head_len })) = (template, &result) {
            template.missed(head, &bytes[..*head_len], limits);
        }
        result
    }
}

/// Parses the lines of a head into it.
struct RequestLines<'a> {
    head: &'a mut RequestHead,
    limits: &'a HeadLimits,
}

impl Lines for RequestLines<'_> {
    type Error = RequestError;

    #[inline(always)]
    fn line<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
    ) -> Result<bool, RequestError> {
        let head = &mut *self.head;
        if head.line.complete {
            if start == end {
                head.finish()?;
                return Ok(true);
            }
            let headers_max = self.limits.headers_max;
            if let Some(known) = head.headers.push(s, window, start, end, headers_max)? {
                head.take_known(s, window, known)?;
            }
        } else if start == end {
            head.line.empty_lines += 1;
            if head.line.empty_lines > EMPTY_LINES_MAX {
                return Err(RequestError::RequestLine);
            }
        } else {
            head.line
                .parse(s, window, start, end, self.limits.target_max, true)?;
        }
        Ok(false)
    }

    #[inline(always)]
    fn partial<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), RequestError> {
        // A lone CR may become an empty line.
        if self.head.line.complete || matches!(window[start..end], [] | [b'\r']) {
            return Ok(());
        }
        self.head
            .line
            .parse(s, window, start, end, self.limits.target_max, false)
    }

    fn too_large(&self) -> RequestError {
        if self.head.line.complete {
            RequestError::HeadTooLarge
        } else {
            RequestError::TargetTooLong
        }
    }
}
