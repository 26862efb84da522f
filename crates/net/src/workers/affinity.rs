//! Keeping a thread on one core, so that its connections, buffers and cohorts stay in that core's
//! caches.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::io;

/// The numbers of the cores this thread may run on, in rising order.
///
/// # Errors
///
/// What the system said, which it has no common reason to.
pub(crate) fn allowed_cores() -> io::Result<Vec<usize>> {
    cores_of(None)
}

/// The numbers of the cores a thread may run on, in rising order; of this one if none is named.
///
/// # Errors
///
/// `ESRCH` if it has ended.
pub(crate) fn cores_of(thread: Option<Pid>) -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(thread)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect())
}

/// Keeps the calling thread on `core` from now on.
///
/// # Errors
///
/// `InvalidInput` if there is no such core, or this process may not use it.
pub(crate) fn pin_current_thread(core: usize) -> io::Result<()> {
    keep_on(None, &[core])
}

/// Keeps a thread on these cores from now on; this one if none is named.
///
/// # Errors
///
/// `InvalidInput` if there are no such cores, or this process may use none of them; `ESRCH` if the
/// thread has ended.
pub(crate) fn keep_on(thread: Option<Pid>, cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(core);
    }
    Ok(sched_setaffinity(thread, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core() {
        let cores = allowed_cores().expect("a thread can ask where it may run");
        let last = *cores.last().expect("this thread runs somewhere");
        std::thread::spawn(move || {
            pin_current_thread(last).expect("an allowed core");
            assert_eq!(allowed_cores().expect("as before"), [last]);
            assert_eq!(rustix::thread::sched_getcpu(), last);
        })
        .join()
        .expect("the thread's own assertions");
        assert_eq!(
            allowed_cores().expect("as before"),
            cores,
            "other threads are not touched"
        );
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        for core in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let error = pin_current_thread(core).expect_err("no machine here has that many cores");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
