//! A site: everything that is served, and that a reload replaces as a whole.
//!
//! Beside the compiled service these are its static files, its routes and what can be computed
//! ahead for each page.

pub(crate) mod content;
pub(crate) mod current;
pub(crate) mod epoch;
pub(crate) mod epochs;
mod error_pages;
pub(crate) mod expiry;
pub(crate) mod gzip;
pub(crate) mod lengths;
pub(crate) mod loader;
pub(crate) mod names;
mod precompressed;
pub(crate) mod proxy_paths;
pub(crate) mod routes;
mod settings;
pub(crate) mod sites;
pub(crate) mod sizes;
pub(crate) mod static_file;
pub(crate) mod statics;

pub use settings::{BackendSettings, HostRoute, ProxyRoute, SiteSettings};
pub use sites::Sites;

use crate::flash;
use crate::site::content::{NAME_MAX, Takes};
use crate::site::error_pages::ErrorPages;
use crate::site::gzip::PageGzip;
use crate::site::routes::{Routes, Target};
use crate::site::statics::Statics;
use crate::trace;
use rhythm_engine::program::{
    Aside, Carrier, FileFields, Op, PROBLEM_BYTES_MAX, PageProgram, ParamType, Segment, Service,
};
use rhythm_engine::session::{SessionId, StoredFields};
use rhythm_http::{AnswerShape, Answered, ErrorPage, RequestLimits, is_json, write_error};
use rhythm_net::tls::Certificate;
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::encoding::Encoding;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{
    HeaderName, OwnedHeaderName, PreparedHead, ResponseWriter, SENDERS_HEADERS,
};
use std::sync::{Arc, OnceLock};

/// Most bytes that are stored of a file beside what it holds and its type: its name, what stands
/// for a type that is not said, and what fills base64 up.
const FILE_BYTES_MAX: usize = 4 * NAME_MAX + 64;

/// What is computed ahead for a page.
#[derive(Debug)]
pub(crate) struct PageInfo {
    /// The head of its answers where nothing but date and length varies.
    pub(crate) head: PreparedHead,
    /// How its answers are compressed, if they are.
    pub(crate) gzip: Option<PageGzip>,
    /// The fields of its answers that are always the same.
    pub(crate) fields: Box<[u8]>,
    /// Where, behind the content type and what varies, those of them begin that an answer with a
    /// file has, too.
    of_files: usize,
    /// Which content it reads.
    pub(crate) takes: Takes,
    /// What it answers is JSON, and so are errors in its place.
    pub(crate) is_json: bool,
    /// The page reads anything but its form and query.
    pub(crate) has_others: bool,
    /// How often a byte of a request may be stored, at most: a cookie or header by each parameter
    /// that reads it, and what is typed as it was typed, too, where the page is told.
    pub(crate) copies_max: usize,
    /// Bytes that are stored, at most, for parameters that a request does not have or has wrongly,
    /// and for its visitor's token.
    pub(crate) default_bytes: usize,
    /// It can answer with a file, so that conditions and ranges of its requests matter.
    pub(crate) has_files: bool,
    /// What it can give beside its body.
    pub(crate) asides: Vec<SentAside>,
    /// It can set fields of the session.
    pub(crate) sets_stored: bool,
    /// It can set fields of the session, or leave a message.
    pub(crate) sets_session: bool,
    /// Visitors who have no session are given an id.
    pub(crate) names_visitor: bool,
    /// Whether it can add a header of the fixed ones, which it then replaces.
    pub(crate) replaces_fields: bool,
    /// It can begin a session.
    pub(crate) begins_session: bool,
    /// Where it does not, a sign-in has failed.
    pub(crate) is_sign_in: bool,
    /// Requests can go on from it to another server, so that they are kept.
    pub(crate) falls_through: bool,
    /// It has a session or can begin one, or has to do with CSRF tokens: it is kept out of caches,
    /// and refused to other sites.
    pub(crate) is_private: bool,
}

