//! What the C library's allocator is told: large blocks that are free go back to the system.
//!
//! Left to itself, glibc takes the first large block that is freed, such as a flood's buffer, as a
//! sign that such are wanted often: from then on it keeps as much, in each of its arenas, for as
//! long as the process lives. What is wanted often is kept by whoever wants it here.
#![allow(unsafe_code)]

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
