//! What `kernels/sessions.cu` is given: the session array, and the keys of a cohort.

use crate::gpu::Address;

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

    /// The array.
    pub(crate) struct SessionArray {
        pub(crate) slots: Address,
        pub(crate) free_bits: Address,
        pub(crate) free_counts: Address,
        pub(crate) cursor: Address,
        pub(crate) capacity: u32,
        pub(crate) region_windows: u32,
        pub(crate) idle_ticks: u32,
        pub(crate) padding: u32,
    }

    /// Arguments of `sessions_init`.
    pub(crate) struct InitArgs {
        pub(crate) array: SessionArray,
    }

    /// Arguments of `sessions_lookup`.
    pub(crate) struct LookupArgs {
        pub(crate) array: SessionArray,
        pub(crate) keys: Address,
        pub(crate) present: Address,
        pub(crate) users: Address,
        pub(crate) lanes: u32,
        pub(crate) now: u32,
    }

    /// Arguments of `sessions_create`.
    pub(crate) struct CreateArgs {
        pub(crate) array: SessionArray,
        pub(crate) results: Address,
        pub(crate) randoms: Address,
        pub(crate) created: Address,
        pub(crate) lanes: u32,
        pub(crate) now: u32,
        pub(crate) search: u32,
        pub(crate) padding: u32,
    }

    /// Arguments of `sessions_destroy`.
    pub(crate) struct DestroyArgs {
        pub(crate) array: SessionArray,
        pub(crate) results: Address,
        pub(crate) keys: Address,
        pub(crate) lanes: u32,
        pub(crate) padding: u32,
    }

    /// Arguments of `sessions_sweep`.
    pub(crate) struct SweepArgs {
        pub(crate) array: SessionArray,
        pub(crate) first: u32,
        pub(crate) budget: u32,
        pub(crate) now: u32,
        pub(crate) padding: u32,
    }
}

arguments! {
    InitArgs = SessionsInit,
    LookupArgs = SessionsLookup,
    CreateArgs = SessionsCreate,
    DestroyArgs = SessionsDestroy,
    SweepArgs = SessionsSweep,
}