impl PageInfo {
    /// # Errors
    /// What in the page cannot be served, in words.
    fn new(
        page: &PageProgram,
        service: &Service,
        settings: &SiteSettings,
        before: Option<&PageInfo>,
    ) -> Result<PageInfo, String> {
        let is_private = page.reads_session();
        let is_compressed = gzip::is_compressed(page, &settings.gzip);
        let mut fields = Vec::new();
        let mut head = ResponseWriter::resume(&mut fields);
        head.content_type(&page.content_type);
        head.encoding(Encoding::Identity, is_compressed);
        let of_files = fields.len();
        let mut head = ResponseWriter::resume(&mut fields);
        if is_private {
            head.no_store();
        }
        settings.write_headers(&mut head);
        let asides = (page.asides.iter())
            .map(|aside| match aside {
                Aside::Header(name) => Ok(SentAside::Header(
                    kind_of(name, settings),
                    header_name(name)?,
                )),
                Aside::Stored(stored) => Ok(SentAside::Stored(usize::from(*stored))),
                Aside::Flash => Ok(SentAside::Flash),
                Aside::Proxy => Ok(SentAside::Proxy),
            })
            .collect::<Result<Vec<_>, String>>()
            .map_err(|error| format!("page {}: {error}", page.name))?;
        let carriers = || {
            let scalars = page.params.iter().flat_map(|param| &param.carriers);
            scalars.chain(page.list_params.iter().flat_map(|list| &list.carriers))
        };
        let is_path = |kind: &ParamType| matches!(kind, ParamType::Path { .. });
        let is_other =
            |carrier: &&Carrier| !matches!(carrier, Carrier::Form | Carrier::Query | Carrier::Json);
        let defaults = (page.params.iter()).filter_map(|param| {
            let default = param.default.as_ref()?.len();
            Some(default * if is_path(&param.kind) { 3 } else { 1 })
        });
        let defaults: usize = defaults.sum();
        let told = (page.params.iter().map(|param| param.told))
            .chain(page.list_params.iter().map(|list| list.told));
        let told = told.flatten().count();
        let others = carriers().filter(is_other).count() + page.cookies.len();
        let others = others + usize::from(page.flash.is_some()) + usize::from(page.here.is_some());
        // Each of their bytes may be stored as three.
        let columns = page.list_params.iter().flat_map(|list| &list.columns);
        let kinds = (page.params.iter().map(|param| &param.kind)).chain(columns.map(|(_, k)| k));
        // What a file holds is stored as the page reads it; as base64 four bytes are of three.
        let files = || page.params.iter().filter_map(|param| param.file);
        let of_file = |file: FileFields| {
            [(file.text, 1), (file.hex, 2), (file.base64, 2)]
                .into_iter()
                .map(|(field, copies)| field.map_or(0, |_| copies))
                .sum::<usize>()
        };
        let others = others + files().map(of_file).sum::<usize>();
        let others = others + 2 * kinds.filter(|kind| is_path(kind)).count();
        let copies_max = 2.max(1 + others);
        Ok(PageInfo {
            head: PreparedHead::new(&fields),
            gzip: is_compressed.then(|| {
                let before = before.and_then(|before| before.gzip.as_ref());
                PageGzip::new(page, service, &fields, before)
            }),
            fields: fields.into(),
            of_files,
            takes: Takes::of(carriers()),
            is_json: is_json(&page.content_type),
            has_others: carriers().any(|carrier| is_other(&carrier)),
            copies_max: copies_max * if told > 0 { 2 } else { 1 },
            default_bytes: defaults
                + files().count() * FILE_BYTES_MAX
                + told * PROBLEM_BYTES_MAX
                + page.csrf.token.map_or(0, |_| SessionId::TEXT_LEN),
            has_files: page.any_op(|op| matches!(op, Op::File(_))),
            replaces_fields: asides.iter().any(SentAside::replaces_field),
            asides,
            sets_stored: page.sets_stored(),
            sets_session: page.sets_stored() || page.sets_flash(),
            names_visitor: page.csrf.token.is_some() || page.sets_flash(),
            begins_session: page.begins_session(),
            is_sign_in: page.is_sign_in,
            falls_through: page.falls_through(),
            is_private,
        })
    }

