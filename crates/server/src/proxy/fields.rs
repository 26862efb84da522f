//! Which fields of a head are passed on, and which are for one connection alone (RFC 9110, section
//! 7.6.1).

use rhythm_protocol::http::head::Header;
use rhythm_protocol::http::response::HeaderName;
use std::collections::HashSet;

/// Fields that mean one connection, or the framing of one message, which is decided here.
const OF_CONNECTION: [&str; 7] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// Fields that tell for whom somebody asks.
const FORWARDED: &str = "forwarded";
const OF_CLIENT: [&str; 2] = ["x-real-ip", FORWARDED];
const X_FORWARDED: &[u8] = b"x-forwarded-";

/// The fields of a head that are passed on: their names and values.
pub(super) fn passed_on<'a>(
    headers: &'a [Header],
    bytes: &'a [u8],
) -> impl Iterator<Item = (HeaderName<'a>, &'a [u8])> {
    let named = named(headers, bytes);
    let passed_on = move |header: &'a Header| {
        let name = header.name.of(bytes);
        let is_named = !named.is_empty() && named.contains(&name.to_ascii_lowercase());
        if is_of_connection(name) || is_named {
            return None;
        }
        // A parser takes no other names.
        let name = HeaderName::new(std::str::from_utf8(name).ok()?)?;
        Some((name, header.value.of(bytes)))
    };
    headers.iter().filter_map(passed_on)
}

fn is_of_connection(name: &[u8]) -> bool {
    let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    let is_proxys = (name.get(..6)).is_some_and(|start| start.eq_ignore_ascii_case(b"proxy-"));
    // CGI has `Proxy` as HTTP_PROXY, which libraries take for where to send their own requests
    // (CVE-2016-5385 and others).
    is_proxys || name.eq_ignore_ascii_case(b"proxy") || OF_CONNECTION.iter().any(is)
}

/// The fields that a head's Connection names as its own, in lower case, beside those that are
/// always. A set, since a head may have as many as thousands of names, and a hundred fields that
/// might be one of them.
fn named(headers: &[Header], bytes: &[u8]) -> HashSet<Vec<u8>> {
    let options = values(headers, bytes, "connection").flat_map(elements);
    // What nearly all say is no field.
    let is_field = |option: &&[u8]| {
        !option.is_empty() && !option.eq_ignore_ascii_case(b"close") && !is_of_connection(option)
    };
    (options.filter(is_field))
        .map(<[u8]>::to_ascii_lowercase)
        .collect()
}

/// The values of all fields of a name.
pub(super) fn values<'a>(
    headers: &'a [Header],
    bytes: &'a [u8],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    let has_name = move |header: &&Header| {
        let its = header.name.of(bytes);
        its.eq_ignore_ascii_case(name.as_bytes())
    };
    let value = |header: &'a Header| header.value.of(bytes);
    headers.iter().filter(has_name).map(value)
}

/// The elements of a list, without the white space around them.
pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Whether a field tells for whom somebody asks. Servers that take heads for variables (RFC 3875,
/// section 4.1.18) do not tell `_` from `-`.
pub(super) fn is_of_client(name: &str) -> bool {
    let same = |byte: u8| match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    let is = |known: &[u8], name: &[u8]| {
        known.len() == name.len() && known.iter().zip(name).all(|(a, b)| *a == same(*b))
    };
    let name = name.as_bytes();
    let start = name.get(..X_FORWARDED.len());
    start.is_some_and(|start| is(X_FORWARDED, start))
        || OF_CLIENT.iter().any(|known| is(known.as_bytes(), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_protocol::http::head::Progress;
    use rhythm_protocol::http::request::{HeadLimits, RequestHead, parse_head};

    #[test]
    fn what_is_a_connections_own_stays_there() {
        let bytes = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Own\r\nx-own: 1\r\n\
            Keep-Alive: 5\r\nTE: trailers\r\nTrailer: A\r\nUpgrade: x\r\nProxy-Anything: 1\r\n\
            Proxy: http://evil.test\r\n\
            Connection: Other\r\nOTHER: 2\r\nX-Kept: 3\r\nContent-Length: 0\r\n\r\n";
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, bytes, &HeadLimits::default());
        assert!(matches!(parsed, Ok(Progress::Complete { .. })));
        let kept: Vec<_> = passed_on(head.headers(), bytes)
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        assert_eq!(kept, [("Host", &b"h"[..]), ("X-Kept", b"3")]);
    }

    #[test]
    fn clients_do_not_say_in_other_spellings_who_they_are() {
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "x_forwarded_for",
            "X_Real-IP",
        ] {
            assert!(is_of_client(name), "{name}");
        }
        for name in ["X-Forward", "Forwarded-By", "X-Real-IPs", "X"] {
            assert!(!is_of_client(name), "{name}");
        }
    }

    /// A head of 16 KiB, the most by default, most of it names in its Connection.
    #[test]
    fn any_number_of_fields_may_be_named() {
        let names: String = (0..2000).map(|number| format!("H{number},")).collect();
        let fields: String = (0..95)
            .map(|number| format!("h{}: 1\r\n", 21 * number))
            .collect();
        let text =
            format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: {names}\r\n{fields}K: 1\r\n\r\n");
        let mut head = RequestHead::new();
        let parsed = parse_head(&mut head, text.as_bytes(), &HeadLimits::default());
        assert!(
            matches!(parsed, Ok(Progress::Complete { .. })),
            "{parsed:?}"
        );
        let kept = passed_on(head.headers(), text.as_bytes());
        let kept: Vec<_> = kept.map(|(name, _)| name.as_str()).collect();
        assert_eq!(kept, ["Host", "K"]);
    }
}
