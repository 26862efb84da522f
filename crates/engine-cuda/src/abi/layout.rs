//! What `kernels/layout.cu` is given: what bodies are made of, and where they and the other results
//! go.

use super::stage::{Fragment, Regions};
use super::{LaneResult, WARP};
use crate::gpu::{Count, Grid, Slice};
use rhythm_engine::cohort::{Segment, View};

/// Bytes of a unit of a column.
pub(crate) const UNIT: usize = 16;

/// What fills up a unit of a column.
pub(crate) const PAD: u8 = 0xff;

/// Statuses that have a line.
pub(crate) const STATUS_MIN: u16 = 100;
/// The last of them.
pub(crate) const STATUS_MAX: u16 = 599;
/// How many.
pub(crate) const STATUSES: u32 = (STATUS_MAX - STATUS_MIN + 1) as u32;
/// Bytes of a head's end: the length, and two line feeds.
pub(crate) const HEAD_END: usize = 14;
/// Where a lane's own lines of a head begin, behind its end.
pub(crate) const HEAD_LINES: usize = 16;

structs! {
    /// Where a lane's things begin in what is delivered.
    pub(crate) struct LaneOffsets {
        /// Its body, bytes; a multiple of 16.
        pub(crate) body: u64,
        /// Its segments.
        pub(crate) segments: u32,
        /// Its texts, bytes; a multiple of 8.
        pub(crate) texts: u32,
        /// Its queries.
        pub(crate) queries: u32,
        /// Its headers.
        pub(crate) headers: u32,
    }

    /// A text among those uploaded for heads.
    pub(crate) struct HeadText {
        pub(crate) offset: u32,
        pub(crate) length: u32,
    }

    /// A query or header that is delivered.
    pub(crate) struct DeliveredText {
        /// Whose.
        pub(crate) lane: u32,
        /// Of a header: its name.
        pub(crate) name: u32,
        /// In the texts delivered.
        pub(crate) text: View,
    }
}

pointing! {
    /// What bodies are made of.
    pub(crate) struct Pieces<'m> {
        results: Slice<'m, LaneResult> [lanes],
        runs: Slice<'m, u8> [lanes * run_stride],
        /// A lane's are as many apart as there are lanes.
        segments: Slice<'m, Segment> [lanes * segment_stride],
        fragments: Slice<'m, Fragment>,
        fragment_bytes: Slice<'m, u8>,
        /// Where bodies are said in stretches: what those of texts are of.
        arena: Option<Slice<'m, u8>>,
        /// None: bodies without heads.
        heads: Option<Slice<'m, u8>> [lanes * head_stride],
        head_lengths: Option<Slice<'m, u32>> [lanes],
        head_texts: Option<Slice<'m, u8>>,
        status_lines: Option<Slice<'m, HeadText>> [Count::from(STATUSES)],
        lane_count: Option<Slice<'m, u32>> [Count::from(1u32)],
        fields: HeadText,
        run_stride: u32,
        segment_stride: u32,
        head_stride: u32,
        lanes: u32,
    }
    where {
        [head_lengths.is_some(), head_texts.is_some(), status_lines.is_some()]
            == [heads.is_some(); 3],
    }
}

impl Pieces<'_> {
    fn lanes(&self) -> Count {
        self.lanes.into()
    }

    /// Warps of lanes, which have a tile of columns each.
    fn tiles(&self) -> Count {
        self.lanes().div_ceil(WARP as u64)
    }
}

/// Bytes of tiles of so many rows.
fn tile_bytes(tiles: Count, rows: Count) -> Count {
    tiles * rows * (WARP * UNIT)
}

signatures! {
    /// Arguments of `lane_offsets`.
    pub(crate) struct OffsetsArgs<'m> {
        results: Slice<'m, LaneResult> [lanes],
        /// One a lane, and the sums.
        offsets: Slice<'m, LaneOffsets> [lanes + 1u32],
        lanes: u32,
        runs_only: u32,
    }
    launch Offsets => Grid::blocks(1, 256);

    /// Arguments of `render_row`.
    pub(crate) struct RowArgs<'m> {
        pieces: Pieces<'m>,
        /// None: bodies stand `pitch` bytes apart.
        offsets: Option<Slice<'m, LaneOffsets>> [pieces.lanes() + 1u32],
        out: Slice<'m, u8> [out_capacity],
        /// With runs alone, and offsets: where their segments go.
        segments_out: Option<Slice<'m, Segment>> [segments_capacity],
        out_capacity: u64,
        pitch: u64,
        segments_capacity: u32,
        runs_only: u32,
    }
    where { segments_out.is_some() || segments_capacity.get() == 0 }
    launch Row => (pieces.lanes() * WARP).over(128);

    /// Arguments of `render_column`.
    pub(crate) struct ColumnArgs<'m> {
        pieces: Pieces<'m>,
        tiles: Slice<'m, u8> [tile_bytes(pieces.tiles(), rows_capacity)],
        tile_rows: Slice<'m, u32> [pieces.tiles()],
        rows_needed: Slice<'m, u32> [Count::from(1u32)],
        rows_capacity: u32,
        unused: u32,
    }
    launch Column => pieces.lanes().over(128);

    /// Arguments of `transpose_column`.
    pub(crate) struct TransposeArgs<'m> {
        pieces: Pieces<'m>,
        offsets: Option<Slice<'m, LaneOffsets>> [pieces.lanes() + 1u32],
        tiles: Slice<'m, u8> [tile_bytes(pieces.tiles(), rows_capacity)],
        tile_rows: Slice<'m, u32> [pieces.tiles()],
        out: Slice<'m, u8> [out_capacity],
        out_capacity: u64,
        pitch: u64,
        rows_capacity: u32,
        unused: u32,
    }
    launch Transpose => Grid::blocks(pieces.tiles().get(), 256);

    /// Arguments of `deliver_texts`.
    pub(crate) struct TextsArgs<'m> {
        results: Slice<'m, LaneResult> [lanes],
        offsets: Slice<'m, LaneOffsets> [lanes + 1u32],
        lane_list: Option<Slice<'m, u32>> [lanes],
        arena: Slice<'m, u8> [regions.text_end()],
        results_out: Slice<'m, LaneResult> [lanes],
        queries_out: Slice<'m, DeliveredText> [queries_capacity],
        headers_out: Slice<'m, DeliveredText> [headers_capacity],
        texts_out: Slice<'m, u8> [texts_capacity],
        regions: Regions<'m>,
        lanes: u32,
        queries_capacity: u32,
        headers_capacity: u32,
        texts_capacity: u32,
    }
    where { regions.lanes() >= lanes }
    launch Texts => lanes.over(128);
}
