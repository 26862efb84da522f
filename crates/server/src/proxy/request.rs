//! The head by which another server is asked, made of a client's.
//!
//! Its framing is decided here, and what it says of the client; of the client's own head goes
//! along what is meant for whoever answers.

use super::fields::{elements, is_of_client, passed_on, values};
use crate::trace::{Origin, states};
use rhythm_net::Client;
use rhythm_protocol::http::client::RequestWriter;
use rhythm_protocol::http::head::Header;
use rhythm_protocol::http::request::{Method, RequestHead};
use rhythm_protocol::http::response::HeaderName;
use std::net::IpAddr;

const CONNECTION: HeaderName<'static> = HeaderName::new("Connection").expect("a token");
const UPGRADE: HeaderName<'static> = HeaderName::new("Upgrade").expect("a token");
const CONTENT_LENGTH: HeaderName<'static> = HeaderName::new("Content-Length").expect("a token");
const CODING: HeaderName<'static> = HeaderName::new("Transfer-Encoding").expect("a token");
const FORWARDED: HeaderName<'static> = HeaderName::new("Forwarded").expect("a token");
const FOR: HeaderName<'static> = HeaderName::new("X-Forwarded-For").expect("a token");
const PROTO: HeaderName<'static> = HeaderName::new("X-Forwarded-Proto").expect("a token");
const HOST: HeaderName<'static> = HeaderName::new("X-Forwarded-Host").expect("a token");

/// The longest Host that is passed on: longer names lead nowhere (RFC 1035, section 2.3.4).
pub(super) const HOST_BYTES_MAX: usize = 255 + ":65535".len();
/// What is said beside a client's own head, without Hosts: addresses, and the names of fields.
const SAID_BYTES: usize = 512;

/// The most bytes of the head that is made of this one.
pub(super) fn bytes_max(head: &RequestHead) -> usize {
    let end = (head.headers().last()).map_or(head.target().end, |header| header.value.end);
    usize::from(end) + 3 * HOST_BYTES_MAX + SAID_BYTES
}

/// How the end of a request's content is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It has none.
    Nowhere,
    /// By its length.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// There is no content, and what follows may be another protocol.
    Upgrade,
}

/// What is said beside the client's own head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    /// Where the client is.
    pub(super) client: Client,
    /// It speaks TLS.
    pub(super) is_tls: bool,
    /// By what its request is known: what the client itself says of that is not passed on.
    pub(super) origin: &'a Origin,
    /// It may say itself for whom it asks.
    pub(super) is_trusted: bool,
    /// The Host that is told of a client that says none; [`set_host`] tells another.
    pub(super) authority: &'a str,
    /// How the content ends.
    pub(super) ends: Ends,
    /// The connection is for this request alone.
    pub(super) is_last: bool,
}

