//! What is parsed of a request's head: its line, its headers, and what follows from them.

use super::error::RequestError;
use super::line::{Method, RequestLine, is_host};
use crate::http::encoding::{AcceptEncoding, Encodings};
use crate::http::head::{
    ConnectionOptions, Cursor, HEADERS_CAPACITY, Header, Headers, Known, Span, TransferCodings,
    decimal, elements,
};
use crate::scan::Simd;

/// Limits of a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of the whole head, at most [`crate::http::head::HEAD_CAPACITY`]; beyond is 431.
    pub head_max: usize,
    /// Most bytes of the target; beyond is 414.
    pub target_max: usize,
    /// Most header lines, at most [`crate::http::head::HEADERS_CAPACITY`]; beyond is 431.
    pub headers_max: usize,
}

impl Default for HeadLimits {
    fn default() -> HeadLimits {
        HeadLimits {
            head_max: 16 * 1024,
            target_max: 8 * 1024,
            headers_max: HEADERS_CAPACITY,
        }
    }
}

/// How the content that follows a head ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no content.
    #[default]
    None,
    /// This many bytes.
    Length(u64),
    /// In chunks; see [`crate::http::body::ChunkedDecoder`].
    Chunked,
}

/// A request head: offsets into the bytes it was parsed from, and what follows from them.
///
/// Meant to be kept and used again: parsing after a complete head or an error starts anew.
#[derive(Clone, Debug)]
pub struct RequestHead {
    pub(super) cursor: Cursor,
    pub(super) line: RequestLine,
    pub(super) headers: Headers,
    host: Span,
    framing: Framing,
    keep_alive: bool,
    expect_continue: bool,
    asks_upgrade: bool,
    accepts: Encodings,
    pub(super) pending: Pending,
}

/// What the headers said so far; judged at the end of the head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub(super) content_length: Option<u64>,
    transfer_codings: Option<TransferCodings>,
    connection: ConnectionOptions,
    expect_continue: bool,
    accept_encoding: AcceptEncoding,
}

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead::new()
    }
}

impl RequestHead {
    /// An empty head to parse into.
    #[must_use]
    pub fn new() -> RequestHead {
        RequestHead {
            cursor: Cursor::default(),
            line: RequestLine::default(),
            headers: Headers::new(),
            host: Span::default(),
            framing: Framing::None,
            keep_alive: false,
            expect_continue: false,
            asks_upgrade: false,
            accepts: Encodings::default(),
            pending: Pending::default(),
        }
    }

    /// Forgets what was parsed, a partial head included.
    pub fn clear(&mut self) {
        self.cursor = Cursor::default();
        self.line = RequestLine::default();
        self.headers.clear();
        self.host = Span::default();
        self.framing = Framing::None;
        self.keep_alive = false;
        self.expect_continue = false;
        self.asks_upgrade = false;
        self.accepts = Encodings::default();
        self.pending = Pending::default();
    }

    /// Whether bytes other than empty lines were seen of a head that is not complete: what tells a
    /// slow request from an idle connection.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        let empty = 2 * usize::from(self.line.empty_lines);
        !self.cursor.finished && (self.line.complete || self.cursor.scanned() > empty)
    }

    /// Whether the request line came whole, so that there are a method, a target and a version,
    /// whatever became of what follows it.
    #[inline]
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.line.complete
    }

    /// The method.
    #[inline]
    #[must_use]
    pub fn method(&self) -> Method {
        self.line.method
    }

    /// The method's name, known or not.
    #[must_use]
    pub fn method_name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = 2 * usize::from(self.line.empty_lines);
        let end = self.target().range().start.saturating_sub(1);
        bytes.get(start..end).unwrap_or_default()
    }

    /// Whether the request is of HTTP/1.0; any later 1.x counts as 1.1 (RFC 9110 section 2.5).
    #[inline]
    #[must_use]
    pub fn is_http10(&self) -> bool {
        self.line.minor == 0
    }

    /// The target as sent, for logs and for proxying.
    #[inline]
    #[must_use]
    pub fn target(&self) -> Span {
        self.line.target
    }

    /// The path, not decoded: `/` where an absolute target has none, `*` for OPTIONS of the server
    /// itself.
    #[inline]
    #[must_use]
    pub fn path<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self.line.path.of(bytes) {
            [] if self.line.method == Method::Options && self.line.query.is_none() => b"*",
            [] => b"/",
            path => path,
        }
    }

    /// The query without its `?`, not decoded; empty where there is none.
    #[inline]
    #[must_use]
    pub fn query(&self) -> Span {
        self.line.query.unwrap_or_default()
    }

    /// The host, and the port where one was given: of an absolute target if there is one, else of
    /// the Host header (RFC 9112 section 3.2.2). Empty only in HTTP/1.0.
    #[inline]
    #[must_use]
    pub fn host(&self) -> Span {
        self.host
    }

    /// All header lines.
    #[inline]
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        self.headers.as_slice()
    }

    /// The value of the first line of a known header.
    #[inline]
    #[must_use]
    pub fn known(&self, known: Known) -> Option<Span> {
        self.headers.known(known)
    }

    /// The values of all lines of a known header.
    #[inline]
    pub fn all_known(&self, known: Known) -> impl Iterator<Item = Span> {
        self.headers.all_known(known)
    }

    /// The values of all header lines with this name, in any case of letters.
    pub fn values<'a>(&'a self, bytes: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.all(bytes, name)
    }

    /// How the content that follows ends.
    #[inline]
    #[must_use]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the client lets the connection live on after the answer.
    #[inline]
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client would speak another protocol behind this head, which has no content, if
    /// the answer says so (RFC 9110 section 7.8); `Upgrade` says which.
    #[inline]
    #[must_use]
    pub fn asks_upgrade(&self) -> bool {
        self.asks_upgrade
    }

    /// Whether the client waits for `100 Continue` before it sends its content.
    #[inline]
    #[must_use]
    pub fn expect_continue(&self) -> bool {
        self.expect_continue
    }

    /// The encodings in which the client takes the answer's content.
    #[inline]
    #[must_use]
    pub fn accepts(&self) -> Encodings {
        self.accepts
    }
}

