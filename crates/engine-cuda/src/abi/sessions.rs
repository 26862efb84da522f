//! What `kernels/sessions.cu` is given: the session array, and the keys of a cohort.

use super::{LaneResult, SessionKey};
use crate::gpu::{Count, Slice};

/// Slots of a window: what a warp looks at at once.
pub(crate) const WINDOW_SLOTS: u32 = 2048;

/// Parts of the array that count their free slots.
pub(crate) const REGIONS: usize = 32;

structs! {
    /// A slot of the array: 32 bytes, which stay in one sector. The device's alone.
    #[allow(dead_code)]
    pub(crate) struct Slot {
        state: u64,
        secret: [u64; 2],
        user: i64,
    }
}

pointing! {
    /// The array.
    pub(crate) struct SessionArray<'m> {
        slots: Slice<'m, Slot> [capacity],
        free_bits: Slice<'m, u64> [windows(capacity) * (WINDOW_SLOTS / u64::BITS)],
        free_counts: Slice<'m, u64> [Count::from(REGIONS)],
        cursor: Slice<'m, u64> [Count::from(1u32)],
        capacity: u32,
        /// Windows of a region.
        region_windows: u32,
        idle_ticks: u32,
        padding: u32,
    }
    where { region_windows * REGIONS >= windows(capacity) }
}

/// Windows of so many slots, the last perhaps not whole.
fn windows(capacity: Count) -> Count {
    capacity.div_ceil(WINDOW_SLOTS.into())
}

impl SessionArray<'_> {
    /// Threads that make all of it empty: one for each slot, for each word of bits, for each
    /// region.
    fn init_threads(&self) -> Count {
        let slots = Count::from(self.capacity);
        let words = windows(slots) * (WINDOW_SLOTS / u64::BITS);
        slots.max(words).max(REGIONS.into())
    }
}

signatures! {
    /// Arguments of `sessions_init`.
    pub(crate) struct InitArgs<'m> {
        array: SessionArray<'m>,
    }
    launch SessionsInit => array.init_threads().over(256);

    /// Arguments of `sessions_lookup`.
    pub(crate) struct LookupArgs<'m> {
        array: SessionArray<'m>,
        keys: Slice<'m, SessionKey> [lanes],
        present: Slice<'m, i64> [lanes],
        users: Slice<'m, i64> [lanes],
        lanes: u32,
        now: u32,
    }
    launch SessionsLookup => lanes.over(256);

    /// Arguments of `sessions_create`.
    pub(crate) struct CreateArgs<'m> {
        array: SessionArray<'m>,
        results: Slice<'m, LaneResult> [lanes],
        randoms: Slice<'m, [u64; 2]> [lanes],
        created: Slice<'m, SessionKey> [lanes],
        lanes: u32,
        now: u32,
        search: u32,
        padding: u32,
    }
    launch SessionsCreate => lanes.over(128);

    /// Arguments of `sessions_destroy`.
    pub(crate) struct DestroyArgs<'m> {
        array: SessionArray<'m>,
        results: Slice<'m, LaneResult> [lanes],
        keys: Slice<'m, SessionKey> [lanes],
        lanes: u32,
        padding: u32,
    }
    launch SessionsDestroy => lanes.over(256);

    /// Arguments of `sessions_sweep`.
    pub(crate) struct SweepArgs<'m> {
        array: SessionArray<'m>,
        first: u32,
        budget: u32,
        now: u32,
        padding: u32,
    }
    launch SessionsSweep => budget.over(256);
}
