//! Requests that two servers might take for different ones: each reaches the other server as
//! exactly one, or is refused.

use super::upstream::Upstream;
use super::{raw, serve};

/// What follows each: it would be answered, and would be seen, if it were taken for a request.
pub(super) const HIDDEN: &str = "GET /app/hidden HTTP/1.1\r\nHost: h\r\n\r\n";

/// Heads that are to be refused, whatever follows.
pub(super) const REFUSED: &[&str] = &[
    // CL.TE and TE.CL
    "Content-Length: 6\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 6",
    // TE.TE
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding:\u{b}chunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding : chunked",
    " Transfer-Encoding: chunked",
    "X: y\r\n Transfer-Encoding: chunked",
    "X: y\r\n\tfolded",
    "X: y\nTransfer-Encoding: chunked",
    "X: y\rTransfer-Encoding: chunked",
    // Lengths
    "Content-Length: 6\r\nContent-Length: 7",
    "Content-Length: 0\r\nContent-Length: 0",
    "Content-Length: +6",
    "Content-Length: -6",
    "Content-Length: 6, 6",
    "Content-Length: 0x6",
    "Content-Length: 6 6",
    "Content-Length: 18446744073709551616",
    "Content-Length : 6",
    "Content-Length: 6\0",
    "Content-Length:",
    // Names and hosts
    "X\0: y",
    "X y: z",
    ": y",
    "Host: other",
    "X: y\0z",
];

/// Contents in chunks that are to be refused.
pub(super) const CHUNKS_REFUSED: &[&str] = &[
    "0x5\r\nhello\r\n0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "-5\r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "5\r\nhello0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "00000000000000005\r\nhello\r\n0\r\n\r\n",
    "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "5;a=b\nhello\r\n0\r\n\r\n",
    "5;a\0b\r\nhello\r\n0\r\n\r\n",
    "\r\nhello\r\n0\r\n\r\n",
];

#[test]
fn heads_that_mean_two_things_are_refused() {
    let app = Upstream::new();
    let server = serve("smuggling-heads", &app, "");
    for head in REFUSED {
        let request =
            format!("POST /app/echo HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n0\r\n\r\n{HIDDEN}");
        let text = raw(&server, request.as_bytes());
        assert!(
            text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 501"),
            "{head}: {text}"
        );
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{head}: {text}");
        assert!(app.seen().is_empty(), "{head:?} was passed on");
    }
    for line in [
        "POST  /app/echo HTTP/1.1",
        "POST /app/echo HTTP/1.1 ",
        "POST /app/echo\tHTTP/1.1",
        "POST /app/echo HTTP/1.1\r\nX: y\r\n\n",
        "POST /app/echo HTTP/2.0",
        "POST /app/\0echo HTTP/1.1",
        "POST /app/echo x HTTP/1.1",
    ] {
        let text = raw(
            &server,
            format!("{line}\r\nHost: h\r\n\r\n{HIDDEN}").as_bytes(),
        );
        assert!(
            text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 5"),
            "{line}: {text}"
        );
        assert!(app.seen().is_empty(), "{line:?} was passed on");
    }
}

#[test]
fn chunks_that_mean_two_things_are_refused() {
    let app = Upstream::new();
    let server = serve("smuggling-chunks", &app, "");
    for chunks in CHUNKS_REFUSED {
        let head = "POST /app/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = raw(&server, format!("{head}{chunks}{HIDDEN}").as_bytes());
        assert!(!text.starts_with("HTTP/1.1 2"), "{chunks:?}: {text}");
        assert!(!text.contains("hello"), "{chunks:?}: {text}");
        // Its head may have been passed on; then it was never whole, and nothing is behind it.
        assert!(app.seen().is_empty(), "{chunks:?} was passed on");
    }
}

