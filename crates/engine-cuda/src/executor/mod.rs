//! The executor on a GPU: stages of cohorts, several in flight, each in a slot with a stream of its
//! own.
//!
//! ```text
//!   submit: a free slot takes the work, packs its columns, launches  ─┐ (Busy if there is none)
//!   ... the device calls back, `wake` wakes the event loop ...        │
//!   poll: lanes that are done are unpacked into the cohort;          ─┘
//!         lanes whose share of the memory was too small are launched again with more;
//!         lanes that only the host can run (floats to a power) are run by the host executor,
//!         as are stages with operations that the device has not
//! ```
//! With the backend on the device (layouts B and on, where all calls that a page has left go to the
//! embedded BeSim) one launch goes through all stages of the page.
//!
//! A device that fails takes nothing along: a cohort's columns stay on the host until its stage is
//! done, so the host executor runs what was in flight, and everything after it.

mod job;
mod options;
mod slot;
mod unpack;

pub use options::Options;

use crate::besim::{BesimTables, embedded_users};
use crate::case;
use crate::cohort::room::Room;
use crate::gpu::{GpuError, SharedGpu, Stream};
use crate::layout::Layout;
use crate::service::DeviceService;
use crate::upload::upload;
use job::Job;
use rhythm_besim::Bank;
use rhythm_engine::cohort::{Cohort, LaneState};
use rhythm_engine::device::host::HostExecutor;
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_engine::program::Service;
use rhythm_protocol::scan::Level;
use slot::{Shared, Slot, Wake};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// What an executor has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Launches of a cohort, or of a part of one.
    pub launches: u64,
    /// Lanes launched, each time counted.
    pub lanes: u64,
    /// Lanes launched again, with more room.
    pub again: u64,
    /// Lanes that the host ran: because only it can, or for want of device memory.
    pub on_host: u64,
}

/// A service that has been met, and what its cohorts were found to need.
#[derive(Debug)]
struct Known {
    service: Weak<Service>,
    /// Where it found room on the device.
    device: Option<Arc<DeviceService>>,
    /// Where it found none: how many of its stages the host runs before it is tried again.
    host_runs: u32,
    /// By page and first stage.
    rooms: HashMap<(usize, usize), Room>,
}

/// Stages of a service without room on the device after which it is tried again: what is uploaded
/// is put together anew for that, which takes as long as many of them do.
const HOST_RUNS: u32 = 1000;

/// The executor. See the module.
pub struct CudaExecutor {
    gpu: SharedGpu,
    wake: Wake,
    shared: Arc<Shared>,
    services: Vec<Known>,
    slots: Vec<Slot>,
    upload_stream: Stream,
    done: Vec<Work>,
    in_flight: usize,
    host: HostExecutor,
    /// The bank that answers for lanes which the host runs through to their end.
    bank: Option<Bank>,
    lost: Option<GpuError>,
    statistics: Statistics,
}

