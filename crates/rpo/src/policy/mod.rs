//! How a setting is chosen, behind one trait: events and times go in, decisions come out.
//!
//! - [`Fixed`]: all threads always (the paper's HT), or one a core always (NOHT).
//! - [`Majority`]: the paper's rule, by classes that are known beforehand.
//! - [`Learned`]: finds out by itself what each setting does to whom (the default).
//! - [`Watching`]: where nothing is switched, whether there would be something to gain.
//!
//! The oracle, which sees into the simulated server, is the model's.

mod batches;
mod decision;
mod fixed;
mod learned;
mod majority;
mod outlook;
mod watching;

pub use batches::Batches;
pub use decision::{Decision, Why};
pub use fixed::Fixed;
pub use learned::{Learned, LearnedSettings};
pub use majority::Majority;
pub use outlook::{Learning, Outlook};
pub use watching::Watching;

use crate::{ClassId, Setting};
use std::time::Duration;

/// So often a policy hears how busy the server is.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// What a policy hears of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A request came.
    Arrived(ClassId),
    /// A request was answered.
    Completed {
        /// What it was.
        class: ClassId,
        /// How long it took.
        took: Duration,
        /// Whether it went well: what is refused says nothing of what the work takes.
        ok: bool,
    },
    /// The number of a class is another one's from now on: what was known of it is of no use.
    Replaced(ClassId),
    /// How busy the server is now.
    Load(Load),
    /// The setting is another one.
    Switched {
        /// Which one.
        setting: Setting,
        /// How long nothing ran.
        took: Duration,
    },
    /// The time of [`Policy::wake_at`] has come.
    Woke,
}

/// How busy a server is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Threads that run or could run.
    pub running: f64,
    /// Cores that the server may use.
    pub cores: f64,
    /// Share of the processors of the setting in force that are busy.
    pub utilization: f64,
}

/// A way to choose. Times are since some moment before the first event, and never go back.
pub trait Policy {
    /// Takes an event; says where the setting should be another one.
    fn on(&mut self, event: &Event, now: Duration) -> Option<Decision>;

    /// When it wants [`Event::Woke`], if it does.
    fn wake_at(&self) -> Option<Duration> {
        None
    }

    /// In one line, what it does now and why, for people.
    fn explain(&self) -> String;

    /// What it expects of the setting in force, where it learns and has learned.
    fn outlook(&self) -> Option<Outlook> {
        None
    }

    /// The batches of the paper's rule, where that is what it is.
    fn batches(&self) -> Option<&Batches> {
        None
    }
}
