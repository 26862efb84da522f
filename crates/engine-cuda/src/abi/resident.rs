//! What `kernels/resident.cu` is given: lanes as they were parsed, and the texts of heads.

use crate::gpu::Address;

/// Statuses that have a line.
pub(crate) const STATUS_MIN: u16 = 100;
/// The last of them.
pub(crate) const STATUS_MAX: u16 = 599;

structs! {
    /// Arguments of `begin_lanes`.
    pub(crate) struct BeginArgs {
        pub(crate) states: Address,
        pub(crate) lane_count: Address,
        pub(crate) results: Address,
        pub(crate) lanes: u32,
        pub(crate) unused: u32,
    }

    /// A text among those uploaded for heads.
    pub(crate) struct HeadText {
        pub(crate) offset: u32,
        pub(crate) length: u32,
    }

    /// Arguments of `write_heads`.
    pub(crate) struct HeadArgs {
        pub(crate) results: Address,
        pub(crate) lane_count: Address,
        pub(crate) arena: Address,
        pub(crate) headers: Address,
        pub(crate) created: Address,
        pub(crate) heads: Address,
        pub(crate) head_lengths: Address,
        pub(crate) texts: Address,
        pub(crate) status_lines: Address,
        pub(crate) header_names: Address,
        pub(crate) cookie_before: HeadText,
        pub(crate) cookie_after: HeadText,
        pub(crate) cookie_removed: HeadText,
        pub(crate) fields: HeadText,
        pub(crate) lanes: u32,
        pub(crate) head_stride: u32,
        pub(crate) header_stride: u32,
        pub(crate) unused: u32,
    }
}

arguments! {
    BeginArgs = Begin,
    HeadArgs = Heads,
}
