//! A table of requests, well-formed and not, each with what the parser must say. Every one is
//! parsed whole, cut in two at every place, and byte by byte, with every SIMD level of this CPU,
//! always with the same result.

use proptest::prelude::*;
use rhythm_protocol::http::head::{Known, Progress};
use rhythm_protocol::http::request::{
    Framing, HeadLimits, RequestError, RequestHead, parse_head_with,
};
use rhythm_protocol::scan::Level;

use RequestError::*;

const LIMITS: HeadLimits = HeadLimits {
    head_max: 600,
    target_max: 64,
    headers_max: 12,
};

/// A parsed request in words: `METHOD path?query host framing connection expect len`.
fn summary(head: &RequestHead, bytes: &[u8], head_len: usize) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let framing = match head.framing() {
        Framing::None => "none".to_owned(),
        Framing::Length(len) => len.to_string(),
        Framing::Chunked => "chunked".to_owned(),
    };
    format!(
        "{} {}?{} {} {framing} {}{}{} +{}",
        head.method().name(),
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

type Parsed = Result<Option<String>, RequestError>;

fn step(level: Level, head: &mut RequestHead, bytes: &[u8]) -> Parsed {
    match parse_head_with(level, head, bytes, &LIMITS)? {
        Progress::Partial => Ok(None),
        Progress::Complete { head_len } => Ok(Some(summary(head, bytes, head_len))),
    }
}

/// Without the count of bytes after the head, which depends on how much had arrived.
fn without_rest(parsed: &Parsed) -> Parsed {
    parsed
        .clone()
        .map(|text| text.map(|text| text.rsplit_once('+').unwrap().0.to_owned()))
}

/// What the parser says, however the bytes arrive and whatever the instructions.
fn parse(bytes: &[u8]) -> Parsed {
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

fn expect(cases: &[(&str, Result<&str, RequestError>)]) {
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
fn expect_headers(cases: &[(&str, Result<&str, RequestError>)]) {
    for (lines, expected) in cases {
        let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let summary = expected.map(|what| format!("POST /? h {what} +0"));
        let summary = summary.as_deref().map_err(|error| *error);
        expect(&[(&request, summary)]);
    }
}

#[test]
fn well_formed() {
    expect(&[
        (
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /? h none keep +0"),
        ),
        (
            "GET /a/b.php?x=1&y=%20 HTTP/1.1\r\nhost:h.example:8080\r\n\r\n",
            Ok("GET /a/b.php?x=1&y=%20 h.example:8080 none keep +0"),
        ),
        (
            "GET /?a?b HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /?a?b h none keep +0"),
        ),
        (
            "GET /x? HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /x? h none keep +0"),
        ),
        (
            "GET /a|b[c]{d}^`~ HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /a|b[c]{d}^`~? h none keep +0"),
        ),
        (
            "HEAD / HTTP/1.1\r\nHOST:\t h \t\r\n\r\n",
            Ok("HEAD /? h none keep +0"),
        ),
        (
            "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /? h none keep +0"),
        ),
        (
            "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\nGET",
            Ok("GET /? h none keep +3"),
        ),
        ("GET / HTTP/1.0\r\n\r\n", Ok("GET /?  none 1.0 close +0")),
        (
            "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            Ok("GET /?  none 1.0 keep +0"),
        ),
        (
            "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive, close\r\n\r\n",
            Ok("GET /? h none 1.0 close +0"),
        ),
        (
            "GET / HTTP/1.9\r\nHost: h\r\n\r\n",
            Ok("GET /? h none keep +0"),
        ),
        (
            "GET http://other:80/p?q HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /p?q other:80 none keep +0"),
        ),
        (
            "GET HTTPS://other HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /? other none keep +0"),
        ),
        (
            "GET http://other?q HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("GET /?q other none keep +0"),
        ),
        (
            "GET http://other/ HTTP/1.0\r\n\r\n",
            Ok("GET /? other none 1.0 close +0"),
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("OPTIONS *? h none keep +0"),
        ),
        (
            "OPTIONS http://other HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("OPTIONS *? other none keep +0"),
        ),
        (
            "OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("OPTIONS /? h none keep +0"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            Ok("GET /? [::1]:80 none keep +0"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:\r\n\r\n",
            Ok("GET /? 127.0.0.1: none keep +0"),
        ),
        (
            "PUT / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("PUT /? h none keep +0"),
        ),
        (
            "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("DELETE /? h none keep +0"),
        ),
        (
            "PATCH / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("PATCH /? h none keep +0"),
        ),
        (
            "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n",
            Ok("TRACE /? h none keep +0"),
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
            Ok("POST /? h 5 keep +5"),
        ),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Ok("POST /? h chunked keep +5"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n\0\n",
            Ok("GET /? h 2 keep +2"),
        ),
    ]);
    expect_headers(&[
        ("Content-Length: 0\r\n", Ok("0 keep")),
        ("Content-Length:   007  \r\n", Ok("7 keep")),
        (
            "content-length: 18446744073709551615\r\n",
            Ok("18446744073709551615 keep"),
        ),
        ("Transfer-Encoding: Chunked\r\n", Ok("chunked keep")),
        ("transfer-encoding:\tchunked \r\n", Ok("chunked keep")),
        ("Connection: close\r\n", Ok("none close")),
        ("Connection: Upgrade, Close\r\n", Ok("none close")),
        (
            "Connection: upgrade\r\nConnection: close\r\n",
            Ok("none close"),
        ),
        ("Connection: closed\r\n", Ok("none keep")),
        (
            "Content-Length: 3\r\nExpect: 100-continue\r\n",
            Ok("3 keep expect"),
        ),
        (
            "Content-Length: 3\r\nExpect: 100-Continue\r\n",
            Ok("3 keep expect"),
        ),
        (
            "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
            Ok("chunked keep expect"),
        ),
        ("Expect: 100-continue\r\n", Ok("none keep")),
        (
            "Content-Length: 0\r\nExpect: 100-continue\r\n",
            Ok("0 keep"),
        ),
        ("Connection: Keep-Alive, X\r\n", Ok("none keep")),
        ("Connection: x,,\tCLOSE ,\r\n", Ok("none close")),
        ("Connection:\r\n", Ok("none keep")),
        (
            "Connection: keep-alive\r\nConnection: x, close\r\n",
            Ok("none close"),
        ),
        (
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n",
            Ok("none keep"),
        ),
        (
            "Connection: close, Content-Length\r\nContent-Length: 3\r\n",
            Ok("3 close"),
        ),
        ("TE: trailers, chunked\r\n", Ok("none keep")),
        (
            "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n",
            Ok("chunked keep"),
        ),
        ("Content-Length:\t0\t\r\n", Ok("0 keep")),
        ("X:\t \r\nY: z\r\n", Ok("none keep")),
        ("X: :\r\nY:: z\r\n", Ok("none keep")),
        ("Cookie: a=1\r\nCookie: b=2\r\n", Ok("none keep")),
        ("X-Empty:\r\n", Ok("none keep")),
        ("X-Obs: \u{e9}\u{ff}\r\n", Ok("none keep")),
        ("X: a\tb: c,;\"\r\n", Ok("none keep")),
        ("!#$%&'*+-.^_`|~09azAZ: x\r\n", Ok("none keep")),
        ("Transfer_Encoding: chunked\r\n", Ok("none keep")),
        (
            "X-Transfer-Encoding: chunked\r\nContent-Length-X: 1\r\n",
            Ok("none keep"),
        ),
    ]);
    expect(&[(
        "POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        Ok("POST /?  3 1.0 close +0"),
    )]);
}

