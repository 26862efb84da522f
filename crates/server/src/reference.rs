//! The host's parser for one request at a time: what the parser of a device is compared with.

use crate::intake::parser::Parser;
use crate::site::routes::{Found, Target};
use crate::site::statics::Statics;
use crate::site::{Site, SiteSettings};
use rhythm_engine::cohort::Cohort;
use rhythm_engine::program::Service;
use rhythm_engine::session::SessionId;
use rhythm_http::Incoming;
use rhythm_protocol::http::head::Progress;
use rhythm_protocol::http::request::{Framing, Method, RequestHead, parse_head};
use std::sync::Arc;

/// The parser of the pipeline, without connections.
#[derive(Debug)]
pub struct ReferenceParser {
    site: Site,
    parser: Parser,
    head: RequestHead,
}

/// A request for a page.
#[derive(Debug)]
pub struct ReferenceRequest {
    /// The page's index in the service.
    pub page: usize,
    /// A cohort of it with one lane: its parameters.
    pub cohort: Cohort,
    /// What its session cookie says, where the page looks at that.
    pub session: Option<SessionId>,
}

impl ReferenceParser {
    /// A parser for a service.
    ///
    /// # Errors
    /// What in the service cannot be served, in words.
    pub fn new(service: Arc<Service>, statics: Statics) -> Result<ReferenceParser, String> {
        let settings = SiteSettings::of(&service);
        Ok(ReferenceParser {
            site: Site::new(service, statics, settings)?,
            parser: Parser::default(),
            head: RequestHead::new(),
        })
    }

    /// Parses one whole request and nothing after it. `None` unless a page answers it, in the form
    /// that nearly all answers have: HTTP/1.1, with a body, the connection kept.
    pub fn parse(&mut self, bytes: &[u8]) -> Option<ReferenceRequest> {
        let ReferenceParser { site, parser, head } = self;
        head.clear();
        let progress = parse_head(head, bytes, &site.request_limits.head).ok()?;
        let Progress::Complete { head_len } = progress else {
            return None;
        };
        if head.method() == Method::Head || head.is_http10() || !head.keep_alive() {
            return None;
        }
        let content = &bytes[head_len..];
        let length = match head.framing() {
            Framing::None => 0,
            Framing::Length(length) => length,
            Framing::Chunked => return None,
        };
        if length != content.len() as u64 || content.len() > site.request_limits.body_max {
            return None;
        }
        let found = parser.route(site, head, bytes);
        let Found::Target(Target::Page(page), pattern) = found else {
            return None;
        };
        let page = page as usize;
        let (program, info) = (&site.service.pages[page], &site.pages[page]);
        if !info.takes.fits(head, bytes) {
            return None;
        }
        let mut cohort = Cohort::default();
        cohort.reset(program);
        let request = Incoming {
            head,
            bytes,
            content,
        };
        let session = (parser.lane(site, page as u32, pattern, request, &mut cohort)).ok()?;
        Some(ReferenceRequest {
            page,
            cohort,
            session,
        })
    }
}
