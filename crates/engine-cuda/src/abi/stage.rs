//! What `kernels/stage.cu` is given: a stage's program, and answers to be decoded.

use super::{Columns, LaneResult, WARP};
use crate::gpu::{Count, Slice};
use rhythm_engine::cohort::{Segment, Span, View};
use rhythm_engine::program::{Escape, TextFunction};

/// In the start of a span: the lane's items are a line of the cohort's apart. The device's alone.
#[cfg(test)]
pub(crate) const INTERLEAVED: u32 = 1 << 31;

/// No slot: the answers' one row goes to scalar fields.
pub(crate) const NO_SLOT: u32 = u32::MAX;

numbers! {
    /// What instructions do.
    pub(crate) enum Code: u16 {
        Segment,
        Fold,
        PutText,
        PutHtml,
        PutEscaped,
        PutInt,
        PutFloat,
        PutBool,
        IntToText,
        FloatToText,
        BoolToText,
        Concat,
        Text,
        Replace,
        End,
        Finish,
        Jump,
        JumpUnless,
        Copy,
        Field,
        Length,
        Item,
        ConstantItem,
        IntArithmetic,
        FloatArithmetic,
        NegateInt,
        NegateFloat,
        AbsoluteInt,
        AbsoluteFloat,
        CompareText,
        CompareInt,
        CompareFloat,
        Not,
        TruthText,
        TruthInt,
        TruthFloat,
        IntToFloat,
        FloatToInt,
        TextToInt,
        TextToFloat,
        TextTest,
        TextLength,
        LoopBegin,
        FilterBegin,
        FilterNext,
        FilterKeep,
        FilterEnd,
        Turn,
        TurnKept,
        TurnEnd,
        Query,
        Status,
        Header,
        File,
        SessionCreate,
        SessionDestroy,
    }
}

/// A function's number in the kernel; the escapes come last, in their order.
pub(crate) fn text_function(function: TextFunction) -> u32 {
    match function {
        TextFunction::Upper => 0,
        TextFunction::Lower => 1,
        TextFunction::Title => 2,
        TextFunction::Capitalize => 3,
        TextFunction::Trim => 4,
        TextFunction::First => 5,
        TextFunction::Last => 6,
        TextFunction::UrlEncode => 7,
        TextFunction::Md5 => 8,
        TextFunction::Escape(escape) => 9 + escape_number(escape),
    }
}

/// An escape's number in the kernel.
pub(super) const fn escape_number(escape: Escape) -> u32 {
    match escape {
        Escape::None => 0,
        Escape::Html => 1,
        Escape::Percent => 2,
        Escape::Header => 3,
        Escape::Json => 4,
    }
}

structs! {
    /// An instruction, 16 bytes, loaded at once by a warp.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Instruction {
        /// Which one: see [`Code`].
        pub(crate) code: u16,
        /// A register, or nothing; of what puts a value, how it is escaped.
        pub(crate) a: u16,
        /// A register, or nothing.
        pub(crate) b: u16,
        /// Likewise.
        pub(crate) c: u16,
        /// A jump's target, a slot, a number, or one more register (`Replace`); of what puts a
        /// value, the fragment before it.
        pub(crate) d: u32,
        /// A number; of what puts a value, that fragment's bytes, or 0.
        pub(crate) e: u32,
    }

    /// A constant of a stage.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Constant {
        /// Its register.
        pub(crate) reg: u32,
        pub(crate) unused: u32,
        /// Its bits.
        pub(crate) bits: u64,
    }

    /// What a body has next. It takes the place of a segment.
    pub(crate) struct Stretch {
        /// From where its kind lies.
        pub(crate) offset: u32,
        /// Bytes, and in the upper two bits its kind.
        pub(crate) length: u32,
    }

    /// A fragment's place among the bytes of all fragments.
    pub(crate) struct Fragment {
        /// A multiple of 16.
        pub(crate) offset: u32,
        /// Bytes.
        pub(crate) length: u32,
    }

    /// A header that a lane sets.
    pub(crate) struct HeaderValue {
        /// Index into the program's header names.
        pub(crate) name: u32,
        pub(crate) unused: u32,
        /// In the arena.
        pub(crate) value: View,
    }

    /// A column that answers are decoded to.
    #[derive(PartialEq, Eq)]
    pub(crate) struct DecodedColumn {
        /// Its slot in the table of columns.
        pub(crate) slot: u32,
        /// 1: texts; 0: integers.
        pub(crate) is_text: u32,
    }
}

pointing! {
    /// Where each lane's share of the buffers is.
    pub(crate) struct Regions<'m> {
        runs: Slice<'m, u8> [lanes * run_stride],
        /// A lane's are as many apart as there are lanes.
        segments: Slice<'m, Segment> [lanes * segment_stride],
        /// Bytes of a run's share, a multiple of 16.
        run_stride: u32,
        segment_stride: u32,
        /// Where in the arena the shares for texts begin, a multiple of 16.
        text_base: u32,
        /// Bytes of a share, a multiple of 16.
        text_stride: u32,
        queries: Slice<'m, View> [lanes * query_stride],
        headers: Slice<'m, HeaderValue> [lanes * header_stride],
        query_stride: u32,
        header_stride: u32,
    }
    beside {
        lanes: u32,
    }
}

impl Regions<'_> {
    /// How many lanes have shares.
    pub(super) fn lanes(&self) -> Count {
        self.lanes.into()
    }

    /// Where in the arena the last share for texts ends.
    pub(super) fn text_end(&self) -> Count {
        self.lanes() * self.text_stride + self.text_base
    }
}

