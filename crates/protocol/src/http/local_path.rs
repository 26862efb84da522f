//! Paths within a site, which a client names and may be sent to: where else they would lead a
//! browser is what an open redirect is.
//!
//! Browsers take `//host`, `/\host` and, as they leave tabs and line ends out wherever these
//! stand, `/<tab>/host` for another host (WHATWG URL, section 4.4). So a local path begins with
//! one slash, and has no backslash and no control character anywhere. What else cannot stand in a
//! URL is encoded, so that nothing is left to a browser's guesses.

use super::uri::encode_but;
use crate::scan;

/// What stands in a path, its query and its fragment as it is (RFC 3986, section 3.3), and
/// brackets, which browsers leave alone.
const KEPT: scan::ByteSet = scan::ALPHANUMERIC.or(scan::ByteSet::new(b"-._~!$&'()*+,;=:@/?#[]"));

/// Whether a text is a path within the site, perhaps with a query and a fragment.
#[must_use]
pub fn is_local(text: &str) -> bool {
    let is_other_host = matches!(text.as_bytes(), [_, b'/', ..]);
    let is_unfit = |c: char| c == '\\' || c.is_control();
    text.starts_with('/') && !is_other_host && !text.contains(is_unfit)
}

/// Appends a local path as it can be sent: what is encoded stays as it is, and what cannot stand in
/// a URL is encoded.
pub fn push_local(path: &[u8], out: &mut Vec<u8>) {
    for (index, byte) in path.iter().enumerate() {
        let is_escape = || {
            let digits = path.get(index + 1..index + 3);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        match byte {
            b'%' if is_escape() => out.push(b'%'),
            byte => encode_but(KEPT, &[*byte], out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use url::Url;

    fn sent(path: &str) -> String {
        let mut out = Vec::new();
        push_local(path.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn local_paths() {
        for (path, as_sent) in [
            ("/", "/"),
            ("/orders", "/orders"),
            ("/a/b?c=d&e=%2F#f", "/a/b?c=d&e=%2F#f"),
            ("/a b\u{e9}\"<", "/a%20b%C3%A9%22%3C"),
            ("/%", "/%25"),
            ("/%2", "/%252"),
            ("/%zz%41", "/%25zz%41"),
            ("/a//b", "/a//b"),
            ("/..//b", "/..//b"),
            ("/?u=http://b", "/?u=http://b"),
        ] {
            assert!(is_local(path), "{path}");
            assert_eq!(sent(path), as_sent);
            assert_eq!(sent(as_sent), as_sent, "it stays as it is");
        }
        for path in [
            "",
            "a",
            "//b",
            "///b",
            "/\\b",
            "\\/b",
            "/a\\b",
            "http://b",
            "http:/b",
            " /a",
            "/\t/b",
            "/\n/b",
            "\t//b",
            "/\0",
            "/\u{7f}",
            "/\u{85}",
            "javascript:alert(1)",
            "?a",
            "#a",
            "https:b",
            "\u{2f}/b",
            "/a\r\nX: y",
        ] {
            assert!(!is_local(path), "{path:?}");
        }
    }

    proptest! {
        /// Whatever passes leads a browser to the host that it came from.
        #[test]
        fn no_other_origin(
            path in prop_oneof![
                "[/\\\\:@?#.%a \t\r\n\u{0}-\u{20}\u{7f}-\u{a0}\u{3002}\u{ff0f}-]{0,12}",
                "/[/\\\\:@?#.%a0-9b \u{e9}]{0,12}",
                any::<String>().prop_map(|rest| format!("/{rest}")),
            ],
            base in prop_oneof![
                Just("https://here.example/a/b?c#d"),
                Just("http://user@here.example:8080/"),
            ],
        ) {
            if !is_local(&path) {
                return Ok(());
            }
            let base = Url::parse(base).unwrap();
            for location in [sent(&path), path.clone()] {
                let led = base.join(&location).unwrap();
                prop_assert_eq!(led.origin(), base.origin(), "{}", location);
            }
            let is_sent = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
            prop_assert!(sent(&path).bytes().all(is_sent) && is_local(&sent(&path)));
        }
    }
}
