//! The whole pipeline on the device: from raw requests in its memory to answers in its memory
//! (paper, section 5.3.2).
//!
//! ```text
//!   trace ─▶ [transpose] ─▶ classify ─▶ sort by page ─▶ parameters      parser instances, a stream each
//!                                                          │
//!        lanes ─▶ sessions ─▶ stage 0 ─▶ BeSim ─▶ decode ─▶ stage 1 ... ─▶ sessions ─▶ heads ─▶ layout     cohorts in flight, a stream each
//! ```
//! The paper takes network and PCIe away to see what the device can do, and so does this: requests
//! are there, answers stay there, and the backend is there, too, but in layout A. It runs one page
//! type at a time, as the paper measures; [`Resident::answers`] brings the answers of a cohort to
//! the host, to be compared with the server's own.
#![allow(unsafe_code)]

mod answer;
mod context;
mod heads;

pub use answer::Answer;

use crate::abi::Outcome;
use crate::besim::BesimTables;
use crate::case::CaseTables;
use crate::executor::job::Room;
use crate::executor::upload::{DeviceService, upload};
use crate::gpu::{DeviceBuffer, GpuError, Mark, SharedGpu, Stream};
use crate::layout::Layout;
use crate::parser::{Parser, ParserTables};
use crate::sessions::DeviceSessions;
use context::{Context, PagePlan, Shared};
use heads::Heads;
use rhythm_besim::Bank;
use rhythm_engine::device::LaneLimits;
use rhythm_engine::program::Service;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rounds in which a page's cohorts are given more room before it is given up.
const ROUNDS_MAX: usize = 16;

/// What the pipeline is made with.
#[derive(Clone, Copy, Debug)]
pub struct ResidentOptions {
    /// How answers lie in memory, and where the backend is.
    pub layout: Layout,
    /// Lanes of a cohort.
    pub cohort: usize,
    /// Cohorts in flight.
    pub in_flight: usize,
    /// Parser instances.
    pub parsers: usize,
    /// Whether requests are transposed before they are parsed (paper, section 4.3.2).
    pub transposes: bool,
    /// What a lane may ask for.
    pub limits: LaneLimits,
    /// Sessions there is room for.
    pub sessions: u32,
    /// Milliseconds after which an unused session expires.
    pub idle_timeout_ms: u64,
    /// Users of BeSim.
    pub users: u32,
    /// The time of the answers' Date, in seconds since 1970.
    pub now: u64,
}

/// Why nothing was run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ResidentError {
    /// The device.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A page whose answers the device cannot make whole.
    #[error("page {page}: {why}")]
    Page {
        /// Its name.
        page: String,
        /// The reason.
        why: &'static str,
    },
}

/// Requests in the device's memory.
#[derive(Debug)]
pub struct Trace {
    bytes: DeviceBuffer,
    lengths: DeviceBuffer,
    request_bytes: u32,
    count: usize,
}

impl Trace {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A parser instance.
#[derive(Debug)]
struct Instance {
    stream: Stream,
    parser: Parser,
}

/// The pipeline. See the module.
#[derive(Debug)]
pub struct Resident {
    gpu: SharedGpu,
    service: Arc<Service>,
    device: DeviceService,
    tables: Arc<ParserTables>,
    heads: Heads,
    sessions: DeviceSessions,
    besim: BesimTables,
    case_tables: DeviceBuffer,
    parsers: Vec<Mutex<Instance>>,
    request_bytes: u32,
    contexts: Vec<Context>,
    plan: Option<PagePlan>,
    options: ResidentOptions,
    stream: Stream,
    randoms: Vec<u64>,
    marks: [Mark; 2],
}

impl Resident {
    /// A pipeline for a service. `random` gives the bits of session ids, which nobody must be able
    /// to foretell where the answers are for anyone but a benchmark.
    ///
    /// # Errors
    /// The device has no room, or failed.
    pub fn new(
        gpu: &SharedGpu,
        service: &Arc<Service>,
        options: ResidentOptions,
        mut random: impl FnMut() -> u64,
    ) -> Result<Resident, ResidentError> {
        let stream = gpu.stream()?;
        let in_flight = options.in_flight.max(1);
        Ok(Resident {
            device: DeviceService::new(gpu, stream, service)?,
            tables: Arc::new(ParserTables::new(gpu, stream, service)?),
            heads: Heads::new(gpu, stream, service, options.now)?,
            sessions: DeviceSessions::new(gpu, options.sessions, options.idle_timeout_ms)?,
            besim: BesimTables::new(gpu, Bank::new(options.users))?,
            case_tables: upload(gpu, stream, &CaseTables::bytes())?,
            parsers: Vec::new(),
            request_bytes: 0,
            contexts: (0..in_flight)
                .map(|_| Context::new(gpu))
                .collect::<Result<_, _>>()?,
            plan: None,
            randoms: (0..2 * options.cohort).map(|_| random()).collect(),
            marks: [gpu.mark()?, gpu.mark()?],
            gpu: gpu.clone(),
            service: service.clone(),
            options,
            stream,
        })
    }

