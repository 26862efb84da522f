//! The pipeline: contexts and parsers, the room that a page needs, and cohorts run on them.

use super::answer::Answer;
use super::context::{Context, Instance, Shared, parse};
use super::heads::Heads;
use super::memory::PageNeeds;
use super::options::{ResidentError, ResidentOptions};
use super::trace::Trace;
use crate::abi::Outcome;
use crate::besim::BesimTables;
use crate::case;
use crate::cohort::room::Room;
use crate::gpu::{GpuError, Mark, SharedGpu, Stream, scope};
use crate::layout::Layout;
use crate::parser::{Parser, ParserTables};
use crate::service::DeviceService;
use crate::sessions::DeviceSessions;
use crate::upload::upload;
use rhythm_besim::Bank;
use rhythm_engine::program::{Aside, Service};
use rhythm_protocol::http::response::SENDERS_HEADERS;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Rounds in which a page's cohorts are given more room before it is given up.
const ROUNDS_MAX: usize = 16;

/// Headers that the device writes itself, beside those of whoever sends.
const OWN_HEADERS: [&str; 2] = ["content-type", "cache-control"];

/// The pipeline. See the module.
#[derive(Debug)]
pub struct Resident {
    shared: Shared,
    parsers: Vec<Instance>,
    /// Bytes of a request's place in the traces that the parsers are for.
    request_bytes: usize,
    contexts: Vec<Context>,
    stream: Stream,
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
        let bank = Bank::new(options.users);
        let contexts = (0..options.in_flight.max(1)).map(|_| Context::new(gpu));
        Ok(Resident {
            shared: Shared {
                device: DeviceService::new(gpu, stream, service, options.layout.form(false))?,
                tables: Arc::new(ParserTables::new(gpu, stream, service)?),
                heads: Heads::new(gpu, stream, service, options.now)?,
                sessions: sessions(gpu, &options)?,
                besim: BesimTables::new(gpu, bank)?,
                bank,
                case_tables: upload(gpu, stream, case::tables())?,
                randoms: (0..options.cohort).map(|_| [random(), random()]).collect(),
                gpu: gpu.clone(),
                service: service.clone(),
                options,
            },
            parsers: Vec::new(),
            request_bytes: 0,
            contexts: contexts.collect::<Result<_, _>>()?,
            stream,
            marks: [gpu.mark()?, gpu.mark()?],
        })
    }

    /// Copies requests to the device, each in a place of the size of the largest.
    ///
    /// # Errors
    /// The device has no room, or failed.
    pub fn load(&self, requests: &[Vec<u8>]) -> Result<Trace, ResidentError> {
        Ok(Trace::new(&self.shared.gpu, self.stream, requests)?)
    }

    /// Forgets all sessions.
    ///
    /// # Errors
    /// The device failed.
    pub fn forget_sessions(&mut self) -> Result<(), ResidentError> {
        self.shared.sessions = sessions(&self.shared.gpu, &self.shared.options)?;
        Ok(())
    }

    /// Gets ready for a page: runs its requests, a cohort after the other, until each lane of each
    /// has the room it needs. What it answered last is the trace's last cohort.
    ///
    /// # Errors
    /// The device has no room, or failed; or the page's answers cannot be made on the device.
    pub fn prepare(&mut self, page: usize, trace: &Trace) -> Result<(), ResidentError> {
        let Shared {
            service,
            device,
            tables,
            heads,
            options,
            ..
        } = &self.shared;
        let (options, program) = (*options, &service.pages[page]);
        let name = program.name.clone();
        let refuse = |why| ResidentError::Page { page: name, why };
        let is_own = |aside: &Aside| match aside {
            Aside::Header(name) => {
                let mut own = OWN_HEADERS.iter().chain(&SENDERS_HEADERS);
                own.any(|own| name.eq_ignore_ascii_case(own))
            }
            Aside::Stored(_) | Aside::Flash | Aside::Proxy => true,
        };
        if program.asides.iter().any(is_own) {
            return Err(refuse("it replaces headers that the device writes itself"));
        }
        let mut needs = PageNeeds {
            index: page,
            head: heads.room(page, 64),
            pitch: 4096,
            param_text: tables.pages()[page].text_stride(trace.request_bytes() as u32),
            room: Room::guess(device.pages[page].page.stages.iter(), options.layout),
        };
        for _ in 0..ROUNDS_MAX {
            // One context finds out what is needed; the others get their memory once.
            self.ready(&needs, trace, 0..1)?;
            let mut has_grown = false;
            for lot in 0..trace.lots(options.cohort) {
                self.cohort(trace, lot * options.cohort)?;
                has_grown |= self.grow(&mut needs)?;
            }
            if !has_grown {
                return self.ready(&needs, trace, 1..self.contexts.len());
            }
        }
        Err(refuse("its lanes need more and more room"))
    }

    /// Makes parsers and some contexts fit a page and a trace.
    fn ready(
        &mut self,
        needs: &PageNeeds,
        trace: &Trace,
        which: Range<usize>,
    ) -> Result<(), ResidentError> {
        let Shared { gpu, options, .. } = &self.shared;
        if self.request_bytes != trace.request_bytes() {
            self.parsers.clear();
            for _ in 0..options.parsers.max(1) {
                let tables = self.shared.tables.clone();
                let (bytes, transposes) = (trace.request_bytes(), options.transposes);
                let parser = Parser::new(gpu, tables, options.cohort, bytes, transposes)?;
                let stream = gpu.stream()?;
                self.parsers.push(Instance {
                    stream,
                    parser,
                    turn: Mutex::default(),
                });
            }
            self.request_bytes = trace.request_bytes();
        }
        for context in &mut self.contexts[which] {
            context.prepare(&self.shared, needs)?;
        }
        Ok(())
    }

    /// Whether the cohort just run needs more room, which `needs` says then.
    fn grow(&mut self, needs: &mut PageNeeds) -> Result<bool, ResidentError> {
        let before = (needs.room, needs.pitch);
        let (results, [items, rows]) = self.contexts[0].results(&self.shared.device)?;
        let fit = |room: &mut u32, needed: u32| {
            if needed > *room {
                *room = needed.next_multiple_of(64);
            }
        };
        fit(&mut needs.room.items, items);
        fit(&mut needs.room.rows, rows);
        for result in results {
            match Outcome::of(result.outcome) {
                Outcome::Room => needs.room.grow(&result),
                Outcome::Finished => {
                    let body = match self.shared.options.layout {
                        Layout::Runs => result.run_length,
                        _ => result.body_length,
                    };
                    let answer = needs.head.length_max + body as usize;
                    needs.pitch = needs.pitch.max(answer.next_multiple_of(256));
                }
                _ => {}
            }
        }
        Ok((needs.room, needs.pitch) != before)
    }

    /// The streams of all parsers and contexts, of which one at least is.
    fn streams(&self) -> Vec<Stream> {
        let parsers = self.parsers.iter().map(|parser| parser.stream);
        let contexts = self.contexts.iter().map(|context| context.stream);
        parsers.chain(contexts).collect()
    }

    /// Runs a cohort of requests, from the `first` of the trace on, in the first context.
    fn cohort(&mut self, trace: &Trace, first: usize) -> Result<(), GpuError> {
        let streams = self.streams();
        let (shared, parser) = (&self.shared, &self.parsers[0]);
        let Some(mut context) = self.contexts[0].launcher(shared, parser, trace) else {
            return Ok(());
        };
        scope(&*shared.gpu, &streams, |scope| context.launch(scope, first))
    }

    /// Runs cohorts of the page prepared for, as many at a time as are in flight, going round the
    /// trace; gives the time from the first launch until all are done.
    ///
    /// # Errors
    /// The device failed.
    pub fn run(&mut self, trace: &Trace, cohorts: usize) -> Result<Duration, ResidentError> {
        let streams = self.streams();
        let (shared, parsers) = (&self.shared, &self.parsers);
        let size = shared.options.cohort;
        let contexts = self.contexts.iter_mut().enumerate();
        let contexts = contexts.map(|(index, context)| {
            context.launcher(shared, &parsers[index % parsers.len()], trace)
        });
        let Some(mut contexts) = contexts.collect::<Option<Vec<_>>>() else {
            return Ok(Duration::ZERO);
        };
        let in_flight = contexts.len();
        let first = |cohort: usize| cohort % trace.lots(size) * size;
        let start = Instant::now();
        scope(&*shared.gpu, &streams, |scope| {
            if shared.options.layout != Layout::A {
                return (0..cohorts).try_for_each(|cohort| {
                    contexts[cohort % in_flight].launch(scope, first(cohort))
                });
            }
            // Each waits for its cohort's requests to come to the host: a thread each.
            std::thread::scope(|threads| {
                let contexts = contexts.iter_mut().enumerate();
                let threads: Vec<_> = contexts
                    .map(|(index, context)| {
                        let mut own = (index..cohorts).step_by(in_flight);
                        threads.spawn(move || {
                            own.try_for_each(|cohort| context.launch(scope, first(cohort)))
                        })
                    })
                    .collect();
                let lost = "a thread of the backend has panicked";
                let lost = |_| Err(GpuError::Failed(lost.to_owned()));
                let mut threads = threads.into_iter();
                threads.try_for_each(|thread| thread.join().unwrap_or_else(lost))
            })
        })?;
        Ok(start.elapsed())
    }

    /// Runs one cohort of requests, from the `first` of the trace on, for its answers.
    ///
    /// # Errors
    /// The device failed.
    pub fn ask(&mut self, trace: &Trace, first: usize) -> Result<Vec<Answer>, ResidentError> {
        self.cohort(trace, first)?;
        self.answers(0)
    }

    /// The device's time for one cohort alone, from its requests to its answers, in milliseconds,
    /// so many times.
    ///
    /// # Errors
    /// The device failed.
    pub fn latency_ms(&mut self, trace: &Trace, times: usize) -> Result<Vec<f32>, ResidentError> {
        let [begin, end] = self.marks;
        let size = self.shared.options.cohort;
        let mut all = Vec::with_capacity(times);
        let streams = self.streams();
        let (shared, parser) = (&self.shared, &self.parsers[0]);
        let (gpu, last) = (&shared.gpu, self.contexts[0].stream);
        let Some(mut context) = self.contexts[0].launcher(shared, parser, trace) else {
            return Ok(all);
        };
        for time in 0..times {
            let first = time % trace.lots(size) * size;
            scope(&**gpu, &streams, |scope| {
                gpu.record(parser.stream, begin)?;
                context.launch(scope, first)?;
                gpu.record(last, end)
            })?;
            all.push(gpu.elapsed_ms(begin, end)?);
        }
        Ok(all)
    }

    /// Parses alone: lots of a cohort's size of a mixed trace, by all parser instances, up to
    /// requests sorted by page and the parameters of the page prepared for; gives the time.
    ///
    /// # Errors
    /// The device failed.
    pub fn parse(&mut self, trace: &Trace, lots: usize) -> Result<Duration, ResidentError> {
        let (shared, size) = (&self.shared, self.shared.options.cohort);
        let start = Instant::now();
        scope(&*shared.gpu, &self.streams(), |scope| {
            (0..lots).try_for_each(|lot| {
                let instance = &self.parsers[lot % self.parsers.len()];
                // Contexts are as many as parsers or more, or lots that share one write the same
                // places, which nobody reads.
                let Some(memory) = &self.contexts[lot % self.contexts.len()].memory else {
                    return Ok(());
                };
                let first = lot % trace.lots(size) * size;
                parse(scope, shared, instance, trace, first, memory)
            })
        })?;
        Ok(start.elapsed())
    }

    /// The answers of the last cohort of a context, as they would be sent.
    ///
    /// # Errors
    /// The device failed.
    pub fn answers(&mut self, context: usize) -> Result<Vec<Answer>, ResidentError> {
        let Shared {
            options, device, ..
        } = &self.shared;
        if options.layout == Layout::Runs {
            self.contexts[context].gather(&self.shared)?;
        }
        Ok(self.contexts[context].answers(options.layout, device)?)
    }

    /// Bytes that the device writes for an answer of the page prepared for, with padding (layouts A
    /// to C) and heads, on average over the last cohort of the first context; and those that are
    /// the answer's own.
    ///
    /// # Errors
    /// The device failed.
    pub fn answer_bytes(&mut self) -> Result<[f64; 2], ResidentError> {
        let Shared {
            options, device, ..
        } = &self.shared;
        Ok(self.contexts[0].answer_bytes(options.layout, device)?)
    }

    /// Bytes that crossed to the device and to the host for a request of the last cohort of the
    /// first context; none but in layout A.
    #[must_use]
    pub fn crossed_bytes(&self) -> [f64; 2] {
        let (crossed, cohort) = (self.contexts[0].crossed, self.shared.options.cohort);
        [crossed.to_device, crossed.to_host].map(|bytes| bytes as f64 / cohort as f64)
    }

    /// Lanes of the last cohort of the first context that have their answer. Where they are fewer
    /// than its requests, the others failed or were left to the host, and a rate would count what
    /// was not done.
    ///
    /// # Errors
    /// The device failed.
    pub fn finished(&mut self) -> Result<usize, ResidentError> {
        Ok(self.contexts[0].finished(&self.shared.device)?)
    }
}

/// An empty session array.
fn sessions(gpu: &SharedGpu, options: &ResidentOptions) -> Result<DeviceSessions, GpuError> {
    DeviceSessions::new(gpu, options.sessions, options.idle_timeout_ms)
}
