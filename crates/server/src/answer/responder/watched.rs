//! Single requests that somebody watches: where they come from, their spans, and those that are
//! slow.

use super::Responder;
use crate::answer::watch;
use crate::flight::cohorts::{Cohorts, Flight};
use crate::trace::{CohortSpan, Origin};
use rhythm_cohort::ContextId;
use rhythm_http::Clients;
use rhythm_net::{Client, Time};
use rhythm_protocol::http::request::RequestHead;

impl Responder {
    /// A cohort is launched: it has a span where requests of it are recorded.
    pub(crate) fn begin_cohort(&mut self, flight: &mut Flight, now: impl FnOnce() -> Time) {
        if self.spans.is_some() && flight.requests.recorded().next().is_some() {
            let random = [(); 2].map(|()| self.random.next());
            flight.span = Some(CohortSpan::new(random, now()));
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
        let (origins, random) = (self.origins.as_mut()?, &mut self.random);
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

    /// So have those that are sent with it: tells of those that took long.
    #[inline]
    pub(crate) fn tell_slow(&mut self, clients: &Clients, now: Time) {
        if let Some(slow) = &mut self.slow {
            slow.turn_ended(clients, now);
        }
    }
}
