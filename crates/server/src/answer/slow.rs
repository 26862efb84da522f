//! Requests that took long: a line of the log each, which says where their time went.
//!
//! ```text
//!   reading    waiting          process, memory, backends, store         sending
//!   |----------|----------------|---------------------------------------|--------->|
//!   first      taken: it is     its cohort is launched                   answered   the socket
//!   byte       a lane                                                               has all of it
//! ```
//!
//! A request is looked at when the turn is over in which it was answered; one whose answer the
//! socket has not taken by then, at the ends of the turns that follow. What is known of it is
//! copied when it is answered, into memory that is kept. Lines are one a second of each page, by
//! each worker.

use crate::answer::hosted::HostedLine;
use crate::flight::lane_requests::WATCH_BYTES;
use crate::flight::timeline::{Came, Doing, Timeline};
use crate::observe::metrics::WorkerMetrics;
use crate::site::epoch::Epoch;
use crate::trace::RequestId;
use rhythm_http::{AnswerSlot, Clients};
use rhythm_net::sparse::SparseByKind;
use rhythm_net::{Client, Time};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Answers whose sending is waited for at most; others are over, for who looks, when they are
/// answered.
const SENDING_MAX: usize = 1024;

/// Stages whose calls are told apart; what is behind them counts with the last.
const CALLS_MAX: usize = 8;

/// Where a request's time went until it was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    reading: Duration,
    waiting: Duration,
    process: Duration,
    memory: Duration,
    calls: [Duration; CALLS_MAX],
    store: Duration,
}

impl Spent {
    fn sum(&self) -> Duration {
        let calls: Duration = self.calls.iter().sum();
        self.reading + self.waiting + self.process + self.memory + calls + self.store
    }
}

/// A page's request that is answered, and perhaps not sent.
#[derive(Debug)]
pub(crate) struct Watched {
    slot: AnswerSlot,
    client: Option<Client>,
    id: Option<RequestId>,
    epoch: Arc<Epoch>,
    page: u32,
    status: u16,
    began: Time,
    answered: Time,
    spent: Spent,
}

impl Watched {
    /// A lane's request, of this client and with this id, whose cohort did this until now.
    pub(crate) fn new(
        (slot, client, id): (AnswerSlot, Option<Client>, Option<RequestId>),
        came: Came,
        (epoch, page): (&Arc<Epoch>, u32),
        timeline: &Timeline,
        status: u16,
        now: Time,
    ) -> Watched {
        let Came { began, arrived } = came;
        let launched = timeline.launched().unwrap_or(now).max(arrived).min(now);
        let mut spent = Spent {
            reading: arrived.since(began),
            waiting: launched.since(arrived),
            ..Spent::default()
        };
        for section in timeline.sections(arrived, now) {
            *match section.doing {
                Doing::Process => &mut spent.process,
                Doing::Memory => &mut spent.memory,
                Doing::Call => {
                    let call = (section.stage as usize).saturating_sub(1);
                    &mut spent.calls[call.min(CALLS_MAX - 1)]
                }
            } += section.took();
        }
        debug_assert_eq!(spent.sum(), now.since(began), "where its time went");
        Watched {
            slot,
            client,
            id,
            epoch: epoch.clone(),
            page,
            status,
            began,
            answered: now,
            spent,
        }
    }

    /// Its answer was held until now, for the store of sessions.
    pub(crate) fn was_held(&mut self, status: u16, now: Time) {
        self.spent.store = now.since(self.answered);
        (self.status, self.answered) = (status, self.answered.max(now));
    }

    /// Its calls: what was asked, and for how long it was waited for.
    fn calls(&self) -> String {
        let mut calls = String::new();
        for (took, stage) in self.spent.calls.iter().zip(1..) {
            let Some(call) = self.epoch.call_before(self.page, stage) else {
                continue;
            };
            if !took.is_zero() {
                let name = &self.epoch.site.settings.backends[call.backend].name;
                let joint = if calls.is_empty() { "" } else { ", " };
                // Writing to a string cannot fail.
                let _ = write!(calls, "{joint}{name} {}", shown(*took));
            }
        }
        calls
    }
}