impl RequestHead {
    /// Takes the value of a known header as its line is parsed.
    #[inline(always)]
    pub(super) fn take_known<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        known: Known,
    ) -> Result<(), RequestError> {
        let (value, is_first) = self.headers.last(known);
        let pending = &mut self.pending;
        match known {
            Known::Host => {
                if !is_first {
                    return Err(RequestError::HostDuplicate);
                }
                if !is_host(s, window, value.start.into(), value.end.into()) {
                    return Err(RequestError::HostInvalid);
                }
            }
            Known::ContentLength => {
                if !is_first {
                    return Err(RequestError::ContentLengthDuplicate);
                }
                let length = decimal(value.of(window)).ok_or(RequestError::ContentLengthInvalid)?;
                pending.content_length = Some(length);
            }
            Known::TransferEncoding => {
                let codings = pending.transfer_codings.get_or_insert_default();
                if !codings.add(value.of(window)) {
                    return Err(RequestError::TransferEncodingInvalid);
                }
            }
            Known::Connection => pending.connection.add(value.of(window)),
            Known::AcceptEncoding => pending.accept_encoding.add(value.of(window)),
            Known::Expect => {
                for expectation in elements(value.of(window)) {
                    if !expectation.eq_ignore_ascii_case(b"100-continue") {
                        return Err(RequestError::ExpectationUnknown);
                    }
                }
                pending.expect_continue = true;
            }
            Known::ContentType if !is_first => return Err(RequestError::HeaderDuplicate),
            _ => {}
        }
        Ok(())
    }

    /// Whether more is asked of a known header than its place, or a number: what
    /// [`RequestHead::take_known`] reads the value of.
    pub(super) fn is_judged(known: Known) -> bool {
        matches!(
            known,
            Known::Host
                | Known::TransferEncoding
                | Known::Connection
                | Known::AcceptEncoding
                | Known::Expect
        )
    }

    /// Judges what the headers said together (RFC 9112 sections 3.2, 6.3 and 9.3).
    #[inline(always)]
    pub(super) fn finish(&mut self) -> Result<(), RequestError> {
        let minor = self.line.minor;
        let pending = self.pending;
        let host = self.headers.known(Known::Host);
        if host.is_none() && minor >= 1 {
            return Err(RequestError::HostMissing);
        }
        self.host = self.line.authority.or(host).unwrap_or_default();
        self.framing = match (pending.transfer_codings, pending.content_length) {
            (None, None) => Framing::None,
            (None, Some(length)) => Framing::Length(length),
            (Some(_), _) if minor == 0 => return Err(RequestError::TransferEncodingHttp10),
            (Some(_), Some(_)) => return Err(RequestError::BothLengths),
            (Some(codings), None) if codings.unknown => {
                return Err(RequestError::TransferEncodingUnknown);
            }
            (Some(_), None) => Framing::Chunked,
        };
        self.keep_alive = pending.connection.persists(minor);
        self.asks_upgrade =
            pending.connection.upgrades() && minor >= 1 && self.framing == Framing::None;
        self.accepts = pending.accept_encoding.accepted();
        // An HTTP/1.0 client cannot wait for it, and without content there is nothing to wait for
        // (RFC 9110 section 10.1.1).
        self.expect_continue = pending.expect_continue
            && minor >= 1
            && !matches!(self.framing, Framing::None | Framing::Length(0));
        Ok(())
    }
}