#[test]
fn what_means_one_thing_is_passed_on_as_one_in_our_own_framing() {
    let app = Upstream::new();
    let server = serve("smuggling-sound", &app, "");
    let post = "POST /app/echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
    for (head, content, seen_as) in [
        (
            "Transfer-Encoding: chunked",
            "5\r\nhello\r\n0\r\n\r\n",
            "hello",
        ),
        (
            "Transfer-Encoding: Chunked",
            "5;a=\"b;c\"\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n",
            "hello",
        ),
        (
            "transfer-encoding:chunked",
            "005\r\nhello\r\n000\r\n\r\n",
            "hello",
        ),
        ("Content-Length: 005", "hello", "hello"),
        (
            "Content-Length: 38",
            "GET /app/hidden HTTP/1.1\r\nHost: h\r\n\r\nx",
            "GET /app/hidden HTTP/1.1\r\nHost: h\r\n\r\nx",
        ),
        (
            "Content-Length: 5\r\nTE: trailers, chunked",
            "hello",
            "hello",
        ),
        (
            "Content-Length: 5\r\nConnection: Content-Length",
            "hello",
            "hello",
        ),
        (
            "Content-Length: 5\r\nConnection: Transfer-Encoding, Host",
            "hello",
            "hello",
        ),
        (
            "Content-Length: 5\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\
             HTTP2-Settings: x",
            "hello",
            "hello",
        ),
        ("Content-Length: 0", HIDDEN, ""),
        ("X-Length: 5", HIDDEN, ""),
    ] {
        let text = raw(&server, format!("{post}{head}\r\n\r\n{content}").as_bytes());
        let seen = app.seen();
        assert_eq!(seen.len(), 1, "{head}: {seen:?}, {text}");
        let one = &seen[0];
        assert_eq!(String::from_utf8_lossy(&one.content), seen_as, "{head}");
        let lengths = one.field("content-length").len() + one.field("transfer-encoding").len();
        assert_eq!(lengths, 1, "{one:?}");
        assert_eq!(one.field("host"), ["h"], "{one:?}");
        for gone in ["te", "upgrade", "http2-settings", "connection"] {
            assert!(one.field(gone).is_empty(), "{gone} in {one:?}");
        }
        assert!(text.ends_with(seen_as), "{head}: {text}");
    }
    let absolute =
        "GET http://h/app/length?a=b HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n";
    assert!(raw(&server, absolute.as_bytes()).ends_with("hello"));
    let seen = app.seen();
    assert!(
        seen[0].head.starts_with("GET /app/length?a=b HTTP/1.1\r\n"),
        "{seen:?}"
    );
    assert_eq!(
        seen[0].field("host"),
        ["h"],
        "the target's, which goes before (RFC 9112, 3.2.2)"
    );
    // HTTP/2 is not asked for in another way either.
    let h2c = "GET /app/length HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\
               Connection: Upgrade, HTTP2-Settings, close\r\n\r\n";
    assert!(raw(&server, h2c.as_bytes()).ends_with("hello"));
    assert!(app.seen()[0].field("upgrade").is_empty());
    // Many on one connection are as many.
    let one = "POST /app/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    let last = "GET /app/length HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let text = raw(&server, (one.repeat(20) + last).as_bytes());
    assert_eq!(
        (app.seen().len(), text.matches("HTTP/1.1 200").count()),
        (21, 21)
    );
}

#[test]
fn clients_do_not_say_for_whom_they_ask_but_proxies_that_are_trusted_do() {
    let app = Upstream::new();
    let said = "GET /app/length HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\
                X-Forwarded-Proto: https\r\nX_Forwarded_Host: evil\r\nForwarded: for=1.2.3.4\r\n\
                Connection: close, X-Forwarded-For\r\n\r\n";
    let server = serve("who", &app, "");
    raw(&server, said.as_bytes());
    let seen = app.seen();
    assert_eq!(seen[0].field("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(seen[0].field("x-forwarded-proto"), ["http"]);
    assert_eq!(seen[0].field("x-forwarded-host"), ["h"]);
    assert_eq!(
        seen[0].field("forwarded"),
        ["for=127.0.0.1;host=\"h\";proto=http"]
    );
    assert!(!seen[0].head.contains("evil"), "{seen:?}");
    let more = "trusted_proxies = \"127.0.0.0/8\"\nhost = \"upstream\"";
    let server = serve("trusted", &app, more);
    raw(&server, said.as_bytes());
    let seen = app.seen();
    assert_eq!(seen[0].field("x-forwarded-for"), ["1.2.3.4, 127.0.0.1"]);
    assert_eq!(seen[0].field("x-forwarded-proto"), ["https"]);
    assert_eq!(seen[0].field("host"), [app.address.to_string()]);
}
