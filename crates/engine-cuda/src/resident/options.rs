//! What the resident pipeline is made with, and what it refuses.

use crate::gpu::GpuError;
use crate::layout::Layout;
use rhythm_engine::device::LaneLimits;

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
