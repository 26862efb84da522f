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
#![allow(unsafe_code)]

mod input;
mod output;
mod plan;

pub(crate) use output::Delivered;

use super::job::Job;
use crate::besim::{ANSWER_BYTES, BesimTables};
use crate::cohort::bodies::Tiles;
use crate::cohort::stages::DeviceCohort;
use crate::gpu::{DeviceBuffer, GpuError, Queue, SharedGpu, Stream};
use crate::layout::Layout;
use input::Input;
use output::Output;
use plan::Plan;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is called when a slot's launch has ended.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// What a completion tells.
#[derive(Debug, Default)]
struct Completed {
    done: AtomicBool,
    error: Mutex<Option<GpuError>>,
}

impl Completed {
    fn tell(&self, outcome: Result<(), GpuError>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = outcome.err();
        self.done.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Result<(), GpuError>> {
        if !self.done.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        Some(error.take().map_or(Ok(()), Err))
    }
}

/// What all jobs of an executor share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) layout: Layout,
    /// Most memory for the lanes of one launch.
    pub(crate) launch_bytes: usize,
    pub(crate) case_tables: DeviceBuffer,
    /// The backend on the device.
    pub(crate) besim: Option<BesimTables>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slot {
    gpu: SharedGpu,
    stream: Stream,
    input: Input,
    regions: DeviceBuffer,
    tiles: DeviceBuffer,
    output: Output,
    completed: Arc<Completed>,
    pub(crate) job: Option<Job>,
}

impl Slot {
    /// A slot with memory for cohorts of so many lanes of a usual page.
    pub(crate) fn new(gpu: &SharedGpu, shared: &Shared, lanes: usize) -> Result<Slot, GpuError> {
        // What Banking's pages need at most, and round.
        let answers = shared.besim.as_ref().map_or(0, |_| ANSWER_BYTES as usize);
        let columns = if shared.layout.is_column() {
            Tiles::bytes(lanes, 2048)
        } else {
            0
        };
        let body = match shared.layout {
            Layout::Runs => 2 << 10,
            _ => 32 << 10,
        };
        Ok(Slot {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            input: Input::new(gpu, lanes, answers)?,
            regions: DeviceBuffer::new(gpu, lanes * 8192)?,
            tiles: DeviceBuffer::new(gpu, columns)?,
            output: Output::new(gpu, lanes, body)?,
            completed: Arc::default(),
            job: None,
        })
    }

    /// Whether the launch under way has ended, and how.
    pub(crate) fn take_completed(&mut self) -> Option<Result<(), GpuError>> {
        self.completed.take()
    }

    /// Waits for whatever the stream has been given: before memory that a failed launch may still
    /// use is touched.
    pub(crate) fn drain(&self) {
        // An error means that nothing runs any more.
        let _ = self.gpu.synchronize(self.stream);
    }

    /// Launches as many of the job's pending lanes as there is room for. Where it fails, some of it
    /// may have been put into the stream: [`Slot::drain`] ends that.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]: there is no room for a single one, or the device has none.
    pub(crate) fn launch(
        &mut self,
        job: &mut Job,
        shared: &Shared,
        wake: &Wake,
    ) -> Result<(), GpuError> {
        let page = &job.service.pages[job.work.page];
        let stages = &page.stages[job.first..=job.last];
        let registers = stages.iter().map(|stage| stage.registers).max();
        let registers = registers.unwrap_or(0);
        let plan = Plan::new(job, shared.layout, shared.launch_bytes, registers)?;
        // All memory before anything is put into the stream.
        self.input.pack(job, &page.page, &plan)?;
        self.regions.grow(plan.region_bytes)?;
        self.tiles.grow(plan.tile_bytes)?;
        self.output.make_room(&job.room, &plan, &self.input)?;
        job.launched = plan.lanes;
        self.fill(job, shared, &plan)?;
        let (completed, wake) = (self.completed.clone(), wake.clone());
        let call = move |outcome| {
            completed.tell(outcome);
            wake();
        };
        self.gpu.on_completion(self.stream, Box::new(call))
    }

    /// Puts a launch into the stream.
    fn fill<'m>(&'m self, job: &'m Job, shared: &'m Shared, plan: &Plan) -> Result<(), GpuError> {
        // SAFETY: what is borrowed are this slot's buffers, which are left alone until the
        // completion has been taken or `drain` has waited; the service, which the job holds until
        // then; and what the executor's jobs share, which goes after the slots are drained.
        let queue = unsafe { Queue::new(&*self.gpu, self.stream) };
        let cohort = self.cohort(job, plan);
        let tiles = Tiles {
            units: self.tiles.first(plan.tile_bytes),
            rows_used: self.regions.slice(plan.tile_rows),
            rows: job.room.rows,
        };
        self.input.copy(&queue)?;
        queue.fill(cohort.regions.results, 0)?;
        let case_tables = shared.case_tables.first(shared.case_tables.len());
        for stage in job.first..=job.last {
            if stage > 0 {
                let from_host = (stage == job.first).then(|| self.input.answers());
                cohort.decode(&queue, stage - 1, from_host)?;
            }
            cohort.run(&queue, stage, job.limits, case_tables)?;
            if let (true, Some(besim)) = (stage < job.last, &shared.besim) {
                cohort.answer(&queue, besim)?;
            }
        }
        let offsets = self.regions.slice(plan.offsets);
        (self.output).deliver(&queue, &cohort, plan.layout, &tiles, offsets)?;
        if plan.decoded_back {
            self.output.bring_back(&queue, &self.input)?;
        }
        Ok(())
    }

    /// The part of the job's cohort that a launch takes.
    fn cohort<'m>(&'m self, job: &'m Job, plan: &Plan) -> DeviceCohort<'m> {
        DeviceCohort {
            service: &job.service,
            page: job.work.page,
            regions: plan.regions.of(&self.regions, &job.room.shares),
            lane_list: Some(self.input.lane_list()),
            lane_count: None,
            columns: self.input.columns(),
            arena: self.input.arena(),
            text_base: plan.text_base,
            answer_base: plan.answer_base,
            item_stride: job.room.items,
            rows_needed: self.input.rows_needed(),
        }
    }

    /// What the launch delivered; it has been taken as completed.
    pub(crate) fn delivered(&self) -> Delivered<'_> {
        // SAFETY: the launch has completed, and the next one begins when the borrow has ended.
        unsafe { self.output.delivered(&self.input) }
    }
}
