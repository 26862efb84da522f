//! What is told of requests that are answered, to those who ask where their time went: the log of
//! slow ones, and traces.

use crate::answer::hosted::HostedLine;
use crate::answer::slow::{Slow, Watched};
use crate::flight::cohorts::Flight;
use crate::flight::lane_requests::{LaneRequest, LaneRequests};
use crate::flight::timeline::{Doing, Timeline};
use crate::proxy::Shortfall;
use crate::site::epoch::Epoch;
use crate::site::routes;
use crate::trace::{CohortSpan, Span, SpanKind, SpanSink, method_name};
use rhythm_net::{Client, Time};
use std::sync::Arc;

/// Who asks where the time of a cohort's lanes went.
pub(crate) struct LaneWatch<'a> {
    pub(crate) slow: Option<&'a mut Slow>,
    pub(crate) spans: Option<&'a mut SpanSink>,
    pub(crate) epoch: &'a Arc<Epoch>,
    pub(crate) page: u32,
    pub(crate) timeline: &'a Timeline,
    pub(crate) cohort: Option<CohortSpan>,
    /// When they are answered.
    pub(crate) at: Time,
}

impl LaneWatch<'_> {
    /// A lane is answered, to this client.
    pub(crate) fn answered(
        &mut self,
        requests: &LaneRequests,
        (request, client): (&LaneRequest, Option<Client>),
        status: u16,
    ) {
        let watched = self.watched(requests, (request, client), status);
        if let (Some(slow), Some(watched)) = (&mut self.slow, watched) {
            slow.answered(watched);
        }
        let span = self.span(requests, request);
        if let (Some(spans), Some(mut span)) = (&mut self.spans, span) {
            span.status(status);
            spans.add(span);
        }
    }

    /// What the log of slow requests is to know of one.
    pub(crate) fn watched(
        &self,
        requests: &LaneRequests,
        (request, client): (&LaneRequest, Option<Client>),
        status: u16,
    ) -> Option<Watched> {
        self.slow.as_ref()?;
        let page = (self.epoch, self.page);
        let id = requests.origin(request).and_then(|origin| origin.id);
        Some(Watched::new(
            (request.slot, client, id),
            request.came(),
            page,
            self.timeline,
            status,
            self.at,
        ))
    }

    /// The span of a request that is recorded, yet without its status. Those of its calls are told
    /// of here.
    pub(crate) fn span(&mut self, requests: &LaneRequests, request: &LaneRequest) -> Option<Span> {
        let spans = self.spans.as_deref_mut()?;
        let origin = requests.origin(request)?;
        let place = origin.recorded()?;
        let (came, trace) = (request.came(), place.own.trace);
        let program = self.epoch.program(self.page);
        let line = requests.line_bytes(request).unwrap_or_default();
        // Where it cannot be told (an absolute target), the page's only route is.
        let found = routes::found_by(&program.routes, line).or(match &program.routes[..] {
            [only] => Some(only),
            _ => None,
        });
        let route = found.map(ToString::to_string);
        let name = route.as_deref().unwrap_or(&program.name);
        let own = (trace, place.own.span);
        let times = (came.began, self.at);
        let mut span = Span::new(own, place.parent, SpanKind::Server, name, times);
        span.request(line, place.is_tls);
        if let Some((_, path)) = route.as_ref().and_then(|route| route.split_once(' ')) {
            span.text("http.route", path);
        }
        span.text("rhythm.page", &program.name);
        if let Some(service) = self.epoch.site.label() {
            span.text("rhythm.service", service);
        }
        if let Some(id) = &origin.id {
            span.text("rhythm.request_id", id.as_str());
        }
        if let Some(cohort) = self.cohort {
            span.link(cohort.trace, cohort.id);
        }
        for section in self.timeline.sections(came.arrived, self.at) {
            let is_call = section.doing == Doing::Call;
            if !is_call || !requests.has_asked(request, section.stage) {
                continue;
            }
            let id = (trace, place.call_span(section.stage));
            let times = (section.from, section.to);
            let name = backend_before(self.epoch, self.page, section.stage);
            let parent = Some(place.own.span);
            let mut call = Span::new(id, parent, SpanKind::Client, name, times);
            call.text("peer.service", name);
            if let Some(error) = requests.call_error(request, section.stage) {
                call.fail(error.name());
            }
            spans.add(call);
        }
        Some(span)
    }
}

/// The name of the backend that a page asks before a stage.
fn backend_before(epoch: &Epoch, page: u32, stage: u32) -> &str {
    let call = epoch.call_before(page, stage);
    call.map_or("", |call| &*epoch.site.settings.backends[call.backend].name)
}

/// A cohort is over: tells of it, and of what it did.
pub(crate) fn tell_cohort(
    spans: &mut SpanSink,
    cohort: CohortSpan,
    flight: &Flight,
    page: u32,
    now: Time,
) {
    let epoch = flight.epoch();
    let program = epoch.program(page);
    let times = (cohort.from, now);
    let own = (cohort.trace, cohort.id);
    let name = format!("cohort {}", program.name);
    let mut span = Span::new(own, cohort.parent, SpanKind::Internal, &name, times);
    span.text("rhythm.page", &program.name);
    span.int("rhythm.cohort.lanes", flight.requests.lanes() as i64);
    for place in flight.requests.recorded() {
        span.link(place.own.trace, place.own.span);
    }
    for (section, number) in (flight.timeline.sections(cohort.from, now)).zip(0..) {
        let name = match section.doing {
            Doing::Process => format!("stage {}", section.stage),
            Doing::Memory => "memory".to_owned(),
            Doing::Call => {
                format!("backend {}", backend_before(epoch, page, section.stage))
            }
        };
        let id = (cohort.trace, cohort.child(number));
        let times = (section.from, section.to);
        spans.add(Span::new(
            id,
            Some(cohort.id),
            SpanKind::Internal,
            &name,
            times,
        ));
    }
    spans.add(span);
}

/// A request is answered that no page answers: by a file, an error, or a host; where another server
/// was to answer it, and has not, or not to the end, with what became of that.
pub(crate) fn tell_hosted(
    spans: &mut SpanSink,
    line: &HostedLine,
    (status, shortfall): (Option<u16>, Option<Shortfall>),
    now: Time,
) {
    let Some(place) = line.origin.recorded() else {
        return;
    };
    let own = (place.own.trace, place.own.span);
    let name = method_name(&line.request);
    let times = (line.began, now);
    let mut span = Span::new(own, place.parent, SpanKind::Server, &name, times);
    span.request(&line.request, place.is_tls);
    if let Some(status) = status {
        span.status(status);
    }
    if let Some(id) = &line.origin.id {
        span.text("rhythm.request_id", id.as_str());
    }
    if let Some(proxied) = line.proxied
        && shortfall != Some(Shortfall::NotAsked)
    {
        let id = (place.own.trace, place.call_span(0));
        let times = (line.arrived, now);
        let parent = Some(place.own.span);
        let mut asked = Span::new(id, parent, SpanKind::Client, &name, times);
        asked.request(&line.request, proxied.is_tls);
        // What this server answers in its place it has not said.
        let is_its_own = !matches!(shortfall, Some(Shortfall::Failed(_)));
        if let Some(status) = status.filter(|_| is_its_own) {
            asked.status(status);
        }
        if let Some(Shortfall::Failed(why) | Shortfall::CutOff(why)) = shortfall {
            asked.fail(why);
        }
        spans.add(asked);
    }
    spans.add(span);
}