    /// The fields of its answers with a file that are always the same.
    pub(crate) fn file_fields(&self) -> &[u8] {
        &self.fields[self.of_files..]
    }
}

/// What a page can give beside its body.
#[derive(Debug)]
pub(crate) enum SentAside {
    /// A header, and what is special about it.
    Header(HeaderKind, OwnedHeaderName),
    /// What this field of the session is set to.
    Stored(usize),
    /// A message for the next page.
    Flash,
    /// The request goes on to another server, in place of all of this.
    Proxy,
}

impl SentAside {
    /// Whether it takes the place of a field that all answers have.
    fn replaces_field(&self) -> bool {
        match self {
            SentAside::Header(kind, _) => {
                use HeaderKind::{Framing, Plain, RequestId};
                !matches!(kind, Plain | Framing | RequestId)
            }
            SentAside::Stored(_) | SentAside::Flash | SentAside::Proxy => false,
        }
    }
}

/// Headers of pages that are not just sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderKind {
    /// Just sent.
    Plain,
    /// Replaces the page's own.
    ContentType,
    /// Replaces the page's own.
    CacheControl,
    /// Replaces the settings' of this index.
    Setting(usize),
    /// The server's business alone: not sent.
    Framing,
    /// Not sent where the server itself tells clients the ids of their requests.
    RequestId,
}

fn header_name(name: &str) -> Result<OwnedHeaderName, String> {
    OwnedHeaderName::new(name).ok_or_else(|| format!("{name:?} is no name of a header or cookie"))
}

fn kind_of(name: &str, settings: &SiteSettings) -> HeaderKind {
    let of_settings =
        |(known, _): &(HeaderName<'_>, String)| known.as_str().eq_ignore_ascii_case(name);
    if let Some(index) = settings.headers.iter().position(of_settings) {
        return HeaderKind::Setting(index);
    }
    match name.to_ascii_lowercase().as_str() {
        "content-type" => HeaderKind::ContentType,
        "cache-control" => HeaderKind::CacheControl,
        trace::ID => HeaderKind::RequestId,
        name if SENDERS_HEADERS.contains(&name) => HeaderKind::Framing,
        _ => HeaderKind::Plain,
    }
}

/// A redirect.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) location: String,
}

/// Everything that is served. See the module's text.
#[derive(Debug)]
pub struct Site {
    pub(crate) service: Arc<Service>,
    pub(crate) statics: Statics,
    pub(crate) settings: SiteSettings,
    pub(crate) request_limits: RequestLimits,
    /// The session cookie's name.
    pub(crate) cookie: OwnedHeaderName,
    /// That of the cookie with a message.
    pub(crate) flash_cookie: OwnedHeaderName,
    pub(crate) routes: Routes,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) pages: Vec<PageInfo>,
    error_pages: ErrorPages,
    /// What clients are shown that speak TLS and ask for the site.
    pub(crate) certificate: Option<Certificate>,
    /// Which it is served in place of, for a while.
    in_place_of: Option<Arc<Site>>,
    /// What sessions keep beside their user: made, or taken from the site before, as it is first
    /// served.
    stored: OnceLock<Arc<StoredFields>>,
}

impl Site {
    /// Brings the parts together.
    ///
    /// # Errors
    /// What in the service cannot be served, in words.
    pub fn new(
        service: Arc<Service>,
        statics: Statics,
        settings: SiteSettings,
    ) -> Result<Site, String> {
        Site::following(None, service, statics, settings)
    }

    /// The same, which shows a certificate to clients that speak TLS.
    pub fn showing(self, certificate: Option<Certificate>) -> Site {
        Site {
            certificate,
            ..self
        }
    }

