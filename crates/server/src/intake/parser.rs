//! Parser: from a whole request to a lane of its page's cohort (paper, section 3.2, *Parser*).
//!
//! The page's parameters go straight into the columns of the cohort that is being formed; the
//! request itself is kept nowhere. Where no context can take the lane, the request stays with its
//! connection, which reads no further.

use crate::flight::process::CohortKey;
use crate::flight::request::{KeptConditions, Request};
use crate::intake::dispatch::Reply;
use crate::intake::params::{BadParameter, Sources};
use crate::observe::access_log::LogEntry;
use crate::pipeline::{Pipeline, since_origin};
use crate::site::routes::{Found, PatternId, Target};
use rhythm_engine::cohort::Cohort;
use rhythm_engine::program::SessionUse;
use rhythm_engine::session::SessionId;
use rhythm_net::{ConnectionId, Port};
use rhythm_protocol::http::conditional::Conditions;
use rhythm_protocol::http::head::Known;
use rhythm_protocol::http::request::{Framing, Method, RequestHead};
use rhythm_protocol::http::uri;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is answered or under way.
    Taken,
    /// No context is free: it is to be shown again later.
    Later,
}

/// The content type of forms.
const FORM: &[u8] = b"application/x-www-form-urlencoded";

impl Pipeline {
    /// Takes a request whose content is complete.
    pub(crate) fn take(
        &mut self,
        port: &mut dyn Port,
        id: ConnectionId,
        head: &RequestHead,
        bytes: &[u8],
        content: &[u8],
    ) -> Taken {
        let method = head.method();
        let found = (self.epoch.site.routes).find(method, head.path(bytes), &mut self.captures);
        let reply = match found {
            Found::Target(Target::Page(page), pattern) => {
                if self.epoch.site.pages[page as usize].has_form && !form_fits(head, bytes) {
                    Reply::Error(415)
                } else {
                    match self.take_lane(id, head, bytes, content, page, pattern) {
                        Ok(taken) => return taken,
                        Err(bad) => Reply::BadParameter(bad),
                    }
                }
            }
            Found::Target(Target::File(file), _) => Reply::File(file),
            Found::Target(Target::Redirect(redirect), _) => Reply::Redirect(redirect),
            Found::OtherMethod(allow) if method == Method::Options => Reply::Options(allow.into()),
            Found::OtherMethod(allow) => Reply::OtherMethod(allow.into()),
            Found::Nothing => self.find_mounted(head, bytes),
        };
        self.reply(port, id, head, bytes, reply);
        Taken::Taken
    }

    /// Adds the request to the cohort of its page as a lane.
    fn take_lane(
        &mut self,
        id: ConnectionId,
        head: &RequestHead,
        bytes: &[u8],
        content: &[u8],
        page: u32,
        pattern: Option<PatternId>,
    ) -> Result<Taken, BadParameter> {
        let site = &*self.epoch.site;
        let program = &site.service.pages[page as usize];
        let info = &site.pages[page as usize];
        let now = self.now;
        let key = CohortKey {
            epoch: self.epoch.number,
            page,
            stage: 0,
        };
        let Some(context) = self
            .pool
            .open(key, since_origin(now), |cohort: &mut Cohort| {
                cohort.reset(program);
            })
        else {
            return Ok(Taken::Later);
        };
        let run = &mut self.runs[context as usize];
        let cohort = self.pool.cohort_mut(context);
        if cohort.is_empty() {
            run.begin(&self.epoch, now);
        } else if !cohort
            .arena
            .has_room(2 * (bytes.len().min(usize::from(u16::MAX)) + content.len()))
        {
            // The cohort holds as much as it can; the next one takes the lane.
            self.pool.close(context);
            return Ok(Taken::Later);
        }
        // The lane's ticket follows when the parameters are known to be good.
        let lane = cohort.push_lane(0);
        let sources = Sources {
            head,
            bytes,
            form: if info.has_form { content } else { &[] },
            path_names: site.routes.names(pattern),
            captures: &self.captures,
        };
        if let Err(bad) = self
            .params
            .read(program, &sources, info.has_others, cohort, lane)
        {
            cohort.pop_lane();
            if cohort.is_empty() {
                self.pool.release(context);
                self.freed = true;
            }
            return Err(bad);
        }
        let session = match program.session {
            SessionUse::None => None,
            _ => (head.known(Known::Cookie))
                .and_then(|cookies| uri::cookie(cookies.of(bytes), site.settings.cookie.as_bytes()))
                .and_then(SessionId::parse),
        };
        if program.session != SessionUse::None {
            run.sessions.push(session);
        }
        let Some((slot, shape, peer)) = self.clients.accept(id, head) else {
            unreachable!("the connection whose bytes are being parsed");
        };
        let line = self
            .log
            .is_some()
            .then(|| LogEntry::new(peer.ip(), head, bytes));
        let kept = if info.has_files {
            KeptConditions::new(&Conditions::of(head, bytes))
        } else {
            None
        };
        cohort.tickets[lane] = self.requests.insert(Request {
            slot,
            shape,
            arrived: now,
            session,
            kept,
            line: line.map(Box::new),
        });
        self.epoch.pages[page as usize].requests.add(1);
        let lanes = self.pool.cohort(context).len();
        self.pool.filled(context, lanes);
        Ok(Taken::Taken)
    }

    /// Why content that the client only announced is not wanted, if it is not.
    pub(crate) fn early_refusal(&mut self, head: &RequestHead, bytes: &[u8]) -> Option<u16> {
        let site = &*self.epoch.site;
        match site
            .routes
            .find(head.method(), head.path(bytes), &mut self.captures)
        {
            Found::Target(Target::Page(page), _) => {
                let form = site.pages[page as usize].has_form;
                (form && !form_fits(head, bytes)).then_some(415)
            }
            Found::Target(..) => None,
            Found::OtherMethod(_) => Some(405),
            Found::Nothing => Some(404),
        }
    }
}

/// Whether a page that reads a form can read this request's content.
pub(crate) fn form_fits(head: &RequestHead, bytes: &[u8]) -> bool {
    if matches!(head.framing(), Framing::None | Framing::Length(0)) {
        return true;
    }
    let Some(value) = head.known(Known::ContentType) else {
        return false;
    };
    let value = value.of(bytes);
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    value[..end].trim_ascii().eq_ignore_ascii_case(FORM)
}