    /// Copies requests to the device, each in a place of the size of the largest.
    ///
    /// # Errors
    /// The device has no room, or failed.
    pub fn load(&self, requests: &[Vec<u8>]) -> Result<Trace, ResidentError> {
        let request_bytes = requests
            .iter()
            .map(Vec::len)
            .max()
            .unwrap_or(0)
            .max(1)
            .next_multiple_of(16);
        let mut bytes = vec![0; request_bytes * requests.len()];
        for (place, request) in bytes.chunks_exact_mut(request_bytes).zip(requests) {
            place[..request.len()].copy_from_slice(request);
        }
        let lengths: Vec<u8> = requests
            .iter()
            .flat_map(|r| (r.len() as u32).to_ne_bytes())
            .collect();
        Ok(Trace {
            bytes: upload(&self.gpu, self.stream, &bytes)?,
            lengths: upload(&self.gpu, self.stream, &lengths)?,
            request_bytes: request_bytes as u32,
            count: requests.len(),
        })
    }

    /// Forgets all sessions.
    ///
    /// # Errors
    /// The device failed.
    pub fn forget_sessions(&mut self) -> Result<(), ResidentError> {
        self.wait()?;
        self.sessions = DeviceSessions::new(
            &self.gpu,
            self.options.sessions,
            self.options.idle_timeout_ms,
        )?;
        Ok(())
    }

    /// Gets ready for a page: runs its requests, a cohort after the other, until each lane of each
    /// has the room it needs. What it answered last is the trace's last cohort.
    ///
    /// # Errors
    /// The device has no room, or failed; or the page's answers cannot be made on the device.
    pub fn prepare(&mut self, page: usize, trace: &Trace) -> Result<(), ResidentError> {
        let program = &self.service.pages[page];
        let name = program.name.clone();
        let refuse = |why| ResidentError::Page { page: name, why };
        let replaces = |name: &String| {
            [
                "content-type",
                "cache-control",
                "content-length",
                "connection",
                "date",
                "transfer-encoding",
            ]
            .contains(&name.to_ascii_lowercase().as_str())
        };
        if program.header_names.iter().any(replaces) {
            return Err(refuse("it replaces headers that the device writes itself"));
        }
        let params = self.tables.pages()[page].clone();
        let room = Room::guess(
            self.device.pages[page].page.stages.iter(),
            self.options.layout,
        );
        let mut plan = PagePlan {
            index: page,
            head: self.heads.stride(page, 64),
            pitch: 4096,
            param_text: params.text_stride(trace.request_bytes),
            room,
        };
        for _ in 0..ROUNDS_MAX {
            // One context finds out what is needed; the others get their memory once.
            self.ready(&plan, trace, 0..1)?;
            let mut has_grown = false;
            for lot in 0..(trace.len() / self.options.cohort).max(1) {
                self.cohort(0, trace, lot * self.options.cohort)?;
                self.wait()?;
                has_grown |= self.grow(&mut plan)?;
            }
            if !has_grown {
                return self.ready(&plan, trace, 1..self.contexts.len());
            }
        }
        Err(refuse("its lanes need more and more room"))
    }

    /// Makes parsers and some contexts fit a page and a trace.
    fn ready(
        &mut self,
        plan: &PagePlan,
        trace: &Trace,
        which: Range<usize>,
    ) -> Result<(), ResidentError> {
        self.wait()?;
        if self.request_bytes != trace.request_bytes {
            self.parsers.clear();
            for _ in 0..self.options.parsers.max(1) {
                let (capacity, bytes) = (self.options.cohort as u32, trace.request_bytes);
                let parser = Parser::new(
                    &self.gpu,
                    self.tables.clone(),
                    capacity,
                    bytes,
                    self.options.transposes,
                )?;
                let stream = self.gpu.stream()?;
                self.parsers.push(Mutex::new(Instance { stream, parser }));
            }
            self.request_bytes = trace.request_bytes;
        }
        let mut contexts = std::mem::take(&mut self.contexts);
        let program = &self.service.pages[plan.index];
        let params = &self.tables.pages()[plan.index];
        let prepared = contexts[which].iter_mut().try_for_each(|context| {
            context.prepare(&self.shared(), program, params, plan, &self.randoms)
        });
        self.contexts = contexts;
        self.plan = Some(plan.clone());
        Ok(prepared?)
    }

    fn shared(&self) -> Shared<'_> {
        Shared {
            service: &self.device,
            heads: &self.heads,
            sessions: &self.sessions,
            besim: &self.besim,
            bank: Bank::new(self.options.users),
            case_tables: self.case_tables.address(),
            options: &self.options,
        }
    }

