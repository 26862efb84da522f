//! What the kernels of `stage.cu` and `layout.cu` are given: the structs of
//! `kernels/{stage,decode,layout}.cuh`, field by field.
//!
//! A test compares sizes with what the kernels were compiled with.
#![allow(unsafe_code)]

use crate::gpu::{Address, Arguments, Kernel};
use rhythm_engine::cohort::View;

/// No slot: the answers' one row goes to scalar fields.
pub const NO_SLOT: u32 = u32::MAX;

/// Bytes of a unit of a column.
pub const UNIT: usize = 16;

/// Lanes of a warp, and of a tile of columns.
pub const WARP: usize = 32;

/// What fills up a unit of a column.
pub const PAD: u8 = 0xff;

/// Where each lane's share of the buffers is.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Regions {
    /// Runs.
    pub runs: Address,
    /// Segments.
    pub segments: Address,
    /// Bytes of a run's share, a multiple of 16.
    pub run_stride: u32,
    /// Segments of a share.
    pub segment_stride: u32,
    /// Where in the arena the shares for texts begin, a multiple of 16.
    pub text_base: u32,
    /// Bytes of a share, a multiple of 16.
    pub text_stride: u32,
    /// Requests.
    pub requests: Address,
    /// Headers.
    pub headers: Address,
    /// Requests of a share.
    pub request_stride: u32,
    /// Headers of a share.
    pub header_stride: u32,
}

/// A header that a lane sets.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct HeaderValue {
    /// Index into the program's header names.
    pub name: u32,
    /// Nothing.
    pub unused: u32,
    /// In the arena.
    pub value: View,
}

/// A constant of a stage.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct StageConstant {
    /// Its register.
    pub register: u32,
    /// Nothing.
    pub unused: u32,
    /// Its bits.
    pub bits: u64,
}

/// A fragment's place among the bytes of all fragments.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Fragment {
    /// A multiple of 16.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// Arguments of `run_stage`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct StageArgs {
    pub code: Address,
    pub constants: Address,
    pub parts: Address,
    pub tables: Address,
    pub columns: Address,
    pub arena: Address,
    pub fragment_bytes: Address,
    pub case_tables: Address,
    /// Of `run_stage_spilled` alone.
    pub registers: Address,
    /// 0: lane i is the launch's i-th.
    pub lane_list: Address,
    /// 0: there are as many lanes as `lanes` says.
    pub lane_count: Address,
    pub results: Address,
    pub regions: Regions,
    pub lanes: u32,
    pub register_count: u32,
    pub constant_count: u32,
    pub has_call: u32,
    pub body_bytes_max: u32,
    pub text_bytes_max: u32,
    pub turns_max: u32,
    pub unused: u32,
}

/// Arguments of `run_stage_spilled`: the same.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct SpilledStageArgs(pub StageArgs);

/// A column that answers are decoded to.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DecodedColumn {
    /// Its slot in the table of columns.
    pub slot: u32,
    /// 1: texts; 0: integers.
    pub is_text: u32,
}

/// Arguments of `decode_answers`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct DecodeArgs {
    pub decoded: Address,
    pub columns: Address,
    pub arena: Address,
    /// 0: a lane's answers stand where its requests do.
    pub asked: Address,
    pub answers: Address,
    pub lane_list: Address,
    pub lane_count: Address,
    pub results: Address,
    pub rows_needed: Address,
    pub lanes: u32,
    pub request_stride: u32,
    pub decoded_count: u32,
    pub status_slot: u32,
    pub spans_slot: u32,
    pub item_stride: u32,
}

/// Where a lane's things begin in what is delivered.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct LaneOffsets {
    /// Its body, bytes; a multiple of 16.
    pub body: u64,
    /// Its segments.
    pub segments: u32,
    /// Its texts, bytes; a multiple of 8.
    pub texts: u32,
    /// Its requests.
    pub requests: u32,
    /// Its headers.
    pub headers: u32,
}

/// Arguments of `lane_offsets`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct OffsetsArgs {
    pub results: Address,
    pub offsets: Address,
    pub lanes: u32,
    pub runs_only: u32,
}

/// A request or header that is delivered.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DeliveredText {
    /// Whose.
    pub lane: u32,
    /// Of a header: its name.
    pub name: u32,
    /// In the texts delivered.
    pub text: View,
}

/// Arguments of `deliver_texts`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct TextsArgs {
    pub results: Address,
    pub offsets: Address,
    pub lane_list: Address,
    pub arena: Address,
    pub results_out: Address,
    pub requests_out: Address,
    pub headers_out: Address,
    pub texts_out: Address,
    pub regions: Regions,
    pub lanes: u32,
    pub requests_capacity: u32,
    pub headers_capacity: u32,
    pub texts_capacity: u32,
}

/// What bodies are made of.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Pieces {
    pub results: Address,
    pub runs: Address,
    pub segments: Address,
    pub fragments: Address,
    pub fragment_bytes: Address,
    /// 0: bodies without heads.
    pub heads: Address,
    pub head_lengths: Address,
    pub lane_count: Address,
    pub run_stride: u32,
    pub segment_stride: u32,
    pub head_stride: u32,
    pub lanes: u32,
}

/// Arguments of `render_row`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RowArgs {
    pub pieces: Pieces,
    /// 0: bodies stand `pitch` bytes apart.
    pub offsets: Address,
    pub out: Address,
    pub segments_out: Address,
    pub out_capacity: u64,
    pub pitch: u64,
    pub segments_capacity: u32,
    pub runs_only: u32,
}

/// Arguments of `render_column`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct ColumnArgs {
    pub pieces: Pieces,
    pub tiles: Address,
    pub tile_rows: Address,
    pub rows_needed: Address,
    pub rows_capacity: u32,
    pub unused: u32,
}

/// Arguments of `transpose_column`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct TransposeArgs {
    pub pieces: Pieces,
    pub offsets: Address,
    pub tiles: Address,
    pub tile_rows: Address,
    pub out: Address,
    pub out_capacity: u64,
    pub pitch: u64,
    pub rows_capacity: u32,
    pub unused: u32,
}

macro_rules! arguments {
    ($($type:ident = $kernel:ident),* $(,)?) => {$(
        // SAFETY: `#[repr(C)]`, the fields of the kernel's struct in its order; sizes are compared
        // by a test.
        unsafe impl Arguments for $type {
            const KERNEL: Kernel = Kernel::$kernel;
        }
    )*};
}

arguments! {
    StageArgs = Stage,
    SpilledStageArgs = StageSpilled,
    DecodeArgs = Decode,
    OffsetsArgs = Offsets,
    TextsArgs = Texts,
    RowArgs = Row,
    ColumnArgs = Column,
    TransposeArgs = Transpose,
}
