//! The request line (RFC 9112 section 3): method, target in its four forms, version; and hosts,
//! which targets and Host headers share.

use super::RequestError;
use crate::http::head::{Span, TOKEN, decimal, is_token};
use crate::scan::{self, ALPHANUMERIC, ByteSet, Simd};

/// Characters of a target: those of RFC 3986 and those browsers leave as they are.
pub(crate) const TARGET: ByteSet = ByteSet::range(0x21, 0x7e).without(b"\"#<>\\");

/// Characters of a host name; addresses in brackets are checked apart.
const HOST: ByteSet = ALPHANUMERIC.or(ByteSet::new(b"-._~"));

/// Longest method looked at: those that are registered have 17 characters at most.
const METHOD_LEN_MAX: usize = 24;

/// Methods, as far as anything is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// PATCH
    Patch,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// Any other: whoever takes it knows it by its name
    /// ([`RequestHead::method_name`](super::RequestHead::method_name)).
    Other,
}

/// Those that have a name here.
const KNOWN: [Method; 8] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Patch,
    Method::Options,
    Method::Trace,
];

impl Method {
    /// The method's name; empty where it is another.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Patch => "PATCH",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Other => "",
        }
    }

    /// What a request's method of this name, which is a token, is taken for: nothing, where it is
    /// CONNECT, or a known one but for the case of its letters, since names are case-sensitive
    /// (RFC 9110, section 9.1), and a server that it is passed on to might not know.
    #[inline(always)]
    fn of_request(name: &[u8]) -> Option<Method> {
        Method::named(name).or_else(|| Method::other(name))
    }

    /// Whether a request of this method is taken: a token that is not too long, neither CONNECT nor
    /// a known one in other letters.
    #[must_use]
    pub fn is_taken(name: &[u8]) -> bool {
        name.len() <= METHOD_LEN_MAX && is_token(name) && Method::of_request(name).is_some()
    }

    #[cold]
    fn other(name: &[u8]) -> Option<Method> {
        let is_like = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let is_refused = is_like("CONNECT") || KNOWN.iter().any(|known| is_like(known.name()));
        (!is_refused).then_some(Method::Other)
    }

    /// The method of this name, if it is a known one; names are case-sensitive.
    #[inline(always)]
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Method> {
        Some(match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"PATCH" => Method::Patch,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            _ => return None,
        })
    }
}

/// The request line as far as it is parsed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestLine {
    pub(super) empty_lines: u8,
    pub(super) complete: bool,
    pub(super) minor: u8,
    pub(super) method: Method,
    /// Offset of the space after the method, or 0. Narrow, like all of this, so that clearing it
    /// all with a few wide stores delays no load after them.
    method_end: u16,
    /// The target's characters are checked up to here.
    target_checked: u16,
    pub(super) target: Span,
    pub(super) path: Span,
    pub(super) query: Option<Span>,
    pub(super) authority: Option<Span>,
}

