//! Where links, forms and redirects lead: to what is answered here, or there is a warning.

use super::context::{ANY, Leads};
use crate::diagnostic::{Place, Report, did_you_mean_or};
use crate::program::{Route, Segment};
use crate::settings::StaticSettings;
use crate::source::PageFile;
use crate::source::proxy::ProxyDecl;
use std::collections::{BTreeMap, BTreeSet};

/// All that answers.
pub(super) struct Answered<'r, 'a> {
    pub(super) pages: &'r [PageFile<'a>],
    pub(super) proxies: &'r [ProxyDecl<'a>],
    pub(super) statics: &'r StaticSettings,
    pub(super) static_files: &'r BTreeSet<String>,
}

/// Warns of links and forms of pages' own text that lead to a path of the service which nothing
/// answers.
pub(super) fn check(answered: &Answered<'_, '_>, leads: &[Leads<'_>], report: &mut Report) {
    // Most are in layouts, and so there once for each page.
    let mut known: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for Leads { place, to, method } in leads {
        let end = to.find(['?', '#']).unwrap_or(to.len());
        let path = &to[..end];
        // Where an output has a part in it, or that is written as HTML or URLs write it, nobody
        // knows what it is.
        let is_plain = !path.contains([ANY, '&', '%', '\u{fffd}']);
        if !path.starts_with('/') || path.starts_with("//") || !is_plain {
            continue;
        }
        let is_known = known.entry((path, method));
        if !*is_known.or_insert_with(|| answered.answers(path, Some(method))) {
            answered.warn(*place, path, Some(method), report);
        }
    }
}

impl Answered<'_, '_> {
    /// Whether anything answers a path of this service, in which [`ANY`] stands for outputs, to
    /// this method, or, without one, to any.
    pub(super) fn answers(&self, path: &str, method: Option<&str>) -> bool {
        let is_page = self.routes(method).any(|route| leads_to(path, route));
        let is_file = self.of_mount(path).is_some_and(|file| {
            let stem = file.split(ANY).next().unwrap_or(file);
            let may_be = |known: &String| known.starts_with(stem);
            self.static_files.contains(file)
                || file.contains(ANY) && self.static_files.iter().any(may_be)
        });
        let is_proxys = || {
            let mut patterns = (self.proxies.iter()).flat_map(|proxy| &proxy.config.matches);
            patterns.any(|it| it.has(path[1..].split('/').map(str::as_bytes)))
        };
        is_page || is_file || self.statics.index.contains_key(path) || is_proxys()
    }

    /// Warns that nothing does.
    pub(super) fn warn(
        &self,
        place: Place<'_>,
        path: &str,
        method: Option<&str>,
        report: &mut Report,
    ) {
        let of_file = |file: &String| self.statics.mount.clone() + file;
        let of_route = |route: &Route| route.to_string().split_off(route.method.len() + 1);
        let paths: Vec<String> = match self.of_mount(path) {
            Some(_) => self.static_files.iter().map(of_file).collect(),
            None => self.routes(method).map(of_route).collect(),
        };
        let method = method.unwrap_or("GET");
        let nothing = format!("a page with route = \"{method} /...\" would");
        let hint = did_you_mean_or(path, paths.iter().map(String::as_str), &nothing);
        let shown = path.replace(ANY, "...");
        report.warning(
            place,
            format!("nothing here answers {method} {shown}"),
            hint,
        );
    }

    fn routes(&self, method: Option<&str>) -> impl Iterator<Item = &Route> {
        let all = self.pages.iter().flat_map(|page| &page.header.routes);
        let all = all.map(|(route, _)| route);
        all.filter(move |route| method.is_none_or(|method| route.method == method))
    }

    /// The file below `static/` that a path would be.
    fn of_mount<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(&*self.statics.mount)
    }
}

/// Whether a path, with outputs in it, may be one of a route's.
fn leads_to(path: &str, route: &Route) -> bool {
    let mut segments = path[1..].split('/');
    let all_fit = route.segments.iter().all(|segment| {
        segments.next().is_some_and(|given| match segment {
            Segment::Literal(text) => given == text || given.contains(ANY),
            Segment::Param(_) => !given.is_empty(),
        })
    });
    // What an output gives is encoded, slashes and all: it makes no further segments.
    all_fit && segments.next().is_none()
}
