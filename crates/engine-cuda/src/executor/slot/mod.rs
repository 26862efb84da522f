//! A slot: a stream and the memory in which one job at a time runs on the device.
//!
//! ```text
//!   host columns --pack--> input, arena --copy--> device
//!     decode_answers, run_stage (and besim, decode, run_stage ... where the backend is on the
//!     device)
//!     lane_offsets, deliver_texts, render_* --> out, written by the kernels in the host's memory
//!   offsets, counters, decoded columns --copy--> back
//! ```
//! All memory is the slot's own, grows to what its jobs need and is kept.

mod footprint;
mod input;
mod output;

pub(crate) use output::Delivered;

use super::job::Job;
use crate::besim::{ANSWER_BYTES, BesimTables};
use crate::cohort::bodies::Tiles;
use crate::cohort::stages::DeviceCohort;
use crate::executor::options::Options;
use crate::gpu::{DeviceBuffer, GpuError, Lent, Queue, SharedGpu};
use footprint::Footprint;
use input::Input;
use output::Output;
use std::sync::Arc;

/// What is called when a slot's launch has ended.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// What all jobs of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) case_tables: DeviceBuffer,
    /// The backend on the device.
    pub(crate) besim: Option<BesimTables>,
}

/// What a launch uses: memory that is the slot's own, what all share, and its job with the service.
#[derive(Debug)]
struct Memory {
    shared: Arc<Shared>,
    input: Input,
    regions: DeviceBuffer,
    tiles: DeviceBuffer,
    output: Output,
    job: Option<Job>,
}

const HAS_JOB: &str = "a job is put in before a launch, and taken once after it";

/// See the module.
#[derive(Debug)]
pub(crate) struct Slot {
    memory: Lent<Memory>,
}

impl Slot {
    /// A slot with memory for usual cohorts.
    pub(crate) fn new(gpu: &SharedGpu, shared: &Arc<Shared>) -> Result<Slot, GpuError> {
        let (options, first) = (&shared.options, shared.options.first_bytes());
        let lanes = options.cohort;
        // What Banking's pages need at most, and round.
        let answers = shared.besim.as_ref().map_or(0, |_| ANSWER_BYTES as usize);
        let columns = if options.layout.is_column() {
            Tiles::bytes(lanes, 2048)
        } else {
            0
        };
        let memory = Memory {
            shared: shared.clone(),
            input: Input::new(gpu, lanes, &first, answers)?,
            regions: DeviceBuffer::new(gpu, lanes * 8192)?,
            tiles: DeviceBuffer::new(gpu, columns)?,
            output: Output::new(gpu, lanes, &first)?,
            job: None,
        };
        Ok(Slot {
            memory: Lent::new(gpu, memory)?,
        })
    }

    /// Whether a launch is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.memory.is_lent()
    }

    /// Whether the launch under way has ended, and how; its job is to be taken then.
    pub(crate) fn take_completed(&mut self) -> Option<Result<(), GpuError>> {
        self.memory.take_back()
    }

    /// The job whose launch has ended.
    ///
    /// # Panics
    /// It has been taken.
    pub(crate) fn take_job(&mut self) -> Job {
        let job = self.memory.memory().job.take();
        job.expect(HAS_JOB)
    }

    /// Launches as many of the job's pending lanes as there is room for; gives how many. Where it
    /// fails, what of it was put into the stream has been waited for.
    ///
    /// # Errors
    /// With the job, [`GpuError::OutOfMemory`]: there is no room for a single one, or the device
    /// has none; or the device failed.
    #[allow(clippy::result_large_err)]
    pub(crate) fn launch(&mut self, job: Job, wake: &Wake) -> Result<usize, (Job, GpuError)> {
        let memory = self.memory.memory();
        memory.job = Some(job);
        let launched = memory.make_ready().and_then(|footprint| {
            let wake = wake.clone();
            let call = move || wake();
            (self.memory).lend(|queue, memory| memory.fill(queue, &footprint), call)?;
            Ok(footprint.lanes)
        });
        launched.map_err(|error| {
            self.memory.wait();
            (self.take_job(), error)
        })
    }

    /// What the launch delivered; it has been taken as completed.
    pub(crate) fn delivered(&mut self) -> Delivered<'_> {
        self.memory.memory().output.delivered()
    }
}

impl Memory {
    /// Finds how much a launch takes, makes all room for it and packs its input, before anything is
    /// put into the stream.
    fn make_ready(&mut self) -> Result<Footprint, GpuError> {
        let job = self.job.as_mut().expect(HAS_JOB);
        let footprint = Footprint::new(job, &self.shared.options)?;
        self.input.pack(job, &footprint)?;
        self.regions.grow(footprint.region_bytes)?;
        self.tiles.grow(footprint.tile_bytes)?;
        self.output.make_room(&job.room, &footprint)?;
        debug_assert!(
            self.input.host_bytes() + self.output.host_bytes()
                <= self.shared.options.slot_bytes_max(&job.work.service),
            "no cohort of a server has more"
        );
        job.launched = footprint.lanes;
        Ok(footprint)
    }

    /// Puts a launch into the stream.
    fn fill<'m>(&'m self, queue: &Queue<'m>, footprint: &Footprint) -> Result<(), GpuError> {
        let (job, shared) = (self.job.as_ref().expect(HAS_JOB), &*self.shared);
        let cohort = self.cohort(job, footprint);
        let tiles = Tiles {
            units: self.tiles.first(footprint.tile_bytes),
            rows_used: self.regions.slice(footprint.tile_rows),
            rows: job.room.rows,
        };
        self.input.copy(queue)?;
        queue.fill(cohort.regions.results, 0)?;
        let case_tables = shared.case_tables.first(shared.case_tables.len());
        for stage in job.first..=job.last {
            if stage > job.first {
                cohort.decode(queue, stage - 1)?;
            }
            cohort.run(queue, stage, job.limits, case_tables)?;
            if let (true, Some(besim)) = (stage < job.last, &shared.besim) {
                cohort.answer(queue, besim, stage - job.first)?;
            }
        }
        let offsets = self.regions.slice(footprint.offsets);
        (self.output).deliver(queue, &cohort, footprint.layout, &tiles, offsets)
    }

    /// The part of the job's cohort that a launch takes.
    fn cohort<'m>(&'m self, job: &'m Job, footprint: &Footprint) -> DeviceCohort<'m> {
        DeviceCohort {
            service: &job.service,
            page: job.work.page,
            regions: footprint.regions.of(&self.regions, &job.room.shares),
            lane_list: Some(self.input.lane_list()),
            lane_count: None,
            columns: self.input.columns(),
            arena: self.input.arena(),
            text_base: footprint.text_base,
            answer_base: footprint.answer_base,
            item_stride: job.room.items,
            item_pitch: job.work.cohort.len() as u32,
            rows_needed: self.input.rows_needed(),
        }
    }
}
