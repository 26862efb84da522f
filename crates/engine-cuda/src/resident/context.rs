//! A context: a cohort in flight, and the launches from raw requests to answers.

use super::heads::{Heads, begin};
use super::host_backend::{Crossed, HostBackend};
use super::memory::{CohortMemory, PageNeeds};
use super::options::ResidentOptions;
use super::trace::Trace;
use crate::abi::stage::Code;
use crate::besim::BesimTables;
use crate::cohort::bodies::{Bodies, Destination, Starts};
use crate::cohort::stages::DeviceCohort;
use crate::gpu::{
    DeviceBuffer, GpuError, Mark, PinnedBuffer, Queue, Scope, SharedGpu, Stream, scope,
};
use crate::layout::Layout;
use crate::parser::{Parser, ParserTables};
use crate::service::DeviceService;
use crate::sessions::DeviceSessions;
use rhythm_besim::Bank;
use rhythm_engine::program::Service;
use std::sync::{Arc, Mutex, PoisonError};

/// What all cohorts share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) gpu: SharedGpu,
    pub(super) options: ResidentOptions,
    pub(super) service: Arc<Service>,
    pub(super) device: DeviceService,
    pub(super) tables: Arc<ParserTables>,
    pub(super) heads: Heads,
    pub(super) sessions: DeviceSessions,
    pub(super) besim: BesimTables,
    pub(super) bank: Bank,
    pub(super) case_tables: DeviceBuffer,
    /// 128 bits a lane.
    pub(super) randoms: Vec<[u64; 2]>,
}

/// A parser instance.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) stream: Stream,
    pub(super) parser: Parser,
    /// Held by the thread that puts work into the stream.
    pub(super) turn: Mutex<()>,
}

/// A cohort in flight.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) gpu: SharedGpu,
    pub(super) stream: Stream,
    /// `None` until it is prepared for a page.
    pub(super) memory: Option<CohortMemory>,
    backend: HostBackend,
    /// Where answers go on the host, in layout A, and what has crossed for the last cohort.
    arrived: PinnedBuffer,
    pub(super) crossed: Crossed,
    /// What is brought to the host to be looked at.
    pub(super) back: PinnedBuffer,
    /// Put where its memory is free for the next cohort, and where its requests have been parsed.
    free: Mark,
    parsed: Mark,
}

impl Context {
    pub(super) fn new(gpu: &SharedGpu) -> Result<Context, GpuError> {
        Ok(Context {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            memory: None,
            backend: HostBackend::new(gpu)?,
            arrived: PinnedBuffer::new(gpu, 0)?,
            crossed: Crossed::default(),
            back: PinnedBuffer::new(gpu, 0)?,
            free: gpu.mark()?,
            parsed: gpu.mark()?,
        })
    }

    /// Makes its memory that of a page's cohorts. Nothing of it is in flight.
    pub(super) fn prepare(&mut self, shared: &Shared, needs: &PageNeeds) -> Result<(), GpuError> {
        let program = &shared.service.pages[needs.index];
        let params = &shared.tables.pages()[needs.index];
        self.memory = Some(CohortMemory::new(
            &self.gpu,
            self.stream,
            &shared.options,
            &shared.device,
            (program, params, needs),
            &shared.randoms,
            self.memory.take(),
        )?);
        match shared.options.layout {
            Layout::A => self.arrived.grow_to(shared.options.cohort * needs.pitch),
            _ => Ok(()),
        }
    }

    /// Puts each lane's head and run together, which are not where its answer stays: for looking at
    /// them.
    pub(super) fn gather(&self, shared: &Shared) -> Result<(), GpuError> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let (bodies, to) = bodies(shared, memory, &memory.cohort(&shared.device));
        scope(&*self.gpu, &[self.stream], |scope| {
            bodies.render_row(&scope.queue(self.stream), &to, true)
        })
    }

    /// The context, to be launched in with these requests; nothing where it is not prepared.
    pub(super) fn launcher<'env>(
        &'env mut self,
        shared: &'env Shared,
        parser: &'env Instance,
        trace: &'env Trace,
    ) -> Option<Launcher<'env>> {
        Some(Launcher {
            shared,
            parser,
            trace,
            stream: self.stream,
            memory: self.memory.as_ref()?,
            backend: &mut self.backend,
            arrived: &self.arrived,
            crossed: &mut self.crossed,
            free: self.free,
            parsed: self.parsed,
        })
    }
}

/// A context whose memory is used by a scope's work.
#[derive(Debug)]
pub(super) struct Launcher<'env> {
    shared: &'env Shared,
    parser: &'env Instance,
    trace: &'env Trace,
    stream: Stream,
    memory: &'env CohortMemory,
    backend: &'env mut HostBackend,
    arrived: &'env PinnedBuffer,
    crossed: &'env mut Crossed,
    free: Mark,
    parsed: Mark,
}

