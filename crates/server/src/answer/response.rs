//! Response: from a cohort's output to its clients (paper, section 3.2, *Response*).
//!
//! Each finished lane's head is written, and its runs and fragments are stitched behind it, into
//! the one buffer of [`Clients`], which is sent before the next client's answer is begun.

use crate::flight::lane_requests::{LaneRequest, LaneRequests};
use crate::host::statics::Wanted;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::PageMetrics;
use crate::site::{HeaderKind, Site, SiteSettings};
use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::cohort::{LaneOutput, SessionChange};
use rhythm_engine::program::SessionUse;
use rhythm_engine::session::{Millis, SessionArray};
use rhythm_http::{Answered, Clients, Encoding, write_error};
use rhythm_net::{Port, Time};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{
    HeaderName, ResponseWriter, SameSite, SetCookie, has_no_content,
};

/// Where the random bits of session ids come from: the system's entropy in a server, a seed in a
/// simulation.
pub type Random = Box<dyn FnMut() -> u128 + Send>;

/// What answering the lanes of a cohort takes.
pub(crate) struct LaneAnswers<'a> {
    pub(crate) clients: &'a mut Clients,
    pub(crate) requests: &'a mut LaneRequests,
    pub(crate) sessions: &'a SessionArray,
    pub(crate) random: &'a mut Random,
    pub(crate) date: &'a DateCache,
    pub(crate) site: &'a Site,
    pub(crate) page: usize,
    pub(crate) metrics: &'a PageMetrics,
    /// When the cohort was launched.
    pub(crate) launched: Time,
    pub(crate) now: Time,
    /// How many lanes it has answered.
    pub(crate) answered: u64,
    pub(crate) log: Option<&'a mut LogSink>,
}

