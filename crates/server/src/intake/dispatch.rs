//! Dispatch: which way a request goes (paper, section 3.2, *Dispatch*): to a cohort of its page, or
//! the host path, where what is not data-parallel is answered: at once, as static files, redirects
//! and errors are, or by a host.

use crate::intake::csrf::NoToken;
use crate::intake::https;
use crate::intake::origin;
use crate::intake::params::BadParameter;
use crate::site::Site;
use crate::site::proxy_paths::ProxyFound;
use crate::site::routes::{Found, PatternId, Target};
use rhythm_engine::session::TooMany;
use rhythm_net::{Client, Role};
use rhythm_protocol::http::request::{Method, RequestHead};
use rhythm_protocol::http::uri;

/// An answer of the host path that needs nothing but the site.
#[derive(Debug)]
pub(crate) enum SiteAnswer {
    /// A static file, by its index.
    File(u32),
    /// A redirect, by its index.
    Redirect(u32),
    /// A redirect to https: this is where.
    OnHttps(Vec<u8>),
    /// `OPTIONS`: these are the methods.
    Options(String),
    /// 405: these are the methods.
    OtherMethod(String),
    /// 400 because of a parameter.
    BadParameter(BadParameter),
    /// 403: it has no CSRF token of its session.
    NoToken(NoToken),
    /// 429: too many sign-ins.
    TooMany(TooMany),
    /// An error by its status.
    Error(u16),
}

/// Where a request goes.
#[derive(Debug)]
pub(crate) enum Way {
    /// To a cohort of this page; for a route with parameters, which it is.
    Lane(u32, Option<PatternId>),
    /// To a host, by its route's index.
    Host(u32),
    /// To another server, by its route's index.
    Proxy(u32),
    /// The host path, with this for an answer.
    Site(SiteAnswer),
}

/// What answers methods that nothing here knows (RFC 9110, section 9.1).
const NOT_IMPLEMENTED: u16 = 501;

impl SiteAnswer {
    /// Whether it tells that the request will not be had as it is, so that its content, if it is
    /// still to come, is of no use.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            SiteAnswer::File(_) | SiteAnswer::Redirect(_) | SiteAnswer::Options(_) => false,
            SiteAnswer::OnHttps(_)
            | SiteAnswer::OtherMethod(_)
            | SiteAnswer::BadParameter(_)
            | SiteAnswer::NoToken(_)
            | SiteAnswer::TooMany(_)
            | SiteAnswer::Error(_) => true,
        }
    }
}

/// Decides about a request that came in so, for which `found` was found.
#[inline]
pub(crate) fn dispatch(
    site: &Site,
    found: Found,
    (role, peer): (Role, Client),
    head: &RequestHead,
    bytes: &[u8],
) -> Way {
    if let Some(port) = https::port_for(site, role, peer)
        && let Some(to) = https::send_on(port, head, bytes)
    {
        return Way::Site(match to {
            Ok(location) => SiteAnswer::OnHttps(location),
            Err(status) => SiteAnswer::Error(status),
        });
    }
    if let Some(way) = proxied(site, found, head, bytes) {
        return way;
    }
    if head.method() == Method::Other {
        return Way::Site(SiteAnswer::Error(NOT_IMPLEMENTED));
    }
    Way::Site(match found {
        Found::Target(Target::Page(page), pattern) => match refusal(site, page, head, bytes) {
            None => return Way::Lane(page, pattern),
            Some(status) => SiteAnswer::Error(status),
        },
        Found::Target(Target::Host(host), _) => return Way::Host(host),
        Found::Target(Target::File(file), _) => SiteAnswer::File(file),
        Found::Target(Target::Redirect(redirect), _) => SiteAnswer::Redirect(redirect),
        Found::OtherMethod => {
            let allow = site.routes.allowed(head.path(bytes));
            match head.method() {
                Method::Options => SiteAnswer::Options(allow),
                _ => SiteAnswer::OtherMethod(allow),
            }
        }
        Found::Nothing => find_mounted(site, head, bytes),
    })
}

