//! Origin: whether a request that changes something was sent by a page of this service (RFC 6454,
//! section 7; RFC 9110, section 7.2).
//!
//! A browser names in `Origin` the site whose page has it send a form. It is this service's where
//! its host and port are those that the request is for (`Host`), or where the settings name it.
//! Requests without `Origin` are not of browsers, or of old ones, and pass: the session's cookie is
//! `SameSite=Lax` besides.

use crate::site::SiteSettings;
use rhythm_protocol::http::request::{Method, RequestHead};

/// Whether a request may do what it asks for.
pub(crate) fn is_allowed(settings: &SiteSettings, head: &RequestHead, bytes: &[u8]) -> bool {
    is_safe(head) || !settings.origin_check || {
        let host = head.host().of(bytes);
        let mut origins = head.values(bytes, "origin");
        origins.all(|origin| is_ours(settings, origin, host))
    }
}

/// Whether a request's method says that it changes nothing.
pub(crate) fn is_safe(head: &RequestHead) -> bool {
    matches!(head.method(), Method::Get | Method::Head | Method::Options)
}

fn is_ours(settings: &SiteSettings, origin: &[u8], host: &[u8]) -> bool {
    let known = |known: &String| known.as_bytes().eq_ignore_ascii_case(origin);
    if settings.origins.iter().any(known) {
        return true;
    }
    let Some(scheme_end) = memchr::memmem::find(origin, b"://") else {
        return false;
    };
    let (scheme, authority) = (&origin[..scheme_end], &origin[scheme_end + 3..]);
    let default_port: &[u8] = match scheme {
        b"https" => b":443",
        b"http" if !settings.cookie_secure => b":80",
        _ => return false,
    };
    let bare = |authority: &[u8]| {
        authority.len() - default_port.len() * usize::from(authority.ends_with(default_port))
    };
    let (ours, theirs) = (&host[..bare(host)], &authority[..bare(authority)]);
    !ours.is_empty() && ours.eq_ignore_ascii_case(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_ours_by_its_host_and_port_or_by_name() {
        let settings = SiteSettings {
            origins: vec!["https://www.bank.example".to_owned()],
            ..SiteSettings::default()
        };
        for (origin, host, ours) in [
            ("http://bank.example", "bank.example", true),
            ("https://BANK.example", "bank.example", true),
            ("http://bank.example", "bank.example:80", true),
            ("https://bank.example:443", "bank.example", true),
            ("https://bank.example", "bank.example:80", false),
            ("http://bank.example:8080", "bank.example:8080", true),
            ("http://bank.example:8081", "bank.example:8080", false),
            ("http://[::1]:8080", "[::1]:8080", true),
            ("https://www.bank.example", "bank.example", true),
            ("http://www.bank.example", "bank.example", false),
            ("http://evil.example", "bank.example", false),
            ("http://bank.example.evil.example", "bank.example", false),
            ("null", "null", false),
            ("", "", false),
            ("http://", "", false),
            ("http://:80", ":80", false),
            ("ftp://bank.example", "bank.example", false),
        ] {
            let found = is_ours(&settings, origin.as_bytes(), host.as_bytes());
            assert_eq!(found, ours, "{origin} for {host}");
        }
        let secure = SiteSettings {
            cookie_secure: true,
            ..settings
        };
        assert!(!is_ours(&secure, b"http://bank.example", b"bank.example"));
        assert!(is_ours(&secure, b"https://bank.example", b"bank.example"));
    }
}
