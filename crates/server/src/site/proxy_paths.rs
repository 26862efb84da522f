//! Which requests go to which other servers, by their paths.
//!
//! A path is compared as this server reads it: split at its slashes, then decoded. The server
//! behind may read the same bytes otherwise. Some take an escaped slash, or a backslash, for a
//! slash; some take several slashes for one; some leave out what follows a `;` in a segment
//! (RFC 3986, section 3.3, calls that a segment's parameters), be it before escapes are decoded or
//! behind. So a path is read in all these ways, together and by themselves. One that leads to one
//! route here, and by another reading to another or to a page, or has segments that are `.` or `..`
//! by any, is refused: else a client could ask for anything behind, past the routes.

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

    /// The route that a path has, given as it was sent, which nothing here answers. `is_page` says
    /// whether a page answers another, given as its segments, decoded, and `is_of_host` whether a
    /// host answers one that it does not as it was sent.
    pub(super) fn find(
        &self,
        path: &[u8],
        is_page: impl Fn(&[&[u8]]) -> bool,
        is_of_host: impl Fn(&[&[u8]]) -> bool,
    ) -> ProxyFound {
        if self.patterns.is_empty() || !path.starts_with(b"/") {
            return ProxyFound::Nothing;
        }
        let mut decoded = Vec::new();
        let mut ends = Vec::new();
        for segment in uri::segments(path) {
            let start = decoded.len();
            if uri::decode_bytes(segment, &mut decoded).is_err() {
                return ProxyFound::Unclear;
            }
            ends.push(start..decoded.len());
        }
        let segments: Vec<&[u8]> = ends.into_iter().map(|range| &decoded[range]).collect();
        let Some(found) = self.of(&segments) else {
            return ProxyFound::Nothing;
        };
        let is_dots = |segment: &&[u8]| matches!(*segment, b"." | b"..");
        let leads_here = |read: &[&[u8]]| read.iter().any(is_dots) || is_of_host(read);
        if decoded.contains(&0) || leads_here(&segments) {
            return ProxyFound::Unclear;
        }
        // Nearly all are read alike by all.
        if is_plain(&segments) {
            return ProxyFound::Proxy(found);
        }
        let is_clear = readings().all(|reading| {
            let read = reading.of(&segments);
            let is_other = || leads_here(&read) || self.of(&read) != Some(found) || is_page(&read);
            read == segments || !is_other()
        });
        match is_clear {
            true => ProxyFound::Proxy(found),
            false => ProxyFound::Unclear,
        }
    }

    /// The route that has the path of these segments.
    fn of(&self, segments: &[&[u8]]) -> Option<u32> {
        let mut patterns = self.patterns.iter();
        let (_, index) = patterns.find(|(pattern, _)| pattern.has(segments.iter().copied()))?;
        Some(*index)
    }
}

/// Whether a path of these segments is the same by every reading.
fn is_plain(segments: &[&[u8]]) -> bool {
    let is_plain = |segment: &&[u8]| memchr::memchr3(b';', b'/', b'\\', segment).is_none();
    let before = segments.len().saturating_sub(1);
    segments.iter().all(is_plain) && segments[..before].iter().all(|segment| !segment.is_empty())
}

/// Where what follows a `;` is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Nowhere,
    /// In segments as they were sent.
    Sent,
    /// In those that slashes make which were escaped.
    Decoded,
}

/// A way in which servers may read a path that are less strict: see the module's text.
#[derive(Clone, Copy)]
struct Reading {
    cut: Cut,
    /// Escaped slashes are some, and backslashes.
    splits: bool,
    /// Several slashes are one.
    joins: bool,
}

/// All of them.
fn readings() -> impl Iterator<Item = Reading> {
    let flags = [true, false];
    let cuts = [Cut::Decoded, Cut::Sent, Cut::Nowhere].into_iter();
    cuts.flat_map(move |cut| {
        (flags.into_iter()).flat_map(move |splits| {
            (flags.into_iter()).map(move |joins| Reading { cut, splits, joins })
        })
    })
}

impl Reading {
    /// The segments by it of a path that was split at its slashes and decoded. A slash at the end
    /// stays one.
    fn of<'a>(self, segments: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let cut = |piece: &'a [u8], at: Cut| match memchr::memchr(b';', piece) {
            Some(end) if self.cut == at => &piece[..end],
            _ => piece,
        };
        let is_end = |byte: &u8| self.splits && matches!(byte, b'/' | b'\\');
        let pieces = (segments.iter()).flat_map(|segment| cut(segment, Cut::Sent).split(is_end));
        let mut all: Vec<&[u8]> = pieces.map(|piece| cut(piece, Cut::Decoded)).collect();
        let last = all.len().saturating_sub(1);
        let mut at = 0..;
        all.retain(|piece| !self.joins || at.next() == Some(last) || !piece.is_empty());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&str], path: &str) -> ProxyFound {
        let mut paths = ProxyPaths::default();
        for (index, pattern) in (0..).zip(patterns) {
            paths.add(&pattern.parse().expect("a pattern"), index);
        }
        paths.find(path.as_bytes(), |path| path == [b"page"], |_| false)
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
            ("/app/a;v=1%2f2/b", 1),
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
            // Of what is cut off first nothing is left to be split.
            "/admin;%2f",
            "/admin;%5cx",
            "/admin;\\x",
            "/admin%3b%2fx",
            "/one;a%2fb",
            "/%2fone;%2fx",
            "/page;%2f",
            "/page;%5cx",
        ] {
            assert_eq!(found(&patterns, path), ProxyFound::Unclear, "{path}");
        }
        // A slash at the end is another path to all.
        assert_eq!(found(&patterns, "/one/"), ProxyFound::Proxy(0));
        assert_eq!(found(&patterns, "/admin//x"), ProxyFound::Proxy(1));
    }
}