impl std::fmt::Debug for CudaExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaExecutor")
            .field("gpu", &self.gpu)
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl CudaExecutor {
    /// An executor on this GPU. `wake` is called, from any thread, when there is something to poll.
    ///
    /// # Errors
    /// The device has no room, or failed.
    pub fn new(gpu: SharedGpu, options: Options, wake: Wake) -> Result<CudaExecutor, GpuError> {
        let upload_stream = gpu.stream()?;
        let bank = options
            .besim_users
            .filter(|_| options.layout != Layout::A)
            .map(Bank::new);
        let shared = Arc::new(Shared {
            options,
            case_tables: upload(&gpu, upload_stream, case::tables())?,
            besim: bank.map(|bank| BesimTables::new(&gpu, bank)).transpose()?,
        });
        let slots = (0..options.in_flight.max(1))
            .map(|_| Slot::new(&gpu, &shared))
            .collect::<Result<_, _>>()?;
        Ok(CudaExecutor {
            gpu,
            wake,
            shared,
            services: Vec::new(),
            slots,
            upload_stream,
            done: Vec::new(),
            in_flight: 0,
            host: HostExecutor::new(options.limits, Level::active())
                .in_passes_of(options.pass_work_max),
            bank,
            lost: None,
            statistics: Statistics::default(),
        })
    }

    /// Why the device was given up, if it was.
    #[must_use]
    pub fn lost(&self) -> Option<&GpuError> {
        self.lost.as_ref()
    }

    /// What it has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The service, where it is on the device: uploaded when it is met first, and now and then
    /// tried again where it found no room; forgotten when nobody serves it any more.
    fn known(&mut self, service: &Arc<Service>) -> Option<(usize, Arc<DeviceService>)> {
        let is_it = |known: &Known| std::ptr::eq(known.service.as_ptr(), Arc::as_ptr(service));
        let found = self.services.iter().position(is_it);
        if let Some(index) = found {
            let known = &mut self.services[index];
            if let Some(device) = &known.device {
                return Some((index, device.clone()));
            }
            if known.host_runs > 0 {
                known.host_runs -= 1;
                return None;
            }
        }
        // What nobody serves any more makes room.
        self.services
            .retain(|known| known.service.strong_count() > 0 && !is_it(known));
        let form = self.shared.options.layout.form(true);
        let made = DeviceService::new(&self.gpu, self.upload_stream, service, form);
        let device = match made {
            Ok(device) => Some(Arc::new(device)),
            Err(GpuError::OutOfMemory(_)) if found.is_some() => None,
            Err(error) => {
                self.trouble(&error, "a service");
                None
            }
        };
        self.services.push(Known {
            service: Arc::downgrade(service),
            device: device.clone(),
            host_runs: HOST_RUNS,
            rooms: HashMap::new(),
        });
        Some((self.services.len() - 1, device?))
    }

    /// The job that a piece of work is; the work, where its service is not on the device.
    #[allow(clippy::result_large_err)]
    fn job(&mut self, work: Work) -> Result<Job, Work> {
        debug_assert!(work.cohort.queries.is_empty(), "none is left of a call");
        let Some((index, service)) = self.known(&work.service) else {
            return Err(work);
        };
        let known = &mut self.services[index];
        let program = work.program();
        let first = work.cohort.stage;
        let is_on_device = self.bank.as_ref().is_some_and(|bank| {
            let mut calls = program.calls[first..].iter();
            calls.all(|call| is_embedded(&work.service, call.backend, bank))
        });
        let last = if is_on_device {
            program.stages.len() - 1
        } else {
            first
        };
        let stages = &service.pages[work.page].page.stages[first..=last];
        let room = *(known.rooms.entry((work.page, first)))
            .or_insert_with(|| Room::guess(stages.iter(), self.shared.options.layout));
        let pending = active_lanes(&work.cohort).collect();
        Ok(Job {
            first,
            last,
            pending,
            launched: 0,
            host: Vec::new(),
            room,
            limits: self.shared.options.limits,
            service,
            work,
        })
    }

    /// What an error means: the device is lost, or has no room for this.
    fn trouble(&mut self, error: &GpuError, what: &str) {
        if matches!(error, GpuError::OutOfMemory(_)) {
            tracing::warn!(%error, "the host runs {what}");
        } else {
            self.lose(error);
        }
    }

    /// Runs a stage on the host in place of the device.
    fn submit_to_host(&mut self, work: Work) -> Result<(), Refusal> {
        self.host.submit(work)?;
        self.host.poll(&mut self.done);
        self.in_flight += 1;
        (self.wake)();
        Ok(())
    }

    /// Launches what a job has pending in a slot; what cannot be launched is the host's.
    fn launch(&mut self, slot: usize, job: Job) {
        match self.slots[slot].launch(job, &self.wake) {
            Ok(lanes) => {
                self.statistics.launches += 1;
                self.statistics.lanes += lanes as u64;
            }
            Err((job, error)) => {
                self.trouble(&error, "a cohort");
                self.finish_on_host(job);
            }
        }
    }

    /// The host runs what a job has pending.
    fn finish_on_host(&mut self, mut job: Job) {
        let pending = std::mem::take(&mut job.pending);
        job.host.extend(pending);
        self.finish(job);
    }

    /// The device is lost: from now on the host runs everything.
    fn lose(&mut self, error: &GpuError) {
        if self.lost.is_none() {
            tracing::error!(%error, "the GPU is lost: the host renders from now on");
            self.lost = Some(error.clone());
        }
    }

    /// All lanes are done on the device: the host runs what is left to it, and the work is done.
    fn finish(&mut self, job: Job) {
        self.statistics.on_host += job.host.len() as u64;
        let work = unpack::finish(job, &mut self.host, self.bank.as_ref());
        self.done.push(work);
        (self.wake)();
    }

    /// Takes what a slot's launch has delivered.
    fn collect(&mut self, index: usize, outcome: Result<(), GpuError>) {
        let slot = &mut self.slots[index];
        let mut job = slot.take_job();
        if let Err(error) = outcome {
            self.lose(&error);
            return self.finish_on_host(job);
        }
        let layout = self.shared.options.layout;
        unpack::unpack(&mut job, &slot.delivered(), layout);
        // Remembered for the next cohort of the page.
        let same = |known: &&mut Known| {
            let device = known.device.as_ref();
            device.is_some_and(|device| Arc::ptr_eq(device, &job.service))
        };
        if let Some(known) = self.services.iter_mut().find(same)
            && let Some(room) = known.rooms.get_mut(&(job.work.page, job.first))
        {
            room.remember(&job.room);
        }
        if job.pending.is_empty() {
            self.finish(job);
        } else {
            self.statistics.again += job.pending.len() as u64;
            self.launch(index, job);
        }
    }
}

/// Whether a call's backend is the embedded BeSim of this bank, which the device has, too.
fn is_embedded(service: &Service, backend: usize, bank: &Bank) -> bool {
    let config = service.backends.get(backend);
    config.and_then(embedded_users) == Some(bank.users())
}

/// The lanes that take part in the next stage, in rising order.
fn active_lanes(cohort: &Cohort) -> impl Iterator<Item = u32> {
    let is_active = |(_, state): &(u32, &LaneState)| **state == LaneState::Active;
    let lanes = (0u32..).zip(&cohort.lanes).filter(is_active);
    lanes.map(|(lane, _)| lane)
}

impl Executor for CudaExecutor {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        if self.lost.is_some() || !work.cohort.has_active() || work.cohort.is_between_passes() {
            // All once there is no device, stages without lanes, and for lanes that the host left
            // out: beside them others wait with their queries for the same call.
            return self.submit_to_host(work);
        }
        let Some(slot) = self.slots.iter().position(|slot| !slot.is_busy()) else {
            return Err(Refusal::Busy(work));
        };
        match self.job(work) {
            Ok(job) => {
                self.in_flight += 1;
                if job.needs_host() {
                    self.finish_on_host(job);
                } else {
                    self.launch(slot, job);
                }
                Ok(())
            }
            Err(work) => {
                self.statistics.on_host += active_lanes(&work.cohort).count() as u64;
                self.submit_to_host(work)
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        for index in 0..self.slots.len() {
            if let Some(outcome) = self.slots[index].take_completed() {
                self.collect(index, outcome);
            }
        }
        self.in_flight -= self.done.len();
        done.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}