#[test]
fn malformed_request_lines() {
    expect(&[
        ("\r\n\r\n\r\nGET / HTTP/1.1\r\n", Err(RequestLine)),
        ("\nGET / HTTP/1.1\r\n", Err(BareLf)),
        ("\rGET / HTTP/1.1\r\n", Err(BareCr)),
        (" GET / HTTP/1.1\r\n", Err(MethodInvalid)),
        ("\tGET / HTTP/1.1\r\n", Err(MethodInvalid)),
        ("GET\r\n", Err(RequestLine)),
        ("GET \r\n", Err(RequestLine)),
        ("GET /\r\n", Err(RequestLine)),
        ("GET / \r\n", Err(VersionInvalid)),
        ("GET  / HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET\t/ HTTP/1.1\r\n", Err(MethodInvalid)),
        ("GET /\tHTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /  HTTP/1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.1 \r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.1 x\r\n", Err(VersionInvalid)),
        ("GET /a b HTTP/1.1\r\n", Err(VersionInvalid)),
        ("GET / http/1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.10\r\n", Err(VersionInvalid)),
        ("GET / HTTP/11\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1,1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/01.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.01\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/ 1.1\r\n", Err(VersionInvalid)),
        ("GET / Http/1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.\u{b9}\r\n", Err(VersionInvalid)),
        ("GET / ICY/1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/1.1\t\r\n", Err(VersionInvalid)),
        ("GET /\x0bHTTP/1.1\r\n", Err(Control)),
        ("GET /\x0c HTTP/1.1\r\n", Err(Control)),
        ("GET\u{a0}/ HTTP/1.1\r\n", Err(MethodInvalid)),
        ("GET /\u{a0}HTTP/1.1\r\n", Err(TargetInvalid)),
        ("\u{feff}GET / HTTP/1.1\r\n", Err(MethodInvalid)),
        ("GET http://h\\@x/ HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET http://h%00/ HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http://a,b/ HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http://h:99999/ HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http://u:p@h/ HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http:// HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http://?q HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http: HTTP/1.1\r\n", Err(TargetForm)),
        ("GET javascript:x HTTP/1.1\r\n", Err(TargetForm)),
        ("GET . HTTP/1.1\r\n", Err(TargetForm)),
        ("OPTIONS *?q HTTP/1.1\r\n", Err(TargetForm)),
        ("OPTIONS */ HTTP/1.1\r\n", Err(TargetForm)),
        ("GET / HTTP/+1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/x.1\r\n", Err(VersionInvalid)),
        ("GET / HTTPS/1.1\r\n", Err(VersionInvalid)),
        ("GET / HTTP/0.9\r\n", Err(VersionUnsupported)),
        ("GET / HTTP/2.0\r\n", Err(VersionUnsupported)),
        ("GET / HTTP/3.0\r\n", Err(VersionUnsupported)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(VersionUnsupported)),
        ("get / HTTP/1.1\r\n", Err(MethodUnknown)),
        ("BREW / HTTP/1.1\r\n", Err(MethodUnknown)),
        ("GETT / HTTP/1.1\r\n", Err(MethodUnknown)),
        ("CONNECT h:443 HTTP/1.1\r\n", Err(MethodUnknown)),
        ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Err(MethodUnknown)),
        ("G{T / HTTP/1.1\r\n", Err(MethodInvalid)),
        ("G\u{e9}T / HTTP/1.1\r\n", Err(MethodInvalid)),
        ("GET:/ HTTP/1.1\r\n", Err(MethodInvalid)),
        ("GET /# HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /a#b HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /\u{e9} HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /<script> HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /\" HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /..\\.. HTTP/1.1\r\n", Err(TargetInvalid)),
        ("GET /\0 HTTP/1.1\r\n", Err(Control)),
        ("GET /\x7f HTTP/1.1\r\n", Err(Control)),
        ("GET /\x0b HTTP/1.1\r\n", Err(Control)),
        ("GET /\rX HTTP/1.1\r\n", Err(RequestLine)),
        ("GET / HTTP/1.1\rX", Err(BareCr)),
        ("GET / HTTP/1.1\nHost: h\r\n\r\n", Err(BareLf)),
        ("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", Err(BareCr)),
        ("GET index.html HTTP/1.1\r\n", Err(TargetForm)),
        ("GET * HTTP/1.1\r\n", Err(TargetForm)),
        ("OPTIONS ** HTTP/1.1\r\n", Err(TargetForm)),
        ("GET h:80 HTTP/1.1\r\n", Err(TargetForm)),
        ("GET ?a HTTP/1.1\r\n", Err(TargetForm)),
        ("GET ftp://h/ HTTP/1.1\r\n", Err(TargetForm)),
        ("GET http:/h/ HTTP/1.1\r\n", Err(TargetForm)),
        ("GET ://h/ HTTP/1.1\r\n", Err(TargetForm)),
        ("GET http:///p HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http://u@h/ HTTP/1.1\r\n", Err(HostInvalid)),
        ("GET http://h:x/ HTTP/1.1\r\n", Err(HostInvalid)),
        ("\x16\x03\x01\x02\0\x01\0", Err(Control)),
        ("{\"json\": 1}", Err(MethodInvalid)),
        ("\u{80}\u{81}", Err(MethodInvalid)),
    ]);
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(64));
    expect(&[(&long, Err(TargetTooLong))]);
    let just = format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(63));
    assert!(matches!(parse(just.as_bytes()), Ok(Some(_))));
}

