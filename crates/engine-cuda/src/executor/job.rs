//! A stage of a cohort under way: what is still to be run, how much room its lanes need, and what
//! has come of it so far.

use crate::abi::stage::LANE_BYTES_MAX;
use crate::cohort::room::Room;
use crate::program::Stage;
use crate::service::DeviceService;
use rhythm_engine::cohort::LaneError;
use rhythm_engine::device::{LaneLimits, Work};
use std::sync::Arc;

/// A piece of work that the executor has taken. Its cohort's queries are those of lanes that are
/// done.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// The stage it begins with, and the last that is run before the host is needed again.
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// Active lanes that are still to be run, in rising order.
    pub(crate) pending: Vec<u32>,
    /// How many of them, from the front, are in the launch under way.
    pub(crate) launched: usize,
    /// Lanes that the host must run.
    pub(crate) host: Vec<u32>,
    pub(crate) room: Room,
    pub(crate) limits: LaneLimits,
    /// Its service on the device.
    pub(crate) service: Arc<DeviceService>,
}

impl Job {
    /// Whether it has operations that only the host does, or more text than the device can count.
    pub(crate) fn needs_host(&self) -> bool {
        self.work.cohort.arena.bytes().len() > LANE_BYTES_MAX
            || self.stages().any(|stage| stage.needs_host)
    }

    /// What the device may say of lanes where the host would not: it makes anew what the host
    /// appends to, and counts less than limits may be set to.
    pub(crate) fn doubted(&self) -> [Option<LaneError>; 2] {
        let LaneLimits {
            body_bytes_max,
            text_bytes_max,
            ..
        } = self.limits;
        let appends = self.stages().any(|stage| stage.appends);
        [
            (appends || text_bytes_max > LANE_BYTES_MAX).then_some(LaneError::TooMuchText),
            (body_bytes_max > LANE_BYTES_MAX).then_some(LaneError::TooLarge),
        ]
    }

    fn stages(&self) -> impl Iterator<Item = &Stage> {
        let page = &self.service.pages[self.work.page].page;
        page.stages[self.first..=self.last].iter()
    }
}
