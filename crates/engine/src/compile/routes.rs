//! Routes: each is one page's, and hides nothing that would be answered without it.

use crate::diagnostic::Report;
use crate::program::{Route, Segment};
use crate::settings::StaticSettings;
use crate::source::PageFile;
use crate::source::declaration::Step;
use crate::source::keys::Text;
use crate::source::proxy::ProxyDecl;
use std::collections::{BTreeMap, BTreeSet};

/// No two pages answer to one method and path.
pub(super) fn check(pages: &[PageFile<'_>], report: &mut Report) {
    let mut known: BTreeMap<(&str, Vec<Option<&str>>), &str> = BTreeMap::new();
    for page in pages {
        for (route, place) in &page.header.routes {
            let Route { method, segments } = route;
            let shape = segments.iter().map(|segment| match segment {
                Segment::Literal(text) => Some(text.as_str()),
                Segment::Param(_) => None,
            });
            if let Some(other) = known.insert((method, shape.collect()), page.path) {
                let message = format!("{other} answers to this route already");
                report.error(*place, message, "a route belongs to one page");
            }
        }
    }
}

/// Warns of static files and redirects in whose place a page is answered.
pub(super) fn warn_of_hidden(
    pages: &[PageFile<'_>],
    index: &[(Text<'_>, Text<'_>)],
    statics: &StaticSettings,
    static_files: &BTreeSet<String>,
    report: &mut Report,
) {
    let routes = pages.iter().flat_map(|page| &page.header.routes);
    for (route, place) in routes.filter(|(route, _)| route.method == "GET") {
        let Some(path) = path_of(route) else {
            continue;
        };
        let file = path.strip_prefix(&*statics.mount);
        if let Some(file) = file.filter(|file| static_files.contains(*file)) {
            let message = format!("this page is answered in place of static/{file}");
            let hint = format!(
                "give it a path that is not below `mount` of [static], which is {}, or the file \
                 another name",
                statics.mount
            );
            report.warning(*place, message, hint);
        }
        if let Some((from, _)) = index.iter().find(|(from, _)| from.value == path) {
            let message = format!("a page answers GET {path}: this redirect is never made");
            report.warning(from.place, message, "remove it, or the page's route");
        }
    }
}

/// No two routes to other servers have the same paths.
pub(super) fn check_proxies(proxies: &[ProxyDecl<'_>], report: &mut Report) {
    let mut known = Vec::new();
    for proxy in proxies {
        for (pattern, place) in proxy.config.matches.iter().zip(&proxy.places) {
            if known.iter().any(|other| pattern.is_same(other)) {
                let message = format!("another [[proxy]] has {pattern} already");
                report.error(
                    *place,
                    message,
                    "of two that fit, the more specific one answers",
                );
            }
            known.push(pattern.clone());
        }
    }
}

/// Where a page's requests go on to another server, a route to one has their paths.
pub(super) fn check_falls_through(
    pages: &[PageFile<'_>],
    proxies: &[ProxyDecl<'_>],
    report: &mut Report,
) {
    // Of one that could not be read it is not known which paths it has.
    if proxies.iter().any(|proxy| proxy.config.matches.is_empty()) {
        return;
    }
    let takes = |proxy: &&ProxyDecl<'_>, route: &Route| {
        (proxy.config.settings).takes_method(route.method.as_bytes())
    };
    let has_all_of = |route: &Route| {
        let its = proxies.iter().filter(|proxy| takes(proxy, route));
        let mut patterns = its.flat_map(|proxy| &proxy.config.matches);
        patterns.any(|pattern| pattern.has_all_of(segments_of(route)))
    };
    for page in pages {
        let Some(place) = page.header.steps.iter().find_map(Step::goes_on) else {
            continue;
        };
        let mut routes = page.header.routes.iter().map(|(route, _)| route);
        if let Some(route) = routes.find(|route| !has_all_of(route)) {
            let message =
                format!("no [[proxy]] of service.toml has all paths, and the method, of {route}");
            let hint = "[[proxy]], and below it match = \"/**\" and to = \
                        \"http://127.0.0.1:3000\"";
            report.error(place, message, hint);
        }
    }
}

/// Warns of routes to other servers that a page or a static file hides.
pub(super) fn warn_of_unasked(
    pages: &[PageFile<'_>],
    proxies: &[ProxyDecl<'_>],
    statics: &StaticSettings,
    static_files: &BTreeSet<String>,
    report: &mut Report,
) {
    let answers_all = |page: &&PageFile<'_>| {
        page.header
            .steps
            .iter()
            .all(|step| step.goes_on().is_none())
    };
    let routes = || (pages.iter().filter(answers_all)).flat_map(|page| &page.header.routes);
    for proxy in proxies {
        for (pattern, place) in proxy.config.matches.iter().zip(&proxy.places) {
            let Some(path) = pattern.path() else {
                continue;
            };
            let file = path.strip_prefix(&*statics.mount);
            if let Some(file) = file.filter(|file| static_files.contains(*file)) {
                let message = format!("static/{file} is answered in place of this server");
                report.warning(*place, message, "remove the route, or the file");
            }
            let hides = |(route, _): &&(Route, _)| path_of(route).is_some_and(|it| it == path);
            if let Some((route, _)) = routes().find(hides) {
                let method = &route.method;
                let message = format!("a page answers {method} {path} in place of this server");
                let hint = "remove the route, unless it is for the other methods";
                report.warning(*place, message, hint);
            }
        }
    }
}

/// The segments of a route's path, of which parameters are any.
fn segments_of(route: &Route) -> impl Iterator<Item = Option<&str>> {
    // The path `/` has one segment, which is empty.
    let root = route.segments.is_empty().then_some(Some(""));
    let segments = route.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => Some(text.as_str()),
        Segment::Param(_) => None,
    });
    root.into_iter().chain(segments)
}

/// A route's path, where it has no parameters.
fn path_of(route: &Route) -> Option<String> {
    (route.segments.iter())
        .map(|segment| match segment {
            Segment::Literal(text) => Some(format!("/{text}")),
            Segment::Param(_) => None,
        })
        .collect()
}
