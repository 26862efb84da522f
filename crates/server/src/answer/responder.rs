//! The responder: what answering takes, and what is counted and logged of every answer.
//!
//! In: lanes of cohorts that are finished or failed, and requests of the host path. Out: bytes, in
//! the connections' order, through [`Clients`].

use crate::answer::held::{HeldAnswers, Parts, Ready};
use crate::answer::hosted::{Hosted, HostedAnswers, HostedLine};
use crate::answer::refusals::{Refusals, Refused};
use crate::answer::response::{Failures, LaneAnswers, say_not_kept};
use crate::answer::sessions::{Sessions, SharedRandom, milliseconds};
use crate::answer::slow::{Slow, Watched};
use crate::answer::watch::{self, LaneWatch};
use crate::backend::Cause;
use crate::flight::cohorts::{Cohorts, Flight};
use crate::flight::telling::{StoreAnswer, Telling};
use crate::flight::timeline::Came;
use crate::host::files::FileStream;
use crate::host::site_answer;
use crate::intake::dispatch::SiteAnswer;
use crate::intake::https;
use crate::observe::access_log::{LogEntry, LogSink};
use crate::observe::metrics::{PageMetrics, WorkerMetrics};
use crate::shared_sessions;
use crate::site::Site;
use crate::site::epoch::Epoch;
use crate::site::lengths::Lengths;
use crate::trace::{CohortSpan, Origin, Origins, Span, SpanSink, WatchOptions};
use rhythm_cohort::ContextId;
use rhythm_engine::cohort::{Cohort, LaneError, LaneState};
use rhythm_engine::program::{PageProgram, SessionLookup};
use rhythm_engine::session::{SessionId, StoredFields, StoredValue, TooMany};
use rhythm_engine::settings::AccessLogFormat;
use rhythm_gzip::Stitcher;
use rhythm_http::{
    AnswerShape, AnswerSlot, Answered, Body, Clients, Given, Incoming, Owed, Reading, write_error,
};
use rhythm_net::{Client, ConnectionId, Port, Role, Time};
use rhythm_protocol::http::date::DateCache;
use rhythm_protocol::http::request::RequestHead;
use std::sync::Arc;
use std::time::Duration;

/// Slots of the session array examined in each sweep, so that expired sessions are found in time.
const SWEEP_SLOTS: usize = 1024;

/// See the module's text.
pub(crate) struct Responder {
    /// Those of each site.
    sessions: Vec<Sessions>,
    /// Those of each site's pages.
    failures: Vec<Failures>,
    random: SharedRandom,
    /// Those of each site.
    refusals: Vec<Refusals>,
    /// Those of what is no site's, or is not known to be.
    unclear: Refusals,
    date: DateCache,
    metrics: Arc<WorkerMetrics>,
    log: Option<LogSink>,
    /// Requests that took long, if the log is to tell of them.
    slow: Option<Slow>,
    /// Lanes answered in this turn: their page, when they were launched, how many.
    served: Vec<(Arc<PageMetrics>, Time, u64)>,
    /// What hosts have yet to answer.
    hosted: HostedAnswers,
    /// What is held until the sessions' store has it.
    held: HeldAnswers,
    /// How long answers were.
    pub(crate) lengths: Lengths,
    /// Makes compressed answers.
    stitcher: Stitcher,
    /// Which site the line that is kept is for.
    line_site: Option<usize>,
    /// Where it comes from.
    line_origin: Origin,
    /// Another server is to answer it.
    line_is_proxied: bool,
    /// Where spans of traces go, if anywhere.
    spans: Option<SpanSink>,
    /// Says where requests come from, where somebody is to know.
    origins: Option<Origins>,
    // Memory kept from call to call.
    line: Vec<u8>,
    users: Vec<Option<i64>>,
    words: Vec<u64>,
}