/// Most bytes of a lane's body, of the texts that it makes, and of those that its cohort has. What
/// comes of one of them, six times as much where it is escaped, is counted in 32 bits with what was
/// there before; and a run is a stretch.
pub(crate) const LANE_BYTES_MAX: usize = 1 << 29;
const _: () = assert!(7 * LANE_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(LANE_BYTES_MAX <= STRETCH_BYTES_MAX as usize);

/// Of a stretch's length: its bytes.
pub(crate) const STRETCH_BYTES_MAX: u32 = (1 << 30) - 1;
/// One of the lane's run.
pub(crate) const STRETCH_RUN: u32 = 0;
/// One of the fragments.
pub(crate) const STRETCH_FRAGMENT: u32 = 1 << 30;
/// One of the arena.
#[cfg(test)]
pub(crate) const STRETCH_TEXT: u32 = 2 << 30;

/// In the length of a text that is a value: HTML changes nothing in it.
#[cfg(test)]
pub(crate) const TEXT_PLAIN: u32 = 1 << 31;

/// Registers of a warp are kept in shared memory up to so many bytes; with more, fewer warps would
/// run at a time than with global memory.
const SHARED_REGISTERS_MAX: usize = 40 << 10;

/// Shared memory that a block may have on every device that the kernels run on (compute capability
/// 8.6, 8.9).
const SHARED_MAX: usize = 99 << 10;

const _: () = assert!(
    STAGE_WARPS as usize * SHARED_REGISTERS_MAX + SHARED_CODE_MAX * size_of::<Instruction>()
        <= SHARED_MAX
);

/// Warps of a block of `run_stage`.
pub(crate) const STAGE_WARPS: u32 = 2;

/// Instructions of a program that a block keeps in shared memory; of more it keeps none.
const SHARED_CODE_MAX: usize = 1024;

/// How many instructions of a program of so many a block keeps in shared memory.
pub(crate) fn shared_code(instructions: usize) -> u32 {
    match instructions <= SHARED_CODE_MAX {
        true => instructions as u32,
        false => 0,
    }
}

/// Words of a warp's registers: the program's, one for what is left of the lane's limits, and one
/// for how much of its run is told.
fn register_words(registers: u32) -> usize {
    (registers as usize + 2) * WARP
}

/// Bytes of shared memory for a warp's registers; `None` where they are in global memory.
fn shared_registers(registers: u32) -> Option<u32> {
    let bytes = register_words(registers) * size_of::<u64>();
    (bytes <= SHARED_REGISTERS_MAX).then_some(bytes as u32)
}

/// Words of global memory for so many lanes' registers; none where they are in shared memory.
pub(crate) fn spilled_words(lanes: usize, registers: u32) -> usize {
    match shared_registers(registers) {
        Some(_) => 0,
        None => lanes.div_ceil(WARP) * register_words(registers),
    }
}

signatures! {
    /// Arguments of `run_stage` and of `run_stage_spilled`, whose registers are in global memory.
    pub(crate) struct StageArgs<'m> {
        code: Slice<'m, Instruction> [shared_code],
        constants: Slice<'m, Constant> [constant_count],
        parts: Slice<'m, u16>,
        tables: Slice<'m, u64>,
        columns: Columns<'m>,
        arena: Slice<'m, u8> [regions.text_end()],
        fragment_bytes: Slice<'m, u8>,
        case_tables: Slice<'m, u8>,
        /// Of `run_stage_spilled` alone.
        registers: Slice<'m, u64>
            [Count::from(spilled_words(lanes.get(), register_count.get() as u32))],
        /// None: lane i is the launch's i-th.
        lane_list: Option<Slice<'m, u32>> [lanes],
        /// None: there are as many lanes as `lanes` says.
        lane_count: Option<Slice<'m, u32>> [Count::from(1u32)],
        results: Slice<'m, LaneResult> [lanes],
        regions: Regions<'m>,
        lanes: u32,
        register_count: u32,
        constant_count: u32,
        has_call: u32,
        body_bytes_max: u32,
        text_bytes_max: u32,
        turns_max: u32,
        item_pitch: u32,
        shared_code: u32,
        stretches: u32,
    }
    where { regions.lanes() >= lanes }
    launch Stage or StageSpilled if shared_registers(register_count.get() as u32).is_none() =>
        lanes.over(STAGE_WARPS * WARP as u32).with_shared(
            STAGE_WARPS * shared_registers(register_count.get() as u32).unwrap_or(0)
                + shared_code.get() as u32 * size_of::<Instruction>() as u32
        );

    /// Arguments of `decode_answers`.
    pub(crate) struct DecodeArgs<'m> {
        decoded: Slice<'m, DecodedColumn> [decoded_count],
        columns: Columns<'m>,
        arena: Slice<'m, u8>,
        /// None: a lane's answers stand where its queries do.
        asked: Option<Slice<'m, Span>> [lanes],
        answers: Slice<'m, View> [lanes * query_stride],
        lane_list: Option<Slice<'m, u32>> [lanes],
        lane_count: Option<Slice<'m, u32>> [Count::from(1u32)],
        results: Slice<'m, LaneResult> [lanes],
        rows_needed: Slice<'m, u32> [Count::from(1u32)],
        lanes: u32,
        query_stride: u32,
        decoded_count: u32,
        status_slot: u32,
        spans_slot: u32,
        item_stride: u32,
        item_pitch: u32,
        unused: u32,
    }
    launch Decode => lanes.over(128);
}
