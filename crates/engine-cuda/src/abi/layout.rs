//! What `kernels/layout.cu` is given: what bodies are made of, and where they and the other results
//! go.

use super::stage::Regions;
use crate::gpu::Address;
use rhythm_engine::cohort::View;

/// Bytes of a unit of a column.
pub(crate) const UNIT: usize = 16;

/// What fills up a unit of a column.
pub(crate) const PAD: u8 = 0xff;

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

    /// Arguments of `lane_offsets`.
    pub(crate) struct OffsetsArgs {
        pub(crate) results: Address,
        pub(crate) offsets: Address,
        pub(crate) lanes: u32,
        pub(crate) runs_only: u32,
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

    /// Arguments of `deliver_texts`.
    pub(crate) struct TextsArgs {
        pub(crate) results: Address,
        pub(crate) offsets: Address,
        pub(crate) lane_list: Address,
        pub(crate) arena: Address,
        pub(crate) results_out: Address,
        pub(crate) queries_out: Address,
        pub(crate) headers_out: Address,
        pub(crate) texts_out: Address,
        pub(crate) regions: Regions,
        pub(crate) lanes: u32,
        pub(crate) queries_capacity: u32,
        pub(crate) headers_capacity: u32,
        pub(crate) texts_capacity: u32,
    }

    /// What bodies are made of.
    pub(crate) struct Pieces {
        pub(crate) results: Address,
        pub(crate) runs: Address,
        pub(crate) segments: Address,
        pub(crate) fragments: Address,
        pub(crate) fragment_bytes: Address,
        /// Null: bodies without heads.
        pub(crate) heads: Address,
        pub(crate) head_lengths: Address,
        pub(crate) lane_count: Address,
        pub(crate) run_stride: u32,
        pub(crate) segment_stride: u32,
        pub(crate) head_stride: u32,
        pub(crate) lanes: u32,
    }

    /// Arguments of `render_row`.
    pub(crate) struct RowArgs {
        pub(crate) pieces: Pieces,
        /// Null: bodies stand `pitch` bytes apart.
        pub(crate) offsets: Address,
        pub(crate) out: Address,
        pub(crate) segments_out: Address,
        pub(crate) out_capacity: u64,
        pub(crate) pitch: u64,
        pub(crate) segments_capacity: u32,
        pub(crate) runs_only: u32,
    }

    /// Arguments of `render_column`.
    pub(crate) struct ColumnArgs {
        pub(crate) pieces: Pieces,
        pub(crate) tiles: Address,
        pub(crate) tile_rows: Address,
        pub(crate) rows_needed: Address,
        pub(crate) rows_capacity: u32,
        pub(crate) unused: u32,
    }

    /// Arguments of `transpose_column`.
    pub(crate) struct TransposeArgs {
        pub(crate) pieces: Pieces,
        pub(crate) offsets: Address,
        pub(crate) tiles: Address,
        pub(crate) tile_rows: Address,
        pub(crate) out: Address,
        pub(crate) out_capacity: u64,
        pub(crate) pitch: u64,
        pub(crate) rows_capacity: u32,
        pub(crate) unused: u32,
    }
}

arguments! {
    OffsetsArgs = Offsets,
    RowArgs = Row,
    ColumnArgs = Column,
    TransposeArgs = Transpose,
    TextsArgs = Texts,
}
