//! Which processors the servers and the load run on.
//!
//! A process inherits the processors of the thread that starts it, and so does a thread: this
//! thread moves to where the next is to run.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this thread may use; it may use them all again when this is dropped.
#[derive(Debug)]
pub(crate) struct Processors {
    before: Option<CpuSet>,
    list: Vec<usize>,
}

impl Processors {
    /// Those that there are.
    pub(crate) fn here() -> Processors {
        let before = sched_getaffinity(None).ok();
        let is_ours = |cpu: &usize| before.as_ref().is_some_and(|set| set.is_set(*cpu));
        let list = (0..CpuSet::MAX_CPU).filter(is_ours).collect();
        Processors { before, list }
    }

    /// This thread, and what it starts, run where the server of this number does: no two share a
    /// processor, nor one with the load, as far as there are enough.
    pub(crate) fn of_server(&self, number: usize) {
        self.only(self.place(number));
    }

    /// The number that the system has for the processor of the server of this number.
    pub(crate) fn number_of(&self, number: usize) -> Option<usize> {
        self.list.get(self.place(number)).copied()
    }

    fn place(&self, number: usize) -> usize {
        number % self.list.len().saturating_sub(1).max(1)
    }

    /// This thread, and what it starts, run anywhere but with the load, as far as there is more
    /// than one processor.
    pub(crate) fn of_servers(&self) {
        let servers = self.list.len().saturating_sub(1).max(1);
        self.among(&self.list[..servers.min(self.list.len())]);
    }

    /// This thread, and what it starts, run where the load does.
    pub(crate) fn of_load(&self) {
        self.only(self.list.len().saturating_sub(1));
    }

    /// The numbers that the system has for the processors of the first server and of the load.
    pub(crate) fn ends(&self) -> Option<[usize; 2]> {
        Some([*self.list.first()?, *self.list.last()?])
    }

    fn only(&self, at: usize) {
        if let Some(cpu) = self.list.get(at..=at) {
            self.among(cpu);
        }
    }

    fn among(&self, cpus: &[usize]) {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        // Where it may not be chosen, the system chooses.
        let _ = sched_setaffinity(None, &set);
    }

    /// How the report tells of it.
    pub(crate) fn tell(&self) -> String {
        match self.list.len() {
            0 | 1 => "servers and load share one processor".to_owned(),
            2 => "all servers on one processor, the load on the other".to_owned(),
            count => format!("servers on {} processors, the load on another", count - 1),
        }
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_a_processor_where_there_are_no_more() {
        for (list, of_second) in [
            (vec![], None),
            (vec![4], Some(4)),
            (vec![4, 5], Some(4)),
            (vec![4, 5, 6], Some(5)),
        ] {
            let processors = Processors { before: None, list };
            assert_eq!(processors.number_of(1), of_second);
        }
    }

    #[test]
    fn threads_run_where_they_are_told_until_it_is_dropped() {
        let before = sched_getaffinity(None).unwrap();
        let processors = Processors::here();
        processors.of_load();
        let last = *processors.list.last().unwrap();
        let of_thread = || std::thread::spawn(|| sched_getaffinity(None).unwrap());
        let inherited = of_thread().join().unwrap();
        assert!(inherited.count() == 1 && inherited.is_set(last));
        processors.of_server(0);
        let inherited = of_thread().join().unwrap();
        assert!(inherited.count() == 1 && inherited.is_set(processors.list[0]));
        processors.of_servers();
        let inherited = of_thread().join().unwrap();
        let others = before.count().saturating_sub(1).max(1);
        assert!(inherited.count() == others && inherited.is_set(processors.list[0]));
        drop(processors);
        assert_eq!(sched_getaffinity(None).unwrap().count(), before.count());
    }
}
