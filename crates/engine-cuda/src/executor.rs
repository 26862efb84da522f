//! To be written.

use crate::gpu::{GpuError, SharedGpu};
pub use crate::layout::Layout;
use rhythm_engine::device::host::Host;
use rhythm_engine::device::{Executor, LaneLimits, Refusal, Work};
use std::sync::Arc;

/// What an executor is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How answers are made.
    pub layout: Layout,
    /// Bounds of a lane.
    pub limits: LaneLimits,
    /// Cohorts at a time.
    pub in_flight: usize,
    /// Users of the backend on the device, if it is there.
    pub besim_users: Option<u32>,
}

/// A placeholder.
#[derive(Debug)]
pub struct CudaExecutor {
    host: Host,
}

impl CudaExecutor {
    /// A placeholder.
    ///
    /// # Errors
    /// None.
    pub fn new(
        _gpu: SharedGpu,
        options: Options,
        _wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<CudaExecutor, GpuError> {
        let level = rhythm_protocol::scan::Level::active();
        Ok(CudaExecutor {
            host: Host::new(options.limits, level),
        })
    }
}

impl Executor for CudaExecutor {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        self.host.submit(work)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        self.host.poll(done)
    }

    fn in_flight(&self) -> usize {
        self.host.in_flight()
    }
}
