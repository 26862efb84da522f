//! A dry run: nothing is switched, everything else is as if.

use super::error::SwitchError;
use super::restore::Restore;
use super::way::{Switcher, online};
use crate::cpus::CpuSet;

/// Remembers what it was told.
#[derive(Debug)]
pub struct Dry {
    full: CpuSet,
    current: CpuSet,
}

impl Dry {
    /// For a server that has these CPUs.
    #[must_use]
    pub fn new(full: CpuSet) -> Dry {
        Dry {
            current: full.clone(),
            full,
        }
    }
}

impl Switcher for Dry {
    fn name(&self) -> String {
        "dry run: nothing is switched".to_owned()
    }

    fn full(&self) -> &CpuSet {
        &self.full
    }

    fn set(&mut self, cpus: &CpuSet) -> Result<(), SwitchError> {
        self.current = cpus.clone();
        Ok(())
    }

    fn current(&mut self) -> Result<CpuSet, SwitchError> {
        // As a kernel says it: a CPU that is offline is not among them.
        Ok(online(&self.current))
    }

    fn restores(&self) -> Vec<Restore> {
        Vec::new()
    }
}
