//! What `kernels/resident.cu` is given: lanes as they were parsed, and the texts of heads.

use super::layout::{HeadText, STATUSES};
use super::stage::HeaderValue;
use super::{LaneResult, SessionKey};
use crate::gpu::{Count, Slice};

signatures! {
    /// Arguments of `begin_lanes`.
    pub(crate) struct BeginArgs<'m> {
        states: Slice<'m, u8> [lanes],
        lane_count: Slice<'m, u32> [Count::from(1u32)],
        results: Slice<'m, LaneResult> [lanes],
        rows_needed: Slice<'m, u32> [Count::from(2u32)],
        lanes: u32,
        unused: u32,
    }
    launch Begin => lanes.over(128);

    /// Arguments of `write_heads`.
    pub(crate) struct HeadArgs<'m> {
        results: Slice<'m, LaneResult> [lanes],
        lane_count: Slice<'m, u32> [Count::from(1u32)],
        arena: Slice<'m, u8>,
        headers: Slice<'m, HeaderValue> [lanes * header_stride],
        created: Slice<'m, SessionKey> [lanes],
        heads: Slice<'m, u8> [lanes * head_stride],
        head_lengths: Slice<'m, u32> [lanes],
        texts: Slice<'m, u8>,
        status_lines: Slice<'m, HeadText> [Count::from(STATUSES)],
        header_names: Slice<'m, HeadText>,
        cookie_before: HeadText,
        cookie_after: HeadText,
        cookie_removed: HeadText,
        fields: HeadText,
        lanes: u32,
        head_stride: u32,
        header_stride: u32,
        unused: u32,
    }
    launch Heads => lanes.over(128);
}
