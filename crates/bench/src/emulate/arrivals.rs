//! Latency at a rate of arrivals: requests of the mix come at random, at a rate, into the server's
//! own pipeline, which forms cohorts of them by its policy.
//!
//! The clock is the thread's processor time: what the pipeline does takes as long as it takes, what
//! it waits for takes no time to wait for, and other programs on the machine do not show. So what
//! is told is the latency of a server with a core of its own and no network.

use super::{
    EmulationError, EmulationOptions, MakeExecutor, Output, SIGN_INS, Stage, Users, bank_of,
    cpu_ns, write_ns,
};
use crate::load::{Latency, Page, Rng, latency_histogram};
use rhythm_net::Handler;
use rhythm_protocol::scan::Ring;
use rhythm_server::Site;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The pages that the paper left out of its mix.
const LEFT_OUT: [Page; 2] = [Page::QuickPay, Page::CheckDetailImage];
/// One in so many requests, the first, is not counted: buffers grow by then.
const WARMUP: usize = 10;
/// Bytes of an answer, about.
const ANSWER: usize = 16_000;
/// Turns in which nothing is answered before it is given up.
const TURNS_MAX: usize = 1_000_000;

/// What came of a rate.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AtRate {
    /// Requests a second that arrive.
    pub arrivals_per_s: f64,
    /// From arrival to answer, the time that a cohort forms in included.
    pub latency: Latency,
    /// The share of time in which the core works.
    pub busy: f64,
    /// Requests that a turn of the loop took in, on average.
    pub per_turn: f64,
}

/// Executes so many requests of the paper's mix that arrive at this rate.
///
/// # Errors
/// When an answer is not 200, or there is no such executor.
pub(crate) fn at_rate(
    site: &Arc<Site>,
    (executor, make): &(String, MakeExecutor),
    requests: usize,
    arrivals_per_s: f64,
) -> Result<AtRate, EmulationError> {
    let requests = requests.max(1);
    let lanes = site.service().config.cohort.size as usize;
    let options = EmulationOptions {
        executors: Vec::new(),
        cohort_size: lanes,
        in_flight: requests.div_ceil(lanes),
        requests,
        repeats: 1,
        ring_bytes: 84 << 20,
        output: Output::Pages,
        pages: Vec::new(),
    };
    let made = make().map_err(EmulationError::NoExecutor)?;
    let mut stage = Stage::without_clients(site, &options, made, SIGN_INS)?;
    // A user for each request, so that nobody logs out who asks again.
    let mut users = Users::new(requests, bank_of(site));
    stage.log_in(&mut users);
    stage.requests = users.mixed(&LEFT_OUT);
    let mut rng = Rng::new(11);
    let mut at = Duration::ZERO;
    let mean = Duration::from_secs_f64(1.0 / arrivals_per_s.max(1.0));
    let due: Vec<Duration> = (0..requests)
        .map(|_| {
            at += rng.exponential(mean);
            at
        })
        .collect();
    let (start, mut now) = (stage.now, Duration::ZERO);
    let (mut next, mut answered, mut idle_turns, mut turns) = (0, 0, 0, 0);
    let mut worked = Duration::ZERO;
    let mut latencies = latency_histogram();
    // Memory that is touched first here would be given by the system meanwhile.
    write_ns(ANSWER, &mut stage.port.ring, Ring::stream);
    stage.port.answered = Some(Vec::new());
    while answered < requests {
        if next < requests && due[next] > now && stage.pipeline.requests_under_way() == 0 {
            now = due[next];
        }
        let from = cpu_ns();
        stage.now = start + now;
        let before = next;
        while next < requests && due[next] <= now {
            let (connection, request) = (stage.connections[next], &stage.requests[next]);
            let received = (&mut stage.port, connection, request);
            (stage.pipeline).received(received.0, received.1, received.2, stage.now);
            next += 1;
        }
        stage.turn();
        let spent = Duration::from_nanos((cpu_ns() - from).max(1));
        turns += usize::from(next > before);
        (now, worked) = (now + spent, worked + spent);
        let done = stage
            .port
            .answered
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        idle_turns = if done.is_empty() { idle_turns + 1 } else { 0 };
        for (slot, is_good) in done {
            let slot = slot as usize;
            if !is_good {
                return Err(wrong(executor, stage.port.answer(slot)));
            }
            answered += 1;
            if slot >= requests / WARMUP {
                latencies.saturating_record((now - due[slot]).as_nanos() as u64);
            }
        }
        if idle_turns > TURNS_MAX {
            return Err(wrong(executor, b"no answer comes"));
        }
        // What forms or is waited for until a time: it is then.
        if let Some(wake) = stage.pipeline.wake_at() {
            let wake = Duration::from_nanos(wake.as_nanos().saturating_sub(start.as_nanos()));
            let arrival = due.get(next).copied().unwrap_or(Duration::MAX);
            if stage.pipeline.requests_under_way() > 0 {
                now = now.max(wake.min(arrival));
            }
        }
    }
    Ok(AtRate {
        arrivals_per_s,
        latency: Latency::of(&latencies),
        busy: worked.as_secs_f64() / now.as_secs_f64(),
        per_turn: requests as f64 / turns.max(1) as f64,
    })
}

fn wrong(executor: &str, answer: &[u8]) -> EmulationError {
    EmulationError::Wrong {
        page: "the mix",
        executor: executor.to_owned(),
        excerpt: String::from_utf8_lossy(&answer[..answer.len().min(400)]).into_owned(),
    }
}
