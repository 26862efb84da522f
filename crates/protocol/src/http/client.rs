//! The client's side of HTTP/1.1: writing requests and parsing response heads, for backends and for
//! the load generator.

use super::head::{
    ConnectionOptions, Cursor, HEADERS_CAPACITY, HeadFault, Header, Headers, Known, Lines,
    Progress, Span, TransferCodings, decimal, scan_head,
};
use super::request::{Method, TARGET};
use super::response::{HeaderName, has_no_content, write_value};
use crate::scan::{Level, Simd, Task};

/// What is wrong with a response. The connection cannot be used after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum ResponseError {
    /// Not `HTTP/1.x` and a status of three digits.
    #[error("malformed status line")]
    StatusLine,
    /// A malformed header line or a control character.
    #[error("malformed response head")]
    Head,
    /// More bytes or headers than allowed.
    #[error("response head too large")]
    HeadTooLarge,
    /// Lengths that are malformed or contradict each other.
    #[error("ambiguous length of the response")]
    Framing,
}

impl From<HeadFault> for ResponseError {
    fn from(fault: HeadFault) -> ResponseError {
        match fault {
            HeadFault::TooManyHeaders => ResponseError::HeadTooLarge,
            _ => ResponseError::Head,
        }
    }
}

/// How the content of a response ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseFraming {
    /// There is none.
    #[default]
    None,
    /// This many bytes.
    Length(u64),
    /// In chunks; see [`super::body::ChunkedDecoder`].
    Chunked,
    /// With the connection.
    UntilClose,
}

/// A response head: offsets into the bytes it was parsed from, and what follows from them. To be
/// used again as a [`super::request::RequestHead`] is.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    cursor: Cursor,
    /// 0 until the status line is parsed.
    status: u16,
    minor: u8,
    headers: Headers,
    content_length: Option<u64>,
    transfer_codings: Option<TransferCodings>,
    connection: ConnectionOptions,
    framing: ResponseFraming,
    keep_alive: bool,
}

impl Default for ResponseHead {
    fn default() -> ResponseHead {
        ResponseHead::new()
    }
}

impl ResponseHead {
    /// An empty head to parse into.
    #[must_use]
    pub fn new() -> ResponseHead {
        ResponseHead {
            cursor: Cursor::default(),
            status: 0,
            minor: 0,
            headers: Headers::new(),
            content_length: None,
            transfer_codings: None,
            connection: ConnectionOptions::default(),
            framing: ResponseFraming::None,
            keep_alive: false,
        }
    }

    /// Forgets what was parsed, a partial head included.
    pub fn clear(&mut self) {
        self.cursor = Cursor::default();
        self.status = 0;
        self.minor = 0;
        self.headers.clear();
        self.content_length = None;
        self.transfer_codings = None;
        self.connection = ConnectionOptions::default();
        self.framing = ResponseFraming::None;
        self.keep_alive = false;
    }

    /// The status. After 100 to 199 the real response follows: parse again behind this head.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// All header lines.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        self.headers.as_slice()
    }

    /// The value of the first line of a known header.
    #[must_use]
    pub fn known(&self, known: Known) -> Option<Span> {
        self.headers.known(known)
    }

    /// The values of all header lines with this name, in any case of letters.
    pub fn values<'a>(&'a self, bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.all(bytes, name)
    }

    /// How the content ends.
    #[must_use]
    pub fn framing(&self) -> ResponseFraming {
        self.framing
    }

    /// Whether the connection can carry another request.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Judges what the headers said together.
    fn finish(&mut self, to_head: bool) -> Result<(), ResponseError> {
        self.framing = match (self.transfer_codings, self.content_length) {
            (Some(_), Some(_)) => return Err(ResponseError::Framing),
            (Some(codings), None) if codings.unknown || self.minor == 0 => {
                return Err(ResponseError::Framing);
            }
            _ if to_head || has_no_content(self.status) => ResponseFraming::None,
            (Some(_), None) => ResponseFraming::Chunked,
            (None, Some(length)) => ResponseFraming::Length(length),
            (None, None) => ResponseFraming::UntilClose,
        };
        self.keep_alive = self.connection.persists(self.minor)
            && self.framing != ResponseFraming::UntilClose
            && self.status != 101;
        Ok(())
    }
}

/// Parses a response head. `bytes` is all of the connection's input from the start of this
/// response: after [`Progress::Partial`] call again with the same bytes and more behind them. A
/// head is at most `head_max` bytes. `to_head` says that the request was HEAD, so that no content
/// follows.
///
/// # Errors
/// As soon as the bytes cannot be the start of a response any more.
pub fn parse_response(
    head: &mut ResponseHead,
    bytes: &[u8],
    head_max: usize,
    to_head: bool,
) -> Result<Progress, ResponseError> {
    Level::active().run(ParseResponse {
        head,
        bytes,
        head_max,
        to_head,
    })
}

