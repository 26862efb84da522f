//! The atomics the array is built on. The model checking in `tests/session_loom.rs` compiles the
//! same files with loom's atomics in this module's place.

/// Another thread is to go on before this one can.
pub(super) fn pause() {
    std::thread::yield_now();
}

pub(super) use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
