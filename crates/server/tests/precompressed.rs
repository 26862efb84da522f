//! Compressed forms of static files, made at load, over real sockets: who is sent which, and what
//! reloads make of them.

mod common;

use common::*;
use rhythm_server::{Memory, Server, Site, SiteSettings, StaticFile, Statics};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Enough on a machine that does much else.
const TIME: Duration = Duration::from_secs(600);

fn text(length: usize) -> Vec<u8> {
    let lines = (0..).map(|n| format!("p.n{n} {{ margin: {}px }}\n", n * n % 977));
    lines.flat_map(String::into_bytes).take(length).collect()
}

fn file(path: &str, content: &[u8]) -> StaticFile {
    StaticFile {
        path: path.to_owned(),
        content: content.to_vec().into(),
        modified: Some(UNIX_EPOCH + Duration::from_secs(1_000_000_000)),
    }
}

fn inflated(encoding: Option<&str>, body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match encoding {
        None => plain.extend(body),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut plain)),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut plain)),
        Some(other) => panic!("{other}"),
    }
    plain
}

#[test]
fn everybody_is_sent_a_form_that_they_take_and_nothing_else() {
    let css = text(40_000);
    let next = |x: &u32| Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let noise = std::iter::successors(Some(1u32), next);
    let noise: Vec<u8> = noise.map(|x| (x >> 24) as u8).take(40_000).collect();
    let mut own = flate2::read::GzEncoder::new(&css[..], flate2::Compression::fast());
    let own = {
        let mut bytes = Vec::new();
        own.read_to_end(&mut bytes).expect("memory");
        bytes
    };
    let service = service_of(PAGES, SERVICE);
    let options = options_of(&service);
    let files = [
        file("a.css", &css),
        file("b.wasm", &css),
        file("own.css", &css),
        file("own.css.gz", &own),
        file("short.css", &css[..511]),
        file("a.png", &css),
        file("noise.css", &noise),
    ];
    let mut statics = Statics::new(&service.config.statics.mount, files);
    let part = |memory: &Memory| {
        let mut parts = memory.parts.iter();
        parts
            .find(|(name, _)| *name == "static_files")
            .map(|it| it.1)
    };
    let before = part(&Memory::of(&service, &options, &statics)).expect("a part");
    assert_eq!(statics.compress(TIME, None), 0);
    let after = part(&Memory::of(&service, &options, &statics)).expect("a part");
    let settings = SiteSettings::of(&service);
    let site = Arc::new(Site::new(Arc::new(service), statics, settings).expect("a sound site"));
    let again = site.clone();
    let parts = parts(site, Box::new(move || Ok(again.clone())));
    let server = Server::start(options, parts).expect("it starts");
    let mut client = client(&server);

    let mut made = 0;
    for path in ["a.css", "b.wasm"] {
        let mut tags = Vec::new();
        for (accepts, expected) in [
            ("", None),
            ("identity", None),
            ("gzip;q=0, br;q=0", None),
            ("gzip, identity;q=0", Some("gzip")),
            ("gzip, deflate", Some("gzip")),
            ("br;q=0.9, gzip", Some("gzip")),
            ("gzip, deflate, br, zstd", Some("br")),
            ("br", Some("br")),
            ("*", Some("br")),
            ("zstd, identity;q=0", None),
        ] {
            let headers = format!("Accept-Encoding: {accepts}\r\n");
            let ask = format!("GET /static/{path}");
            let answer = client.with(&ask, &headers, "");
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("content-encoding"), expected, "{accepts}");
            assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
            assert!(inflated(expected, &answer.body) == css, "{accepts}");
            let tag = answer.header("etag").expect("a tag").to_owned();
            let head = client.with(&format!("HEAD /static/{path}"), &headers, "");
            for name in [
                "etag",
                "content-length",
                "content-encoding",
                "last-modified",
            ] {
                assert_eq!(head.header(name), answer.header(name), "{accepts} {name}");
            }
            let same = format!("{headers}If-None-Match: {tag}\r\n");
            let same = client.with(&ask, &same, "");
            assert_eq!((same.status, same.header("etag")), (304, Some(&*tag)));
            // A range is one of what is selected (RFC 9110, section 14.2).
            let range = format!("{headers}Range: bytes=2-9\r\nIf-Range: {tag}\r\n");
            let range = client.with(&ask, &range, "");
            assert_eq!((range.status, &range.body[..]), (206, &answer.body[2..10]));
            if !tags.contains(&tag) {
                tags.push(tag);
                made += expected.map_or(0, |_| answer.body.len());
            }
        }
        assert_eq!(tags.len(), 3, "each form has a tag of its own: {tags:?}");
    }
    let accepts = "Accept-Encoding: gzip\r\n";
    let answer = client.with("GET /static/own.css", accepts, "");
    assert!(answer.body == own, "what its owner made goes before");
    let answer = client.with("GET /static/own.css", "Accept-Encoding: br\r\n", "");
    assert!(inflated(Some("br"), &answer.body) == css);
    made += answer.body.len();
    for path in ["short.css", "a.png", "noise.css"] {
        let ask = format!("GET /static/{path}");
        let answer = client.with(&ask, "Accept-Encoding: gzip, br\r\n", "");
        let told = ["content-encoding", "vary"].map(|name| answer.header(name));
        assert_eq!(told, [None, None], "{path}");
    }
    assert_eq!(after - before, made, "what is made is in the sum of memory");
    stop(server);
}

#[test]
fn a_reload_makes_what_has_changed_or_was_left_alone() {
    let (css, other) = (text(60_000), text(50_000));
    let new = || Statics::new("/s/", [file("a.css", &css), file("b.css", &other)]);
    let mut none = new();
    assert_eq!(none.compress(Duration::ZERO, None), 0, "it is switched off");
    let mut first = new();
    assert_eq!(first.compress(Duration::from_nanos(1), None), 4);
    let mut second = new();
    assert_eq!(second.compress(TIME, Some(&first)), 0);
    let mut third = new();
    assert_eq!(third.compress(Duration::from_nanos(1), Some(&second)), 0);
    let mut changed = Statics::new("/s/", [file("a.css", &other), file("b.css", &other)]);
    assert_eq!(changed.compress(Duration::from_nanos(1), Some(&third)), 2);
}
