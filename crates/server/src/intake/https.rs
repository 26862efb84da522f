//! Clients that ask without TLS where they are to use it: they are sent on to https (RFC 9110,
//! section 15.4.9: 308, so that a form is sent again as it was).
//!
//! Who comes through a Unix socket is a proxy, which has spoken TLS itself where anybody did.

use crate::site::Site;
use crate::site::sites::without_port;
use rhythm_net::{Client, Role};
use rhythm_protocol::http::request::RequestHead;

/// The role of listeners whose clients speak TLS.
pub(crate) const TLS: Role = Role(1);
/// What is added to the role of who came in where the request came by HTTP/2.
pub(crate) const HTTP2: Role = Role(2);

/// Whether who came in so speaks TLS with us.
#[inline]
pub(crate) fn is_tls(role: Role) -> bool {
    role.0 & TLS.0 != 0
}

/// Whether a request that came in so did by HTTP/2.
#[inline]
pub(crate) fn is_http2(role: Role) -> bool {
    role.0 & HTTP2.0 != 0
}

/// The port of https that who came in so is sent on to, if he is.
#[inline]
pub(crate) fn port_for(site: &Site, role: Role, peer: Client) -> Option<u16> {
    let port = site.settings.https_port?;
    (!is_tls(role) && peer != Client::Unix).then_some(port)
}

/// Where a request is sent on to, or the status that answers it. `OPTIONS *` is of the server,
/// which has no other place.
#[cold]
pub(crate) fn send_on(port: u16, head: &RequestHead, bytes: &[u8]) -> Option<Result<Vec<u8>, u16>> {
    let (host, path) = (head.host().of(bytes), head.path(bytes));
    if path == b"*" {
        return None;
    }
    let name = without_port(host);
    if name.is_empty() {
        // HTTP/1.0 without a host: nobody knows where to.
        return Some(Err(400));
    }
    let mut location = b"https://".to_vec();
    location.extend_from_slice(name);
    if port != HTTPS {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    location.extend_from_slice(path);
    let query = head.query().of(bytes);
    if !query.is_empty() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    Some(Ok(location))
}

/// The port that goes without saying.
const HTTPS: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_what_follows_the_last_colon_outside_of_brackets() {
        for (host, name) in [
            ("bank.example", "bank.example"),
            ("bank.example:8080", "bank.example"),
            ("bank.example:", "bank.example"),
            ("[::1]", "[::1]"),
            ("[::1]:8080", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(without_port(host.as_bytes()), name.as_bytes(), "{host}");
        }
    }
}
