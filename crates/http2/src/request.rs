//! A request of HTTP/2 as the head of one of HTTP/1.1 (RFC 9113, sections 8.2 and 8.3).
//!
//! h2 has seen to it that names and values are sound, that no field is of the connection
//! (`connection`, `transfer-encoding`, `upgrade`, ...) and that the content is as long as its
//! length says. So nothing that is written here can end a line or a message where it should not.

use http::Method;
use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, HeaderValue, TE};
use http::request::Parts;

/// Why a request has no form in HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Fields that mean nothing behind: what they are about is settled here.
const SETTLED: [HeaderName; 5] = [CONTENT_LENGTH, COOKIE, EXPECT, HOST, TE];

/// Appends the head. Whether its content, which it has if `has_content`, goes in chunks.
///
/// # Errors
/// Where it names no host or two, has a target that is none, or several lengths.
pub(crate) fn write_head(
    parts: &Parts,
    has_content: bool,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    if parts.method == Method::CONNECT {
        // Its target is no path; nobody here makes tunnels.
        return Err(Malformed);
    }
    let host = host_of(parts)?;
    let target = match parts.uri.path_and_query() {
        Some(target) => target.as_str(),
        None => "/",
    };
    if !target.starts_with(['/', '*']) || target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(Malformed);
    }
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    field(out, b"host", host);
    for (name, value) in &parts.headers {
        if !SETTLED.contains(name) {
            field(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    cookies(parts, out);
    // A stream brings one request.
    field(out, b"connection", b"close");
    let is_chunked = length(parts, has_content, out)?;
    out.extend_from_slice(b"\r\n");
    Ok(is_chunked)
}

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whom the request is for: the authority, or the field `host` of who has been made of HTTP/1.1;
/// where there are both they are to be the same (section 8.3.1).
fn host_of(parts: &Parts) -> Result<&[u8], Malformed> {
    let mut hosts = parts
        .headers
        .get_all(HOST)
        .iter()
        .map(HeaderValue::as_bytes);
    let (host, others) = (hosts.next(), hosts.next());
    let authority = parts.uri.authority().map(|it| it.as_str().as_bytes());
    let is_sound = match (authority, host) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
        (authority, host) => authority.or(host).is_some(),
    };
    let found = authority.or(host).filter(|host| !host.contains(&b'@'));
    found
        .filter(|_| is_sound && others.is_none())
        .ok_or(Malformed)
}

/// Cookies in one line again: HTTP/2 has them apart (section 8.2.3).
fn cookies(parts: &Parts, out: &mut Vec<u8>) {
    let mut is_first = true;
    for cookie in parts.headers.get_all(COOKIE) {
        out.extend_from_slice(if is_first { b"cookie: " } else { b"; " });
        out.extend_from_slice(cookie.as_bytes());
        is_first = false;
    }
    if !is_first {
        out.extend_from_slice(b"\r\n");
    }
}

/// Says how long the content is. Whether it goes in chunks.
fn length(parts: &Parts, has_content: bool, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    let mut lengths = parts.headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (Some(_), Some(_)) => return Err(Malformed),
        (Some(length), None) => field(out, b"content-length", length.as_bytes()),
        (None, _) if has_content => {
            field(out, b"transfer-encoding", b"chunked");
            return Ok(true);
        }
        (None, _) if parts.method != Method::GET && parts.method != Method::HEAD => {
            field(out, b"content-length", b"0");
        }
        (None, _) => {}
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(
        request: http::request::Builder,
        has_content: bool,
    ) -> Result<(String, bool), Malformed> {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        let is_chunked = write_head(&parts, has_content, &mut out)?;
        Ok((String::from_utf8(out).unwrap(), is_chunked))
    }

    #[test]
    fn a_request_has_its_lines() {
        let request = Request::get("https://a.example:8443/b?c=d%20e#f")
            .header("cookie", "a=1")
            .header("accept", "*/*")
            .header("cookie", "b=2")
            .header("te", "trailers")
            .header("expect", "100-continue");
        let lines = "GET /b?c=d%20e HTTP/1.1\r\nhost: a.example:8443\r\naccept: */*\r\n\
                     cookie: a=1; b=2\r\nconnection: close\r\n\r\n";
        assert_eq!(head(request, false), Ok((lines.to_owned(), false)));
    }

    #[test]
    fn content_has_a_length_or_goes_in_chunks() {
        let post = || Request::post("http://h/").header("host", "H");
        let lines = |last: &str| {
            format!("POST / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{last}\r\n\r\n")
        };
        let known = head(post().header("content-length", "5"), true);
        assert_eq!(known, Ok((lines("content-length: 5"), false)));
        assert_eq!(
            head(post(), true),
            Ok((lines("transfer-encoding: chunked"), true))
        );
        assert_eq!(head(post(), false), Ok((lines("content-length: 0"), false)));
    }

    #[test]
    fn who_is_meant_is_clear_or_it_is_refused() {
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &["a", "a"]),
            ("http://a/", &["b"]),
            ("http://u@a/", &[]),
            ("http://a/", &["a", "b"]),
        ] {
            let request = hosts
                .iter()
                .fold(Request::get(uri), |it, host| it.header("host", *host));
            assert_eq!(head(request, false), Err(Malformed), "{uri} {hosts:?}");
        }
        assert!(head(Request::connect("a:443"), false).is_err());
        let twice = Request::get("http://a/")
            .header("content-length", "1")
            .header("content-length", "1");
        assert!(head(twice, true).is_err());
        assert!(head(Request::options("*").header("host", "a"), false).is_ok());
    }
}