impl Responder {
    /// One that has answered nothing, for sites with these sessions.
    pub(crate) fn new(
        (sessions, random): (Vec<Sessions>, SharedRandom),
        lengths: Lengths,
        metrics: Arc<WorkerMetrics>,
        (log, spans): (Option<LogSink>, Option<SpanSink>),
        watch: WatchOptions,
    ) -> Responder {
        Responder {
            failures: sessions.iter().map(|_| Failures::default()).collect(),
            random,
            refusals: sessions.iter().map(|_| Refusals::default()).collect(),
            unclear: Refusals::default(),
            sessions,
            date: DateCache::new(0),
            slow: (watch.slow_request).map(|limit| Slow::new(limit, metrics.clone())),
            metrics,
            log,
            served: Vec::new(),
            hosted: HostedAnswers::default(),
            held: HeldAnswers::default(),
            lengths,
            stitcher: Stitcher::default(),
            line_site: None,
            line_origin: Origin::default(),
            line_is_proxied: false,
            spans,
            origins: Origins::of_options(&watch),
            line: Vec::new(),
            users: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Looks up all sessions of a cohort that is being launched, in one batch.
    pub(crate) fn look_up_sessions(
        &mut self,
        cohort: &mut Cohort,
        flight: &Flight,
        page: u32,
        now: Time,
    ) {
        let program = flight.epoch().program(page);
        let Some(fields) = program.session_fields else {
            return;
        };
        let ids = flight.requests.sessions();
        let site = flight.epoch().index;
        self.users.clear();
        self.users.resize(ids.len(), None);
        (self.sessions[site].array()).lookup_batch(ids, milliseconds(now), &mut self.users);
        if let Some(lookup) = fields.lookup {
            let sets = flight.epoch().page(page).sets_stored;
            let refresh = flight.epoch().site.service.config.session.store_refresh;
            self.ask_store(site, cohort, ids, lookup, (!sets).then_some(refresh), now);
        }
        for (lane, user) in self.users.iter().enumerate() {
            if let Some(user) = user {
                cohort.fields[usize::from(fields.present)].set_int(lane, 1);
                cohort.fields[usize::from(fields.user)].set_int(lane, *user);
            }
        }
        if !program.stored.is_empty() {
            let capacity = self.sessions[site].array().capacity();
            let stored = flight.epoch().site.stored(capacity);
            for (lane, id) in ids.iter().enumerate() {
                if let (Some(id), Some(_)) = (id, self.users[lane]) {
                    stored.read(id, &mut self.words);
                    fill_in(cohort, lane, program, stored, &self.words);
                }
            }
        }
    }

    /// Has the lanes whose sessions are not known, or were not confirmed for `refresh`, ask the
    /// store of all machines for them. Without that all do: who changes what a session keeps has to
    /// know what it is.
    fn ask_store(
        &mut self,
        site: usize,
        cohort: &mut Cohort,
        ids: &[Option<SessionId>],
        lookup: SessionLookup,
        refresh: Option<Duration>,
        now: Time,
    ) {
        let sessions = &self.sessions[site];
        let array = sessions.array();
        let now = milliseconds(now);
        let since = refresh.map(|refresh| {
            let refresh = u64::try_from(refresh.as_millis()).unwrap_or(u64::MAX);
            now.saturating_sub(refresh)
        });
        for (lane, id) in ids.iter().enumerate() {
            let Some(id) = id.as_ref().filter(|id| !id.is_of_nobody()) else {
                continue;
            };
            let is_known = |since| array.is_confirmed(id, since);
            if self.users[lane].is_some() && since.is_some_and(is_known) {
                continue;
            }
            self.users[lane] = None;
            let key = shared_sessions::key(sessions.sealer(), id);
            if !cohort.arena.reserve(key.len()) {
                cohort.fail(lane, LaneError::MemoryShort);
                continue;
            }
            let key = cohort.arena.push(&key);
            cohort.fields[usize::from(lookup.key)].set_text(lane, key);
            // Confirmed is what was there when it was asked.
            let asked = i64::try_from(now).unwrap_or(i64::MAX).saturating_add(1);
            cohort.fields[usize::from(lookup.asks)].set_int(lane, asked);
        }
    }

    /// The store has answered for the lanes of a cohort: who they are, in its page's fields and in
    /// the array.
    pub(crate) fn take_sessions(
        &mut self,
        cohort: &mut Cohort,
        flight: &mut Flight,
        page: u32,
        now: Time,
    ) {
        let epoch = flight.epoch().clone();
        let program = epoch.program(page);
        let Some((fields, lookup)) =
            (program.session_fields).and_then(|fields| Some((fields, fields.lookup?)))
        else {
            return;
        };
        let sessions = &self.sessions[epoch.index];
        let array = sessions.array();
        let stored = epoch.site.stored(array.capacity());
        for lane in 0..cohort.len() {
            let int = |field: u16| cohort.fields[usize::from(field)].ints()[lane];
            let (asked, status) = (int(lookup.asks), int(lookup.status));
            let Some(id) = flight.requests.session(lane) else {
                continue;
            };
            if asked == 0 || cohort.lanes[lane] != LaneState::Active {
                continue;
            }
            let list = cohort.fields[usize::from(lookup.record)].list();
            let found = list.spans[lane];
            let user = match (status, found.length) {
                (0, 0) => {
                    array.destroy(id);
                    continue;
                }
                (0, 1) => {
                    let record = list.columns[0].texts()[found.start as usize];
                    let record = cohort.arena.get(record);
                    let (sealer, words) = (sessions.sealer(), &mut self.words);
                    shared_sessions::read(sealer, id, record, stored, words)
                }
                _ => None,
            };
            let Some(user) = user else {
                cohort.fail(lane, LaneError::BadAnswer);
                let why = Cause::Unfit("a session's record is none, or of another secret");
                flight.requests.keep_failure(lane, why.into());
                continue;
            };
            // What does not find room in the array is asked for again the next time.
            let here = array.adopt(id, user, milliseconds(now));
            if array.has_ended(id) {
                continue;
            }
            if let Some(here) = here {
                array.confirm(&here, u64::try_from(asked - 1).unwrap_or_default());
                stored.write_all(&here, &self.words, || array.has(&here));
            }
            cohort.fields[usize::from(fields.present)].set_int(lane, 1);
            cohort.fields[usize::from(fields.user)].set_int(lane, user);
            fill_in(cohort, lane, program, stored, &self.words);
        }
    }

    /// What the store is to be told.
    pub(crate) fn tellings(&mut self) -> &mut Vec<Telling> {
        &mut self.held.tellings
    }

    /// The store has answered: gives the answer that was held for it.
    pub(crate) fn store_answered(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        answer: &StoreAnswer,
        now: Time,
    ) {
        let Some(held) = self.held.answered(answer) else {
            return;
        };
        let sessions = &self.sessions[held.of.site_index];
        match held.failure {
            None => sessions.kept(&held.to_keep, held.is_there),
            Some(_) => sessions.not_kept(&held.to_keep),
        }
        let Parts {
            slot,
            shape,
            ready,
            line,
            site,
            site_index,
            page,
            metrics,
            launched,
            arrived,
            mut watched,
            mut span,
        } = held.of;
        let date = &self.date;
        let wait = launched.since(arrived).as_nanos() as u64;
        metrics.queue_wait.record(wait, 1);
        self.served.push((metrics.clone(), launched, 1));
        let answered = match (held.failure, ready) {
            (None, Ready::Stream(stream)) => {
                metrics.answered(stream.status);
                let is_counted = true;
                self.answered_held(watched.take(), span.take(), stream.status, now);
                return (self.hosted).stream(slot, stream, Hosted { line, is_counted });
            }
            (None, Ready::Whole(answered, bytes)) => {
                clients.answer(port, slot, shape, now, |now, out| {
                    give(&bytes, now.close && !shape.close, out);
                    Body::Empty
                });
                answered
            }
            (Some(failure), _) => {
                metrics.lane_errors[failure.error.index()].add(1);
                let status = failure.error.status();
                let mut answered = Answered::bare(status);
                clients.answer(port, slot, shape, now, |shape, out| {
                    answered = site.write_error(out, status, shape, date, "", |_| {});
                    Body::Empty
                });
                let said = &mut self.failures[site_index];
                say_not_kept(said, &site, (page, &metrics), failure, now);
                answered
            }
        };
        metrics.answered(answered.status);
        self.answered_held(watched, span, answered.status, now);
        if let (Some(log), Some(line)) = (&mut self.log, line) {
            let took = now.since(line.arrived);
            log.entry(line.entry(), answered, took, self.date.seconds());
        }
    }

    /// An answer that was held is given.
    fn answered_held(
        &mut self,
        watched: Option<Watched>,
        span: Option<Span>,
        status: u16,
        now: Time,
    ) {
        if let (Some(spans), Some(mut span)) = (&mut self.spans, span) {
            span.to = span.to.max(now);
            span.status(status);
            spans.add(span);
        }
        if let (Some(slow), Some(mut watched)) = (&mut self.slow, watched) {
            watched.was_held(status, now);
            slow.answered(watched);
        }
    }

    /// Whether a client may try to sign in to a site.
    ///
    /// # Errors
    /// Too many tries from its address have failed.
    pub(crate) fn may_try(
        &mut self,
        site: usize,
        client: Client,
        now: Time,
    ) -> Result<(), TooMany> {
        self.sessions[site].may_try(client, now)
    }

    /// An id for a visitor of a site who has no session, and no cookie.
    pub(crate) fn visitor(&mut self, site: usize) -> SessionId {
        self.sessions[site].visitor()
    }

    /// Bits that nobody can predict.
    pub(crate) fn random(&mut self) -> u128 {
        self.random.next()
    }

    /// Answers the lanes of a cohort that are finished or failed. Whether any is left.
    pub(crate) fn answer_lanes(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        cohorts: &mut Cohorts,
        id: ContextId,
        now: Time,
    ) -> bool {
        let page = cohorts.pool.key(id).page;
        let (cohort, flight) = cohorts.pair_mut(id);
        let epoch = flight.epoch().clone();
        let metrics = epoch.metrics(page);
        let mut answers = LaneAnswers {
            clients,
            requests: &mut flight.requests,
            sessions: &mut self.sessions[epoch.index],
            failures: &mut self.failures[epoch.index],
            date: &self.date,
            site: &epoch.site,
            site_index: epoch.index,
            page: page as usize,
            stage: cohort.stage,
            asked: (epoch.call_before(page, cohort.stage as u32))
                .map(|call| &epoch.site.settings.backends[call.backend]),
            metrics,
            launched: flight.launched,
            now,
            answered: 0,
            longest: None,
            log: self.log.as_mut(),
            watch: (self.slow.is_some() || self.spans.is_some()).then(|| LaneWatch {
                slow: self.slow.as_mut(),
                spans: self.spans.as_mut(),
                epoch: &epoch,
                page,
                timeline: &flight.timeline,
                cohort: flight.span,
                at: port.clock(now),
            }),
            hosted: &mut self.hosted,
            held: &mut self.held,
            lengths: &mut self.lengths,
            stitcher: &mut self.stitcher,
        };
        let left = answers.answer(port, cohort);
        if let Some(longest) = answers.longest {
            let room = cohort.output.runs_used.div_ceil(cohort.run_last().max(1));
            (epoch.sizes(page)).answered(longest, room as u64);
        }
        if answers.answered > 0 {
            let served = (metrics.clone(), flight.launched, answers.answered);
            self.served.push(served);
        }
        left
    }

    /// Answers a request on the host path.
    pub(crate) fn answer_from_site(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        epoch: &Epoch,
        reading: &Reading<'_>,
        answer: SiteAnswer,
        now: Time,
    ) {
        let (
            request,
            Owed {
                slot,
                shape,
                peer,
                role,
                began,
            },
        ) = (reading.request(), reading.owed());
        let site = &*epoch.site;
        let refusals = &mut self.refusals[epoch.index];
        let refused = Refused {
            service: site.label(),
            request,
            peer,
        };
        match &answer {
            SiteAnswer::BadParameter(bad) => refusals.bad_parameter(refused, bad, now),
            SiteAnswer::NoToken(why) => refusals.no_token(refused, *why, now),
            SiteAnswer::Error(415) => refusals.unfit_form(refused, now),
            // Nothing else forbids what it asks for.
            SiteAnswer::Error(403) => refusals.foreign(refused, now),
            _ => {}
        }
        self.keep_line(Some(epoch.index), request, (role, peer));
        self.add_id(clients, slot);
        let (date, mut given) = (&self.date, None);
        if let Some(stream) = site_answer::stream(&answer, site, request, shape, date) {
            let hosted = self.hosted_now(peer, began, now);
            return self.hosted.stream(slot, stream, hosted);
        }
        clients.answer(port, slot, shape, now, |shape, out| {
            let (answered, body) = site_answer::write(&answer, site, request, shape, date, out);
            given = Some(answered);
            body
        });
        if let Some(answered) = given {
            self.host_answered(peer, answered, now);
        }
    }

    /// Answers a request for a host that is no site's.
    pub(crate) fn misdirected(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        reading: &Reading<'_>,
        now: Time,
    ) {
        let (
            request,
            Owed {
                slot,
                shape,
                peer,
                role,
                ..
            },
        ) = (reading.request(), reading.owed());
        self.keep_line(None, request, (role, peer));
        self.add_id(clients, slot);
        let (date, mut answered) = (&self.date, Answered::bare(MISDIRECTED));
        clients.answer(port, slot, shape, now, |shape, out| {
            answered = refusal(None, out, MISDIRECTED, shape, date);
            Body::Empty
        });
        self.unclear.misdirected(request, peer, now);
        self.host_answered(peer, answered, now);
    }

    /// Answers a request that cannot be understood, or is not wanted, and takes no more from the
    /// connection: as the site does which it is for, if that is known. The access log has its
    /// request line, where [`Responder::keep_part`] kept it.
    pub(crate) fn refuse(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        site: Option<&Site>,
        id: ConnectionId,
        status: u16,
        now: Time,
    ) {
        let Some(Owed {
            slot, shape, peer, ..
        }) = clients.accept_last(port, id)
        else {
            return;
        };
        self.add_id(clients, slot);
        let (date, mut answered) = (&self.date, Answered::bare(status));
        clients.answer(port, slot, shape, now, |shape, out| {
            answered = refusal(site, out, status, shape, date);
            Body::Empty
        });
        self.unclear.unclear(status, peer, now);
        self.host_answered(peer, answered, now);
    }

    /// Keeps the request line of what is refused next, if it came whole, and for which site it is,
    /// if that is known.
    pub(crate) fn keep_part(
        &mut self,
        site: Option<usize>,
        part: Option<Incoming<'_>>,
        came_by: Option<(Role, Client)>,
    ) {
        match part.filter(|part| part.head.has_line()).zip(came_by) {
            Some((part, came_by)) => self.keep_line(site, part, came_by),
            // It could not be understood.
            None => {
                self.line_origin = Origin::default();
                self.line_site = site;
                self.line.clear();
                self.line.push(b'-');
            }
        }
    }

    /// Keeps what the log says of a request for this site that is handed to a host next.
    pub(crate) fn keep_line(
        &mut self,
        site: Option<usize>,
        request: Incoming<'_>,
        (role, peer): (Role, Client),
    ) {
        let Incoming { head, bytes, .. } = request;
        self.line_site = site;
        self.line_is_proxied = false;
        let peer = (peer, role == https::TLS);
        self.line_origin = self.origin(peer, head, bytes).unwrap_or_default();
        self.line.clear();
        if self.log.is_some() || self.slow.is_some() || self.line_origin.recorded().is_some() {
            let format = self.log_format().unwrap_or(AccessLogFormat::Common);
            LogEntry::write(head, bytes, format, &mut self.line);
        }
    }

    /// Has the answer to the request whose line is kept tell its id, if clients are told.
    pub(crate) fn add_id(&self, clients: &mut Clients, slot: AnswerSlot) {
        if self.tells_ids() && self.line_origin.id.is_some() {
            let mut line = Vec::new();
            self.tell_id(&self.line_origin, &mut line);
            clients.add_lines(slot, &line);
        }
    }

    /// Counts and logs answers that hosts have given, the one to `request` perhaps among them, of
    /// which the line was kept.
    pub(crate) fn hosts_gave(
        &mut self,
        request: Option<Owed>,
        given: impl Iterator<Item = Given>,
        now: Time,
    ) {
        let mut waits = request;
        for (slot, answered) in given {
            let at_once = waits.take_if(|owed| owed.slot == slot);
            let hosted = match at_once {
                Some(owed) => Some(self.hosted_now(owed.peer, owed.began, now)),
                None => self.hosted.take(slot),
            };
            if let (Some(slow), Some(hosted)) = (&mut self.slow, &hosted)
                && !hosted.is_counted
                && let Some(line) = &hosted.line
            {
                slow.hosted(line, answered.map(|answered| answered.status), now);
            }
            if let (Some(spans), Some(hosted)) = (&mut self.spans, &hosted)
                && !hosted.is_counted
                && let Some(line) = &hosted.line
            {
                watch::tell_hosted(spans, line, answered.map(|answered| answered.status), now);
            }
            let Some(answered) = answered else {
                continue;
            };
            if hosted.as_ref().is_none_or(|hosted| !hosted.is_counted) {
                self.metrics.host_answered(answered.status);
            }
            if let Some(log) = &mut self.log
                && let Some(line) = hosted.and_then(|hosted| hosted.line)
            {
                let took = now.since(line.arrived);
                log.entry(line.entry(), answered, took, self.date.seconds());
            }
        }
        if let Some(Owed {
            slot, peer, began, ..
        }) = waits
        {
            let hosted = self.hosted_now(peer, began, now);
            self.hosted.expect(slot, hosted);
        }
    }

    /// The request whose line was kept, to be answered by a host.
    fn hosted_now(&self, peer: Client, began: Option<Time>, now: Time) -> Hosted {
        let (site, request, origin) = (self.line_site, &self.line[..], self.line_origin);
        let came = Came {
            began: began.unwrap_or(now),
            arrived: now,
        };
        let entry = || LogEntry {
            site,
            peer,
            request,
            id: origin.id,
        };
        let is_kept = self.log.is_some() || self.slow.is_some() || origin.recorded().is_some();
        Hosted {
            line: is_kept.then(|| HostedLine {
                origin,
                is_proxied: self.line_is_proxied,
                ..HostedLine::new(entry(), came)
            }),
            is_counted: false,
        }
    }

    /// A file's answer that is to be opened.
    pub(crate) fn next_stream(&mut self) -> Option<(AnswerSlot, FileStream)> {
        self.hosted.next_stream()
    }

    /// Bytes of memory that are kept of an answer until its host gives it.
    pub(crate) fn kept_of(&self, slot: AnswerSlot) -> usize {
        self.hosted.bytes_of(slot)
    }

    /// The date of answers.
    pub(crate) fn date(&self) -> &DateCache {
        &self.date
    }

    /// Counts an answer of the host path, and logs it with the line that was kept.
    fn host_answered(&mut self, peer: Client, answered: Answered, now: Time) {
        self.metrics.host_answered(answered.status);
        if self.line_origin.recorded().is_some() {
            let line = self.hosted_now(peer, None, now).line;
            if let (Some(spans), Some(line)) = (&mut self.spans, line) {
                watch::tell_hosted(spans, &line, Some(answered.status), now);
            }
        }
        let Some(log) = &mut self.log else {
            return;
        };
        let entry = LogEntry {
            site: self.line_site,
            peer,
            request: &self.line,
            id: self.line_origin.id,
        };
        log.entry(entry, answered, Duration::ZERO, self.date.seconds());
    }

    /// What lines of the access log are like, if there is one.
    pub(crate) fn log_format(&self) -> Option<AccessLogFormat> {
        self.log.as_ref().map(LogSink::format)
    }

    /// A cohort is launched: it has a span where requests of it are recorded.
    pub(crate) fn begin_cohort(&mut self, flight: &mut Flight, now: Time) {
        if self.spans.is_some() && flight.requests.recorded().next().is_some() {
            let random = [(); 2].map(|()| self.random.next());
            flight.span = Some(CohortSpan::new(random, now));
        }
    }

    /// A cohort's lanes are answered, or have moved.
    #[inline]
    pub(crate) fn cohort_over(
        &mut self,
        cohorts: &Cohorts,
        id: ContextId,
        now: impl FnOnce() -> Time,
    ) {
        let flight = cohorts.flight(id);
        if let (Some(spans), Some(span)) = (&mut self.spans, flight.span) {
            watch::tell_cohort(spans, span, flight, cohorts.pool.key(id).page, now());
        }
    }

    /// Where a request comes from, where somebody is to know.
    #[inline]
    pub(crate) fn origin(
        &mut self,
        peer: (Client, bool),
        head: &RequestHead,
        bytes: &[u8],
    ) -> Option<Origin> {
        let (origins, random) = (self.origins.as_ref()?, &mut self.random);
        Some(origins.of(peer, head, bytes, || random.next()))
    }

    /// Whether clients are told the ids of their requests.
    pub(crate) fn tells_ids(&self) -> bool {
        (self.origins.as_ref()).is_some_and(|origins| origins.answers_ids)
    }

    /// Appends the line by which a client is told the id of its request, if it is.
    pub(crate) fn tell_id(&self, origin: &Origin, out: &mut Vec<u8>) {
        if self.tells_ids() {
            Origin {
                trace: None,
                ..*origin
            }
            .write(None, std::iter::empty(), out);
        }
    }

    /// Where the request comes from whose line is kept.
    pub(crate) fn line_origin(&self) -> Origin {
        self.line_origin
    }

    /// Another server is to answer the request whose line is kept.
    pub(crate) fn line_is_proxied(&mut self) {
        self.line_is_proxied = true;
    }

    /// A turn of the driver has ended: the answers given in it have taken until then.
    pub(crate) fn turn_ended(&mut self, now: Time) {
        for (metrics, launched, lanes) in self.served.drain(..) {
            let took = now.since(launched).as_nanos() as u64;
            metrics.service_time.record(took, lanes);
        }
    }

    /// So have those that are sent with it: tells of those that took long.
    #[inline]
    pub(crate) fn tell_slow(&mut self, clients: &Clients, now: Time) {
        if let Some(slow) = &mut self.slow {
            slow.turn_ended(clients, now);
        }
    }

    /// Looks for sessions that have expired, and hands over the lines of the log that are written.
    pub(crate) fn sweep(&mut self, now: Time) {
        for sessions in &self.sessions {
            (sessions.array()).sweep(milliseconds(now), SWEEP_SLOTS);
        }
        if let Some(log) = &mut self.log {
            log.flush();
        }
        if let Some(spans) = &mut self.spans {
            spans.flush();
        }
    }

    /// A turn of the driver begins, or an event in it: what the clock on the wall says.
    #[inline]
    pub(crate) fn begin(&mut self, unix_seconds: u64, now: Time) {
        // Of a turn whose end nobody told of.
        self.turn_ended(now);
        self.date.update(unix_seconds);
    }
}

/// The status of what is for a host that is no site's.
pub(crate) const MISDIRECTED: u16 = 421;

/// What the reader of such an answer is told.
const NO_SITE: &str = "No site of that name is here.";

/// Writes an error as a site does, or as nobody's.
fn refusal(
    site: Option<&Site>,
    out: &mut Vec<u8>,
    status: u16,
    shape: AnswerShape,
    date: &DateCache,
) -> Answered {
    match site {
        Some(site) => site.write_error(out, status, shape, date, "", |_| {}),
        None => {
            let detail = if status == MISDIRECTED { NO_SITE } else { "" };
            write_error(out, status, None, shape, date, detail, |_| {})
        }
    }
}

/// Writes an answer that was held, whose connection has come to end with it meanwhile, or not.
fn give(bytes: &[u8], closes: bool, out: &mut Vec<u8>) {
    let line = memchr::memmem::find(bytes, b"\r\n").filter(|_| closes);
    let (line, rest) = bytes.split_at(line.map_or(0, |end| end + 2));
    out.extend_from_slice(line);
    if closes {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(rest);
}

/// Fills in what a lane's page reads of what its session keeps, which lies in these words.
fn fill_in(
    cohort: &mut Cohort,
    lane: usize,
    program: &PageProgram,
    stored: &StoredFields,
    words: &[u64],
) {
    for of_page in &program.stored {
        let field = &mut cohort.fields[usize::from(of_page.field)];
        match stored.value(usize::from(of_page.stored), words) {
            StoredValue::Int(value) => field.set_int(lane, value),
            StoredValue::Text(start) => {
                // Of this alone nothing was known when its request was taken.
                if !cohort.arena.reserve(words[start] as usize) {
                    return cohort.fail(lane, LaneError::MemoryShort);
                }
                let text = (cohort.arena).push_with(|out| StoredFields::text(words, start, out));
                field.set_text(lane, text);
            }
        }
    }
}