    /// The same, served in place of another for a while: that is what the next follows.
    pub fn in_place_of(self, site: Option<Arc<Site>>) -> Site {
        Site {
            in_place_of: site,
            ..self
        }
    }

    /// What a site follows that is loaded while this is served: this, or the one in whose place it
    /// is.
    pub fn followed(self: &Arc<Site>) -> &Arc<Site> {
        self.in_place_of.as_ref().unwrap_or(self)
    }

    /// As [`Site::new`]; what is prepared of pages that are as in the site `before` is taken from
    /// there.
    ///
    /// # Errors
    /// What in the service cannot be served, in words.
    pub fn following(
        before: Option<&Site>,
        service: Arc<Service>,
        statics: Statics,
        settings: SiteSettings,
    ) -> Result<Site, String> {
        let page_before = |page: &PageProgram| {
            let before = before?;
            let mut pages = before.service.pages.iter().zip(&before.pages);
            let same = pages.find(|(program, _)| program.name == page.name);
            same.map(|(_, info)| info)
        };
        let mut routes = Routes::default();
        for (index, page) in service.pages.iter().enumerate() {
            for call in &page.calls {
                if call.backend >= settings.backends.len() {
                    return Err(format!(
                        "page {} calls a backend that is not there",
                        page.name
                    ));
                }
            }
            for route in &page.routes {
                (routes.add_route(route, Target::Page(index as u32)))
                    .map_err(|error| format!("page {}: {error}", page.name))?;
                check_path_params(page, &route.segments)?;
            }
        }
        let mut redirects = Vec::new();
        for (from, location) in &settings.redirects {
            let target = Target::Redirect(redirects.len() as u32);
            routes.add_path(from.as_bytes(), Method::Get, target);
            redirects.push(Redirect {
                location: location.clone(),
            });
        }
        for (index, route) in (0..).zip(&settings.hosts) {
            routes.add_host(route.path.as_bytes(), index);
        }
        for (index, proxy) in (0..).zip(&settings.proxies) {
            for pattern in &proxy.config.matches {
                routes.add_proxy(pattern, index);
            }
        }
        for (index, path) in statics.paths() {
            routes.add_path(path.as_bytes(), Method::Get, Target::File(index));
        }
        let error_pages = match &service.error_pages {
            Some(programs) => ErrorPages::new(programs)?,
            None => ErrorPages::default(),
        };
        Ok(Site {
            certificate: None,
            in_place_of: None,
            error_pages,
            stored: OnceLock::new(),
            pages: (service.pages.iter())
                .map(|page| PageInfo::new(page, &service, &settings, page_before(page)))
                .collect::<Result<_, _>>()?,
            service,
            statics,
            request_limits: settings.requests,
            cookie: header_name(&settings.cookie)?,
            flash_cookie: header_name(&format!("{}{}", settings.cookie, flash::SUFFIX))?,
            settings,
            routes,
            redirects,
        })
    }

    /// What sessions keep beside their user, of which there are so many at most.
    pub(crate) fn stored(&self, sessions_max: usize) -> &Arc<StoredFields> {
        let declared = || self.service.config.session.stored();
        (self.stored).get_or_init(|| Arc::new(StoredFields::new(declared(), sessions_max)))
    }

    /// Keeps what sessions have, of a site that was served before, if it declares the same. Whether
    /// nothing is lost.
    pub(crate) fn keep_stored(&self, before: &Site) -> bool {
        let Some(stored) = before.stored.get() else {
            return true;
        };
        let is_same = stored.fields() == self.service.config.session.stored();
        let kept = match is_same {
            true => stored,
            false => self.stored(stored.sessions_max()),
        };
        let _ = self.stored.set(kept.clone());
        is_same || stored.fields().is_empty()
    }

