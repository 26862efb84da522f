//! A case: bytes, and what the parser makes of them at every SIMD level and any split.

use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{
    Framing, HeadLimits, RequestError, RequestHead, parse_head_with,
};
use rhythm_protocol::scan::Level;

pub(crate) const LIMITS: HeadLimits = HeadLimits {
    head_max: 600,
    target_max: 64,
    headers_max: 12,
};

/// A parsed request in words: `METHOD path?query host framing connection expect len`.
pub(crate) fn summary(head: &RequestHead, bytes: &[u8], head_len: usize) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let framing = match head.framing() {
        Framing::None => "none".to_owned(),
        Framing::Length(len) => len.to_string(),
        Framing::Chunked => "chunked".to_owned(),
    };
    format!(
        "{} {}?{} {} {framing} {}{}{} +{}",
        text(head.method_name(bytes)),
        text(head.path(bytes)),
        text(head.query().of(bytes)),
        text(head.host().of(bytes)),
        if head.is_http10() { "1.0 " } else { "" },
        if head.keep_alive() { "keep" } else { "close" },
        if head.expect_continue() {
            " expect"
        } else {
            ""
        },
        bytes.len() - head_len
    )
}

pub(crate) type Parsed = Result<Option<String>, RequestError>;

pub(crate) fn step(level: Level, head: &mut RequestHead, bytes: &[u8]) -> Parsed {
    match parse_head_with(level, head, bytes, &LIMITS)? {
        Progress::Partial => Ok(None),
        Progress::Complete { head_len } => Ok(Some(summary(head, bytes, head_len))),
    }
}

/// Without the count of bytes after the head, which depends on how much had arrived.
pub(crate) fn without_rest(parsed: &Parsed) -> Parsed {
    parsed
        .clone()
        .map(|text| text.map(|text| text.rsplit_once('+').unwrap().0.to_owned()))
}

/// What the parser says, however the bytes arrive and whatever the instructions.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let whole = step(Level::PORTABLE, &mut RequestHead::new(), bytes);
    for level in Level::all() {
        assert_eq!(
            step(level, &mut RequestHead::new(), bytes),
            whole,
            "{level:?}"
        );
        let mut by_byte = RequestHead::new();
        let mut by_byte_result = Ok(None);
        for cut in 0..=bytes.len() {
            if by_byte_result == Ok(None) {
                by_byte_result = step(level, &mut by_byte, &bytes[..cut]);
            }
            let mut head = RequestHead::new();
            let first = step(level, &mut head, &bytes[..cut]);
            let result = match first {
                Ok(None) => step(level, &mut head, bytes),
                done => done,
            };
            assert_eq!(
                without_rest(&result),
                without_rest(&whole),
                "{level:?}, cut at {cut} of {}",
                bytes.escape_ascii()
            );
        }
        assert_eq!(without_rest(&by_byte_result), without_rest(&whole));
    }
    whole
}

pub(crate) fn expect(cases: &[(&str, Result<&str, RequestError>)]) {
    for (request, expected) in cases {
        // `\x..` above 0x7f stand for that byte.
        let bytes: Vec<u8> = request.chars().map(|c| c as u8).collect();
        let parsed = parse(&bytes);
        match expected {
            Ok(summary) => assert_eq!(parsed, Ok(Some((*summary).to_owned())), "{request:?}"),
            Err(error) => {
                assert_eq!(parsed, Err(*error), "{request:?}");
                assert!((400..=505).contains(&error.status()));
            }
        }
    }
}

/// Header lines behind a sound request line and Host.
pub(crate) fn expect_headers(cases: &[(&str, Result<&str, RequestError>)]) {
    for (lines, expected) in cases {
        let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let summary = expected.map(|what| format!("POST /? h {what} +0"));
        let summary = summary.as_deref().map_err(|error| *error);
        expect(&[(&request, summary)]);
    }
}
