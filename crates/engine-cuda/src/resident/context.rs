//! A context: a cohort in flight, and the launches from raw requests to answers.
#![allow(unsafe_code)]

use super::heads::{Heads, begin};
use super::host_backend::HostBackend;
use super::memory::{CohortMemory, PagePlan};
use super::options::ResidentOptions;
use super::trace::Trace;
use crate::abi::stage::Code;
use crate::besim::BesimTables;
use crate::cohort::bodies::{Bodies, Destination, Starts};
use crate::cohort::stages::DeviceCohort;
use crate::gpu::{DeviceBuffer, GpuError, Mark, PinnedBuffer, Queue, SharedGpu, Stream};
use crate::layout::Layout;
use crate::parser::{Parser, ParserTables};
use crate::service::DeviceService;
use crate::sessions::DeviceSessions;
use rhythm_besim::Bank;
use rhythm_engine::program::Service;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

/// A parser instance that no other thread puts work to meanwhile.
pub(super) fn lock(instance: &Mutex<Instance>) -> MutexGuard<'_, Instance> {
    instance.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cohort in flight.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) gpu: SharedGpu,
    pub(super) stream: Stream,
    /// `None` until it is prepared for a page.
    pub(super) memory: Option<CohortMemory>,
    backend: HostBackend,
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
            back: PinnedBuffer::new(gpu, 0)?,
            free: gpu.mark()?,
            parsed: gpu.mark()?,
        })
    }

    /// Makes its memory that of a page's cohorts. Nothing of it is in flight.
    pub(super) fn prepare(&mut self, shared: &Shared, plan: &PagePlan) -> Result<(), GpuError> {
        let program = &shared.service.pages[plan.index];
        let params = &shared.tables.pages()[plan.index];
        self.memory = Some(CohortMemory::new(
            &self.gpu,
            self.stream,
            &shared.options,
            &shared.device,
            (program, params, plan),
            &shared.randoms,
            self.memory.take(),
        )?);
        Ok(())
    }

    /// Launches a cohort of requests, from the `first` of the trace on: parsing in a parser's
    /// stream, the rest in the context's. With the backend on the host it waits for the device at
    /// each call. Nothing where it is not prepared.
    ///
    /// # Safety
    /// Context, trace, parser and what is shared stay as they are, but for their use by other
    /// contexts, until the context's stream has been waited for.
    pub(super) unsafe fn launch(
        &mut self,
        shared: &Shared,
        instance: &Mutex<Instance>,
        trace: &Trace,
        first: usize,
    ) -> Result<(), GpuError> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let gpu = &*self.gpu;
        {
            let instance = lock(instance);
            gpu.wait(instance.stream, self.free)?;
            // SAFETY: the caller's promise; the lanes are free by the mark waited for.
            unsafe { parse(shared, &instance, trace, first, memory)? };
            gpu.record(instance.stream, self.parsed)?;
        }
        gpu.wait(self.stream, self.parsed)?;
        // SAFETY: the caller's promise; the lanes are parsed by the mark waited for.
        let queue = unsafe { Queue::new(gpu, self.stream) };
        let cohort = memory.cohort(&shared.device);
        queue.fill(cohort.rows_needed, 0)?;
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
                match shared.options.layout {
                    // SAFETY: the caller's promise.
                    Layout::A => unsafe {
                        let (backend, offsets) = (&mut self.backend, memory.offsets());
                        backend.answer(gpu, self.stream, &cohort, offsets, &shared.bank)?;
                    },
                    _ => cohort.answer(&queue, &shared.besim)?,
                }
            }
        }
        end_sessions(&queue, shared, memory, &cohort, now_ms)?;
        render(&queue, shared, memory, &cohort)?;
        gpu.record(self.stream, self.free)
    }
}

/// Launches the parsing of a lot of requests, up to the parameters of one page's lanes.
///
/// # Safety
/// As of [`Context::launch`], until the parser's stream has been waited for.
pub(super) unsafe fn parse(
    shared: &Shared,
    instance: &Instance,
    trace: &Trace,
    first: usize,
    memory: &CohortMemory,
) -> Result<(), GpuError> {
    let Instance { stream, parser } = instance;
    let (bytes, lengths) = trace.part(first, shared.options.cohort);
    let mut requests = parser.rows(bytes, lengths);
    // SAFETY: the caller's promise.
    let queue = unsafe { Queue::new(&*shared.gpu, *stream) };
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
        cohort.decode(queue, stage - 1, None)?;
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

/// Writes heads and bodies.
fn render<'m>(
    queue: &Queue<'m>,
    shared: &'m Shared,
    memory: &'m CohortMemory,
    cohort: &DeviceCohort<'m>,
) -> Result<(), GpuError> {
    let (heads, created) = (memory.heads(), memory.new_sessions().1);
    shared.heads.write(queue, cohort, created, &heads)?;
    let to = Destination {
        starts: Starts::Pitch(memory.plan.pitch),
        out: memory.out(),
        segments: None,
    };
    let bodies = Bodies {
        cohort: *cohort,
        heads: Some(heads),
    };
    let tiles = memory.tiles();
    match shared.options.layout {
        Layout::Row => bodies.render_row(queue, &to, false),
        Layout::Runs => bodies.render_row(queue, &to, true),
        Layout::C => bodies.render_columns(queue, &tiles),
        Layout::A | Layout::B => {
            bodies.render_columns(queue, &tiles)?;
            bodies.transpose_columns(queue, &tiles, &to)
        }
    }
}
