//! Pages as streams of gzip, over real sockets: who is sent one, and what it inflates to.

mod common;

use common::*;
use flate2::bufread::GzDecoder;
use std::io::Read;

const GZIP: &str = "Accept-Encoding: gzip\r\n";

const PAGES: &[(&str, &str)] = &[
    (
        "rows.html",
        "+++\nroute = \"GET /rows\"\n[params]\nn = { in = \"query\", type = \"int\", \
         default = 3 }\nq = { in = \"query\", type = \"text\", default = \"\" }\n\
         +++\n<!doctype html><html lang=\"en\"><title>Rows</title><h1>All rows of the \
         table</h1>\n\
         <table class=\"rows wide\">{% for i in range(n) %}\n<tr class=\"row\"><td class=\"name\">\
         Item {{ i }} {{ q }}</td><td class=\"price amount right\">{{ i * 37 % 101 }}.50</td>\
         <td><a class=\"button small\" href=\"/item?id={{ i }}\">Look at it in the \
         catalogue</a></td></tr>{% endfor %}</table>\n{% if n > 2 %}<p>These were many rows, and \
         there may be more of them.</p>{% else %}<p>These were few rows, and there may be fewer of \
         them.</p>{% endif %}</html>\n",
    ),
    ("small.html", "+++\nroute = \"GET /small\"\n+++\nshort\n"),
    (
        "own.html",
        "+++\nroute = \"GET /own\"\n[[step]]\nheaders = { Content-Encoding = \"x-none\" \
         }\n+++\n\
         {% for i in range(400) %}word {% endfor %}\n",
    ),
    (
        "tagged.html",
        "+++\nroute = \"GET /tagged\"\n[[step]]\nheaders = { ETag = '\"v1\"' }\n+++\n\
         {% for i in range(400) %}word {% endfor %}\n",
    ),
    (
        "secret.html",
        "+++\nroute = \"GET /secret\"\ngzip = false\n+++\n\
         {% for i in range(400) %}word {% endfor %}\n",
    ),
    (
        "picture.html",
        "+++\nroute = \"GET /picture\"\ncontent_type = \"Image/PNG\"\n+++\n\
         {% for i in range(400) %}word {% endfor %}\n",
    ),
    (
        "feed.html",
        "+++\nroute = \"GET /feed\"\ncontent_type = \"application/atom+xml; charset=utf-8\"\n\
         +++\n{% for i in range(400) %}word {% endfor %}\n",
    ),
    (
        "added.html",
        "+++\nroute = \"GET /added\"\n[[step]]\nstatus = 418\n[[step]]\nheaders = { \
         X-Kind = \"tea\", Referrer-Policy = \"origin\" }\n+++\n\
         {% for i in range(400) %}word {% endfor %}\n",
    ),
];

fn inflate(stream: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut decoder = GzDecoder::new(stream);
    decoder.read_to_end(&mut text).expect("a gzip stream");
    assert!(decoder.into_inner().is_empty(), "nothing follows it");
    text
}

#[test]
fn pages_inflate_to_what_they_are_without_gzip() {
    let server = serve(service_of(PAGES, ""));
    let mut client = client(&server);
    for target in [
        "/rows",
        "/rows?n=2",
        "/rows?n=1000",
        "/rows?n=3000&q=%3Cb%3E%E6%97%A5%E6%9C%AC%26",
        "/rows?n=40&q=Lorem+ipsum+dolor+sit+amet",
        "/added",
        "/feed",
    ] {
        let ask = format!("GET {target}");
        let plain = client.with(&ask, "", "");
        assert_eq!(plain.header("content-encoding"), None, "{target}");
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"), "{target}");
        let packed = client.with(&ask, GZIP, "");
        assert_eq!(packed.status, plain.status, "{target}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{target}");
        assert_eq!(packed.header("vary"), Some("Accept-Encoding"), "{target}");
        assert_eq!(packed.header("content-type"), plain.header("content-type"));
        assert!(packed.body.len() < plain.body.len(), "{target}");
        assert_eq!(inflate(&packed.body), plain.body, "{target}");
        let head = client.with(&format!("HEAD {target}"), GZIP, "");
        assert_eq!(head.header("content-encoding"), Some("gzip"), "{target}");
        let length = packed.body.len().to_string();
        assert_eq!(head.header("content-length"), Some(&*length), "{target}");
    }
    // Rows are alike.
    let rows = client.with("GET /rows?n=1000", GZIP, "");
    let plain = client.with("GET /rows?n=1000", "", "");
    assert!(
        rows.body.len() * 10 < plain.body.len(),
        "{}",
        rows.body.len()
    );
    stop(server);
}

#[test]
fn what_is_short_or_long_or_encoded_by_its_page_is_sent_as_it_is() {
    let server = serve(service_of(PAGES, "[gzip]\nbytes_max = 100000\n"));
    let mut client = client(&server);
    for (target, varies) in [
        ("/small", Some("Accept-Encoding")),
        ("/rows?n=5000", Some("Accept-Encoding")),
        ("/own", None),
        ("/tagged", None),
        ("/picture", None),
        ("/secret", None),
    ] {
        let answer = client.with(&format!("GET {target}"), GZIP, "");
        assert_ne!(answer.header("content-encoding"), Some("gzip"), "{target}");
        assert_eq!(answer.header("vary"), varies, "{target}");
        let plain = client.with(&format!("GET {target}"), "", "");
        assert_eq!(answer.body, plain.body, "{target}");
    }
    stop(server);
}

#[test]
fn a_service_may_have_none() {
    let server = serve(service_of(PAGES, "[gzip]\npages = false\n"));
    let mut client = client(&server);
    let answer = client.with("GET /rows", GZIP, "");
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.header("vary"), None);
    stop(server);
}
