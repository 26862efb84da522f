//! A stage of a cohort under way: what is still to be run, how much room its lanes need, and what
//! has come of it so far.

use crate::cohort::room::Room;
use crate::program::Stage;
use crate::service::DeviceService;
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
    /// Whether it has operations that only the host does.
    pub(crate) fn needs_host(&self) -> bool {
        self.stages().any(|stage| stage.needs_host)
    }

    /// Whether it may say of lanes that they make too much where the host would not.
    pub(crate) fn appends(&self) -> bool {
        self.stages().any(|stage| stage.appends)
    }

    fn stages(&self) -> impl Iterator<Item = &Stage> {
        let page = &self.service.pages[self.work.page].page;
        page.stages[self.first..=self.last].iter()
    }
}