    /// Whether each of its routes to a host is to one of these.
    ///
    /// # Errors
    /// Which is not, in words.
    pub(crate) fn check_hosts(&self, names: &[String]) -> Result<(), String> {
        let mut routes = self.settings.hosts.iter();
        match routes.find(|route| !names.contains(&route.host)) {
            None => Ok(()),
            Some(HostRoute { path, host }) => Err(format!(
                "the route {path} is to the host {host}, which there is not"
            )),
        }
    }

    /// Writes an error answer, with a sentence that may say more. `fields` writes more headers.
    /// Gives what the log says of it.
    pub(crate) fn write_error(
        &self,
        out: &mut Vec<u8>,
        status: u16,
        shape: AnswerShape,
        date: &DateCache,
        detail: &str,
        fields: impl FnOnce(&mut ResponseWriter<'_>),
    ) -> Answered {
        let page = self.error_pages.get(status);
        write_error(out, status, page, shape, date, detail, |head| {
            fields(head);
            if page.is_some() {
                self.settings.write_headers(head);
            }
        })
    }

    /// The site's own page for a status, if it has one.
    pub(crate) fn error_page(&self, status: u16) -> Option<&ErrorPage> {
        self.error_pages.get(status)
    }

    /// Writes the fields that an answer has with the site's own page for a status, if it has one.
    pub(crate) fn write_error_fields(&self, status: u16, head: &mut ResponseWriter<'_>) {
        if self.error_pages.get(status).is_some() {
            self.settings.write_headers(head);
        }
    }

    /// Bytes of the site's own page for a status.
    pub(crate) fn error_bytes(&self, status: u16) -> usize {
        self.error_pages
            .get(status)
            .map_or(0, |page| page.plain.len())
    }

    /// Its static files.
    pub fn statics(&self) -> &Statics {
        &self.statics
    }

    /// What the log calls it, where a server has several.
    pub(crate) fn label(&self) -> Option<&str> {
        self.settings.label.as_deref()
    }

    /// The service.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// The settings.
    pub fn settings(&self) -> &SiteSettings {
        &self.settings
    }
}

/// A required path parameter that a route of its page does not have could never be met.
fn check_path_params(page: &PageProgram, segments: &[Segment]) -> Result<(), String> {
    for param in &page.params {
        let in_route = segments
            .iter()
            .any(|segment| matches!(segment, Segment::Param(name) if *name == param.wire_name));
        if param.carriers == [Carrier::Path] && param.default.is_none() && !in_route {
            return Err(format!(
                "page {}: a route lacks its path parameter {}",
                page.name, param.wire_name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_engine::compile::compile;
    use rhythm_engine::source::Sources;

    #[test]
    fn names_that_no_head_can_have_are_refused_before_anything_is_served() {
        let page = "+++\nroute = \"GET /hello\"\n+++\n";
        let files = [("service.toml", ""), ("pages/made.html", page)];
        let sources = Sources {
            files: (files.map(|(path, text)| (path.to_owned(), text.to_owned()))).into(),
            ..Sources::default()
        };
        let site = |cookie: &str, header: &str| {
            let mut service = compile(&sources, &[]).expect("it is sound");
            service.config.session.cookie = cookie.to_owned();
            let names = ["X-Sound", header].map(|name| Aside::Header(name.to_owned()));
            service.pages[0].asides = names.into();
            let settings = SiteSettings::of(&service);
            let statics = Statics::new("/static", Vec::new());
            Site::new(Arc::new(service), statics, settings).map(drop)
        };
        assert_eq!(site("sid", "X-Made"), Ok(()));
        for (cookie, header, told) in [
            (
                "s id",
                "X-Made",
                "\"s id\" is no name of a header or cookie",
            ),
            ("", "X-Made", "\"\" is no name of a header or cookie"),
            (
                "sid",
                "X Made",
                "page made: \"X Made\" is no name of a header or cookie",
            ),
        ] {
            assert_eq!(site(cookie, header), Err(told.to_owned()));
        }
    }
}
