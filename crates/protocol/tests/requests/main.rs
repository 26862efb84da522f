//! A table of requests, well-formed and not, each with what the parser must say. Every one is
//! parsed whole, cut in two at every place, and byte by byte, with every SIMD level of this CPU,
//! always with the same result.

mod cases;
mod malformed;
mod template;
mod well_formed;

use cases::*;
use proptest::prelude::*;
use rhythm_protocol::http::head::{Known, Progress};
use rhythm_protocol::http::request::RequestError::*;
use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head_with};
use rhythm_protocol::scan::Level;

#[test]
fn large_but_legal() {
    let cookie = format!("Cookie: a={}\r\n", "b".repeat(8000));
    let many = "A: b\r\n".repeat(99);
    let path = "a".repeat(8000);
    for request in [
        format!("GET / HTTP/1.1\r\nHost: h\r\n{cookie}\r\n"),
        format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n"),
        format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"),
    ] {
        let limits = HeadLimits::default();
        for level in Level::all() {
            let progress =
                parse_head_with(level, &mut RequestHead::new(), request.as_bytes(), &limits);
            let head_len = request.len();
            assert_eq!(progress, Ok(Progress::Complete { head_len }), "{level:?}");
        }
    }
}

#[test]
fn limits_may_be_lower_when_more_comes() {
    let path = "a".repeat(60);
    let request = format!("\r\nGET /{path} HTTP/1.1\r\nHost: h\r\nA: {path}\r\n\r\n");
    let request = request.as_bytes();
    for level in Level::all() {
        for (split, head_max) in (0..request.len()).flat_map(|at| [(at, 20), (at, 70), (at, 100)]) {
            let mut head = RequestHead::new();
            let before = HeadLimits::default();
            let first = parse_head_with(level, &mut head, &request[..split], &before);
            assert_eq!(first, Ok(Progress::Partial));
            let lower = HeadLimits { head_max, ..before };
            let then = parse_head_with(level, &mut head, request, &lower);
            assert!(
                matches!(then, Err(HeadTooLarge | TargetTooLong)),
                "{level:?} at {split}, {head_max} bytes: {then:?}"
            );
        }
    }
}

#[test]
fn incomplete_heads_wait() {
    for bytes in [
        "",
        "\r",
        "\r\n",
        "G",
        "GET",
        "GET /",
        "GET / HTTP/1.1\r",
        "GET / HTTP/1.1\r\nHost: h\r\n\r",
        "GET / HTTP/1.1\r\nHost : h",
    ] {
        assert_eq!(parse(bytes.as_bytes()), Ok(None), "{bytes:?}");
    }
}

#[test]
fn headers_are_found() {
    let bytes = b"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\ncookie: a=b; c=d \r\nx-a:2\r\n\r\n";
    let mut head = RequestHead::new();
    let progress = parse_head_with(Level::detect(), &mut head, bytes, &LIMITS);
    assert_eq!(
        progress,
        Ok(Progress::Complete {
            head_len: bytes.len()
        })
    );
    assert_eq!(head.headers().len(), 4);
    assert_eq!(
        head.known(Known::Cookie).unwrap().of(bytes),
        b"a=b; c=d".as_slice()
    );
    assert_eq!(head.known(Known::Range), None);
    let values: Vec<_> = head.values(bytes, "X-a").collect();
    assert_eq!(values, [b"1".as_slice(), b"2"]);
}

#[test]
fn a_head_is_reused() {
    let mut head = RequestHead::new();
    let first = b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nConnection: close\r\n\r\n";
    let second = b"GET / HTTP/1.0\r\n\r\n";
    let level = Level::detect();
    assert_eq!(
        step(level, &mut head, first).unwrap().unwrap(),
        "POST /a?b h 1 close +0"
    );
    assert_eq!(
        step(level, &mut head, second).unwrap().unwrap(),
        "GET /?  none 1.0 close +0"
    );
    assert_eq!(step(level, &mut head, b"G{"), Err(MethodInvalid));
    assert_eq!(step(level, &mut head, &first[..20]), Ok(None));
    assert!(head.is_partial());
    head.clear();
    assert!(!head.is_partial());
    assert_eq!(step(level, &mut head, b"\r\n"), Ok(None));
    assert!(!head.is_partial());
    assert!(step(level, &mut head, b"\r\nGET / HTTP/1.0\r\n\r\n").is_ok());
}

proptest! {
    #[test]
    fn splits_and_levels_change_nothing(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "GET ", "POST ", "/", "a?b", "http://h", " HTTP/1.1", "\r\n", "\r\n", "\r", "\n",
            "Host: h", "A: b", " ", "\t", ":", "Content-Length: ", "1",
            "Transfer-Encoding: chunked", "\0", "\u{e9}", "\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n",
            "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
        ]), 0..14)
    ) {
        let _ = parse(parts.concat().as_bytes());
    }

    #[test]
    fn mutations_change_nothing(place in 0usize..200, byte in any::<u8>()) {
        let mut bytes = b"POST /a/b?c=d HTTP/1.1\r\nHost: h:80\r\nContent-Length: 12\r\n\
            Connection: keep-alive\r\nX: y\r\n\r\n"
            .to_vec();
        let place = place % bytes.len();
        bytes[place] = byte;
        let _ = parse(&bytes);
    }
}