    /// Whether the cohort just run needs more room; the plan has it then.
    fn grow(&mut self, plan: &mut PagePlan) -> Result<bool, ResidentError> {
        let before = (plan.room, plan.pitch);
        let (results, counters) = self.contexts[0].results()?;
        let fit = |room: &mut u32, needed: u32| {
            if needed > *room {
                *room = needed.next_multiple_of(64);
            }
        };
        fit(&mut plan.room.items, counters[0]);
        fit(&mut plan.room.rows, counters[1]);
        for result in results {
            match Outcome::of(result.outcome) {
                Outcome::Room => plan.room.grow(&result),
                Outcome::Finished => {
                    let body = match self.options.layout {
                        Layout::Runs => result.run_length,
                        _ => result.body_length,
                    };
                    plan.pitch = plan
                        .pitch
                        .max((plan.head + body as usize).next_multiple_of(256));
                }
                _ => {}
            }
        }
        Ok((plan.room, plan.pitch) != before)
    }

    /// Launches a cohort of requests, from the `first` of the trace on, in a context.
    fn cohort(&mut self, context: usize, trace: &Trace, first: usize) -> Result<(), GpuError> {
        let mut contexts = std::mem::take(&mut self.contexts);
        let done = run_cohort(
            &self.gpu,
            &self.shared(),
            &self.parsers,
            &mut contexts[context],
            context,
            trace,
            first,
        );
        self.contexts = contexts;
        if done.is_err() {
            // What has been launched uses the trace, which the caller may drop.
            let _ = self.wait();
        }
        done
    }

    /// Runs cohorts of the page prepared for, as many at a time as are in flight, going round the
    /// trace; gives the time from the first launch until all are done.
    ///
    /// # Errors
    /// The device failed.
    pub fn run(&mut self, trace: &Trace, cohorts: usize) -> Result<Duration, ResidentError> {
        self.wait()?;
        let lots = (trace.len() / self.options.cohort).max(1);
        let size = self.options.cohort;
        let mut contexts = std::mem::take(&mut self.contexts);
        let (shared, gpu, parsers) = (self.shared(), &self.gpu, &self.parsers);
        let in_flight = contexts.len();
        let start = Instant::now();
        let done = if self.options.layout == Layout::A {
            // Each waits for its cohort's requests to come to the host: a thread each.
            std::thread::scope(|scope| {
                let threads: Vec<_> = (contexts.iter_mut().enumerate())
                    .map(|(index, context)| {
                        let shared = &shared;
                        scope.spawn(move || {
                            (index..cohorts).step_by(in_flight).try_for_each(|cohort| {
                                run_cohort(
                                    gpu,
                                    shared,
                                    parsers,
                                    context,
                                    index,
                                    trace,
                                    cohort % lots * size,
                                )
                            })
                        })
                    })
                    .collect();
                let lost = || {
                    Err(GpuError::Failed(
                        "a thread of the backend has panicked".to_owned(),
                    ))
                };
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().unwrap_or_else(|_| lost()))
            })
        } else {
            (0..cohorts).try_for_each(|cohort| {
                let index = cohort % in_flight;
                run_cohort(
                    gpu,
                    &shared,
                    parsers,
                    &mut contexts[index],
                    index,
                    trace,
                    cohort % lots * size,
                )
            })
        };
        let waited = contexts
            .iter()
            .try_for_each(|context| gpu.synchronize(context.stream));
        let took = start.elapsed();
        self.contexts = contexts;
        done?;
        waited?;
        Ok(took)
    }

    /// Runs one cohort of requests, from the `first` of the trace on, for its answers.
    ///
    /// # Errors
    /// The device failed.
    pub fn ask(&mut self, trace: &Trace, first: usize) -> Result<Vec<Answer>, ResidentError> {
        self.cohort(0, trace, first)?;
        self.answers(0)
    }

    /// The device's time for one cohort alone, from its requests to its answers, in milliseconds,
    /// so many times.
    ///
    /// # Errors
    /// The device failed.
    pub fn latency_ms(&mut self, trace: &Trace, times: usize) -> Result<Vec<f32>, ResidentError> {
        let [begin, end] = self.marks;
        let lots = (trace.len() / self.options.cohort).max(1);
        let mut all = Vec::with_capacity(times);
        for time in 0..times {
            self.wait()?;
            let parser = lock(&self.parsers[0]).stream;
            self.gpu.record(parser, begin)?;
            self.cohort(0, trace, time % lots * self.options.cohort)?;
            self.gpu.record(self.contexts[0].stream, end)?;
            self.gpu.synchronize(self.contexts[0].stream)?;
            all.push(self.gpu.elapsed_ms(begin, end)?);
        }
        Ok(all)
    }

    /// Parses alone: lots of a cohort's size of a mixed trace, by all parser instances, up to
    /// requests sorted by page and the parameters of the page prepared for; gives the time.
    ///
    /// # Errors
    /// The device failed.
    pub fn parse(&mut self, trace: &Trace, lots: usize) -> Result<Duration, ResidentError> {
        self.wait()?;
        let size = self.options.cohort;
        let all = (trace.len() / size).max(1);
        let start = Instant::now();
        let launched = (0..lots).try_for_each(|lot| {
            let instance = lock(&self.parsers[lot % self.parsers.len()]);
            let lanes = self.contexts[lot % self.contexts.len()].lanes();
            // SAFETY: trace, parser and context outlive the streams, which are waited for below;
            // contexts are as many as parsers or more, or lots that share one write the same
            // places, which nobody reads.
            unsafe {
                parse(
                    &instance,
                    trace,
                    lot % all * size,
                    size,
                    self.options.transposes,
                    &lanes,
                )
            }
        });
        let waited = self.wait();
        let took = start.elapsed();
        launched?;
        waited?;
        Ok(took)
    }

    /// The answers of the last cohort of a context, as they would be sent.
    ///
    /// # Errors
    /// The device failed.
    pub fn answers(&mut self, context: usize) -> Result<Vec<Answer>, ResidentError> {
        self.wait()?;
        Ok(self.contexts[context].answers(self.options.layout, &self.service.fragments)?)
    }

    /// Bytes that the device writes for an answer of the page prepared for, with padding (layouts A
    /// to C) and heads, on average over the last cohort of the first context; and those that are
    /// the answer's own.
    ///
    /// # Errors
    /// The device failed.
    pub fn answer_bytes(&mut self) -> Result<[f64; 2], ResidentError> {
        self.wait()?;
        Ok(self.contexts[0].answer_bytes(self.options.layout)?)
    }

    /// Lanes of the last cohort of the first context that have their answer. Where they are fewer
    /// than its requests, the others failed or were left to the host, and a rate would count what
    /// was not done.
    ///
    /// # Errors
    /// The device failed.
    pub fn finished(&mut self) -> Result<usize, ResidentError> {
        self.wait()?;
        Ok(self.contexts[0].finished()?)
    }

    /// Waits until nothing is in flight.
    ///
    /// # Errors
    /// The device failed.
    pub fn wait(&self) -> Result<(), ResidentError> {
        for parser in &self.parsers {
            self.gpu.synchronize(lock(parser).stream)?;
        }
        for context in &self.contexts {
            self.gpu.synchronize(context.stream)?;
        }
        Ok(())
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // The memory must not go under running kernels; a device that failed runs none.
        let _ = self.wait();
    }
}

