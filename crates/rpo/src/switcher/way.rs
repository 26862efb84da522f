//! What all ways of switching have in common.

use super::error::SwitchError;
use super::restore::Restore;
use crate::cpus::CpuSet;

/// What [`Switcher::follow`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// What [`Switcher::restores`] gives is different now.
    pub is_other: bool,
    /// The server is the other one that was [found](Switcher::look), which has all CPUs: it gets
    /// those that were last set by being set again, once what [`Switcher::restores`] gives is kept.
    pub is_replaced: bool,
    /// Somebody else had given another set to who was already known; that is put right.
    pub was_changed: bool,
}

/// A way to give a server's tasks a set of CPUs.
pub trait Switcher: Send {
    /// What it is called, and what it switches.
    fn name(&self) -> String;

    /// The CPUs that the server had when it was found: the most that it is ever given.
    fn full(&self) -> &CpuSet;

    /// Looks whether the server would lose for good what it has, were it switched. Nothing is
    /// changed; whoever only watches needs no such look.
    ///
    /// It comes before what [`Switcher::restores`] says is kept: to put that back may lose the
    /// same.
    ///
    /// # Errors
    /// When it would, or that cannot be told.
    fn check(&self) -> Result<(), SwitchError> {
        Ok(())
    }

    /// Changes what has to be changed before the first switch, if there is anything; until then
    /// nothing is. Whoever calls it has kept what [`Switcher::restores`] says; after it, that may
    /// say more.
    ///
    /// # Errors
    /// When the system refuses, or what was found is different by now.
    fn make_ready(&mut self) -> Result<(), SwitchError> {
        Ok(())
    }

    /// Gives the server these CPUs. When it returns, no known task of it runs elsewhere.
    ///
    /// # Errors
    /// When the system refuses, or what is switched is gone.
    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError>;

    /// The CPUs that the kernel lets the server have now.
    ///
    /// # Errors
    /// When the system does not say.
    fn current(&mut self) -> Result<CpuSet, SwitchError>;

    /// Of these CPUs, given to the server, those that the kernel lets it have as things are: what
    /// [`Switcher::current`] says while nobody else has a hand in it.
    fn possible(&self, cpus: &CpuSet) -> CpuSet {
        online(cpus)
    }

    /// Looks whether the server is another one by now, which the next [`Switcher::follow`] takes;
    /// until then nothing of that one is changed: it may be somebody else's.
    ///
    /// # Errors
    /// When it is one that cannot be switched.
    fn look(&mut self) -> Result<bool, SwitchError> {
        Ok(false)
    }

    /// Looks for what is new since, threads and processes that were not known when it was last set,
    /// and for sets that others have changed. Nobody is confined of whom the last
    /// [`Switcher::restores`] does not tell.
    ///
    /// # Errors
    /// As [`Switcher::set`].
    fn follow(&mut self) -> Result<Followed, SwitchError> {
        Ok(Followed::default())
    }

    /// What another process does to put back what was found.
    fn restores(&self) -> Vec<Restore>;
}

/// Of these CPUs, those that are online; all where the system does not say.
pub(super) fn online(cpus: &CpuSet) -> CpuSet {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online");
    match text.ok().and_then(|text| text.parse::<CpuSet>().ok()) {
        Some(online) if !online.is_empty() => cpus.intersection(&online),
        _ => cpus.clone(),
    }
}
