//! The responder: what answering takes, and what is counted and logged of every answer.
//!
//! In: lanes of cohorts that are finished or failed, and requests of the host path. Out: bytes, in
//! the connections' order, through [`Clients`]. `visits.rs` is what sessions take, `lines.rs` what
//! is kept of requests that hosts answer, `watched.rs` what is told of single ones.

mod lines;
mod visits;
mod watched;

use crate::answer::held::HeldAnswers;
use crate::answer::hosted::{HostedAnswers, Proxied};
use crate::answer::passed_on::PassedOn;
use crate::answer::refusals::{MISDIRECTED, NO_SITE, Refusals, Refused, Why};
use crate::answer::response::{Failures, LaneAnswers};
use crate::answer::sending::Sending;
use crate::answer::sessions::{Sessions, SharedRandom, milliseconds};
use crate::answer::slow::Slow;
use crate::answer::watch::LaneWatch;
use crate::flight::cohorts::Cohorts;
use crate::host::site_answer;
use crate::intake::dispatch::SiteAnswer;
use crate::observe::access_log::LogSink;
use crate::observe::metrics::WorkerMetrics;
use crate::site::Site;
use crate::site::epoch::Epoch;
use crate::site::lengths::Lengths;
use crate::trace::{Origin, Origins, SpanSink, WatchOptions};
use rhythm_cohort::ContextId;
use rhythm_engine::settings::AccessLogFormat;
use rhythm_gzip::Stitcher;
use rhythm_http::{AnswerShape, Answered, Body, Clients, Incoming, Owed, write_error};
use rhythm_net::{ConnectionId, Port, Time};
use rhythm_protocol::http::date::DateCache;
use std::collections::VecDeque;
use std::sync::Arc;

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
    /// Lanes that are answered, until their answers are sent.
    sending: Sending,
    /// What hosts have yet to answer.
    hosted: HostedAnswers,
    /// What is held until the sessions' store has it.
    held: HeldAnswers,
    /// What other servers are to answer in place of pages.
    passed_on: VecDeque<PassedOn>,
    /// How long answers were.
    pub(crate) lengths: Lengths,
    /// Makes compressed answers.
    stitcher: Stitcher,
    /// Which site the line that is kept is for.
    line_site: Option<usize>,
    /// Where it comes from.
    line_origin: Origin,
    /// Another server is to answer it, if one is.
    line_proxied: Option<Proxied>,
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
            sending: Sending::default(),
            hosted: HostedAnswers::default(),
            held: HeldAnswers::default(),
            passed_on: VecDeque::new(),
            lengths,
            stitcher: Stitcher::default(),
            line_site: None,
            line_origin: Origin::default(),
            line_proxied: None,
            spans,
            origins: Origins::of_options(&watch),
            line: Vec::new(),
            users: Vec::new(),
            words: Vec::new(),
        }
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
        let tells_ids = self.tells_ids();
        let mut answers = LaneAnswers {
            clients,
            requests: &mut flight.requests,
            sessions: &mut self.sessions[epoch.index],
            failures: &mut self.failures[epoch.index],
            date: &self.date,
            tells_ids,
            site: &epoch.site,
            site_index: epoch.index,
            page: page as usize,
            stage: cohort.stage,
            asked: (epoch.call_before(page, cohort.stage as u32))
                .map(|call| &epoch.site.settings.backends[call.backend]),
            metrics,
            launched: flight.launched,
            now,
            sending: &mut self.sending,
            longest: None,
            log: self.log.as_mut(),
            watch: (self.slow.is_some() || flight.span.is_some()).then(|| LaneWatch {
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
            passed_on: &mut self.passed_on,
            lengths: &mut self.lengths,
            stitcher: &mut self.stitcher,
        };
        let left = answers.answer(port, cohort);
        if let Some(longest) = answers.longest {
            let room = cohort.output.runs_used.div_ceil(cohort.run_last().max(1));
            (epoch.sizes(page)).answered(longest, room as u64);
        }
        self.sending.served(metrics, flight.launched);
        left
    }

    /// Answers a request on the host path.
    pub(crate) fn answer_from_site(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        epoch: &Epoch,
        (request, owed): (Incoming<'_>, Owed),
        answer: SiteAnswer,
        now: Time,
    ) {
        let Owed {
            slot,
            shape,
            peer,
            role,
            began,
        } = owed;
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
            // These are for want of memory alone.
            SiteAnswer::Error(status @ (413 | 503)) => refusals.no_room(refused, *status, now),
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
            self.host_answered((peer, began), answered, now);
        }
    }

    /// Answers a request for a host that is no site's.
    pub(crate) fn misdirected(
        &mut self,
        port: &mut dyn Port,
        clients: &mut Clients,
        (request, owed): (Incoming<'_>, Owed),
        now: Time,
    ) {
        let Owed {
            slot,
            shape,
            peer,
            role,
            began,
        } = owed;
        self.keep_line(None, request, (role, peer));
        self.add_id(clients, slot);
        let (date, mut answered) = (&self.date, Answered::bare(MISDIRECTED));
        clients.answer(port, slot, shape, now, |shape, out| {
            answered = refusal(None, out, MISDIRECTED, shape, date, NO_SITE);
            Body::Empty
        });
        self.unclear.misdirected(request, peer, now);
        self.host_answered((peer, began), answered, now);
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
        why: Why<'_>,
        now: Time,
    ) {
        let status = why.status;
        let Some(Owed {
            slot,
            shape,
            peer,
            began,
            ..
        }) = clients.accept_last(port, id)
        else {
            return;
        };
        self.add_id(clients, slot);
        let (date, mut answered) = (&self.date, Answered::bare(status));
        let detail = why.detail();
        clients.answer(port, slot, shape, now, |shape, out| {
            answered = refusal(site, out, status, shape, date, &detail);
            Body::Empty
        });
        self.unclear.unclear(why, peer, now);
        self.host_answered((peer, began), answered, now);
    }

    /// The date of answers.
    pub(crate) fn date(&self) -> &DateCache {
        &self.date
    }

    /// What lines of the access log are like, if there is one.
    pub(crate) fn log_format(&self) -> Option<AccessLogFormat> {
        self.log.as_ref().map(LogSink::format)
    }

    /// A turn of the driver has ended: the answers given in it have taken until then.
    pub(crate) fn turn_ended(&mut self, clients: &Clients, now: Time) {
        self.sending.turn_ended(clients, now);
    }

    /// Looks for sessions that have expired, and hands over the lines of the log that are written,
    /// and spans. Whether some of these are left for later.
    pub(crate) fn sweep(&mut self, now: Time) -> bool {
        for sessions in &self.sessions {
            (sessions.array()).sweep(milliseconds(now), SWEEP_SLOTS);
        }
        if let Some(log) = &mut self.log {
            log.flush();
        }
        self.spans.as_mut().is_some_and(|spans| spans.sweep(now))
    }

    /// A turn of the driver begins, or an event in it: what the clock on the wall says.
    #[inline]
    pub(crate) fn begin(&mut self, unix_seconds: u64) {
        self.date.update(unix_seconds);
    }
}

/// Writes an error as a site does, or as nobody's.
fn refusal(
    site: Option<&Site>,
    out: &mut Vec<u8>,
    status: u16,
    shape: AnswerShape,
    date: &DateCache,
    detail: &str,
) -> Answered {
    match site {
        Some(site) => site.write_error(out, status, shape, date, detail, |_| {}),
        None => write_error(out, status, None, shape, date, detail, |_| {}),
    }
}
