//! Tests of what a client reads.

use super::*;
use crate::http::request::{HeadLimits, RequestHead, parse_head};

type Parsed = Result<Option<(u16, ResponseFraming, bool, usize)>, ResponseError>;

fn step(head: &mut ResponseHead, bytes: &[u8], to_head: bool) -> Parsed {
    Ok(match parse_response(head, bytes, 4096, to_head)? {
        Progress::Partial => None,
        Progress::Complete { head_len } => {
            Some((head.status(), head.framing(), head.keep_alive(), head_len))
        }
    })
}

fn parse(bytes: &str, to_head: bool) -> Parsed {
    let bytes = bytes.as_bytes();
    let whole = step(&mut ResponseHead::new(), bytes, to_head);
    for cut in 0..bytes.len() {
        let mut head = ResponseHead::new();
        let result = match step(&mut head, &bytes[..cut], to_head) {
            Ok(None) => step(&mut head, bytes, to_head),
            done => done,
        };
        assert_eq!(result, whole, "cut at {cut}");
    }
    whole
}

#[test]
fn responses() {
    use ResponseFraming::*;
    for (text, to_head, status, framing, keep_alive) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            false,
            200,
            Length(5),
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            true,
            200,
            None,
            true,
        ),
        (
            "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n",
            false,
            200,
            Chunked,
            true,
        ),
        ("HTTP/1.1 200 \r\n\r\n", false, 200, UntilClose, false),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            false,
            200,
            Length(0),
            false,
        ),
        (
            "HTTP/1.0 404 x\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n",
            false,
            404,
            Length(0),
            true,
        ),
        (
            "HTTP/1.1 503 Busy \u{e9}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            false,
            503,
            Length(0),
            false,
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            false,
            304,
            None,
            true,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", false, 204, None, true),
        ("HTTP/1.1 100 Continue\r\n\r\n", false, 100, None, true),
    ] {
        assert_eq!(
            parse(text, to_head),
            Ok(Some((status, framing, keep_alive, text.len()))),
            "{text}"
        );
    }
}

#[test]
fn malformed_responses() {
    use ResponseError::*;
    for (text, error) in [
        ("HTTP/2 200\r\n", StatusLine),
        ("HTTP/1.1 20\r\n", StatusLine),
        ("HTTP/1.1 099 x\r\n", StatusLine),
        ("HTTP/1.1 2000\r\n", StatusLine),
        ("HTTP/1.1  200\r\n", StatusLine),
        ("\r\nHTTP/1.1 200 OK\r\n", StatusLine),
        ("<html>", StatusLine),
        ("HTTP/1.1 200 OK\nA: b\n\n", Head),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Head),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            Framing,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Framing),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            Framing,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            Framing,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Framing,
        ),
    ] {
        assert_eq!(parse(text, false), Err(error), "{text:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(5000));
    assert_eq!(parse(&long, false), Err(HeadTooLarge));
}

#[test]
fn requests_parse_again() {
    let mut out = Vec::new();
    RequestWriter::new(&mut out, Method::Post, b"/a b?c=\r\n\xff", "h\r\nX: y")
        .header(HeaderName::new("Cookie").unwrap(), b"a=b\r\n\r\n")
        .body(b"hello");
    let expected = "POST /a%20b?c=%0D%0A%FF HTTP/1.1\r\nHost: h  X: y\r\nCookie: a=b    \r\n\
        Content-Length: 5\r\n\r\nhello";
    assert_eq!(String::from_utf8(out).unwrap(), expected);

    let mut out = Vec::new();
    RequestWriter::new(&mut out, Method::Get, b"/", "h").end();
    let mut head = RequestHead::new();
    let progress = parse_head(&mut head, &out, &HeadLimits::default());
    assert_eq!(
        progress,
        Ok(Progress::Complete {
            head_len: out.len()
        })
    );
}
