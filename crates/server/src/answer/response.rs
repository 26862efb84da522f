//! Response: from a cohort's output to its clients (paper, section 3.2, *Response*).
//!
//! Each finished lane's head is written into the one buffer of [`Clients`], and its runs and
//! fragments follow as one body, which is stitched there, or gathered by the socket; or, for
//! clients that take it, as a stream of gzip stitched from the same (`rhythm-gzip`).

use crate::answer::held::{HeldAnswers, Parts, Ready};
use crate::answer::hosted::{Hosted, HostedAnswers, HostedLine};
use crate::answer::passed_on::PassedOn;
use crate::answer::sending::Sending;
use crate::answer::sessions::{Asked, Cookie, Refused, Sessions, ToKeep};
use crate::answer::watch::LaneWatch;
use crate::backend::{Cause, Failure};
use crate::flash::{AGE_MAX, FLASH_BYTES_MAX};
use crate::flight::asker::asker;
use crate::flight::lane_requests::{LaneRequest, LaneRequests, Whole};
use crate::host::files::{FileStream, STREAM_BYTES_EXPECTED};
use crate::host::site_answer::TOO_MANY;
use crate::host::statics::FileAnswer;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::PageMetrics;
use crate::site::lengths::Lengths;
use crate::site::{BackendSettings, HeaderKind, SentAside, Site};
use rhythm_engine::cohort::{Cohort, LaneError, LaneState, Output, SessionChange};
use rhythm_engine::device::LaneLimits;
use rhythm_engine::device::scalar::locate;
use rhythm_engine::session::TooMany;
use rhythm_gzip::Stitcher;
use rhythm_http::{AnswerShape, Answered, Body, Clients, Pieces};
use rhythm_net::sparse::SparseByKind;
use rhythm_net::{Client, Port, Time};
use rhythm_protocol::http::conditional::Conditions;
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::encoding::Encoding;
use rhythm_protocol::http::request::Method;
use rhythm_protocol::http::response::{
    HeaderName, ResponseWriter, SameSite, SetCookie, has_no_content,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A run from this size on may be taken with its buffer: to make another costs less than to copy
/// it.
const OWN_BYTES_MIN: usize = 256 << 10;

/// When the next line of the log may tell of a lane that failed: by page, stage and reason.
pub(crate) type Failures = SparseByKind<(usize, usize, LaneError, Option<Cause>)>;

/// Leaves a line in the log: what a request did to its session is not in the store of all machines.
pub(crate) fn say_not_kept(
    failures: &mut Failures,
    site: &Site,
    (page, metrics): (usize, &PageMetrics),
    failure: Failure,
    now: Time,
) {
    let Failure { error, cause, .. } = failure;
    // It has no other lines of its first stage.
    let Some(left_out) = failures.line((page, 0, error, cause), now) else {
        return;
    };
    let store = site.service.session_store.as_ref();
    let store = store.map(|store| &site.settings.backends[store.backend]);
    let status = error.status();
    let words = format!("{status}: a session could not be kept: {failure}");
    metrics.last_failure.set(now, words);
    tracing::warn!(
        service = site.label(),
        page = site.service.pages[page].name,
        backend = store.map(|store| &*store.name),
        address = store.map(|store| store.place(failure.address)),
        cause = cause.map(|cause| cause.to_string()),
        status,
        left_out,
        "a session could not be kept in the store of all machines: {failure}"
    );
}

/// What is known of a lane that failed, beside why.
#[derive(Clone, Copy)]
enum Of<'c> {
    Nothing,
    /// The lane, as it was when it failed in the stage run last.
    Lane(&'c Cohort, usize),
    /// What a text is for that does not fit it.
    Text(&'c str),
}

/// What a finished lane is answered with.
enum Given {
    /// Of a body that had so many bytes as it was made.
    Whole(Answered, u64),
    /// One that is held until the sessions' store has what it does, with a body of so many bytes.
    Held(u64),
    /// A file that is yet to be read.
    Stream(FileStream),
    /// Nothing: another server is to answer the request, which is kept there.
    PassedOn(Whole),
}

/// What answering the lanes of a cohort takes.
pub(crate) struct LaneAnswers<'a> {
    pub(crate) clients: &'a mut Clients,
    pub(crate) requests: &'a mut LaneRequests,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) failures: &'a mut Failures,
    pub(crate) date: &'a DateCache,
    /// Clients are told the ids of their requests.
    pub(crate) tells_ids: bool,
    pub(crate) site: &'a Arc<Site>,
    /// Which that is of those that are served beside each other.
    pub(crate) site_index: usize,
    pub(crate) page: usize,
    /// The stage that was run last, or is waited for: the number of calls before it.
    pub(crate) stage: usize,
    /// The backend that was asked before it, if one was.
    pub(crate) asked: Option<&'a BackendSettings>,
    pub(crate) metrics: &'a Arc<PageMetrics>,
    /// When the cohort was launched.
    pub(crate) launched: Time,
    pub(crate) now: Time,
    pub(crate) sending: &'a mut Sending,
    /// Bytes of the longest body among those that are finished, if any is.
    pub(crate) longest: Option<u64>,
    pub(crate) log: Option<&'a mut LogSink>,
    pub(crate) watch: Option<LaneWatch<'a>>,
    pub(crate) hosted: &'a mut HostedAnswers,
    pub(crate) held: &'a mut HeldAnswers,
    pub(crate) passed_on: &'a mut VecDeque<PassedOn>,
    pub(crate) lengths: &'a mut Lengths,
    pub(crate) stitcher: &'a mut Stitcher,
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
                LaneState::Active | LaneState::Later | LaneState::Ahead => {
                    left = true;
                    continue;
                }
                LaneState::Vacant => continue,
                LaneState::Finished | LaneState::Failed(_) => {}
            }
            // Else it was answered after a stage before.
            let Some(request) = self.requests.take(lane) else {
                continue;
            };
            let client = self.watched(&request);
            // Headers are in order of lanes.
            let all = &cohort.output.headers;
            while all
                .get(headers)
                .is_some_and(|&(of, ..)| (of as usize) < lane)
            {
                headers += 1;
            }
            let (answered, made) = match state {
                LaneState::Failed(error) => {
                    let has_failed = self.requests.failure(&request, error).is_of_asker();
                    let answered = match self.tried(&request, has_failed) {
                        Ok(()) => self.failed(port, &request, error, Of::Lane(cohort, lane)),
                        Err(too_many) => self.too_many(port, &request, too_many),
                    };
                    (answered, 0)
                }
                LaneState::Finished => match self.finished(port, cohort, lane, headers, &request) {
                    Given::Whole(answered, made) => (answered, made),
                    Given::Held(bytes) => {
                        self.took(&request, bytes);
                        continue;
                    }
                    Given::Stream(stream) => {
                        self.took(&request, STREAM_BYTES_EXPECTED as u64);
                        self.count((&request, client), stream.status);
                        self.sending.in_pieces();
                        self.open(&request, stream);
                        continue;
                    }
                    Given::PassedOn(whole) => {
                        self.took(&request, STREAM_BYTES_EXPECTED as u64);
                        self.pass_on(&request, whole);
                        continue;
                    }
                },
                _ => unreachable!("it was left out"),
            };
            // Errors tell nothing of the page's own answers.
            if state == LaneState::Finished {
                self.took(&request, made);
            }
            self.count((&request, client), answered.status);
            if let Some(log) = &mut self.log
                && let Some(line) = self.requests.line(&request, self.site_index)
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

    /// A lane has finished, with a body of so many bytes.
    #[inline]
    fn took(&mut self, request: &LaneRequest, bytes: u64) {
        self.longest = self.longest.max(Some(bytes));
        self.lengths.answered(request.key, bytes);
    }

    /// The client of a request that is not answered yet, where somebody asks: a stream of HTTP/2 is
    /// gone with its answer.
    fn watched(&self, request: &LaneRequest) -> Option<Client> {
        self.watch.as_ref()?.slow.as_ref()?;
        self.clients.peer(request.slot.connection)
    }

    fn count(&mut self, (request, client): (&LaneRequest, Option<Client>), status: u16) {
        let wait = self.launched.since(request.arrived).as_nanos() as u64;
        self.metrics.queue_wait.record(wait, 1);
        self.sending.gives(request.slot, request.came().began);
        self.metrics.answered(status);
        if let Some(watch) = &mut self.watch {
            watch.answered(self.requests, (request, client), status);
        }
    }

    /// Where the page's sessions are sign-ins, counts one that `has_failed`.
    ///
    /// # Errors
    /// Too many of its client's have failed, so that it learns no more.
    fn tried(&mut self, request: &LaneRequest, has_failed: bool) -> Result<(), TooMany> {
        if !self.site.pages[self.page].is_sign_in {
            return Ok(());
        }
        let client = self.clients.peer(request.slot.connection);
        self.sessions.tried(client, has_failed, self.now)
    }

    /// A lane is answered by what is yet to be read.
    fn open(&mut self, request: &LaneRequest, stream: FileStream) {
        let line = match &self.log {
            Some(_) => self.requests.line(request, self.site_index),
            None => None,
        };
        let hosted = Hosted {
            line: line.map(|line| HostedLine::new(line, request.came())),
            is_counted: true,
        };
        self.hosted.stream(request.slot, stream, hosted);
    }

    /// Another server is to answer a lane's request, which is kept there.
    fn pass_on(&mut self, request: &LaneRequest, whole: Whole) {
        self.metrics.passed_on.add(1);
        if let Some(watch) = &mut self.watch {
            // Of its calls alone: the rest is told of when the other server has answered.
            drop(watch.span(self.requests, request));
        }
        self.passed_on.push_back(PassedOn {
            slot: request.slot,
            shape: request.shape,
            site: self.site_index,
            came: request.came(),
            origin: self.requests.origin(request).copied().unwrap_or_default(),
            whole,
        });
    }

    fn failed(
        &mut self,
        port: &mut dyn Port,
        request: &LaneRequest,
        error: LaneError,
        of: Of<'_>,
    ) -> Answered {
        self.metrics.lane_errors[error.index()].add(1);
        self.say_failed(self.requests.failure(request, error), of);
        self.error(port, request, error.status())
    }

    /// Answers with an error, and no more is said of it.
    fn error(&mut self, port: &mut dyn Port, request: &LaneRequest, status: u16) -> Answered {
        let (date, site) = (self.date, self.site);
        let LaneRequest { slot, shape, .. } = *request;
        let mut answered = Answered::bare(status);
        (self.clients).answer(port, slot, shape, self.now, |shape, out| {
            answered = site.write_error(out, status, shape, date, "", |_| {});
            Body::Empty
        });
        answered
    }

    /// As [`failed`](LaneAnswers::failed), of a lane that had finished.
    fn refused(&mut self, port: &mut dyn Port, request: &LaneRequest, error: LaneError) -> Given {
        self.refused_for(port, request, error, Of::Nothing)
    }

    fn refused_for(
        &mut self,
        port: &mut dyn Port,
        request: &LaneRequest,
        error: LaneError,
        of: Of<'_>,
    ) -> Given {
        let answered = self.failed(port, request, error, of);
        Given::Whole(answered, answered.body_length)
    }

    /// Leaves a line in the log: where a request failed, and why.
    fn say_failed(&mut self, failure: Failure, of: Of<'_>) {
        let Failure { error, cause, .. } = failure;
        let kind = (self.page, self.stage, error, cause);
        let Some(left_out) = self.failures.line(kind, self.now) else {
            return;
        };
        let program = &self.site.service.pages[self.page];
        let (page, status) = (&*program.name, error.status());
        let service = self.site.label();
        let is_of_backend = cause.is_some()
            || matches!(
                error,
                LaneError::BadAnswer
                    | LaneError::BackendFailed
                    | LaneError::BackendRefused
                    | LaneError::BackendTimeout
            );
        let backend = match self.asked {
            Some(backend) if is_of_backend => backend,
            _ => {
                let stage = self.stage;
                let service_of = &self.site.service;
                let spot = match of {
                    // It runs the stage once more, for which there has to be memory.
                    Of::Lane(cohort, lane) if error != LaneError::MemoryShort => {
                        let limits = LaneLimits::of(&service_of.config.limits);
                        stage.checked_sub(1).and_then(|run| {
                            locate(service_of, self.page, cohort, lane, run, error, limits)
                        })
                    }
                    _ => None,
                };
                let step = spot.and_then(|spot| spot.step);
                let at = spot.map(|spot| format!("{}:{}", spot.file, spot.line));
                let text = match of {
                    Of::Text(text) => Some(text),
                    Of::Nothing | Of::Lane(..) => None,
                };
                let place = match (&at, text) {
                    (Some(at), _) => format!("at {at}"),
                    (None, Some(text)) => format!("the text of {text}"),
                    (None, None) => format!("in stage {stage}"),
                };
                let words = format!("{status}: {error}, {place}");
                self.metrics.last_failure.set(self.now, words);
                tracing::warn!(
                    service,
                    page,
                    stage,
                    step,
                    at,
                    text,
                    status,
                    left_out,
                    "a request failed: {error}"
                );
                return;
            }
        };
        let asking = self
            .stage
            .checked_sub(1)
            .map(|before| &program.stages[before]);
        // That which asks for the session is no step.
        let step = asking.map(|stage| stage.step).filter(|step| *step > 0);
        let address = backend.place(failure.address);
        let misfit = match cause {
            Some(Cause::Misfit(misfit)) => misfit.column(),
            _ => None,
        };
        let column = misfit.and_then(|column| {
            let call = &program.calls[asking?.call?];
            program.column_name(call, column)
        });
        let cause = failure.cause_in_words();
        let name = &backend.name;
        let words = match &cause {
            Some(cause) => format!("{status}: {failure}; {name} ({address}): {cause}"),
            None => format!("{status}: {failure}; {name} ({address})"),
        };
        self.metrics.last_failure.set(self.now, words);
        tracing::warn!(
            service,
            page,
            step,
            backend = backend.name,
            address,
            cause,
            column,
            status,
            left_out,
            "a request failed: {failure}"
        );
    }

    fn finished(
        &mut self,
        port: &mut dyn Port,
        cohort: &mut Cohort,
        lane: usize,
        headers: usize,
        request: &LaneRequest,
    ) -> Given {
        let output = cohort.output.lanes[lane];
        let page = &self.site.pages[self.page];
        let body = PageBody {
            output: &cohort.output,
            lane,
            fragments: &self.site.service.fragments,
        };
        let asides = (cohort.output.headers.get(headers..).unwrap_or(&[]).iter())
            .take_while(|&&(of, ..)| of as usize == lane)
            .map(|&(_, aside, value)| (&page.asides[usize::from(aside)], cohort.arena.get(value)));
        let is_passed_on = |(aside, _): (&SentAside, &[u8])| matches!(aside, SentAside::Proxy);
        if page.falls_through && asides.clone().any(is_passed_on) {
            return self.passes_on(port, request);
        }
        let tells_ids = self.tells_ids;
        let lane_headers = asides.clone().filter_map(|(aside, value)| match aside {
            SentAside::Header(HeaderKind::Framing, _) => None,
            SentAside::Header(HeaderKind::RequestId, _) if tells_ids => None,
            SentAside::Stored(_) | SentAside::Flash | SentAside::Proxy => None,
            SentAside::Header(kind, name) => Some((*kind, name.get(), value)),
        });
        let (site, date, now) = (self.site, self.date, self.now);
        let LaneRequest { slot, shape, .. } = *request;
        let length = body.length();
        let (cookie, flash) = match self.session(port, cohort, lane, asides, length, request) {
            Ok(session) => session,
            Err(given) => return given,
        };
        let page = PageAnswer {
            flash,
            site,
            page: self.page,
            status: output.status,
            date,
            headers: lane_headers,
            cookie,
        };
        let path = output.file.map(|path| cohort.arena.get(path));
        let gzip = (path.is_none() && shape.accepts.contains(Encoding::Gzip))
            .then(|| page.compress(&body, self.stitcher))
            .flatten();
        let file = path.map(|path| page.file(path, shape, self.requests.conditions(request)));
        if let Some(to_keep) = self.sessions.take_to_keep() {
            let ready = match file {
                Some(Some(answer)) => match page.stream(&answer, shape) {
                    Some(stream) => Ready::Stream(stream),
                    None => whole(|out| page.with_file(answer, shape, out)),
                },
                Some(None) => whole(|out| {
                    let answered = site.write_error(out, 404, shape, date, "", |_| {});
                    (answered, Body::Empty)
                }),
                None => whole(|out| page.with_body(&body, gzip, shape, out)),
            };
            let length = match &ready {
                Ready::Whole(answered, _) => answered.body_length,
                Ready::Stream(_) => STREAM_BYTES_EXPECTED as u64,
            };
            self.hold(cohort, lane, request, ready, to_keep);
            return Given::Held(length);
        }
        if let Some(Some(answer)) = &file
            && let Some(stream) = page.stream(answer, shape)
        {
            return Given::Stream(stream);
        }
        let mut answered = Answered::bare(output.status);
        // What of a long run its client does not take at once is not copied, where nobody after it
        // needs the buffer.
        let is_own = length >= OWN_BYTES_MIN
            && (output.segment_count, output.run_start) == (0, 0)
            && !cohort.lanes[lane + 1..].contains(&LaneState::Finished);
        let own = RefCell::new(match is_own {
            true => std::mem::take(&mut cohort.output.runs),
            false => Vec::new(),
        });
        let body = PageBody {
            output: &cohort.output,
            lane,
            fragments: &self.site.service.fragments,
        };
        (self.clients).answer(port, slot, shape, now, |shape, out| {
            let (given, body) = match file {
                Some(Some(answer)) => page.with_file(answer, shape, out),
                Some(None) => (
                    site.write_error(out, 404, shape, date, "", |_| {}),
                    Body::Empty,
                ),
                None => page.with_body(&body, gzip, shape, out),
            };
            answered = given;
            match body {
                Body::Stitched(_) if is_own => Body::Own(&own, length),
                body => body,
            }
        });
        let made = match answered.body_length {
            1.. if path.is_none() => length as u64,
            sent => sent,
        };
        if is_own {
            cohort.output.runs = own.into_inner();
        }
        Given::Whole(answered, made)
    }

    /// Leaves a request to another server.
    fn passes_on(&mut self, port: &mut dyn Port, request: &LaneRequest) -> Given {
        // It begins no session here: who guesses what it looks up is held to the same bound.
        if let Err(too_many) = self.tried(request, true) {
            let answered = self.too_many(port, request, too_many);
            return Given::Whole(answered, answered.body_length);
        }
        match self.requests.whole(request) {
            Some(whole) => Given::PassedOn(whole),
            None => {
                tracing::error!(
                    service = self.site.label(),
                    page = self.site.service.pages[self.page].name,
                    "a request that its page passes on was not kept; it is answered 500"
                );
                let answered = self.error(port, request, 500);
                Given::Whole(answered, answered.body_length)
            }
        }
    }

    /// Carries out what a finished lane does to its visitor's session: the cookie and the message
    /// for the next page that its answer sets, whose body has this length; or the answer in its
    /// place.
    fn session<'c>(
        &mut self,
        port: &mut dyn Port,
        cohort: &Cohort,
        lane: usize,
        asides: impl Iterator<Item = (&'c SentAside, &'c [u8])>,
        length: usize,
        request: &LaneRequest,
    ) -> Result<(Option<Cookie>, Option<Vec<u8>>), Given> {
        let (output, page) = (cohort.output.lanes[lane], &self.site.pages[self.page]);
        let stored = self.site.stored(self.sessions.array().capacity());
        self.sessions.begin();
        let (mut message, mut unfit) = (None, None);
        if page.sets_session {
            for (aside, value) in asides {
                unfit = unfit.or_else(|| match aside {
                    SentAside::Stored(field) => {
                        let is_kept = self.sessions.set(stored, *field, value).is_ok();
                        (!is_kept).then(|| {
                            let fields = self.site.service.config.session.stored();
                            let field = fields.get(*field);
                            format!("session.{}", field.map_or("", |field| &field.name))
                        })
                    }
                    SentAside::Flash => {
                        message = Some(value);
                        (value.len() > FLASH_BYTES_MAX).then(|| "flash".to_owned())
                    }
                    SentAside::Header(..) | SentAside::Proxy => None,
                });
            }
        }
        let signs_in = matches!(output.session, SessionChange::Create(user) if user != 0);
        if let Err(too_many) = self.tried(request, unfit.is_some() || !signs_in) {
            let answered = self.too_many(port, request, too_many);
            return Err(Given::Whole(answered, answered.body_length));
        }
        if let Some(text) = unfit {
            let of = Of::Text(&text);
            return Err(self.refused_for(port, request, LaneError::TextTooLong, of));
        }
        let has_effect = page.sets_session || output.session != SessionChange::None;
        if has_effect && self.sessions.array().is_shared() && !self.held.has_room(length) {
            return Err(self.refused(port, request, LaneError::BackendRefused));
        }
        let fields = self.site.service.pages[self.page].session_fields;
        let store = self.site.service.session_store.as_ref();
        let asked = Asked {
            store_timeout: store.map_or(Duration::ZERO, |store| {
                self.site.settings.backends[store.backend].timeout
            }),
            is_present: fields
                .is_some_and(|fields| cohort.fields[usize::from(fields.present)].ints()[lane] != 0),
            stored,
            change: output.session,
            earlier: self.requests.session(lane),
            is_new: request.is_new_visitor,
            client: match page.begins_session {
                true => self.clients.peer(request.slot.connection),
                false => None,
            },
        };
        let mut cookie = match self.sessions.change(asked, self.now) {
            Ok(cookie) => cookie,
            Err(Refused::Full) => {
                return Err(self.refused(port, request, LaneError::SessionsFull));
            }
            Err(Refused::NoUser) => {
                return Err(self.refused(port, request, LaneError::NoUser));
            }
            Err(Refused::TooMany(too_many)) => {
                let answered = self.too_many(port, request, too_many);
                return Err(Given::Whole(answered, answered.body_length));
            }
        };
        let is_redirect = (300..400).contains(&output.status);
        let flash = match message {
            Some(message) => {
                let earlier = self.requests.session(lane);
                Some(self.sessions.flash(message, earlier, &mut cookie))
            }
            // It is shown once, by a page.
            None => (request.has_flash && !is_redirect).then(Vec::new),
        };
        Ok((cookie, flash))
    }

    /// Holds an answer until the store of all machines has what it does.
    fn hold(
        &mut self,
        cohort: &Cohort,
        lane: usize,
        request: &LaneRequest,
        ready: Ready,
        to_keep: ToKeep,
    ) {
        let line = match &self.log {
            Some(_) => self.requests.line(request, self.site_index),
            None => None,
        };
        let program = &self.site.service.pages[self.page];
        let (client, connection) = request.client();
        let asker = asker(cohort, program, lane, client, connection);
        let watch = self.watch.as_ref();
        let client = self.watched(request);
        let watched = watch.and_then(|watch| watch.watched(self.requests, (request, client), 0));
        let parts = Parts {
            slot: request.slot,
            shape: request.shape,
            ready,
            line: line.map(|line| HostedLine::new(line, request.came())),
            site: self.site.clone(),
            site_index: self.site_index,
            page: self.page,
            metrics: self.metrics.clone(),
            launched: self.launched,
            came: request.came(),
            watched,
            span: (self.watch.as_mut()).and_then(|watch| watch.span(self.requests, request)),
        };
        self.held.hold(parts, to_keep, asker);
    }

    /// Refuses a sign-in.
    fn too_many(
        &mut self,
        port: &mut dyn Port,
        request: &LaneRequest,
        TooMany(seconds): TooMany,
    ) -> Answered {
        let (date, site) = (self.date, self.site);
        let LaneRequest { slot, shape, .. } = *request;
        let mut answered = Answered::bare(429);
        (self.clients).answer(port, slot, shape, self.now, |shape, out| {
            answered = site.write_error(out, 429, shape, date, TOO_MANY, |head| {
                head.retry_after(seconds);
            });
            Body::Empty
        });
        answered
    }
}

