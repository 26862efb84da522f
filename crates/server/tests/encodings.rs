//! Files that lie beside others in another encoding, over real sockets: who is sent which, and what
//! conditions and ranges are about.

mod common;

use common::*;
use rhythm_server::{FileContent, FileSource, Handle, Server, StaticFile};
use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const PLAIN: &[u8] = b"body { color: black } p { color: black }";
/// What it says between its first two bytes and the length of the plain text is of no interest to a
/// server.
const ENCODED: &[u8] = b"\x1f\x8bgzip, for us\x28\0\0\0";
const _: () = assert!(PLAIN.len() == 0x28);
/// As if it were of another text.
const OTHER: &[u8] = b"\x1f\x8bgzip, for us\x29\0\0\0";

/// A file in memory that is read as if it were on a disk.
#[derive(Debug)]
struct Source(Vec<u8>);

impl FileSource for Source {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.0[at as usize..][..into.len()]);
        Ok(())
    }
}

/// A server of files with others beside them, kept in memory or streamed.
fn serve(streams: bool) -> Handle {
    let file = |path: &str, content: &[u8], changed: u64| {
        let bytes = content.to_vec();
        StaticFile {
            path: path.to_owned(),
            modified: Some(UNIX_EPOCH + Duration::from_millis(changed)),
            content: match streams {
                false => bytes.into(),
                true => FileContent::Streamed {
                    length: bytes.len() as u64,
                    // As it may be: it tells versions of one file apart, not files.
                    version: 7,
                    volume: 1,
                    source: Arc::new(Source(bytes)),
                },
            },
        }
    };
    let files = vec![
        file("a.css.gz", ENCODED, 1_000_002_000_000),
        file("a.css", PLAIN, 1_000_000_000_000),
        file("same.css", PLAIN, 1_000_000_000_001),
        file("same.css.gz", ENCODED, 1_000_000_000_001),
        file("old.css", PLAIN, 1_000_000_000_001),
        file("old.css.gz", ENCODED, 1_000_000_000_000),
        file("alone.css", PLAIN, 1_000_000_000_000),
        file("copied.css", PLAIN, 1_000_000_000_000),
        file("copied.css.gz", PLAIN, 1_000_000_000_000),
        file("other.css", PLAIN, 1_000_000_000_000),
        file("other.css.gz", OTHER, 1_000_000_000_000),
        file("cut.css", PLAIN, 1_000_000_000_000),
        file("cut.css.gz", &ENCODED[..3], 1_000_000_000_000),
    ];
    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let site = site_with(service, files);
    let again = site.clone();
    Server::start(options, parts(site, Box::new(move || Ok(again.clone())))).expect("it starts")
}

/// What of an answer depends on its encoding.
#[derive(Debug, PartialEq)]
struct Told<'a> {
    status: u16,
    body: &'a [u8],
    /// Content-Encoding, Vary, Content-Range.
    fields: [Option<&'a str>; 3],
}

fn told(answer: &Response) -> Told<'_> {
    Told {
        status: answer.status,
        body: &answer.body,
        fields: ["content-encoding", "vary", "content-range"].map(|name| answer.header(name)),
    }
}

const VARIES: Option<&str> = Some("Accept-Encoding");
const GZIP: Option<&str> = Some("gzip");