/// Where a request goes that nothing here answers, if another server has it.
#[inline]
fn proxied(site: &Site, found: Found, head: &RequestHead, bytes: &[u8]) -> Option<Way> {
    match found {
        Found::OtherMethod | Found::Nothing if !site.settings.proxies.is_empty() => {
            find_proxied(site, found, head, bytes)
        }
        _ => None,
    }
}

#[cold]
fn find_proxied(site: &Site, found: Found, head: &RequestHead, bytes: &[u8]) -> Option<Way> {
    let is_file = || matches!(find_mounted(site, head, bytes), SiteAnswer::File(_));
    if found == Found::Nothing && is_file() {
        return None;
    }
    match site.routes.find_proxy(head.method(), head.path(bytes)) {
        ProxyFound::Proxy(index) if takes_method(site, index, head, bytes) => {
            Some(Way::Proxy(index))
        }
        // It is 501, as anywhere.
        ProxyFound::Proxy(_) if head.method() == Method::Other => None,
        ProxyFound::Proxy(index) => {
            let allow = allowed(site, index, found, head.path(bytes));
            Some(Way::Site(match head.method() {
                Method::Options => SiteAnswer::Options(allow),
                _ => SiteAnswer::OtherMethod(allow),
            }))
        }
        ProxyFound::Unclear => Some(Way::Site(SiteAnswer::Error(400))),
        ProxyFound::Nothing => None,
    }
}

/// Whether the route of this index to another server has the method of a request.
pub(crate) fn takes_method(site: &Site, route: u32, head: &RequestHead, bytes: &[u8]) -> bool {
    let route = site.settings.proxies.get(route as usize);
    route.is_some_and(|route| route.config.settings.takes_method(head.method_name(bytes)))
}

/// The methods of a path that has a route to another server, and perhaps a page.
fn allowed(site: &Site, route: u32, found: Found, path: &[u8]) -> String {
    let here = match found {
        Found::OtherMethod => site.routes.allowed(path),
        _ => String::new(),
    };
    let mut all: Vec<&str> = here.split(", ").filter(|name| !name.is_empty()).collect();
    let route = site.settings.proxies.get(route as usize);
    for method in route
        .into_iter()
        .flat_map(|route| route.config.settings.methods())
    {
        if !all.contains(&method) {
            all.push(method);
        }
    }
    all.join(", ")
}

/// Why a page takes no such request, if it does not.
#[inline]
fn refusal(site: &Site, page: u32, head: &RequestHead, bytes: &[u8]) -> Option<u16> {
    let info = &site.pages[page as usize];
    if !info.takes.fits(head, bytes) {
        return Some(415);
    }
    let is_foreign = info.is_private && !origin::is_allowed(&site.settings, head, bytes);
    is_foreign.then_some(403)
}

/// What answers a path that is no route: a static file by another spelling, or nothing.
#[cold]
fn find_mounted(site: &Site, head: &RequestHead, bytes: &[u8]) -> SiteAnswer {
    let path = head.path(bytes);
    if path == b"*" && head.method() == Method::Options {
        return SiteAnswer::Options("GET, HEAD, OPTIONS, POST".to_owned());
    }
    let statics = &site.statics;
    let Some(below) = path.strip_prefix(statics.mount().as_bytes()) else {
        return SiteAnswer::Error(site.settings.nothing);
    };
    let mut relative = Vec::new();
    let found = uri::file_path(below, &mut relative)
        .ok()
        .and_then(|()| statics.find(&relative));
    match (found, head.method()) {
        (Some(file), Method::Get | Method::Head) => SiteAnswer::File(file),
        (Some(_), Method::Options) => SiteAnswer::Options("GET, HEAD, OPTIONS".to_owned()),
        (Some(_), _) => SiteAnswer::OtherMethod("GET, HEAD, OPTIONS".to_owned()),
        (None, _) => SiteAnswer::Error(site.settings.nothing),
    }
}
