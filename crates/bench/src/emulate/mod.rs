//! `rhythm bench`: the paper's emulation (section 5.3.2). The network is taken away, and nothing
//! else.
//!
//! Requests lie in memory; the server's own pipeline gets them through a port that copies every
//! answer to main memory instead of sending it; BeSim is a function call. So what is measured is
//! all that the server itself does for a request: reading, parsing, sessions, rendering, stitching,
//! materializing. Each page type is run in isolation, and the throughput of the mix is the weighted
//! harmonic mean (section 5.3.1). Executors alternate, several times, and the median counts.
//!
//! Beside each figure stands the limit measured in the same run: copying as many bytes as the
//! page's answer has, from the cache to the same memory, once with `memcpy` and once with the
//! streaming stores that the answers are written with.
//!
//! With [`Output::Runs`] an answer is its head and its runs, without the fragments: what is left
//! for a server whose socket gathers the fragments from where they lie. With [`Output::Buffers`]
//! each whole answer has a buffer of the next power of two, as in the paper.

mod arrivals;
mod output;
mod port;
mod replay;
mod report;
mod runs;
mod users;
mod witness;

pub(crate) use arrivals::at_rate;
pub use output::Output;
pub use replay::{ReplayOptions, replay};
pub use report::{Executed, PageResult, PaperRow, Report, TABLE_3, mix14};
pub use users::Users;
pub use witness::Witness;

use crate::load::Page;
use crate::median::median;
use perf_event::events::Hardware;
use port::MemoryPort;
use rhythm_besim::Bank;
use rhythm_engine::device::Executor;
use rhythm_engine::session::{SessionArray, SignInRules, SignIns};
use rhythm_net::{Accepted, ConnectionId, Handler, Role, Time};
use rhythm_protocol::scan::Ring;
use rhythm_server::backend::InProcess;
use rhythm_server::backend::besim::EmbeddedBesim;
use rhythm_server::observe::metrics::{Metrics, SessionGauge};
use rhythm_server::{Pipeline, PipelineOptions, PipelineParts, Site, Sites, Visitors};
use runs::RunsOnly;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Makes an executor to measure, or says why there is none.
pub type MakeExecutor = Box<dyn Fn() -> Result<Box<dyn Executor>, String>>;

/// What to measure.
pub struct EmulationOptions {
    /// The executors, by name.
    pub executors: Vec<(String, MakeExecutor)>,
    /// Lanes of a cohort.
    pub cohort_size: usize,
    /// Cohorts that are fed at a time.
    pub in_flight: usize,
    /// Requests measured of each page type and executor, in each repeat.
    pub requests: usize,
    /// Repeats; the median counts.
    pub repeats: usize,
    /// Bytes of memory that answers are materialized to, round and round.
    pub ring_bytes: usize,
    /// What of an answer is materialized.
    pub output: Output,
    /// The pages to measure; empty: all.
    pub pages: Vec<Page>,
}

impl std::fmt::Debug for EmulationOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let executors: Vec<&String> = self.executors.iter().map(|(name, _)| name).collect();
        f.debug_struct("EmulationOptions")
            .field("executors", &executors)
            .finish_non_exhaustive()
    }
}

/// Sessions of a run at most: gigabytes of memory.
const SESSIONS_MAX: usize = 1 << 24;
/// Rounds in which every client may sign in, unless the login is what is measured: the first, and
/// two for what is asked then.
const SIGN_INS: usize = 3;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// An answer is not the page asked for: a figure for it would mean nothing.
    #[error("{executor} does not answer {page}: {excerpt}")]
    Wrong {
        /// The page asked for.
        page: &'static str,
        /// Who answered.
        executor: String,
        /// The answer's beginning.
        excerpt: String,
    },
    /// An executor cannot be made.
    #[error("{0}")]
    NoExecutor(String),
    /// Each request of the login makes a session, and all of them are there at once.
    #[error(
        "so many requests of login make more than {SESSIONS_MAX} sessions: fewer of them, or \
             fewer repeats, can be measured"
    )]
    TooManySessions,
}