/// Asks for a file that varies, with these headers and with gzip accepted; `name` is how to ask.
fn check_answers(client: &mut Client, ask: &str) {
    let mut get = |headers: &str| client.with(&format!("GET {ask}"), headers, "");
    let plain = get("");
    let expected = Told {
        status: 200,
        body: PLAIN,
        fields: [None, VARIES, None],
    };
    assert_eq!(told(&plain), expected, "{ask}");
    for unwanted in ["deflate, br", "gzip;q=0", "identity, gzip;q=0.9"] {
        let answer = get(&format!("Accept-Encoding: {unwanted}\r\n"));
        assert_eq!(told(&answer), expected, "{ask} {unwanted}");
    }
    let whole = Told {
        status: 200,
        body: ENCODED,
        fields: [GZIP, VARIES, None],
    };
    let encoded = get("Accept-Encoding: br\r\nAccept-Encoding: gzip;q=0.5\r\n");
    assert_eq!(told(&encoded), whole, "{ask}");
    for (name, value) in [
        ("content-type", "text/css; charset=utf-8"),
        ("accept-ranges", "bytes"),
        ("content-length", "18"),
    ] {
        assert_eq!(encoded.header(name), Some(value), "{ask}");
    }
    let [of_plain, of_encoded] =
        [&plain, &encoded].map(|answer| answer.header("etag").expect("a tag"));
    assert_ne!(of_plain, of_encoded);
    let empty = |status, fields| Told {
        status,
        body: b"",
        fields,
    };
    let part = Told {
        status: 206,
        body: &ENCODED[2..6],
        fields: [GZIP, VARIES, Some("bytes 2-5/18")],
    };
    let none = empty(416, [None, VARIES, Some("bytes */18")]);
    let same = empty(304, [None, VARIES, None]);
    for (headers, expected) in [
        ("Range: bytes=2-5\r\n".to_owned(), &part),
        ("Range: bytes=18-\r\n".to_owned(), &none),
        (format!("If-None-Match: {of_encoded}\r\n"), &same),
        (format!("If-None-Match: {of_plain}\r\n"), &whole),
        (format!("If-Match: {of_encoded}\r\n"), &whole),
        (
            format!("If-Range: {of_encoded}\r\nRange: bytes=2-5\r\n"),
            &part,
        ),
        (
            format!("If-Range: {of_plain}\r\nRange: bytes=2-5\r\n"),
            &whole,
        ),
    ] {
        let answer = get(&format!("Accept-Encoding: gzip\r\n{headers}"));
        assert_eq!(&told(&answer), expected, "{ask} {headers}");
        if expected.status == 304 {
            assert_eq!(answer.header("etag"), Some(of_encoded));
        }
    }
    assert_eq!(
        get(&format!("If-None-Match: {of_plain}\r\n")).status,
        304,
        "{ask}"
    );
    let condition = format!("Accept-Encoding: gzip\r\nIf-Match: {of_plain}\r\n");
    assert_eq!(get(&condition).status, 412, "{ask}");
    let head = client.with(&format!("HEAD {ask}"), "Accept-Encoding: gzip\r\n", "");
    assert_eq!(told(&head), empty(200, [GZIP, VARIES, None]), "{ask}");
    assert_eq!(head.header("content-length"), Some("18"));
    assert_eq!(head.header("etag"), Some(of_encoded));
}

#[test]
fn who_accepts_gzip_is_sent_what_lies_beside_a_file() {
    for streams in [false, true] {
        let server = serve(streams);
        let mut client = client(&server);
        for ask in [
            "/static/a.css",
            "/static/%61.css",
            "/static/same.css",
            "/file?name=a.css",
        ] {
            check_answers(&mut client, ask);
        }
        stop(server);
    }
}

#[test]
fn dates_are_those_of_what_is_sent() {
    let server = serve(false);
    let mut client = client(&server);
    let mut modified = |headers: &str| {
        let answer = client.with("GET /static/a.css", headers, "");
        answer.header("last-modified").map(str::to_owned)
    };
    let plain = modified("").expect("a date");
    let encoded = modified("Accept-Encoding: gzip\r\n").expect("a date");
    assert_ne!(plain, encoded);
    let since = format!("Accept-Encoding: gzip\r\nIf-Modified-Since: {plain}\r\n");
    assert_eq!(
        client.with("GET /static/a.css", &since, "").status,
        200,
        "what is sent is younger"
    );
    stop(server);
}

#[test]
fn a_date_that_two_forms_have_lets_no_range_be() {
    for streams in [false, true] {
        let server = serve(streams);
        let mut client = client(&server);
        for (path, accepts, expected) in [
            ("same.css", "Accept-Encoding: gzip\r\n", 200),
            ("same.css", "", 200),
            ("alone.css", "Accept-Encoding: gzip\r\n", 206),
            ("alone.css", "", 206),
        ] {
            let ask = format!("GET /static/{path}");
            let whole = client.with(&ask, "", "");
            let date = whole.header("last-modified").expect("a date");
            let headers = format!("{accepts}If-Range: {date}\r\nRange: bytes=2-5\r\n");
            let answer = client.with(&ask, &headers, "");
            assert_eq!(answer.status, expected, "{path} {accepts}");
        }
        stop(server);
    }
}

#[test]
fn what_is_older_or_no_gzip_or_alone_is_sent_for_itself() {
    for streams in [false, true] {
        let server = serve(streams);
        let mut client = client(&server);
        for (path, body) in [
            ("/static/old.css", PLAIN),
            ("/static/alone.css", PLAIN),
            ("/static/copied.css", PLAIN),
            ("/static/other.css", PLAIN),
            ("/static/cut.css", PLAIN),
            ("/static/a.css.gz", ENCODED),
            ("/file?name=old.css.gz", ENCODED),
        ] {
            let answer = client.with(&format!("GET {path}"), "Accept-Encoding: gzip\r\n", "");
            let expected = Told {
                status: 200,
                body,
                fields: [None, None, None],
            };
            assert_eq!(told(&answer), expected, "{path}");
        }
        let itself = client.get("/static/a.css.gz");
        assert_eq!(itself.header("content-type"), Some("application/gzip"));
        stop(server);
    }
}