impl<'env> Launcher<'env> {
    /// Launches a cohort of requests, from the `first` of the trace on: parsing in a parser's
    /// stream, the rest in the context's. In layout A requests come from the host and answers go
    /// there (paper, section 6.1.1), and it waits for the device at each call of the backend.
    pub(super) fn launch(&mut self, scope: &Scope<'_, 'env>, first: usize) -> Result<(), GpuError> {
        let Launcher {
            shared,
            parser,
            trace,
            memory,
            arrived,
            ..
        } = *self;
        let gpu = &*shared.gpu;
        let crosses = shared.options.layout == Layout::A;
        *self.crossed = Crossed::default();
        {
            let _turn = parser.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // The lanes are free for the parser where the context's last cohort is done,
            gpu.wait(parser.stream, self.free)?;
            if crosses {
                let (queue, count) = (scope.queue(parser.stream), shared.options.cohort);
                self.crossed.to_device += trace.arrive(&queue, first, count)?;
            }
            parse(scope, shared, parser, trace, first, memory)?;
            gpu.record(parser.stream, self.parsed)?;
        }
        // and the context's when they are parsed.
        gpu.wait(self.stream, self.parsed)?;
        let queue = scope.queue(self.stream);
        let cohort = memory.cohort(&shared.device);
        begin(&queue, memory.states(), &cohort)?;
        let now_ms = shared.options.now * 1000;
        if let Some([present, users]) = memory.session_fields() {
            let sessions = &shared.sessions;
            sessions.lookup(&queue, memory.keys(), now_ms, present, users)?;
        }
        let last = shared.device.pages[cohort.page].stages.len() - 1;
        for stage in 0..=last {
            run_stage(&queue, shared, &cohort, stage)?;
            if stage < last {
                if crosses {
                    let (offsets, bank) = (memory.offsets(), &shared.bank);
                    let call = (&cohort, stage);
                    (self.backend).answer(&queue, call, offsets, bank, self.crossed)?;
                } else {
                    cohort.answer(&queue, &shared.besim, stage)?;
                }
            }
        }
        end_sessions(&queue, shared, memory, &cohort, now_ms)?;
        render(&queue, shared, memory, &cohort)?;
        if crosses {
            let answers = memory.out();
            self.crossed.to_host += answers.len();
            queue.copy(arrived.first(answers.len()), answers)?;
        }
        gpu.record(self.stream, self.free)
    }
}

/// Launches the parsing of a lot of requests, up to the parameters of one page's lanes.
pub(super) fn parse<'env>(
    scope: &Scope<'_, 'env>,
    shared: &'env Shared,
    instance: &'env Instance,
    trace: &'env Trace,
    first: usize,
    memory: &'env CohortMemory,
) -> Result<(), GpuError> {
    let Instance { stream, parser, .. } = instance;
    let (bytes, lengths) = trace.part(first, shared.options.cohort);
    let mut requests = parser.rows(bytes, lengths);
    let queue = scope.queue(*stream);
    if shared.options.transposes {
        requests = parser.transpose(&queue, &requests)?;
    }
    parser
        .sort(&queue, &requests)?
        .params(&queue, &memory.lanes())
}

/// Decodes the answers that a stage waits for, and runs it.
fn run_stage<'m>(
    queue: &Queue<'m>,
    shared: &'m Shared,
    cohort: &DeviceCohort<'m>,
    stage: usize,
) -> Result<(), GpuError> {
    if stage > 0 {
        cohort.decode(queue, stage - 1)?;
    }
    let case_tables = shared.case_tables.first(shared.case_tables.len());
    cohort.run(queue, stage, shared.options.limits, case_tables)
}

/// Creates and ends the sessions that the lanes ask for.
fn end_sessions<'m>(
    queue: &Queue<'m>,
    shared: &'m Shared,
    memory: &'m CohortMemory,
    cohort: &DeviceCohort<'m>,
    now_ms: u64,
) -> Result<(), GpuError> {
    let page = &shared.device.pages[cohort.page].page;
    let does = |code: Code| {
        let mut all = page.stages.iter().flat_map(|stage| &stage.code);
        all.any(|instruction| instruction.code == code as u16)
    };
    let results = cohort.regions.results;
    if does(Code::SessionCreate) {
        let (randoms, created) = memory.new_sessions();
        (shared.sessions).create(queue, results, now_ms, randoms, created)?;
    }
    if does(Code::SessionDestroy) && memory.session_fields().is_some() {
        shared.sessions.destroy(queue, results, memory.keys())?;
    }
    Ok(())
}

/// Writes heads and bodies. Runs stay where the stage wrote them, and heads beside them: whoever
/// sends takes them from there, as it takes the fragments.
fn render<'m>(
    queue: &Queue<'m>,
    shared: &'m Shared,
    memory: &'m CohortMemory,
    cohort: &DeviceCohort<'m>,
) -> Result<(), GpuError> {
    let (heads, created) = (memory.heads(), memory.new_sessions().1);
    shared.heads.write(queue, cohort, created, &heads)?;
    let (bodies, to) = bodies(shared, memory, cohort);
    let tiles = memory.tiles();
    match shared.options.layout {
        Layout::Row => bodies.render_row(queue, &to, false),
        Layout::Runs => Ok(()),
        Layout::C => bodies.render_columns(queue, &tiles),
        Layout::A | Layout::B => {
            bodies.render_columns(queue, &tiles)?;
            bodies.transpose_columns(queue, &tiles, &to)
        }
    }
}

/// What a cohort's bodies are made of, and where they go.
fn bodies<'m>(
    shared: &'m Shared,
    memory: &'m CohortMemory,
    cohort: &DeviceCohort<'m>,
) -> (Bodies<'m>, Destination<'m>) {
    let bodies = Bodies {
        cohort: *cohort,
        heads: Some(shared.heads.of(cohort.page, memory.heads())),
    };
    let to = Destination {
        starts: Starts::Pitch(memory.needs.pitch),
        out: memory.out(),
        segments: None,
    };
    (bodies, to)
}