/// An answer whose bytes are all there.
fn whole<'b>(write: impl FnOnce(&mut Vec<u8>) -> (Answered, Body<'b>)) -> Ready {
    let mut bytes = Vec::new();
    let (answered, body) = write(&mut bytes);
    body.write(&mut bytes);
    Ready::Whole(answered, bytes)
}

/// The body of a lane: its run, and the service's fragments in it.
struct PageBody<'a> {
    output: &'a Output,
    lane: usize,
    fragments: &'a [Box<[u8]>],
}

impl Pieces for PageBody<'_> {
    fn length(&self) -> usize {
        self.output.lanes[self.lane].body_length as usize
    }

    fn each<'a>(&'a self, give: &mut dyn FnMut(&'a [u8])) {
        self.output.pieces(self.lane, self.fragments).for_each(give);
    }
}

/// A page's answer: what its head is made of.
struct PageAnswer<'a, H> {
    site: &'a Site,
    page: usize,
    status: u16,
    date: &'a DateCache,
    /// The headers that its lane sets.
    headers: H,
    /// The session's cookie, if it is set.
    cookie: Option<Cookie>,
    /// What the cookie with a message is set to, if it is; empty: it is removed.
    flash: Option<Vec<u8>>,
}

impl<'a, H> PageAnswer<'a, H>
where
    H: Iterator<Item = (HeaderKind, HeaderName<'a>, &'a [u8])> + Clone,
{
    /// Whether its lane sets a header.
    fn sets(&self, wanted: HeaderKind) -> bool {
        self.headers.clone().any(|(kind, ..)| kind == wanted)
    }

    /// Whether what it shows is kept out of caches.
    fn is_private(&self) -> bool {
        self.site.pages[self.page].is_private && !self.sets(HeaderKind::CacheControl)
    }

    /// Writes the headers of all pages, but those that its lane sets.
    fn write_settings(&self, head: &mut ResponseWriter<'_>) {
        for (index, (name, value)) in self.site.settings.headers.iter().enumerate() {
            if !self.sets(HeaderKind::Setting(index)) {
                head.header(*name, value.as_bytes());
            }
        }
    }

    /// Writes the headers that its lane sets.
    fn write_added(&self, head: &mut ResponseWriter<'_>) {
        for (_, name, value) in self.headers.clone() {
            head.header(name, value);
        }
        if let Some(cookie) = &self.cookie {
            match cookie {
                Cookie::Id(id) => write_cookie(head, self.site, &id.to_text()),
                Cookie::Removed => write_cookie(head, self.site, b""),
            }
        }
        if let Some(value) = &self.flash {
            head.set_cookie(&SetCookie {
                name: self.site.flash_cookie.get(),
                value,
                max_age: Some(if value.is_empty() { 0 } else { AGE_MAX }),
                http_only: true,
                secure: self.site.settings.cookie_secure,
                same_site: SameSite::Lax,
            });
        }
    }

    /// The answer with a static file for a body, if there is such a file.
    fn file(
        &self,
        path: &[u8],
        shape: AnswerShape,
        conditions: Conditions<'_>,
    ) -> Option<FileAnswer<'a>> {
        let statics = &self.site.statics;
        let file = statics.find(path)?;
        let method = match shape.head_only {
            true => Method::Head,
            false => Method::Get,
        };
        let entry = statics.entry(file);
        let accepts = shape.accepts;
        Some(FileAnswer::new(
            entry,
            accepts,
            method,
            &conditions,
            self.date,
        ))
    }

    /// With a static file that is yet to be read, if it is.
    fn stream(&self, answer: &FileAnswer<'a>, shape: AnswerShape) -> Option<FileStream> {
        answer.stream(shape, self.site, |head| self.write_beside_file(head))
    }

    /// With a static file for a body.
    fn with_file(
        &self,
        answer: FileAnswer<'a>,
        shape: AnswerShape,
        out: &mut Vec<u8>,
    ) -> (Answered, Body<'a>) {
        answer.write(shape, self.date, out, |head| self.write_beside_file(head))
    }

    /// Writes what does not come from the file.
    fn write_beside_file(&self, head: &mut ResponseWriter<'_>) {
        let info = &self.site.pages[self.page];
        if info.replaces_fields {
            if self.is_private() {
                head.no_store();
            }
            self.write_settings(head);
        } else {
            head.fields(info.file_fields());
        }
        self.write_added(head);
    }

    /// What its lane rendered as a stream of gzip, if that is shorter and may be had.
    fn compress<'s>(&self, body: &PageBody<'_>, stitcher: &'s mut Stitcher) -> Option<&'s [u8]> {
        let settings = &self.site.settings.gzip;
        let length = body.length();
        if length < settings.bytes_min as usize || length > settings.bytes_max as usize {
            return None;
        }
        let book = &self.site.pages[self.page].gzip.as_ref()?.book;
        let run = body.output.run(body.lane);
        stitcher.begin(book);
        for (part, fragment) in body.output.parts(body.lane) {
            stitcher.run(book, run, part);
            if let Some(fragment) = fragment {
                stitcher.fragment(book, fragment);
            }
        }
        Some(stitcher.finish(book)).filter(|stream| stream.len() < length)
    }

    /// With what its lane rendered: as it is, or as this stream of gzip.
    fn with_body<'b>(
        &self,
        body: &'b PageBody<'b>,
        gzip: Option<&'b [u8]>,
        shape: AnswerShape,
        out: &mut Vec<u8>,
    ) -> (Answered, Body<'b>) {
        let info = &self.site.pages[self.page];
        let (encoding, prepared, body) = match (gzip, &info.gzip) {
            (Some(stream), Some(page)) => (Encoding::Gzip, &page.head, Body::Bytes(stream)),
            _ => (Encoding::Identity, &info.head, Body::Stitched(body)),
        };
        let (status, length) = (self.status, body.length() as u64);
        let answered = Answered {
            status,
            body_length: length,
        };
        let sets_cookie = self.cookie.is_some() || self.flash.is_some();
        let sets_fields = sets_cookie || self.headers.clone().next().is_some();
        if status == 200 && shape.is_plain() && !sets_fields {
            prepared.write(self.date, length, out);
            return (answered, body);
        }
        let mut head = ResponseWriter::new(out, status);
        self.write_added(&mut head);
        head.connection(!shape.close, shape.http10).date(self.date);
        if info.replaces_fields {
            if !self.sets(HeaderKind::ContentType) {
                head.content_type(&self.site.service.pages[self.page].content_type);
            }
            head.encoding(Encoding::Identity, info.gzip.is_some());
            if self.is_private() {
                head.no_store();
            }
            self.write_settings(&mut head);
        } else {
            out.extend_from_slice(&info.fields);
        }
        let mut head = ResponseWriter::resume(out);
        if has_no_content(status) {
            head.end();
            return (Answered::bare(status), Body::Empty);
        }
        head.encoding(encoding, false);
        head.content_length(length).end();
        if shape.head_only {
            return (Answered::bare(status), Body::Empty);
        }
        (answered, body)
    }
}

/// Sets the session's cookie, or with an empty text removes it.
fn write_cookie(head: &mut ResponseWriter<'_>, site: &Site, text: &[u8]) {
    head.set_cookie(&SetCookie {
        name: site.cookie.get(),
        value: text,
        max_age: text.is_empty().then_some(0),
        http_only: true,
        secure: site.settings.cookie_secure,
        same_site: SameSite::Lax,
    });
}
