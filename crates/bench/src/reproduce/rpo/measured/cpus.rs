//! Whose CPUs are which.

use super::super::super::error::ReproduceError;
use rhythm_rpo::cpus::CpuSet;
use rhythm_rpo::topology::{SYSFS, Topology};
use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
use std::path::Path;

/// The shop's CPUs, in both settings, and the load's.
#[derive(Clone, Debug)]
pub(super) struct Cpus {
    pub(super) all: CpuSet,
    /// One thread a core, or half of the CPUs where each is a core of its own.
    pub(super) fewer: CpuSet,
    /// Of the load, and of the controller; where there are but two cores, the shop has them, too.
    pub(super) load: CpuSet,
    /// Why the two settings are not the paper's, if they are not.
    pub(super) no_smt: Option<String>,
    /// Those that this thread had before, and has again when this is dropped.
    before: CpuSet,
}

fn of_thread() -> CpuSet {
    let mask = sched_getaffinity(None).unwrap_or_else(|_| Mask::new());
    (0..Mask::MAX_CPU).filter(|cpu| mask.is_set(*cpu)).collect()
}

impl Cpus {
    pub(super) fn here() -> Result<Cpus, ReproduceError> {
        let topology = Topology::read(Path::new(SYSFS))?;
        Cpus::of(&topology, of_thread()).ok_or(ReproduceError::OneCpu)
    }

    /// Of those that may be used; nothing where that is one.
    fn of(topology: &Topology, before: CpuSet) -> Option<Cpus> {
        let threads = |core: &rhythm_rpo::topology::Core| core.threads.intersection(&before);
        let cores: Vec<CpuSet> = (topology.cores.iter())
            .map(threads)
            .filter(|threads| !threads.is_empty())
            .collect();
        let load = cores.last()?.clone();
        let all: CpuSet = match cores.len() {
            0..=2 => before.clone(),
            _ => before.iter().filter(|cpu| !load.contains(*cpu)).collect(),
        };
        let no_smt = topology.nothing_to_choose(&all);
        let fewer = match no_smt {
            None => topology.one_per_core(&all),
            Some(_) => all.iter().take(all.len() / 2).collect(),
        };
        (!fewer.is_empty()).then_some(Cpus {
            all,
            fewer,
            load,
            no_smt,
            before,
        })
    }

    /// This thread, and what it starts, run there.
    pub(super) fn on(&self, cpus: &CpuSet) {
        let mut mask = Mask::new();
        for cpu in cpus.iter().filter(|cpu| *cpu < Mask::MAX_CPU) {
            mask.set(cpu);
        }
        // Where it may not be chosen, the system chooses.
        let _ = sched_setaffinity(None, &mask);
    }

    /// How the report tells of them.
    pub(super) fn tell(&self) -> String {
        format!(
            "the shop has {} where it has all, and {} where it has fewer; the load and the \
             controller have {}{}",
            self.all,
            self.fewer,
            self.load,
            match self.all.intersection(&self.load).is_empty() {
                true => "",
                false => ", which they share with the shop",
            }
        )
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        self.on(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhythm_rpo::topology::Core;

    /// Cores of so many threads each.
    fn cores(count: usize, threads: usize) -> (Topology, CpuSet) {
        let core = |number: usize| Core {
            threads: (0..threads).map(|thread| number + thread * count).collect(),
            package: None,
            kind: None,
        };
        let topology = Topology {
            cores: (0..count).map(core).collect(),
            smt_control: None,
        };
        let all = topology.all_threads();
        (topology, all)
    }

    fn sets(count: usize, threads: usize) -> Option<[String; 3]> {
        let (topology, all) = cores(count, threads);
        let cpus = Cpus::of(&topology, all)?;
        assert_eq!(cpus.no_smt.is_some(), threads == 1);
        Some([&cpus.all, &cpus.fewer, &cpus.load].map(ToString::to_string))
    }

    #[test]
    fn one_a_core_or_half_of_them() {
        assert_eq!(sets(1, 1), None);
        assert_eq!(sets(2, 1), Some(["0-1", "0", "1"].map(str::to_owned)));
        assert_eq!(sets(2, 2), Some(["0-3", "0-1", "1,3"].map(str::to_owned)));
        assert_eq!(
            sets(4, 2),
            Some(["0-2,4-6", "0-2", "3,7"].map(str::to_owned))
        );
        assert_eq!(sets(5, 1), Some(["0-3", "0-1", "4"].map(str::to_owned)));
    }
}
