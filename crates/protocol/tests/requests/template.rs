//! With a template a head is what it is without one, whatever heads came before it.

use crate::cases::{LIMITS, summary};
use proptest::prelude::*;
use rhythm_protocol::http::head::{Known, Progress};
use rhythm_protocol::http::request::{
    HeadLimits, HeadTemplate, RequestHead, parse_head_like_with, parse_head_with,
};
use rhythm_protocol::scan::Level;

/// A browser's request, with each kind of header that is judged, and some that are not.
const BROWSER: &str = "POST /a/b?c=d HTTP/1.1\r\nHost: h:80\r\nUser-Agent: Some (kind) of/1.0\r\n\
    Accept: text/html, */*;q=0.8\r\nAccept-Encoding: gzip, br\r\nConnection: keep-alive\r\n\
    Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\
    Cookie: session=0123456789abcdef; other=x \r\nX-Empty:\r\nExpect: 100-continue\r\n\r\n";

/// All that a head says.
fn told(head: &RequestHead, bytes: &[u8], parsed: Progress) -> String {
    let Progress::Complete { head_len } = parsed else {
        return "partial".to_owned();
    };
    let known = Known::ALL.map(|known| head.known(known));
    let (headers, accepts, target) = (head.headers(), head.accepts(), head.target());
    let summary = summary(head, bytes, head_len);
    format!("{summary} {target:?} {headers:?} {known:?} {accepts:?}")
}

/// Parses heads one after the other with one template, and each without.
fn compare<'a>(heads: impl Iterator<Item = (&'a [u8], HeadLimits)> + Clone) {
    for level in Level::all() {
        let mut template = HeadTemplate::default();
        let mut head = RequestHead::new();
        for (bytes, limits) in heads.clone() {
            let mut alone = RequestHead::new();
            let expected = parse_head_with(level, &mut alone, bytes, &limits)
                .map(|parsed| told(&alone, bytes, parsed));
            let found = parse_head_like_with(level, &mut template, &mut head, bytes, &limits)
                .map(|parsed| told(&head, bytes, parsed));
            assert_eq!(found, expected, "{level:?}: {}", bytes.escape_ascii());
            head.clear();
        }
    }
}

#[test]
fn heads_of_all_kinds_come_in_turn() {
    let changes = [
        ("", ""),
        ("0123456789abcdef", "fedcba9876543210"),
        ("/a/b?c=d", "/another/page"),
        ("POST /a/b?c=d", "GET /"),
        ("POST /a/b?c=d HTTP/1.1", "GET http://other/?q HTTP/1.0"),
        ("POST /a/b?c=d HTTP/1.1", "GET /%zz HTTP/1.1 "),
        ("Length: 12", "Length: 13"),
        ("Length: 12", "Length: 1x"),
        ("keep-alive", "xx, closed"),
        ("gzip, br", "identity"),
        ("100-cont", "200-cont"),
        ("h:80", "h:8_"),
        ("other=x", "other= "),
        ("other=x", "other=\u{7f}"),
        ("other=x", "other\r\nx"),
        ("other=x", "othe\u{e9}x"),
        ("session", " ession"),
        ("X-Empty:\r\n", "X-Empty: "),
        ("X-Empty:", "X-Emp y:"),
        ("Cookie:", "Bookie:"),
        ("\r\n\r\n", "\r\n"),
    ];
    let heads: Vec<String> = (changes.iter())
        .map(|(from, to)| BROWSER.replacen(from, to, 1))
        .collect();
    // Each after each, and after itself.
    for first in &heads {
        for second in &heads {
            for limits in [LIMITS, HeadLimits::default()] {
                let turns = [first, second, second, first];
                compare(turns.into_iter().map(|head| (head.as_bytes(), limits)));
            }
        }
    }
    // One template, which many take their turn to be.
    let often = heads.iter().flat_map(|head| [head; 10]);
    compare(often.map(|head| (head.as_bytes(), LIMITS)));
    let narrow = HeadLimits {
        headers_max: 3,
        ..LIMITS
    };
    let one = heads[0].as_bytes();
    compare([(one, LIMITS), (one, narrow), (one, LIMITS)].into_iter());
}

#[test]
fn a_head_cut_short_is_no_head() {
    let whole = BROWSER.as_bytes();
    let cut = (0..whole.len()).map(|length| &whole[..length]);
    compare(cut.flat_map(|part| [(whole, LIMITS), (part, LIMITS)]));
}

proptest! {
    #[test]
    fn mutations_are_found(
        places in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        path in "[a-z]{0,12}",
    ) {
        let whole = BROWSER.replacen("/a/b", &format!("/{path}"), 1).into_bytes();
        let mut mutated = whole.clone();
        for (place, byte) in places {
            let place = place % whole.len();
            mutated[place] = byte;
        }
        let heads = [BROWSER.as_bytes(), &whole, &mutated, &whole];
        compare(heads.into_iter().map(|head| (head, LIMITS)));
    }
}