impl LaneAnswers<'_> {
    /// Answers all lanes that are finished or failed and not answered yet. Whether any lane is
    /// left.
    pub(crate) fn answer(&mut self, port: &mut dyn Port, cohort: &mut Cohort) -> bool {
        let mut headers = 0;
        let mut left = false;
        for lane in 0..cohort.len() {
            let state = cohort.lanes[lane];
            match state {
                LaneState::Active => {
                    left = true;
                    continue;
                }
                LaneState::Moved => continue,
                LaneState::Finished | LaneState::Failed(_) => {}
            }
            // Else it was answered after a stage before.
            let Some(request) = self.requests.take(lane) else {
                continue;
            };
            // Headers are in order of lanes.
            let all = &cohort.output.headers;
            while all
                .get(headers)
                .is_some_and(|&(of, ..)| (of as usize) < lane)
            {
                headers += 1;
            }
            let answered = match state {
                LaneState::Failed(error) => self.failed(port, &request, error),
                LaneState::Finished => self.finished(port, cohort, lane, headers, &request),
                LaneState::Active | LaneState::Moved => unreachable!("it was left out"),
            };
            let wait = self.launched.since(request.arrived).as_nanos() as u64;
            self.metrics.queue_wait.record(wait, 1);
            self.answered += 1;
            self.metrics.answered(answered.status);
            if let Some(log) = &mut self.log
                && let Some(line) = self.requests.line(&request)
            {
                log.entry(
                    line,
                    answered,
                    self.now.since(request.arrived),
                    self.date.seconds(),
                );
            }
        }
        left
    }

    fn failed(&mut self, port: &mut dyn Port, request: &LaneRequest, error: LaneError) -> Answered {
        self.metrics.lane_errors[error.index()].add(1);
        let status = error.status();
        self.error(port, request, status)
    }

    fn error(&mut self, port: &mut dyn Port, request: &LaneRequest, status: u16) -> Answered {
        if let Some(shape) = self.clients.shape_now(request.slot, request.shape) {
            (self.clients).answer(port, request.slot, shape, self.now, |out| {
                write_error(out, status, shape, self.date, "", |_| {});
            });
        }
        Answered::bare(status)
    }

    fn finished(
        &mut self,
        port: &mut dyn Port,
        cohort: &Cohort,
        lane: usize,
        headers: usize,
        request: &LaneRequest,
    ) -> Answered {
        let output = &cohort.output.lanes[lane];
        let program = &self.site.service.pages[self.page];
        let info = &self.site.pages[self.page];
        let status = output.status;
        if output.session == SessionChange::Destroy
            && let Some(session) = self.requests.session(lane)
        {
            self.sessions.destroy(session);
        }
        let Some(shape) = self.clients.shape_now(request.slot, request.shape) else {
            return Answered::bare(status);
        };
        let cookie = match self.change_session(output, milliseconds(self.now)) {
            Ok(cookie) => cookie,
            Err(error) => return self.failed(port, request, error),
        };
        let lane_headers = (cohort.output.headers.get(headers..).unwrap_or(&[]).iter())
            .take_while(|&&(of, ..)| of as usize == lane)
            .filter_map(|&(_, name, value)| {
                let kind = *info.header_kinds.get(usize::from(name))?;
                let name = HeaderName::new(program.header_names.get(usize::from(name))?)?;
                (kind != HeaderKind::Framing).then_some((kind, name, cohort.arena.get(value)))
            });
        let sets = |wanted| lane_headers.clone().any(|(kind, ..)| kind == wanted);
        let settings = &self.site.settings;
        let added = |head: &mut ResponseWriter<'_>| {
            for (_, name, value) in lane_headers.clone() {
                head.header(name, value);
            }
            if let Some(text) = &cookie {
                write_cookie(head, settings, text);
            }
        };
        if let Some(path) = output.file {
            let Some(file) = self.site.statics.find(cohort.arena.get(path)) else {
                return self.error(port, request, 404);
            };
            let wanted = Wanted {
                shape,
                slot: request.slot,
                now: self.now,
                conditions: self.requests.conditions(request),
                method: if shape.head_only {
                    Method::Head
                } else {
                    Method::Get
                },
            };
            let private = program.session != SessionUse::None && !sets(HeaderKind::CacheControl);
            let added = |head: &mut ResponseWriter<'_>| {
                if private {
                    head.no_store();
                }
                added(head);
            };
            let statics = &self.site.statics;
            return statics.answer(file, wanted, self.date, self.clients, port, added);
        }
        let has_body = !has_no_content(status) && !shape.head_only;
        let (clients, date, site, now) = (&mut *self.clients, self.date, self.site, self.now);
        clients.answer(port, request.slot, shape, now, |out| {
            let mut head = ResponseWriter::new(out, status);
            added(&mut head);
            head.connection(!shape.close, shape.http10).date(date);
            if info.replaces_fields {
                if !sets(HeaderKind::ContentType) {
                    head.content_type(&program.content_type);
                }
                if program.session != SessionUse::None && !sets(HeaderKind::CacheControl) {
                    head.no_store();
                }
            } else {
                out.extend_from_slice(&info.fields);
            }
            if has_no_content(status) {
                out.extend_from_slice(b"\r\n");
            } else {
                out.extend_from_slice(b"Content-Length: ");
                let mut digits = itoa::Buffer::new();
                out.extend_from_slice(digits.format(output.body_length).as_bytes());
                out.extend_from_slice(b"\r\n\r\n");
            }
            if has_body {
                match shape.encoding {
                    Encoding::Identity => {
                        cohort.output.stitch(lane, &site.service.fragments, out);
                    }
                }
            }
        });
        let body_length = if has_body {
            u64::from(output.body_length)
        } else {
            0
        };
        Answered {
            status,
            body_length,
        }
    }

    /// Does what the lane asks for with its session, and gives the cookie's new value.
    fn change_session(
        &mut self,
        output: &LaneOutput,
        now_ms: u64,
    ) -> Result<Option<Vec<u8>>, LaneError> {
        match output.session {
            SessionChange::None => Ok(None),
            SessionChange::Create(user) => {
                let created = self.sessions.create(user, (self.random)(), now_ms);
                let id = created.map_err(|_| LaneError::SessionsFull)?;
                Ok(Some(id.to_text().to_vec()))
            }
            SessionChange::Destroy => Ok(Some(Vec::new())),
        }
    }
}

/// Sets the session's cookie, or with an empty text removes it.
fn write_cookie(head: &mut ResponseWriter<'_>, settings: &SiteSettings, text: &[u8]) {
    if let Some(name) = HeaderName::new(&settings.cookie) {
        head.set_cookie(&SetCookie {
            name,
            value: text,
            max_age: text.is_empty().then_some(0),
            http_only: true,
            secure: settings.cookie_secure,
            same_site: SameSite::Lax,
        });
    }
}

/// What the session array counts time in.
pub(crate) fn milliseconds(now: Time) -> Millis {
    now.as_nanos() / 1_000_000
}
