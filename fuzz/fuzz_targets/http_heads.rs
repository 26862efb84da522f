//! Heads one after the other, each as the one before with some of it changed: through one template
//! they are what each is by itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rhythm_protocol::http::encoding::Encodings;
use rhythm_protocol::http::head::{Header, Known, Progress, Span};
use rhythm_protocol::http::request::{
    Framing, HeadLimits, HeadTemplate, Method, RequestHead, parse_head_like_with, parse_head_with,
};
use rhythm_protocol::scan::Level;

/// What the first head is: each kind of header line that is judged, and some that are not.
const HEAD: &[u8] = b"POST /a/b?c=d HTTP/1.1\r\nHost: h:80\r\nUser-Agent: some (kind) of/1.0\r\n\
    Accept: text/html, */*;q=0.8\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\
    Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\
    Cookie: session=0123456789abcdef; other=x\r\nX-Empty:\r\n\r\n";

const LIMITS: HeadLimits = HeadLimits {
    head_max: 1024,
    target_max: 128,
    headers_max: 16,
};
const NARROW: HeadLimits = HeadLimits {
    head_max: 400,
    target_max: 32,
    headers_max: 8,
};

/// So many heads, at most, each so long.
const HEADS_MAX: usize = 64;
const BYTES_MAX: usize = 2048;

/// All that a head says.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    method: Method,
    is_http10: bool,
    spans: [Span; 3],
    headers: Vec<Header>,
    known: Vec<Option<Span>>,
    framing: Framing,
    keeps: [bool; 2],
    accepts: Encodings,
    length: usize,
}

fn said(head: &RequestHead, parsed: Progress) -> Option<Said> {
    let Progress::Complete { head_len } = parsed else {
        return None;
    };
    Some(Said {
        method: head.method(),
        is_http10: head.is_http10(),
        spans: [head.target(), head.query(), head.host()],
        headers: head.headers().to_vec(),
        known: Known::ALL.iter().map(|known| head.known(*known)).collect(),
        framing: head.framing(),
        keeps: [head.keep_alive(), head.expect_continue()],
        accepts: head.accepts(),
        length: head_len,
    })
}

/// A head as the one before, but for this: how many bytes, from where, are others now; and whether
/// the limits are narrow, or it comes in two parts.
type Change<'a> = (u16, u8, &'a [u8], u8);

fuzz_target!(|changes: Vec<Change<'_>>| {
    let mut workers: Vec<(Level, HeadTemplate)> = (Level::all())
        .map(|level| (level, HeadTemplate::default()))
        .collect();
    let mut bytes = HEAD.to_vec();
    for (at, removed, put, how) in changes.into_iter().take(HEADS_MAX) {
        let at = usize::from(at).min(bytes.len());
        let end = (at + usize::from(removed)).min(bytes.len());
        bytes.splice(at..end, put.iter().copied());
        bytes.truncate(BYTES_MAX);
        let limits = [LIMITS, NARROW][usize::from(how & 1)];
        let first = &bytes[..bytes.len() / usize::from(how & 2).max(1)];
        let mut head = RequestHead::new();
        let parsed = parse_head_with(Level::PORTABLE, &mut head, &bytes, &limits);
        let expected = parsed.map(|parsed| said(&head, parsed));
        for (level, template) in &mut workers {
            let mut head = RequestHead::new();
            let mut parse = |head: &mut RequestHead, bytes: &[u8]| {
                parse_head_like_with(*level, template, head, bytes, &limits)
            };
            let mut parsed = parse(&mut head, first);
            if parsed == Ok(Progress::Partial) {
                parsed = parse(&mut head, &bytes);
            }
            let found = parsed.map(|parsed| said(&head, parsed));
            assert_eq!(found, expected, "{level:?}: {}", bytes.escape_ascii());
            // The limits may be lower when the rest comes.
            let mut head = RequestHead::new();
            let first = parse_head_with(*level, &mut head, first, &LIMITS);
            if first == Ok(Progress::Partial) {
                let _ = parse_head_with(*level, &mut head, &bytes, &NARROW);
            }
        }
    }
});