#[test]
fn malformed_headers() {
    expect_headers(&[
        (" folded: x\r\n", Err(HeaderFold)),
        ("A: b\r\n c\r\n", Err(HeaderFold)),
        ("A: b\r\n\tc\r\n", Err(HeaderFold)),
        ("A: b\r\n \r\n", Err(HeaderFold)),
        (": x\r\n", Err(HeaderNameEmpty)),
        (":\r\n", Err(HeaderNameEmpty)),
        ("A : x\r\n", Err(HeaderSpaceBeforeColon)),
        ("A\t: x\r\n", Err(HeaderSpaceBeforeColon)),
        ("Content-Length : 5\r\n", Err(HeaderSpaceBeforeColon)),
        (
            "Transfer-Encoding : chunked\r\n",
            Err(HeaderSpaceBeforeColon),
        ),
        ("A\r\n", Err(HeaderColonMissing)),
        ("A b: x\r\n", Err(HeaderNameInvalid)),
        ("A(b): x\r\n", Err(HeaderNameInvalid)),
        ("A\u{e9}: x\r\n", Err(HeaderNameInvalid)),
        ("A\0: x\r\n", Err(Control)),
        ("A: x\0\r\n", Err(Control)),
        ("A: x\x1b[0m\r\n", Err(Control)),
        ("A: x\x7f\r\n", Err(Control)),
        ("A: x\ry\r\n", Err(BareCr)),
        ("A: x\r\r\n", Err(BareCr)),
        ("A: x\nB: y\r\n", Err(BareLf)),
        ("A: x\n\r\n", Err(BareLf)),
        ("\n", Err(BareLf)),
        ("Host: h\r\n", Err(HostDuplicate)),
        ("hOST: other\r\n", Err(HostDuplicate)),
        (
            "Content-Type: a/b\r\nContent-Type: a/b\r\n",
            Err(HeaderDuplicate),
        ),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            Err(ContentLengthDuplicate),
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            Err(ContentLengthDuplicate),
        ),
        ("Content-Length: 5, 5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5,6\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: +5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: -5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5 0\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 0x5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5.0\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 1e3\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: \"5\"\r\n", Err(ContentLengthInvalid)),
        ("Content-Length:\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 1_0\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5,\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: ,5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5;\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5\t5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: :5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 0b1\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 0o7\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: \u{ff}5\r\n", Err(ContentLengthInvalid)),
        ("Content-Length: 5\x0b\r\n", Err(Control)),
        ("Content-Length: 5\x0c\r\n", Err(Control)),
        (
            "Content-Length:5\r\ncontent-length:5\r\n",
            Err(ContentLengthDuplicate),
        ),
        (
            "Content-Length: 0\r\nContent-Length: 0\r\n",
            Err(ContentLengthDuplicate),
        ),
        (
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            Err(BothLengths),
        ),
        (
            "Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
            Err(BothLengths),
        ),
        ("Content-Length 5\r\n", Err(HeaderNameInvalid)),
        ("Content-Length\r\n", Err(HeaderColonMissing)),
        ("Content-Length\0: 5\r\n", Err(Control)),
        ("\0Content-Length: 5\r\n", Err(Control)),
        ("\x0bTransfer-Encoding: chunked\r\n", Err(Control)),
        ("Transfer-Encoding\x0b: chunked\r\n", Err(Control)),
        (
            "Transfer-Encoding\t:chunked\r\n",
            Err(HeaderSpaceBeforeColon),
        ),
        (
            "Transfer-Encoding\u{a0}: chunked\r\n",
            Err(HeaderNameInvalid),
        ),
        ("\tTransfer-Encoding: chunked\r\n", Err(HeaderFold)),
        ("X: y\r\n\tTransfer-Encoding: chunked\r\n", Err(HeaderFold)),
        ("Transfer\r-Encoding: chunked\r\n", Err(BareCr)),
        ("X: y\rTransfer-Encoding: chunked\r\n", Err(BareCr)),
        ("X: y\nTransfer-Encoding: chunked\r\n", Err(BareLf)),
        ("X: y\n\rTransfer-Encoding: chunked\r\n", Err(BareLf)),
        ("X: y\r\r\nTransfer-Encoding: chunked\r\n", Err(BareCr)),
        ("Transfer-Encoding: chunked\x0b\r\n", Err(Control)),
        ("Transfer-Encoding: chunked\0\r\n", Err(Control)),
        (
            "Transfer-Encoding: chun\tked\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked chunked\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: 'chunked'\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: chunked;\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked, identity\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: identity, chunked\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: \u{ff}chunked\r\n",
            Err(TransferEncodingInvalid),
        ),
        ("Transfer-Encoding: chunk\r\n", Err(TransferEncodingUnknown)),
        (
            "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Expect: 100-continue\r\nExpect: x\r\n",
            Err(ExpectationUnknown),
        ),
        ("Expect: 100-continue;q=1\r\n", Err(ExpectationUnknown)),
        ("Content-Length: \u{b2}\r\n", Err(ContentLengthInvalid)),
        (
            "Content-Length: 18446744073709551616\r\n",
            Err(ContentLengthInvalid),
        ),
        (
            "Content-Length: 99999999999999999999999\r\n",
            Err(ContentLengthInvalid),
        ),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            Err(BothLengths),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            Err(BothLengths),
        ),
        (
            "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n",
            Err(BothLengths),
        ),
        ("Transfer-Encoding: gzip\r\n", Err(TransferEncodingUnknown)),
        (
            "Transfer-Encoding: identity\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: xchunked\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            Err(TransferEncodingUnknown),
        ),
        (
            "Transfer-Encoding: chunked, gzip\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked, chunked\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked,\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: ,chunked\r\n",
            Err(TransferEncodingInvalid),
        ),
        ("Transfer-Encoding:\r\n", Err(TransferEncodingInvalid)),
        (
            "Transfer-Encoding: chunked;q=1\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: \"chunked\"\r\n",
            Err(TransferEncodingInvalid),
        ),
        (
            "Transfer-Encoding: chunked\u{a0}\r\n",
            Err(TransferEncodingInvalid),
        ),
        ("Transfer-Encoding: \x0bchunked\r\n", Err(Control)),
        (
            "Transfer-Encoding:\r\n chunked\r\n",
            Err(TransferEncodingInvalid),
        ),
        ("Expect: 200-ok\r\n", Err(ExpectationUnknown)),
        ("Expect: 100-continue, x\r\n", Err(ExpectationUnknown)),
        ("Expect:\r\n", Err(ExpectationUnknown)),
    ]);
    expect(&[
        ("GET / HTTP/1.1\r\n\r\n", Err(HostMissing)),
        ("GET http://h/ HTTP/1.1\r\n\r\n", Err(HostMissing)),
        ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", Err(HeaderFold)),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a:000080\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: :80\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: [x]\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: \u{e9}\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", Err(HostInvalid)),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost:\r\n\r\n",
            Err(HostDuplicate),
        ),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
            Err(HostDuplicate),
        ),
        (
            "GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n",
            Err(HostInvalid),
        ),
        ("GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a\tb\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a:-1\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: a:+80\r\n\r\n", Err(HostInvalid)),
        ("GET / HTTP/1.1\r\nHost: []\r\n\r\n", Err(HostInvalid)),
        (
            "GET / HTTP/1.1\r\nHost: [::1%25lo]\r\n\r\n",
            Err(HostInvalid),
        ),
        (
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            Err(HeaderSpaceBeforeColon),
        ),
        ("GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", Err(HeaderFold)),
        (
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            Err(TransferEncodingHttp10),
        ),
        (
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            Err(TransferEncodingHttp10),
        ),
    ]);
    let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(12));
    expect(&[(&many, Err(TooManyHeaders))]);
    let enough = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: b\r\n".repeat(11));
    expect(&[(&enough, Ok("GET /? h none keep +0"))]);
    let big = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(700));
    expect(&[(&big, Err(HeadTooLarge))]);
}

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
