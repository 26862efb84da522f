//! Control: what any thread may ask of a server that runs.

use crate::drain::DrainOptions;
use crate::server::worker::Command;
use crate::site::Sites;
use crate::site::current::Current;
use crate::site::loader::Reloads;
use rhythm_engine::settings::ServiceConfig;
use rhythm_net::clock;
use rhythm_net::workers::{Inbox, Watch};
use rhythm_observe::{admin, hangs};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What a server shares with those who control it.
pub(super) struct Shared {
    pub(super) inboxes: Vec<Inbox<Command>>,
    pub(super) reloads: Reloads,
    /// Has the access log opened again.
    pub(super) reopen_log: Option<Box<dyn Fn() + Send + Sync>>,
    pub(super) current: Arc<Current>,
    pub(super) drain: DrainOptions,
}

/// Controls a server from any thread.
#[derive(Clone)]
pub struct Control {
    pub(super) shared: Arc<Shared>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    /// Loads the sites anew and has the workers serve them, and waits for that. What is under way
    /// ends on the old ones.
    ///
    /// # Errors
    /// When one cannot be loaded, of which the old one is kept; the others are served.
    pub fn reload(&self) -> Result<(), String> {
        self.shared.reloads.wait()
    }

    /// As [`Control::reload`], but waits for nothing. What goes wrong is logged.
    pub fn ask_reload(&self) {
        self.shared.reloads.ask();
    }

    /// Has the access log, if there is one, opened again: after it was renamed, say. What goes
    /// wrong is logged, and the old file kept.
    pub fn reopen_log(&self) {
        if let Some(reopen) = &self.shared.reopen_log {
            reopen();
        }
    }

    /// Begins to shut down: it is not ready any more, takes no more clients, answers what still
    /// comes, and what is under way. Called a second time, it waits for what is under way alone; a
    /// third time, it ends.
    pub fn shutdown(&self) {
        let now = clock::monotonic();
        let drain = self.shared.current.shut_down(self.shared.drain, now);
        for inbox in &self.shared.inboxes {
            inbox.send(Command::Drain(drain));
        }
    }

    /// Moves the threads of all workers to these cores, at once: each goes on serving its
    /// connections there. One that is kept on a core of its own (`server.pin`) goes to that one
    /// alone where it is among these. What else works for a worker, such as a thread of a
    /// database's, stays where it is.
    ///
    /// # Errors
    /// When the process may use none of these cores.
    pub fn run_on(&self, cores: &[usize]) -> io::Result<()> {
        let inboxes = self.shared.inboxes.iter();
        // One that cannot be moved keeps none of the others.
        let moved = inboxes.map(|inbox| inbox.run_on(cores).map(drop));
        moved.fold(Ok(()), Result::and)
    }

    /// The cores that the workers may run on, all together.
    ///
    /// # Errors
    /// What the system said, which it has no common reason to.
    pub fn cores(&self) -> io::Result<BTreeSet<usize>> {
        let mut all = BTreeSet::new();
        for inbox in &self.shared.inboxes {
            all.extend(inbox.cores()?.unwrap_or_default());
        }
        Ok(all)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.shared.inboxes.len()
    }

    /// What a new start would mend, if anything: a worker has ended, panics again and again, or
    /// hangs: it is at the same turn of its loop as it was at the look before. Of a server that
    /// shuts down workers end when they have no more to do.
    pub fn ailment(&self, watch: &mut Watch) -> Option<String> {
        let workers = &self.shared.inboxes;
        watch.look(workers);
        if self.is_draining() {
            return None;
        }
        let hangs = || watch.hanging(workers, 1).map(hangs::in_words);
        admin::ailment(workers).map(str::to_owned).or_else(hangs)
    }

    /// Whether a shutdown has begun.
    pub fn is_draining(&self) -> bool {
        self.shared.current.drain().is_some()
    }

    /// The settings in effect of each site: its own, but those that a reload does not change.
    pub fn configs(&self) -> Vec<ServiceConfig> {
        self.shared.current.configs()
    }

    /// What is served now.
    pub fn sites(&self) -> Arc<Sites> {
        self.shared.current.sites()
    }
}
