//! Which requests go to which other servers, by their paths.
//!
//! A path is compared as this server reads it: split at its slashes, then decoded. The server
//! behind may read the same bytes otherwise. Some take an escaped slash, or a backslash, for a
//! slash; some take several slashes for one; some leave out what follows a `;` in a segment
//! (RFC 3986, section 3.3, calls that a segment's parameters). So a path is read both ways. One
//! that leads to one route here, and by the other reading to another or to a page, or has segments
//! that are `.` or `..` by either, is refused: else a client could ask for anything behind, past
//! the routes.

use rhythm_engine::settings::ProxyPattern;
use rhythm_protocol::http::uri;

/// What was found of routes to other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyFound {
    /// That of this index in the settings.
    Proxy(u32),
    /// One, by a path that may mean another to the server: with segments that are `.` or `..` once
    /// decoded, with a NUL, with escapes that are none, or that has another route as some servers
    /// read it.
    Unclear,
    /// None.
    Nothing,
}

/// The paths of a site that other servers answer.
#[derive(Debug, Default)]
pub(super) struct ProxyPaths {
    /// The more specific first.
    patterns: Vec<(ProxyPattern, u32)>,
}

impl ProxyPaths {
    /// Adds paths of the route of this index.
    pub(super) fn add(&mut self, pattern: &ProxyPattern, index: u32) {
        self.patterns.push((pattern.clone(), index));
        (self.patterns).sort_by(|(one, _), (other, _)| one.specificity(other));
    }

    /// The route that a path has, given as it was sent, which nothing here answers. `is_here` says
    /// whether something here answers another, given as its segments, decoded.
    pub(super) fn find(&self, path: &[u8], is_here: impl FnOnce(&[&[u8]]) -> bool) -> ProxyFound {
        if self.patterns.is_empty() || !path.starts_with(b"/") {
            return ProxyFound::Nothing;
        }
        let mut decoded = Vec::new();
        let mut segments = Vec::new();
        for segment in uri::segments(path) {
            let start = decoded.len();
            if uri::decode_bytes(segment, &mut decoded).is_err() {
                return ProxyFound::Unclear;
            }
            segments.push(start..decoded.len());
        }
        let all = segments.iter().map(|segment| &decoded[segment.clone()]);
        let Some(found) = self.of(all.clone()) else {
            return ProxyFound::Nothing;
        };
        if decoded.contains(&0) {
            return ProxyFound::Unclear;
        }
        let other = loosely(all.clone());
        if other.iter().any(|segment| matches!(*segment, b"." | b"..")) {
            return ProxyFound::Unclear;
        }
        let is_read_alike = all.eq(other.iter().copied());
        let leads_alike =
            is_read_alike || self.of(other.iter().copied()) == Some(found) && !is_here(&other);
        match leads_alike {
            true => ProxyFound::Proxy(found),
            false => ProxyFound::Unclear,
        }
    }

    /// The route that has the path of these segments.
    fn of<'a>(&self, segments: impl Iterator<Item = &'a [u8]> + Clone) -> Option<u32> {
        let mut patterns = self.patterns.iter();
        let (_, index) = patterns.find(|(pattern, _)| pattern.has(segments.clone()))?;
        Some(*index)
    }
}

/// The segments of a path as servers may read them that are less strict: see the module's text. A
/// slash at the end stays one.
fn loosely<'a>(segments: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let pieces = segments.flat_map(|segment| segment.split(|byte| matches!(byte, b'/' | b'\\')));
    let before = |piece: &'a [u8]| {
        let end = memchr::memchr(b';', piece);
        &piece[..end.unwrap_or(piece.len())]
    };
    let mut all: Vec<&[u8]> = pieces.map(before).collect();
    let last = all.len().saturating_sub(1);
    let mut at = 0..;
    all.retain(|piece| at.next() == Some(last) || !piece.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str], path: &str) -> ProxyFound {
        let mut paths = ProxyPaths::default();
        for (index, pattern) in (0..).zip(patterns) {
            paths.add(&pattern.parse().expect("a pattern"), index);
        }
        paths.find(path.as_bytes(), |path| path == [b"page"])
    }

    #[test]
    fn the_most_specific_route_has_a_path_as_it_is_decoded() {
        let patterns = ["/**", "/app/**", "/app/*/edit"];
        for (path, index) in [
            ("/", 0),
            ("/apps", 0),
            ("/app", 1),
            ("/app/", 1),
            ("/%61pp/x", 1),
            ("/app/7/edit", 2),
            // Nothing else is meant by these, however they are read.
            ("/app/a%2fb", 1),
            ("/app/a;v=1/b", 1),
            ("/app/a//b", 1),
            ("/app/a.b/..c/...", 1),
            ("/page/", 0),
        ] {
            assert_eq!(found(&patterns, path), ProxyFound::Proxy(index), "{path}");
        }
        assert_eq!(found(&["/app/**"], "/apps"), ProxyFound::Nothing);
        assert_eq!(found(&["/app/**"], "//app"), ProxyFound::Nothing);
        assert_eq!(found(&["/**"], "*"), ProxyFound::Nothing);
        assert_eq!(found(&[], "/a"), ProxyFound::Nothing);
    }

    #[test]
    fn what_may_lead_past_the_routes_is_refused() {
        for path in [
            "/app/../admin",
            "/app/%2e%2e/admin",
            "/app/.%2e",
            "/app/./admin",
            "/app/..;/admin",
            "/app/..;a=b/admin",
            "/app/%2e%2e%3b/admin",
            "/app/a%2f..%2f..%2fadmin",
            "/app/..%5cadmin",
            "/app/..\\admin",
            "/app/%00",
            "/app/..%00/admin",
            "/app/%zz",
            "/app/%2",
        ] {
            assert_eq!(found(&["/app/**"], path), ProxyFound::Unclear, "{path}");
        }
    }

    #[test]
    fn what_has_another_route_by_another_reading_is_refused() {
        let patterns = ["/**", "/admin/**", "/one"];
        for path in [
            "//admin",
            "///admin/x",
            "/admin;/x",
            "/admin;a=b",
            "/admin%2fx",
            "/admin%5cx",
            "/admin\\x",
            "//one",
            "/one;x",
            "//page",
            "/page;x",
            "/%2fpage",
        ] {
            assert_eq!(found(&patterns, path), ProxyFound::Unclear, "{path}");
        }
        // A slash at the end is another path to all.
        assert_eq!(found(&patterns, "/one/"), ProxyFound::Proxy(0));
        assert_eq!(found(&patterns, "/admin//x"), ProxyFound::Proxy(1));
    }
}