/// Processor time of this thread, in nanoseconds: on a machine with other things to do it is what a
/// core's time means.
pub(crate) fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Debug)]
struct NoGauge;

impl SessionGauge for NoGauge {
    fn sessions(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// A pipeline with its clients, who are all logged in, and their requests for one page.
struct Stage {
    pipeline: Pipeline,
    port: MemoryPort,
    connections: Vec<ConnectionId>,
    requests: Vec<Vec<u8>>,
    now: Time,
}

impl Stage {
    fn new(
        site: &Arc<Site>,
        options: &EmulationOptions,
        executor: Box<dyn Executor>,
        page: Page,
    ) -> Result<Stage, EmulationError> {
        Stage::of_users(
            site,
            options,
            executor,
            page,
            options.cohort_size * options.in_flight,
        )
    }

    /// With so many users: at most a cohort's for each that is in flight.
    fn of_users(
        site: &Arc<Site>,
        options: &EmulationOptions,
        executor: Box<dyn Executor>,
        page: Page,
        users: usize,
    ) -> Result<Stage, EmulationError> {
        let rounds = rounds(options.requests, options.cohort_size * options.in_flight);
        let sign_ins = match page {
            // Once the array is full, a login is a refusal and its figure means nothing.
            Page::Login => options.repeats.max(1).saturating_mul(rounds),
            _ => 0,
        };
        let sign_ins = sign_ins.saturating_add(SIGN_INS);
        let mut stage = Stage::without_clients(site, options, executor, sign_ins)?;
        let mut users = Users::new(users, bank_of(site));
        stage.log_in(&mut users);
        stage.requests = users.requests(page);
        Ok(stage)
    }

    /// Takes the users behind the first so many out: their connections and requests.
    fn split(&mut self, at: usize) -> (Vec<ConnectionId>, Vec<Vec<u8>>) {
        (self.connections.split_off(at), self.requests.split_off(at))
    }

    /// Puts these users in the place of those that there are.
    fn become_of(&mut self, (connections, requests): (Vec<ConnectionId>, Vec<Vec<u8>>)) {
        (self.connections, self.requests) = (connections, requests);
    }

    /// With room for the sessions of so many rounds of sign-ins.
    fn without_clients(
        site: &Arc<Site>,
        options: &EmulationOptions,
        executor: Box<dyn Executor>,
        sign_ins: usize,
    ) -> Result<Stage, EmulationError> {
        let clients = options.cohort_size * options.in_flight;
        let sessions = clients.saturating_mul(sign_ins).saturating_add(1024);
        if sessions > SESSIONS_MAX {
            return Err(EmulationError::TooManySessions);
        }
        let service = site.service();
        let bank = bank_of(site);
        let mut seed = 1u128;
        let parts = PipelineParts {
            sites: Arc::new(Sites::from(Arc::clone(site))),
            visitors: vec![Visitors {
                sessions: Arc::new(SessionArray::new(sessions as u32, 3_600_000)),
                sign_ins: Arc::new(SignIns::new(SignInRules::NONE, 0)),
                seal_key: 0,
            }],
            device: Box::new(executor),
            backends: Box::new(move |_, _| Box::new(InProcess(EmbeddedBesim::new(bank)))),
            hosts: Vec::new(),
            disk: Box::new(()),
            // A bench's sessions may be guessed.
            random: Box::new(move || {
                seed = seed
                    .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
                    .wrapping_add(1);
                seed
            }),
            metrics: Metrics::new(1, Arc::default(), Box::new(NoGauge)).worker(0),
            log: None,
            spans: None,
            now: Time::ZERO,
        };
        let mut pipeline_options: PipelineOptions =
            rhythm_server::ServerOptions::of(service).pipeline;
        pipeline_options.formation.lanes_max = options.cohort_size;
        pipeline_options.contexts = pipeline_options.contexts.max(options.in_flight);
        Ok(Stage {
            pipeline: Pipeline::new(parts, pipeline_options),
            port: MemoryPort::new(options.ring_bytes),
            connections: Vec::new(),
            requests: Vec::new(),
            now: Time::ZERO,
        })
    }

    /// Opens the connections, and logs a user in on each.
    fn log_in(&mut self, users: &mut Users) {
        for slot in 0..users.len() as u32 {
            let connection = ConnectionId::new(slot, 1);
            self.connections.push(connection);
            let accepted = Accepted {
                connection,
                role: Role::default(),
                peer: any_address().into(),
            };
            self.pipeline.opened(&mut self.port, accepted, self.now);
        }
        self.requests = users.requests(Page::Login);
        for (user, answer) in self.answers().iter().enumerate() {
            users.logged_in(user, answer);
        }
    }

    /// A round, and what it answered to each client.
    fn answers(&mut self) -> Vec<Vec<u8>> {
        self.port.keep = true;
        self.round();
        self.port.keep = false;
        (self.connections.iter())
            .map(|client| self.port.answer(client.slot() as usize).to_vec())
            .collect()
    }

    /// Every client sends its request once, and is answered.
    fn round(&mut self) {
        self.part(0..self.connections.len());
    }

    /// The same of some of them.
    fn part(&mut self, clients: Range<usize>) {
        let connections = &self.connections[clients.clone()];
        for (connection, request) in connections.iter().zip(&self.requests[clients]) {
            self.pipeline
                .received(&mut self.port, *connection, request, self.now);
        }
        self.turn();
        // A device may take its time, and not all requests are for the first turn.
        while self.pipeline.requests_under_way() > 0
            || (self.pipeline.wake_at()).is_some_and(|at| at <= self.now)
        {
            self.turn();
        }
        self.now += Duration::from_micros(1);
    }

    /// The end of a turn of the driver.
    fn turn(&mut self) {
        self.pipeline.idle(&mut self.port, self.now);
        self.pipeline.turn_ended(self.now);
    }

    /// A round whose answers are looked at: each must be the page.
    fn check(&mut self, page: Page, executor: &str) -> Result<(), EmulationError> {
        page_in_each(&self.answers(), page, executor)
    }

    /// Rounds of at least so many requests: nanoseconds, bytes and instructions a request.
    fn measure(&mut self, requests: usize) -> Measured {
        let rounds = rounds(requests, self.connections.len());
        let count = (rounds * self.connections.len()) as f64;
        let mut counter = perf_event::Builder::new(Hardware::INSTRUCTIONS)
            .build()
            .ok();
        if let Some(counter) = &mut counter
            && counter.enable().is_err()
        {
            return self.measure_rounds(rounds, count);
        }
        let measured = self.measure_rounds(rounds, count);
        let instructions = counter.and_then(|mut counter| counter.read().ok());
        Measured {
            instructions: instructions.map(|all| all as f64 / count),
            ..measured
        }
    }

    fn measure_rounds(&mut self, rounds: usize, count: f64) -> Measured {
        let bytes = self.port.bytes;
        let start = cpu_ns();
        for _ in 0..rounds {
            self.round();
        }
        Measured {
            ns: (cpu_ns() - start) as f64 / count,
            bytes: (self.port.bytes - bytes) as f64 / count,
            instructions: None,
        }
    }
}

/// Each of these must be the page.
fn page_in_each(answers: &[Vec<u8>], page: Page, executor: &str) -> Result<(), EmulationError> {
    for answer in answers {
        let marker = format!("data-page=\"{}\"", page.name());
        let is_page = match page {
            Page::CheckDetailImage => contains(answer, b"Content-Type: image/"),
            // Who has one account only cannot transfer.
            Page::PostTransfer => {
                contains(answer, marker.as_bytes()) || contains(answer, b"data-page=\"message\"")
            }
            _ => contains(answer, marker.as_bytes()),
        };
        if !is_page || !answer.starts_with(b"HTTP/1.1 200") {
            return Err(EmulationError::Wrong {
                page: page.name(),
                executor: executor.to_owned(),
                excerpt: String::from_utf8_lossy(&answer[..answer.len().min(400)]).into_owned(),
            });
        }
    }
    Ok(())
}

/// What one run of a page found, a request.
#[derive(Clone, Copy, Debug)]
struct Measured {
    ns: f64,
    bytes: f64,
    instructions: Option<f64>,
}

/// Rounds of so many clients that make at least so many requests.
fn rounds(requests: usize, clients: usize) -> usize {
    requests.div_ceil(clients).max(1)
}

fn any_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

/// The bank that a site's backend is.
fn bank_of(site: &Site) -> Bank {
    let backends = &site.service().backends;
    let users = (backends.first())
        .filter(|backend| backend.kind == rhythm_besim::KIND)
        .map_or(i64::from(Bank::USERS_DEFAULT), |backend| {
            backend.int("users")
        });
    Bank::new(u32::try_from(users).unwrap_or(u32::MAX))
}

/// Nanoseconds for writing `bytes` from the cache to memory that is written round and round: the
/// limit of materializing.
fn write_ns(bytes: usize, ring: &mut Ring, write: fn(&mut Ring, &[u8])) -> f64 {
    let page = vec![b'x'; bytes];
    // Once round the ring.
    let copies = (ring.len() / bytes.max(1)).max(1);
    let start = cpu_ns();
    for _ in 0..copies {
        write(ring, black_box(&page));
    }
    (cpu_ns() - start) as f64 / copies as f64
}

fn middle(runs: impl Iterator<Item = f64>) -> f64 {
    median(runs).unwrap_or(f64::NAN)
}

/// Measures a site; `progress` is told what is being measured.
///
/// # Errors
/// When an answer is not the page asked for.
pub fn run(
    site: &Arc<Site>,
    options: &EmulationOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, EmulationError> {
    let mut pages = Vec::new();
    let chosen = Page::ALL
        .iter()
        .filter(|page| options.pages.is_empty() || options.pages.contains(page));
    for &page in chosen {
        progress(page.name());
        let mut stages = Vec::new();
        for (name, make) in &options.executors {
            let make = || make().map_err(EmulationError::NoExecutor);
            let mut stage = Stage::new(site, options, make()?, page)?;
            stage.check(page, name)?;
            if options.output == Output::Runs {
                stage = Stage::new(site, options, Box::new(RunsOnly(make()?)), page)?;
            }
            stage.port.pads = options.output == Output::Buffers;
            stages.push((name, stage, Vec::new()));
        }
        let (mut copies, mut streams) = (Vec::new(), Vec::new());
        for _ in 0..options.repeats.max(1) {
            for (_, stage, runs) in &mut stages {
                let run = stage.measure(options.requests);
                runs.push(run);
                // Of the same kind of memory, at the same time.
                let bytes = run.bytes as usize;
                copies.push(write_ns(bytes, &mut stage.port.ring, Ring::copy));
                streams.push(write_ns(bytes, &mut stage.port.ring, Ring::stream));
            }
        }
        let bytes =
            (stages.first().and_then(|(_, _, runs)| runs.first())).map_or(0.0, |run| run.bytes);
        let copy = middle(copies.into_iter());
        let executed = stages.iter().map(|(name, _, runs)| {
            let of = |value: fn(&Measured) -> f64| middle(runs.iter().map(value));
            let instructions = runs.iter().all(|run| run.instructions.is_some());
            Executed::new(
                name,
                of(|run| run.ns),
                bytes,
                instructions.then(|| of(|run| run.instructions.unwrap_or(f64::NAN))),
                copy,
            )
        });
        pages.push(PageResult {
            page: page.name(),
            mix14_percent: report::mix14(page),
            mix16_percent: page.mix(),
            bytes,
            copy_ns: copy,
            stream_ns: middle(streams.into_iter()),
            executed: executed.collect(),
        });
    }
    Ok(Report::new(
        options.cohort_size,
        options.in_flight,
        options.ring_bytes,
        options.output,
        pages,
    ))
}