struct ParseResponse<'a> {
    head: &'a mut ResponseHead,
    bytes: &'a [u8],
    head_max: usize,
    to_head: bool,
}

impl Task for ParseResponse<'_> {
    type Output = Result<Progress, ResponseError>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Result<Progress, ResponseError> {
        let head = self.head;
        if head.cursor.finished {
            head.clear();
        }
        let mut cursor = head.cursor;
        let mut lines = ResponseLines {
            head,
            to_head: self.to_head,
        };
        let result = scan_head(s, self.bytes, self.head_max, &mut cursor, &mut lines);
        cursor.finished = !matches!(result, Ok(Progress::Partial));
        lines.head.cursor = cursor;
        result
    }
}

struct ResponseLines<'a> {
    head: &'a mut ResponseHead,
    to_head: bool,
}

impl Lines for ResponseLines<'_> {
    type Error = ResponseError;

    #[inline(always)]
    fn line<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
    ) -> Result<bool, ResponseError> {
        let head = &mut *self.head;
        if head.status == 0 {
            (head.minor, head.status) =
                status_line(&window[start..end]).ok_or(ResponseError::StatusLine)?;
            return Ok(false);
        }
        if start == end {
            head.finish(self.to_head)?;
            return Ok(true);
        }
        if let Some(known) = head.headers.push(s, window, start, end, HEADERS_CAPACITY)? {
            let (value, is_first) = head.headers.last(known);
            let value = value.of(window);
            match known {
                Known::ContentLength => {
                    let length = decimal(value).filter(|_| is_first);
                    head.content_length = Some(length.ok_or(ResponseError::Framing)?);
                }
                Known::TransferEncoding
                    if !head.transfer_codings.get_or_insert_default().add(value) =>
                {
                    return Err(ResponseError::Framing);
                }
                Known::Connection => head.connection.add(value),
                _ => {}
            }
        }
        Ok(false)
    }

    #[inline(always)]
    fn partial<S: Simd>(
        &mut self,
        _: S,
        window: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), ResponseError> {
        const START: &[u8] = b"HTTP/1.";
        let start = &window[start..end];
        let len = start.len().min(START.len());
        if self.head.status == 0 && start[..len] != START[..len] {
            return Err(ResponseError::StatusLine);
        }
        Ok(())
    }

    fn too_large(&self) -> ResponseError {
        ResponseError::HeadTooLarge
    }
}

/// Minor version and status of a status line (RFC 9112 section 4); the reason does not matter.
fn status_line(line: &[u8]) -> Option<(u8, u16)> {
    let [
        b'H',
        b'T',
        b'T',
        b'P',
        b'/',
        b'1',
        b'.',
        minor,
        b' ',
        digits @ ..,
    ] = line
    else {
        return None;
    };
    let (digits, rest) = digits.split_at_checked(3)?;
    let status = decimal(digits)?;
    let sound = minor.is_ascii_digit() && status >= 100 && matches!(rest, [] | [b' ', ..]);
    sound.then_some((minor - b'0', status as u16))
}

/// Writes a request into a buffer. What it is given cannot end a line; a target is to be encoded
/// already.
#[derive(Debug)]
pub struct RequestWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> RequestWriter<'a> {
    /// Starts a request of HTTP/1.1 with its request line and Host. Characters no target has are
    /// percent-encoded.
    pub fn new(
        out: &'a mut Vec<u8>,
        method: Method,
        target: &[u8],
        host: &str,
    ) -> RequestWriter<'a> {
        RequestWriter::of_method(out, method.name().as_bytes(), target, host)
    }

    /// As [`RequestWriter::new`], with a method of this name, which is a token.
    pub fn of_method(
        out: &'a mut Vec<u8>,
        method: &[u8],
        target: &[u8],
        host: &str,
    ) -> RequestWriter<'a> {
        out.extend_from_slice(method);
        out.push(b' ');
        for byte in target {
            if TARGET.contains(*byte) {
                out.push(*byte);
            } else {
                super::uri::encode(&[*byte], out);
            }
        }
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        write_value(host.as_bytes(), out);
        out.extend_from_slice(b"\r\n");
        RequestWriter { out }
    }

    /// Any header but the lengths.
    pub fn header(&mut self, name: HeaderName<'_>, value: &[u8]) -> &mut Self {
        self.out.extend_from_slice(name.as_str().as_bytes());
        self.out.extend_from_slice(b": ");
        write_value(value, self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Headers as they stand in these lines, each with its end.
    pub fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.out.extend_from_slice(lines);
        self
    }

    /// Ends the head of a request without content.
    pub fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Ends the head and appends the content, with its length before it.
    pub fn body(&mut self, content: &[u8]) {
        self.out.extend_from_slice(b"Content-Length: ");
        self.out
            .extend_from_slice(itoa::Buffer::new().format(content.len()).as_bytes());
        self.out.extend_from_slice(b"\r\n\r\n");
        self.out.extend_from_slice(content);
    }
}

#[cfg(test)]
mod tests;