impl RequestLine {
    /// Parses the request line `start..end` (RFC 9112 section 3) from left to right, going on where
    /// an earlier call stopped. If it is not `complete`, more may follow `end` (a CR at `end` is
    /// not yet a line's end).
    #[inline(always)]
    pub(super) fn parse<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        start: usize,
        end: usize,
        target_max: usize,
        complete: bool,
    ) -> Result<(), RequestError> {
        // What stopped a run of characters, where a CR is as good as the end of the line.
        let stop = |at: usize| match window[..end].get(at) {
            None if complete => Some(b'\r'),
            stop => stop.copied(),
        };
        if self.method_end == 0 {
            let at = s.run_end(window, start, end, &TOKEN);
            if at - start > METHOD_LEN_MAX {
                return Err(RequestError::MethodUnknown);
            }
            match stop(at) {
                None => return Ok(()),
                Some(b'\r') => return Err(RequestError::RequestLine),
                Some(b' ') if at > start => self.method_end = at as u16,
                Some(_) => return Err(RequestError::MethodInvalid),
            }
        }
        let method_end = usize::from(self.method_end);
        let target_start = method_end + 1;
        let mut target_end = usize::from(self.target.end);
        if target_end == 0 {
            let longest = end.min(target_start + target_max + 1);
            let from = usize::from(self.target_checked).max(target_start);
            let at = s.run_end(window, from, longest.max(from), &TARGET);
            self.target_checked = at as u16;
            if at - target_start > target_max {
                return Err(RequestError::TargetTooLong);
            }
            match stop(at) {
                None => return Ok(()),
                Some(b'\r') => return Err(RequestError::RequestLine),
                Some(b' ') if at > target_start => target_end = at,
                Some(byte) => return Err(RequestError::TargetInvalid(byte)),
            }
            self.target = Span::new(target_start, target_end);
        }
        let version = &window[target_end + 1..end];
        if !complete {
            return version_start(version);
        }
        let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] = *version else {
            return Err(RequestError::VersionInvalid);
        };
        if !major.is_ascii_digit() || !minor.is_ascii_digit() {
            return Err(RequestError::VersionInvalid);
        }
        if major != b'1' {
            return Err(RequestError::VersionUnsupported);
        }
        self.minor = minor - b'0';
        self.complete = true;
        self.method =
            Method::of_request(&window[start..method_end]).ok_or(RequestError::MethodUnknown)?;
        self.split_target(s, window, target_start, target_end)
    }

    /// Finds path, query and authority in the target `start..end` (RFC 9112 section 3.2).
    #[inline(always)]
    fn split_target<S: Simd>(
        &mut self,
        s: S,
        window: &[u8],
        mut start: usize,
        end: usize,
    ) -> Result<(), RequestError> {
        let target = &window[start..end];
        if target[0] != b'/' {
            if target == b"*" && self.method == Method::Options {
                // The path stays empty, which stands for `*`.
                return Ok(());
            }
            let scheme = target.iter().position(|byte| *byte == b':').unwrap_or(0);
            let is_http = target[..scheme].eq_ignore_ascii_case(b"http")
                || target[..scheme].eq_ignore_ascii_case(b"https");
            if !is_http || !target[scheme..].starts_with(b"://") {
                return Err(RequestError::TargetForm);
            }
            start += scheme + 3;
            let len = window[start..end]
                .iter()
                .take_while(|byte| !matches!(byte, b'/' | b'?'))
                .count();
            if !is_host(s, window, start, start + len) {
                return Err(RequestError::HostInvalid);
            }
            self.authority = Some(Span::new(start, start + len));
            start += len;
        }
        let path_end = scan::find_byte(s, window, start, end, b'?');
        self.path = Span::new(start, path_end);
        if path_end < end {
            self.query = Some(Span::new(path_end + 1, end));
        }
        Ok(())
    }
}

/// Whether `version` can be the start of a version and the CR after it.
fn version_start(version: &[u8]) -> Result<(), RequestError> {
    let sound = version.iter().enumerate().all(|(i, byte)| match i {
        0..5 => *byte == b"HTTP/"[i],
        5 | 7 => byte.is_ascii_digit(),
        6 => *byte == b'.',
        8 => *byte == b'\r',
        _ => false,
    });
    if sound {
        Ok(())
    } else {
        Err(RequestError::VersionInvalid)
    }
}

/// Whether `start..end` is a host and perhaps a port (RFC 9110 section 7.2).
#[inline(always)]
pub(super) fn is_host<S: Simd>(s: S, window: &[u8], start: usize, end: usize) -> bool {
    let after_host = if window[start..end].first() == Some(&b'[') {
        match ipv6_end(&window[start..end]) {
            Some(len) => start + len,
            None => return false,
        }
    } else {
        s.run_end(window, start, end, &HOST)
    };
    after_host > start
        && match &window[after_host..end] {
            [] => true,
            [b':', port @ ..] => {
                port.iter().all(u8::is_ascii_digit)
                    && decimal(port).is_none_or(|port| port <= u64::from(u16::MAX))
                    && port.len() <= 5
            }
            _ => false,
        }
}

/// The length of the address in brackets that `host` starts with.
#[cold]
fn ipv6_end(host: &[u8]) -> Option<usize> {
    let close = host.iter().position(|byte| *byte == b']')?;
    let address = core::str::from_utf8(&host[1..close]).ok()?;
    address.parse::<core::net::Ipv6Addr>().ok()?;
    Some(close + 1)
}