fn lock(instance: &Mutex<Instance>) -> std::sync::MutexGuard<'_, Instance> {
    instance.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Launches a cohort: parsing in a parser's stream, the rest in the context's.
fn run_cohort(
    gpu: &SharedGpu,
    shared: &Shared<'_>,
    parsers: &[Mutex<Instance>],
    context: &mut Context,
    index: usize,
    trace: &Trace,
    first: usize,
) -> Result<(), GpuError> {
    let options = shared.options;
    {
        let instance = lock(&parsers[index % parsers.len()]);
        gpu.wait(instance.stream, context.free)?;
        let lanes = context.lanes();
        // SAFETY: the trace and the parser outlive the stream, and the context's lanes are free by
        // the mark waited for.
        unsafe {
            parse(
                &instance,
                trace,
                first,
                options.cohort,
                options.transposes,
                &lanes,
            )?
        };
        gpu.record(instance.stream, context.parsed)?;
    }
    gpu.wait(context.stream, context.parsed)?;
    // SAFETY: the context is prepared, its lanes are parsed by the mark waited for.
    unsafe { context.process(shared, options.now * 1000)? };
    gpu.record(context.stream, context.free)
}

/// Launches the parsing of a lot of requests and of the parameters of one page's lanes.
///
/// # Safety
/// Trace and parser outlive the parser's stream; nobody else uses the lanes meanwhile.
unsafe fn parse(
    instance: &Instance,
    trace: &Trace,
    first: usize,
    count: usize,
    transposes: bool,
    lanes: &crate::parser::Lanes,
) -> Result<(), GpuError> {
    let Instance { stream, parser } = instance;
    let count = count.min(trace.count - first.min(trace.count)) as u32;
    let base = trace
        .bytes
        .address()
        .plus(first * trace.request_bytes as usize);
    let mut requests = parser.rows(base, trace.lengths.address().plus(first * 4), count);
    // SAFETY: the caller's promise.
    unsafe {
        if transposes {
            requests = parser.transpose(*stream, &requests)?;
        }
        parser.classify(*stream, &requests)?;
        parser.sort(*stream, count)?;
        parser.params(*stream, &requests, lanes)
    }
}
