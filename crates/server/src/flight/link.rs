//! The seam between the pipeline and its device: a link, which may need a port and a clock.
//!
//! An executor on this machine needs neither, and is a link as it stands. A device on another
//! machine is reached over connections: its link asks the [`Port`] for them, and is their
//! [`ConnectionOwner`], as a [`Backend`](crate::backend::Backend) is, so that the pipeline waits
//! for both in one way.
//!
//! What the author of a link has to hold:
//!
//! - **Each work is given back exactly once**: by the [`Refusal`] of [`DeviceLink::submit`], or by
//!   [`DeviceLink::poll`], under the token it came with. A cohort that is not given back keeps its
//!   context and its clients for ever; one that is given back twice is a panic.
//! - **Within bounded time.** The pipeline has no deadline for devices: a link to something that
//!   may be silent has its own, asks for [`ConnectionOwner::tick`] by [`ConnectionOwner::wake_at`],
//!   and takes the work back when it is past.
//! - **Whole or failed.** A cohort comes back with its stage run as [`Executor`] says. Until the
//!   answer has come whole its columns stay here untouched, so that an executor on this machine can
//!   begin the stage anew when the work is lost on the way, and nobody loses an answer. Where there
//!   is none, the active lanes are failed with
//!   [`DeviceFailed`](rhythm_engine::cohort::LaneError::DeviceFailed) and the queries cleared; or,
//!   what was not begun is refused as [`Refusal::Lost`], with the same outcome for this cohort: an
//!   honest error. The link is asked again with the next one.
//! - **Bounded.** It has so many works under way at most, and refuses more with [`Refusal::Busy`];
//!   the pipeline keeps those and offers them again at every event. So its bytes that a socket does
//!   not take are bounded, too; they wait for [`ConnectionOwner::writable`].
//! - **Nothing blocks**, and nothing is read from a clock: time is what the calls say it is.
//! - **Connections end.** One that has nothing under way is closed after a while, and one that
//!   failed, or broke the protocol, gives back all that was under way on it.
//!
//! The simulator's device on another machine (tests/simulator/remote_device.rs) is a whole one, but
//! for the form of its messages.

use crate::owner::ConnectionOwner;
use rhythm_engine::device::{Executor, Refusal, Work};
use rhythm_net::{Port, Time};

/// The pipeline's way to its device. See the module's text.
pub trait DeviceLink: ConnectionOwner {
    /// The device's name, as in `--device` and in metrics.
    fn name(&self) -> &'static str;

    /// Starts a stage. Completion is told by [`DeviceLink::poll`], possibly at once.
    ///
    /// # Errors
    /// [`Refusal`] gives the work back.
    fn submit(&mut self, port: &mut dyn Port, work: Work, now: Time) -> Result<(), Refusal>;

    /// Appends the stages completed since the last poll to `done`.
    fn poll(&mut self, done: &mut Vec<Work>);

    /// How many stages are under way: submitted and not polled as done.
    fn in_flight(&self) -> usize;
}

/// What runs here needs no way to it.
impl<E: Executor> ConnectionOwner for E {}

impl<E: Executor> DeviceLink for E {
    fn name(&self) -> &'static str {
        Executor::name(self)
    }

    fn submit(&mut self, _: &mut dyn Port, work: Work, _: Time) -> Result<(), Refusal> {
        Executor::submit(self, work)
    }

    fn poll(&mut self, done: &mut Vec<Work>) {
        Executor::poll(self, done);
    }

    fn in_flight(&self) -> usize {
        Executor::in_flight(self)
    }
}
