//! The atomics that table, segments and epochs are built on. The models in `tests/store_loom.rs`
//! compile the same files with loom's atomics in this module's place.

pub(super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Lets another thread go on, where this one waits for it.
pub(super) fn wait(rounds: u32) {
    if rounds < 64 {
        core::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
