//! The seam between the pipeline and devices: work, and what runs it.

use crate::cohort::Cohort;
#[cfg(doc)]
use crate::cohort::LaneState;
use crate::program::{PageProgram, Service};
use std::sync::Arc;

/// One stage of one cohort, to be run on a device.
#[derive(Debug)]
pub struct Work {
    /// The service whose page it is: kept alive as long as the cohort is under way, also across a
    /// reload.
    pub service: Arc<Service>,
    /// Index of the page in [`Service::pages`].
    pub page: usize,
    /// The cohort. `cohort.stage` says which stage is to be run; the executor raises it past all
    /// that it has run.
    pub cohort: Box<Cohort>,
    /// The submitter's own key.
    pub token: u64,
}

impl Work {
    /// The page's program.
    pub fn program(&self) -> &PageProgram {
        &self.service.pages[self.page]
    }
}

/// Why a device did not take a piece of work, which comes back unchanged.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// All its slots are taken: submit again after a completion.
    #[error("all slots of the device are taken")]
    Busy(Work),
    /// It failed for good; the reason is for the log.
    #[error("the device is lost: {1}")]
    Lost(Work, String),
}

/// Runs stages of cohorts. Submit and poll, so that the pipeline waits for a device as it waits for
/// a backend.
///
/// Running stage s of a cohort means, for its active lanes: run the stage's program, whose fields
/// are filled, those of call s - 1 by [`Cohort::settle`], and no queries are left; then, if the
/// stage ends with a call, leave the new queries in [`Cohort::queries`] (lanes that asked nothing
/// stay active), else finish the lanes that are still active; and raise [`Cohort::stage`].
///
/// Where an executor finds no room for what lanes make, beside the others or in what is lent to the
/// cohort, or has done enough at a time ([`Cohort::yields`]), it leaves them as
/// [`LaneState::Later`] with nothing left of them: the stage is run again for those
/// ([`Cohort::next_pass`]), beside the queries of the others. With room for one lane it runs one.
///
/// A device that has the page's backend, too, may answer the queries itself and run the stages
/// that follow at once: then the stage rises by as many, and no queries are left of the calls
/// answered.
pub trait Executor {
    /// Its name, as in `--device` and in metrics.
    fn name(&self) -> &'static str;

    /// Starts a stage. Completion is told by [`Executor::poll`], possibly at once.
    ///
    /// # Errors
    /// [`Refusal`] gives the work back.
    fn submit(&mut self, work: Work) -> Result<(), Refusal>;

    /// Appends the stages completed since the last poll to `done`.
    fn poll(&mut self, done: &mut Vec<Work>);

    /// How many stages are under way: submitted and not polled as done.
    fn in_flight(&self) -> usize;
}

impl<E: Executor + ?Sized> Executor for Box<E> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn submit(&mut self, work: Work) -> Result<(), Refusal> {
        (**self).submit(work)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        (**self).poll(done);
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
}