/// Whether a request for another protocol may be passed on: one for HTTP/2 may not, since in that
/// anything could be asked for, past the routes here.
pub(super) fn may_upgrade(head: &RequestHead, bytes: &[u8]) -> bool {
    let mut any = false;
    let of_http = |protocol: &[u8]| {
        let name = protocol.split(|byte| *byte == b'/').next();
        let name = name.unwrap_or_default();
        [&b"h2c"[..], b"h2", b"http"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    for protocol in values(head.headers(), bytes, "upgrade").flat_map(elements) {
        if of_http(protocol) {
            return false;
        }
        any |= !protocol.is_empty();
    }
    any && head.asks_upgrade()
}

/// Appends the head.
pub(super) fn write(head: &RequestHead, bytes: &[u8], told: &Told<'_>, out: &mut Vec<u8>) {
    let host = std::str::from_utf8(head.host().of(bytes)).unwrap_or_default();
    let sent = if host.is_empty() {
        told.authority
    } else {
        host
    };
    let mut target = head.path(bytes).to_vec();
    let query = head.query().of(bytes);
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let headers = head.headers();
    let mut out = RequestWriter::of_method(out, head.method_name(bytes), &target, sent);
    for (name, value) in passed_on(headers, bytes) {
        let is_decided_here = |known: &&str| name.as_str().eq_ignore_ascii_case(known);
        // Proxies that are trusted write them with `-`: with `_` a client said it to those.
        let is_said = told.is_trusted && !name.as_str().contains('_');
        let is_old = is_of_client(name.as_str())
            && (!is_said || [FORWARDED, FOR, PROTO, HOST].iter().any(|it| is(it, name)));
        let is_old = is_old || told.origin.is_told_by(name.as_str());
        if !is_old && !["host", "expect"].iter().any(is_decided_here) {
            out.header(name, value);
        }
    }
    write_client(&mut out, headers, bytes, host, told);
    if !told.origin.is_empty() {
        let mut lines = Vec::new();
        let span = told.origin.trace.map(|place| place.call_span(0));
        (told.origin).write(span, states(head, bytes), &mut lines);
        out.lines(&lines);
    }
    match told.ends {
        // Some servers ask for it where a method usually has content.
        Ends::Nowhere => match head.method() {
            Method::Post | Method::Put | Method::Patch => drop(out.header(CONTENT_LENGTH, b"0")),
            _ => {}
        },
        Ends::Length(length) => {
            out.header(CONTENT_LENGTH, length.to_string().as_bytes());
        }
        Ends::Chunked => drop(out.header(CODING, b"chunked")),
        Ends::Upgrade => {
            out.header(CONNECTION, b"upgrade");
            for protocol in values(headers, bytes, "upgrade") {
                out.header(UPGRADE, protocol);
            }
        }
    }
    if told.is_last && told.ends != Ends::Upgrade {
        out.header(CONNECTION, b"close");
    }
    out.end();
}

/// Has a head that was written here tell another Host.
pub(super) fn set_host(head: &mut Vec<u8>, host: &str) {
    // It stands behind the request line, in which there is no end of a line.
    const START: &[u8] = b"\r\nHost: ";
    let Some(at) = memchr::memmem::find(head, START) else {
        return;
    };
    let start = at + START.len();
    let length = memchr::memchr(b'\r', &head[start..]).unwrap_or_default();
    head.splice(start..start + length, host.bytes());
}

fn is(one: &HeaderName<'_>, other: HeaderName<'_>) -> bool {
    one.as_str().eq_ignore_ascii_case(other.as_str())
}

/// Writes for whom it is asked (RFC 7239, and the fields that were there before it).
fn write_client(
    out: &mut RequestWriter<'_>,
    headers: &[Header],
    bytes: &[u8],
    host: &str,
    told: &Told<'_>,
) {
    let said = |name: HeaderName<'static>| -> Vec<u8> {
        match told.is_trusted {
            true => joined(values(headers, bytes, name.as_str())),
            false => Vec::new(),
        }
    };
    let behind = |mut said: Vec<u8>, own: &[u8]| {
        if !said.is_empty() && !own.is_empty() {
            said.extend_from_slice(b", ");
        }
        said.extend_from_slice(own);
        said
    };
    let or = |said: Vec<u8>, own: &[u8]| match said.is_empty() {
        true => own.to_vec(),
        false => said,
    };
    let address = told.client.address().map(|address| address.to_canonical());
    let own = address.map_or_else(String::new, |address| address.to_string());
    let all = behind(said(FOR), own.as_bytes());
    if !all.is_empty() {
        out.header(FOR, &all);
    }
    let proto = if told.is_tls { "https" } else { "http" };
    let (proto, its_host) = (
        or(said(PROTO), proto.as_bytes()),
        or(said(HOST), host.as_bytes()),
    );
    out.header(PROTO, &proto);
    if !its_host.is_empty() {
        out.header(HOST, &its_host);
    }
    let mut own = match address {
        Some(IpAddr::V4(address)) => format!("for={address}"),
        Some(IpAddr::V6(address)) => format!("for=\"[{address}]\""),
        None => "for=unknown".to_owned(),
    };
    if !host.is_empty() && !host.contains(['"', '\\']) {
        own += &format!(";host=\"{host}\"");
    }
    own += if told.is_tls {
        ";proto=https"
    } else {
        ";proto=http"
    };
    out.header(FORWARDED, &behind(said(FORWARDED), own.as_bytes()));
}

/// Values of one field, as one list.
fn joined<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let values: Vec<&[u8]> = values.filter(|value| !value.is_empty()).collect();
    values.join(&b", "[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_protocol::http::head::Progress;
    use rhythm_protocol::http::request::{HeadLimits, parse_head};

    const TOLD: Told<'_> = Told {
        client: Client::Unix,
        is_tls: false,
        origin: &Origin {
            id: None,
            trace: None,
        },
        is_trusted: false,
        authority: "app:3000",
        ends: Ends::Nowhere,
        is_last: false,
    };

    fn head(bytes: &[u8]) -> RequestHead {
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, bytes, &HeadLimits::default());
        assert!(
            matches!(parsed, Ok(Progress::Complete { .. })),
            "{parsed:?}"
        );
        head
    }

    fn written(bytes: &[u8], told: &Told<'_>) -> String {
        let mut out = Vec::new();
        write(&head(bytes), bytes, told, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn at(address: &str) -> Client {
        Client::At((address.parse::<IpAddr>().expect("an address"), 9).into())
    }

    #[test]
    fn who_asks_is_said_here_and_not_by_the_client() {
        let bytes = b"GET /a?b=c HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-For: 1.2.3.4\r\n\
            X_Forwarded_For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n\
            X-Forwarded-Proto: https\r\nCookie: a=b\r\nExpect: 100-continue\r\n\
            Connection: X-Forwarded-For\r\n\r\n";
        let told = Told {
            client: at("192.0.2.9"),
            ..TOLD
        };
        let expected = "GET /a?b=c HTTP/1.1\r\nHost: shop.test\r\nCookie: a=b\r\n\
            X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Proto: http\r\n\
            X-Forwarded-Host: shop.test\r\n\
            Forwarded: for=192.0.2.9;host=\"shop.test\";proto=http\r\n\r\n";
        assert_eq!(written(bytes, &told), expected);
    }

    #[test]
    fn who_is_trusted_says_for_whom_it_asks() {
        let bytes = b"GET / HTTP/1.1\r\nHost: inner\r\nX-Forwarded-For: 1.2.3.4\r\n\
            X-Forwarded-For: 5.6.7.8\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: outer\r\n\
            Forwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nX_Real_IP: 9.9.9.9\r\n\
            X_Forwarded_For: 9.9.9.9\r\n\r\n";
        let told = Told {
            client: at("::ffff:10.0.0.1"),
            is_trusted: true,
            is_last: true,
            ..TOLD
        };
        let expected = "GET / HTTP/1.1\r\nHost: inner\r\nX-Real-IP: 1.2.3.4\r\n\
            X-Forwarded-For: 1.2.3.4, 5.6.7.8, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n\
            X-Forwarded-Host: outer\r\n\
            Forwarded: for=1.2.3.4, for=10.0.0.1;host=\"inner\";proto=http\r\n\
            Connection: close\r\n\r\n";
        assert_eq!(written(bytes, &told), expected);
    }

    #[test]
    fn another_host_can_be_told() {
        let bytes = b"GET /a HTTP/1.1\r\nHost: client\r\nA: b\r\n\r\n";
        let mut head = written(bytes, &TOLD).into_bytes();
        set_host(&mut head, "10.0.0.2:3000");
        let start = b"GET /a HTTP/1.1\r\nHost: 10.0.0.2:3000\r\nA: b\r\n";
        assert!(head.starts_with(start));
        let rest = String::from_utf8(head).expect("text");
        assert!(rest.contains("X-Forwarded-Host: client\r\n"), "{rest}");
    }

    #[test]
    fn the_framing_is_ours_and_an_absolute_target_becomes_a_path() {
        let bytes = b"POST http://shop.test/a HTTP/1.1\r\nHost: other\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        let of = |ends| written(bytes, &Told { ends, ..TOLD });
        for (ends, line) in [
            (Ends::Nowhere, "Content-Length: 0\r\n"),
            (Ends::Length(7), "Content-Length: 7\r\n"),
            (Ends::Chunked, "Transfer-Encoding: chunked\r\n"),
        ] {
            let text = of(ends);
            assert!(
                text.starts_with("POST /a HTTP/1.1\r\nHost: shop.test\r\n"),
                "{text}"
            );
            assert!(text.ends_with(&format!("{line}\r\n")), "{text}");
            let lengths = ["Content-Length", "Transfer-Encoding"];
            let count: usize = lengths.iter().map(|name| text.matches(name).count()).sum();
            assert_eq!(count, 1, "{text}");
        }
    }

    #[test]
    fn another_protocol_is_asked_for_but_never_http() {
        let of = |protocol: &str| {
            format!(
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
            )
        };
        for (protocol, may) in [
            ("websocket", true),
            ("h2c", false),
            ("websocket, H2C", false),
            ("HTTP/2.0", false),
            ("", false),
        ] {
            let bytes = of(protocol);
            let head = head(bytes.as_bytes());
            assert_eq!(may_upgrade(&head, bytes.as_bytes()), may, "{protocol}");
        }
        let ends = Ends::Upgrade;
        let text = written(of("websocket").as_bytes(), &Told { ends, ..TOLD });
        assert!(
            text.ends_with("Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
            "{text}"
        );
    }
}
