//! Writing response heads (RFC 9112 section 4).
//!
//! [`ResponseWriter`] appends to the caller's buffer, header by header. Nothing a value holds can
//! end a line: control characters become spaces, names are checked before.

use super::date::DateCache;
use super::encoding::Encoding;
use super::head::is_token;

/// Headers that are the business of whoever sends an answer, in lower case: its framing (RFC 9112,
/// section 6), its connection and its date. What makes an answer does not set them.
pub const SENDERS_HEADERS: [&str; 4] =
    ["content-length", "transfer-encoding", "connection", "date"];

/// The reason phrase of a status; empty for one that has none here.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

/// Whether a response with this status never has content (RFC 9110 section 6.4.1); to HEAD none
/// has.
#[must_use]
pub const fn has_no_content(status: u16) -> bool {
    matches!(status, 100..200 | 204 | 304)
}

/// What a client that sent `Expect: 100-continue` waits for.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The line of a head that says that the body comes in chunks.
pub const CHUNKED: &[u8] = b"Transfer-Encoding: chunked\r\n";

/// A header name that is sound (a token, RFC 9110 section 5.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderName<'a>(&'a str);

impl<'a> HeaderName<'a> {
    /// Checks a name; nothing if it is not a token.
    #[must_use]
    pub const fn new(name: &'a str) -> Option<HeaderName<'a>> {
        match is_token(name.as_bytes()) {
            true => Some(HeaderName(name)),
            false => None,
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// A [`HeaderName`] that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedHeaderName(Box<str>);

impl OwnedHeaderName {
    /// Checks a name; nothing if it is not a token.
    #[must_use]
    pub fn new(name: &str) -> Option<OwnedHeaderName> {
        HeaderName::new(name).map(|name| OwnedHeaderName(name.0.into()))
    }

    /// The name.
    #[inline]
    #[must_use]
    pub fn get(&self) -> HeaderName<'_> {
        HeaderName(&self.0)
    }
}

/// Appends a value without its control characters, for which it has spaces; tabs may stay.
pub(crate) fn write_value(value: &[u8], out: &mut Vec<u8>) {
    let is_control = |byte: u8| (byte < 0x20 && byte != b'\t') || byte == 0x7f;
    let start = out.len();
    out.extend_from_slice(value);
    // Nearly always there is none. All are looked at, which several at once can be.
    let any_control = (value.iter()).fold(false, |any, byte| any | is_control(*byte));
    if any_control {
        for byte in &mut out[start..] {
            if is_control(*byte) {
                *byte = b' ';
            }
        }
    }
}

/// A cookie to set (RFC 6265 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetCookie<'a> {
    /// Its name.
    pub name: HeaderName<'a>,
    /// Its value; characters no cookie value has are written as `_`.
    pub value: &'a [u8],
    /// Seconds until it expires; 0 removes it; nothing keeps it while the browser runs.
    pub max_age: Option<u64>,
    /// Keeps scripts from reading it.
    pub http_only: bool,
    /// Keeps it off plain connections; set it under TLS.
    pub secure: bool,
    /// Its SameSite policy.
    pub same_site: SameSite,
}

/// Which requests from other sites carry a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// None.
    Strict,
    /// Only plain navigation.
    Lax,
}

/// Writes a response head into a buffer.
#[derive(Debug)]
pub struct ResponseWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> ResponseWriter<'a> {
    /// Starts a head with its status line. Responses are of HTTP/1.1 whatever the request was of
    /// (RFC 9112 section 2.3).
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, status: u16) -> ResponseWriter<'a> {
        if status == 200 {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            // Three digits always: what is no status is an internal error.
            let status = if (100..1000).contains(&status) {
                status
            } else {
                500
            };
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
            out.push(b' ');
            out.extend_from_slice(reason(status).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        ResponseWriter { out }
    }

    /// Goes on with a head that has been begun elsewhere.
    #[inline]
    pub fn resume(out: &'a mut Vec<u8>) -> ResponseWriter<'a> {
        ResponseWriter { out }
    }

    /// Date.
    #[inline]
    pub fn date(&mut self, date: &DateCache) -> &mut Self {
        let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        line[6..35].copy_from_slice(date.text());
        self.out.extend_from_slice(&line);
        self
    }

    /// Content-Length.
    #[inline]
    pub fn content_length(&mut self, length: u64) -> &mut Self {
        self.number(CONTENT_LENGTH, length)
    }

    /// Transfer-Encoding: the body comes in chunks.
    pub fn chunked(&mut self) -> &mut Self {
        self.out.extend_from_slice(CHUNKED);
        self
    }

    /// Content-Type.
    #[inline]
    pub fn content_type(&mut self, content_type: &str) -> &mut Self {
        self.line("Content-Type: ", content_type.as_bytes())
    }

    /// How content is encoded, where it is; `varies`: others may get it in another encoding, which
    /// caches have to know (RFC 9110 section 12.5.5).
    #[inline]
    pub fn encoding(&mut self, encoding: Encoding, varies: bool) -> &mut Self {
        if varies {
            self.out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        match encoding {
            Encoding::Identity => self,
            _ => self.line("Content-Encoding: ", encoding.name().as_bytes()),
        }
    }

    /// Cache-Control: no-store, which keeps what a session shows out of caches (RFC 9111, section
    /// 5.2.2.5).
    #[inline]
    pub fn no_store(&mut self) -> &mut Self {
        self.out.extend_from_slice(b"Cache-Control: no-store\r\n");
        self
    }

    /// Connection: `close`, or `keep-alive` for an HTTP/1.0 client that asked for it. In HTTP/1.1
    /// keeping alive goes without saying.
    #[inline]
    pub fn connection(&mut self, keep_alive: bool, is_http10: bool) -> &mut Self {
        match (keep_alive, is_http10) {
            (false, _) => self.out.extend_from_slice(b"Connection: close\r\n"),
            (true, true) => self.out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (true, false) => {}
        }
        self
    }

    /// Retry-After, in seconds.
    pub fn retry_after(&mut self, seconds: u64) -> &mut Self {
        self.number("Retry-After: ", seconds)
    }

    /// Allow, with the methods a 405 names.
    pub fn allow<'m>(&mut self, methods: impl IntoIterator<Item = &'m str>) -> &mut Self {
        self.out.extend_from_slice(b"Allow: ");
        for (i, method) in methods.into_iter().enumerate() {
            if i > 0 {
                self.out.extend_from_slice(b", ");
            }
            write_value(method.as_bytes(), self.out);
        }
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Set-Cookie, for the whole site.
    pub fn set_cookie(&mut self, cookie: &SetCookie<'_>) -> &mut Self {
        let out = &mut *self.out;
        out.extend_from_slice(b"Set-Cookie: ");
        out.extend_from_slice(cookie.name.as_str().as_bytes());
        out.push(b'=');
        out.extend(cookie.value.iter().map(|byte| match byte {
            b'"' | b',' | b';' | b'\\' => b'_',
            0x21..=0x7e => *byte,
            _ => b'_',
        }));
        out.extend_from_slice(b"; Path=/");
        if let Some(seconds) = cookie.max_age {
            out.extend_from_slice(b"; Max-Age=");
            out.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
        }
        if cookie.http_only {
            out.extend_from_slice(b"; HttpOnly");
        }
        if cookie.secure {
            out.extend_from_slice(b"; Secure");
        }
        out.extend_from_slice(match cookie.same_site {
            SameSite::Strict => b"; SameSite=Strict\r\n",
            SameSite::Lax => b"; SameSite=Lax\r\n",
        });
        self
    }

    /// Content-Range of a 206: bytes `first` to `last` (both included) of `total`.
    pub fn content_range(&mut self, first: u64, last: u64, total: u64) -> &mut Self {
        self.out.extend_from_slice(b"Content-Range: bytes ");
        let mut digits = itoa::Buffer::new();
        self.out.extend_from_slice(digits.format(first).as_bytes());
        self.out.push(b'-');
        self.out.extend_from_slice(digits.format(last).as_bytes());
        self.number("/", total)
    }

    /// Content-Range of a 416: `total` is the length there is.
    pub fn content_range_unsatisfied(&mut self, total: u64) -> &mut Self {
        self.number("Content-Range: bytes */", total)
    }

    /// Any other header.
    #[inline]
    pub fn header(&mut self, name: HeaderName<'_>, value: &[u8]) -> &mut Self {
        self.out.extend_from_slice(name.as_str().as_bytes());
        self.line(": ", value)
    }

    /// Lines that were written elsewhere.
    pub fn lines(&mut self, lines: &[u8]) -> &mut Self {
        self.out.extend_from_slice(lines);
        self
    }

    /// The empty line that ends the head.
    #[inline]
    pub fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Whole fields, written before by another writer.
    pub fn fields(&mut self, fields: &[u8]) -> &mut Self {
        self.out.extend_from_slice(fields);
        self
    }

    fn line(&mut self, start: &str, value: &[u8]) -> &mut Self {
        self.out.extend_from_slice(start.as_bytes());
        write_value(value, self.out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    fn number(&mut self, start: &str, value: u64) -> &mut Self {
        self.out.extend_from_slice(start.as_bytes());
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        self
    }
}

/// The head of answers with status 200 that differ in nothing but their date and length. It is
/// copied as a whole, and these are patched in.
#[derive(Debug)]
pub struct PreparedHead {
    /// Up to where the length's digits follow.
    bytes: Box<[u8]>,
}

impl PreparedHead {
    /// Where the date's text stands: behind the status line and the field's name.
    const DATE: usize = b"HTTP/1.1 200 OK\r\nDate: ".len();

    /// The head with these fields, each with its line's end, between its date and its length.
    #[must_use]
    pub fn new(fields: &[u8]) -> PreparedHead {
        let mut bytes = Vec::new();
        ResponseWriter::new(&mut bytes, 200).date(&DateCache::new(0));
        bytes.extend_from_slice(fields);
        bytes.extend_from_slice(CONTENT_LENGTH.as_bytes());
        PreparedHead {
            bytes: bytes.into(),
        }
    }

    /// Writes it, to its end.
    #[inline]
    pub fn write(&self, date: &DateCache, length: u64, out: &mut Vec<u8>) {
        let at = out.len() + Self::DATE;
        out.extend_from_slice(&self.bytes);
        let text = date.text();
        out[at..at + text.len()].copy_from_slice(text);
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
    }
}

const CONTENT_LENGTH: &str = "Content-Length: ";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_a_head() {
        let mut out = b"before".to_vec();
        let mut head = ResponseWriter::new(&mut out, 405);
        head.date(&DateCache::new(784_111_777))
            .content_type("text/html; charset=utf-8")
            .content_length(0)
            .encoding(Encoding::Identity, false)
            .encoding(Encoding::Identity, true)
            .encoding(Encoding::Gzip, true)
            .connection(false, false)
            .connection(true, false)
            .connection(true, true)
            .retry_after(5)
            .allow(["GET", "HEAD"])
            .content_range(0, 9, 100)
            .content_range_unsatisfied(100)
            .set_cookie(&SetCookie {
                name: HeaderName::new("sid").unwrap(),
                value: b"a;b\r\n",
                max_age: Some(0),
                http_only: true,
                secure: true,
                same_site: SameSite::Lax,
            })
            .header(HeaderName::new("X-Y").unwrap(), b"a\r\nSet-Cookie: b\0")
            .end();
        let expected = "beforeHTTP/1.1 405 Method Not Allowed\r\n\
            Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
            Content-Type: text/html; charset=utf-8\r\n\
            Content-Length: 0\r\n\
            Vary: Accept-Encoding\r\n\
            Vary: Accept-Encoding\r\n\
            Content-Encoding: gzip\r\n\
            Connection: close\r\n\
            Connection: keep-alive\r\n\
            Retry-After: 5\r\n\
            Allow: GET, HEAD\r\n\
            Content-Range: bytes 0-9/100\r\n\
            Content-Range: bytes */100\r\n\
            Set-Cookie: sid=a_b__; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax\r\n\
            X-Y: a  Set-Cookie: b \r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_prepared_head_is_the_one_that_is_written() {
        let date = DateCache::new(784_111_777);
        for (fields, length) in [(&b""[..], 0), (b"Content-Type: text/html\r\n", 16_213)] {
            let (mut prepared, mut written) = (b"before".to_vec(), b"before".to_vec());
            PreparedHead::new(fields).write(&date, length, &mut prepared);
            ResponseWriter::new(&mut written, 200).date(&date);
            written.extend_from_slice(fields);
            let mut rest = ResponseWriter::resume(&mut written);
            rest.content_length(length).end();
            assert_eq!(prepared, written);
        }
    }

    #[test]
    fn names_are_tokens() {
        for bad in ["", "a b", "a:", "a\r\n", "\u{e9}"] {
            assert_eq!(HeaderName::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_error_has_a_reason() {
        for status in [
            400, 404, 405, 408, 413, 414, 415, 416, 417, 431, 500, 501, 502, 503, 504, 505,
        ] {
            assert_ne!(reason(status), "");
        }
        let mut out = Vec::new();
        ResponseWriter::new(&mut out, 7);
        assert_eq!(out, b"HTTP/1.1 500 Internal Server Error\r\n");
    }

    proptest! {
        #[test]
        fn no_value_ends_a_line(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut out = Vec::new();
            ResponseWriter::new(&mut out, 200).header(HeaderName::new("a").unwrap(), &value);
            let line = out.strip_prefix(b"HTTP/1.1 200 OK\r\n".as_slice()).unwrap();
            prop_assert_eq!(line.len(), value.len() + 5);
            let line = &line[..line.len() - 2];
            prop_assert!(line.iter().all(|b| *b == b'\t' || !b.is_ascii_control()));
        }
    }
}