const _: () = assert!(2 * size_of::<Watched>() <= WATCH_BYTES / 2);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Slow {
    /// What takes as long is slow.
    limit: Duration,
    answered: Vec<Watched>,
    /// By site and page; what hosts answer has no page.
    lines: SparseByKind<(Option<usize>, Option<u32>)>,
    metrics: Arc<WorkerMetrics>,
}

impl Slow {
    /// What takes so long is told of.
    pub(crate) fn new(limit: Duration, metrics: Arc<WorkerMetrics>) -> Slow {
        Slow {
            limit,
            answered: Vec::new(),
            lines: SparseByKind::default(),
            metrics,
        }
    }

    /// A request is answered, if its connection takes it.
    pub(crate) fn answered(&mut self, watched: Watched) {
        self.answered.push(watched);
    }

    /// A turn is over: tells of those that are sent, or will not be.
    pub(crate) fn turn_ended(&mut self, clients: &Clients, now: Time) {
        let mut at = 0;
        while let Some(watched) = self.answered.get(at) {
            let is_over = clients.is_sent(watched.slot).unwrap_or(true);
            if is_over || at >= SENDING_MAX {
                let watched = self.answered.swap_remove(at);
                self.tell(&watched, now);
            } else {
                at += 1;
            }
        }
    }

    fn tell(&mut self, watched: &Watched, now: Time) {
        let total = now.max(watched.answered).since(watched.began);
        if total < self.limit {
            return;
        }
        self.metrics.slow_requests.add(1);
        let Watched {
            epoch, page, spent, ..
        } = watched;
        let Some(left_out) = self.lines.line((Some(epoch.index), Some(*page)), now) else {
            return;
        };
        let calls = watched.calls();
        let store = Some(spent.store).filter(|store| !store.is_zero());
        let memory = Some(spent.memory).filter(|memory| !memory.is_zero());
        tracing::warn!(
            service = epoch.site.label(),
            page = epoch.program(*page).name,
            status = watched.status,
            client = watched.client.map(|client| client.to_string()),
            request_id = watched.id.as_ref().map(RequestId::as_str),
            took = shown(total),
            reading = shown(spent.reading),
            waiting = shown(spent.waiting),
            process = shown(spent.process),
            memory = memory.map(shown),
            backends = Some(calls).filter(|calls| !calls.is_empty()),
            store = store.map(shown),
            sending = shown(now.since(watched.answered)),
            left_out,
            "a slow request"
        );
    }

    /// A host's answer is over: of a request for a file, a proxy's route or another host.
    pub(crate) fn hosted(&mut self, line: &HostedLine, status: Option<u16>, now: Time) {
        let total = now.since(line.began);
        if total < self.limit {
            return;
        }
        self.metrics.slow_requests.add(1);
        if let Some(left_out) = self.lines.line((line.site, None), now) {
            let reading = line.arrived.since(line.began);
            let request = String::from_utf8_lossy(line.entry().line());
            tracing::warn!(
                request = request.escape_debug().to_string(),
                status,
                client = line.peer.to_string(),
                request_id = line.origin.id.as_ref().map(RequestId::as_str),
                took = shown(total),
                reading = shown(reading),
                answering = shown(now.since(line.arrived)),
                left_out,
                "a slow request that no page answers"
            );
        }
    }
}

/// A time, exact enough for people.
fn shown(time: Duration) -> String {
    let micros = time.as_micros() as u64;
    let rounded = match micros {
        ..1000 => micros,
        1000..100_000 => micros / 10 * 10,
        _ => micros / 1000 * 1000,
    };
    format!("{:?}", Duration::from_micros(rounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_people_read_them() {
        for (micros, text) in [
            (0, "0ns"),
            (7, "7µs"),
            (1234, "1.23ms"),
            (512_345, "512ms"),
            (3_200_500, "3.2s"),
        ] {
            assert_eq!(shown(Duration::from_micros(micros)), text);
        }
    }
}
