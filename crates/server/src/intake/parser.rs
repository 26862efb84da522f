//! Parser: from a whole request to a lane of its page's cohort (paper, section 3.2, *Parser*).
//!
//! In: a request, where it lies, and its route. Out: the page's parameters, straight in the columns
//! of the cohort that is being formed, and the session that the cookie names. The request itself is
//! kept nowhere.

use crate::intake::params::{BadParameter, ParamReader, Sources};
use crate::site::Site;
use crate::site::routes::{Captures, Found, PatternId};
use rhythm_engine::cohort::Cohort;
use rhythm_engine::program::{CookieUse, PageProgram};
use rhythm_engine::session::SessionId;
use rhythm_http::Incoming;
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::RequestHead;
use rhythm_protocol::http::response::OwnedHeaderName;
use rhythm_protocol::http::uri;

/// See the module's text. It is memory kept from request to request.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    captures: Captures,
    params: ParamReader,
    /// A cookie, decoded.
    cookie: Vec<u8>,
}

impl Parser {
    /// What answers a request, by its method and path.
    #[inline]
    pub(crate) fn route(&mut self, site: &Site, head: &RequestHead, bytes: &[u8]) -> Found {
        let routes = &site.routes;
        routes.find(head.method(), head.path(bytes), &mut self.captures)
    }

    /// Adds the request to its page's cohort as a lane, and gives the session that its cookie
    /// names, where the page looks at that. The request is the one that was routed last.
    ///
    /// # Errors
    /// A parameter that is bad, or missing. The lane must then be taken back.
    pub(crate) fn lane(
        &mut self,
        site: &Site,
        page: u32,
        pattern: Option<PatternId>,
        request: Incoming<'_>,
        cohort: &mut Cohort,
    ) -> Result<Option<SessionId>, BadParameter> {
        let Incoming {
            head,
            bytes,
            content,
        } = request;
        let program = &site.service.pages[page as usize];
        let info = &site.pages[page as usize];
        let lane = cohort.push_lane();
        let sources = Sources {
            head,
            bytes,
            content: info.takes.content(head, bytes, content),
            path_names: site.routes.names(pattern),
            captures: &self.captures,
        };
        (self.params).read(program, &sources, info.has_others, cohort, lane)?;
        if !program.cookies.is_empty() {
            self.cookies(program, head, bytes, cohort, lane);
        }
        Ok(match info.is_private {
            false => None,
            true => session_of(site, head, bytes),
        })
    }
}

/// Most bytes of a cookie that a page reads by its name, encoded; longer ones it does not have.
const COOKIE_BYTES_MAX: usize = 4096;

impl Parser {
    /// Fills in the cookies that a page reads by their names. One that is no text is none.
    #[cold]
    fn cookies(
        &mut self,
        program: &PageProgram,
        head: &RequestHead,
        bytes: &[u8],
        cohort: &mut Cohort,
        lane: usize,
    ) {
        let cookies = head
            .known(Known::Cookie)
            .map_or(&[][..], |all| all.of(bytes));
        for CookieUse { name, field } in &program.cookies {
            let given = uri::cookie(cookies, name.as_bytes());
            let given = given.filter(|given| given.len() <= COOKIE_BYTES_MAX);
            self.cookie.clear();
            let decoded = given.map(|given| uri::decode(given, &mut self.cookie));
            if matches!(decoded, Some(Ok(()))) && std::str::from_utf8(&self.cookie).is_ok() {
                let view = cohort.arena.push(&self.cookie);
                cohort.fields[usize::from(*field)].set_text(lane, view);
            }
        }
    }
}

/// The session that a request's cookie names, known or not.
pub(crate) fn session_of(site: &Site, head: &RequestHead, bytes: &[u8]) -> Option<SessionId> {
    SessionId::parse(cookie_of(head, bytes, &site.cookie)?)
}

/// The value of a request's cookie.
pub(crate) fn cookie_of<'a>(
    head: &RequestHead,
    bytes: &'a [u8],
    name: &OwnedHeaderName,
) -> Option<&'a [u8]> {
    let cookies = head.known(Known::Cookie)?;
    uri::cookie(cookies.of(bytes), name.get().as_str().as_bytes())
}
