//! What the C library's allocator is told: memory that is free goes back to the system.
//!
//! Left to itself, glibc takes the first large block that is freed, such as a flood's buffer, as a
//! sign that such are wanted often: from then on it keeps as much, in each of its arenas, for as
//! long as the process lives. What is wanted often is kept by whoever wants it here.
//!
//! Smaller blocks lie in arenas, which shrink at their end alone: one small block that lives on
//! there keeps all before it, such as the values of 1 MB that thousands of clients have half sent
//! and left. To map these by themselves, too, would cost each of them its pages anew (three times
//! the processor time of a write of 200 KB). So now and then a thread has the allocator give back
//! whole pages that are free, wherever they lie.
#![allow(unsafe_code)]

use std::io;

/// Blocks from this size on are mapped by themselves, and unmapped when they are free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_MIN: libc::c_int = 1 << 20;

/// So much that is free at the end of an arena is kept.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_MAX: libc::c_int = 8 << 20;

/// Tells it, unless the environment does. To be called before there are other threads.
pub(crate) fn set_up() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (variable, name, value) in [
        ("MALLOC_MMAP_THRESHOLD_", libc::M_MMAP_THRESHOLD, MAPPED_MIN),
        ("MALLOC_TRIM_THRESHOLD_", libc::M_TRIM_THRESHOLD, KEPT_MAX),
    ] {
        if std::env::var_os(variable).is_none() {
            // SAFETY: mallopt(3) takes two numbers and touches the allocator's own settings alone,
            // and no other thread is there to use them. A refusal leaves things as they are.
            unsafe { libc::mallopt(name, value) };
        }
    }
}

/// From now on gives back what is free, for as long as the process lives.
///
/// # Errors
/// There can be no thread for it.
pub(crate) fn give_back() -> io::Result<()> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    std::thread::Builder::new()
        .name("memory".into())
        .spawn(|| {
            use std::time::{Duration, Instant};
            /// The least time between two times.
            const EVERY: Duration = Duration::from_secs(10);
            /// Who needs memory meanwhile waits: no more than this part of all time.
            const SHARE: u32 = 1000;
            let mut wait = EVERY;
            loop {
                std::thread::sleep(wait);
                let began = Instant::now();
                // SAFETY: malloc_trim(3) may be called by any thread at any time; it takes the
                // locks of the arenas, and touches what is free alone.
                unsafe { libc::malloc_trim(0) };
                wait = EVERY.max(began.elapsed().saturating_mul(SHARE));
            }
        })?;
    Ok(())
}
