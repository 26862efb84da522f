//! What `kernels/stage.cu` is given: a stage's program, and answers to be decoded.

use crate::gpu::Address;
use rhythm_engine::cohort::View;
use rhythm_engine::program::{Escape, TextFunction};

/// No slot: the answers' one row goes to scalar fields.
pub(crate) const NO_SLOT: u32 = u32::MAX;

numbers! {
    /// What instructions do.
    pub(crate) enum Code: u16 {
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
        Segment,
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
    }
}

structs! {
    /// An instruction, 16 bytes, loaded at once by a warp.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Instruction {
        /// Which one: see [`Code`].
        pub(crate) code: u16,
        /// Registers, or nothing.
        pub(crate) a: u16,
        /// Likewise.
        pub(crate) b: u16,
        /// Likewise.
        pub(crate) c: u16,
        /// A jump's target, a slot, a number.
        pub(crate) d: u32,
        /// Likewise.
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

    /// Where each lane's share of the buffers is.
    pub(crate) struct Regions {
        pub(crate) runs: Address,
        pub(crate) segments: Address,
        /// Bytes of a run's share, a multiple of 16.
        pub(crate) run_stride: u32,
        pub(crate) segment_stride: u32,
        /// Where in the arena the shares for texts begin, a multiple of 16.
        pub(crate) text_base: u32,
        /// Bytes of a share, a multiple of 16.
        pub(crate) text_stride: u32,
        pub(crate) queries: Address,
        pub(crate) headers: Address,
        pub(crate) query_stride: u32,
        pub(crate) header_stride: u32,
    }

    /// Arguments of `run_stage`.
    pub(crate) struct StageArgs {
        pub(crate) code: Address,
        pub(crate) constants: Address,
        pub(crate) parts: Address,
        pub(crate) tables: Address,
        pub(crate) columns: Address,
        pub(crate) arena: Address,
        pub(crate) fragment_bytes: Address,
        pub(crate) case_tables: Address,
        /// Of `run_stage_spilled` alone.
        pub(crate) registers: Address,
        /// Null: lane i is the launch's i-th.
        pub(crate) lane_list: Address,
        /// Null: there are as many lanes as `lanes` says.
        pub(crate) lane_count: Address,
        pub(crate) results: Address,
        pub(crate) regions: Regions,
        pub(crate) lanes: u32,
        pub(crate) register_count: u32,
        pub(crate) constant_count: u32,
        pub(crate) has_call: u32,
        pub(crate) body_bytes_max: u32,
        pub(crate) text_bytes_max: u32,
        pub(crate) turns_max: u32,
        pub(crate) unused: u32,
    }

    /// A column that answers are decoded to.
    #[derive(PartialEq, Eq)]
    pub(crate) struct DecodedColumn {
        /// Its slot in the table of columns.
        pub(crate) slot: u32,
        /// 1: texts; 0: integers.
        pub(crate) is_text: u32,
    }

    /// Arguments of `decode_answers`.
    pub(crate) struct DecodeArgs {
        pub(crate) decoded: Address,
        pub(crate) columns: Address,
        pub(crate) arena: Address,
        /// Null: a lane's answers stand where its queries do.
        pub(crate) asked: Address,
        pub(crate) answers: Address,
        pub(crate) lane_list: Address,
        pub(crate) lane_count: Address,
        pub(crate) results: Address,
        pub(crate) rows_needed: Address,
        pub(crate) lanes: u32,
        pub(crate) query_stride: u32,
        pub(crate) decoded_count: u32,
        pub(crate) status_slot: u32,
        pub(crate) spans_slot: u32,
        pub(crate) item_stride: u32,
    }
}

/// Arguments of `run_stage_spilled`: the same as of `run_stage`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct SpilledStageArgs(pub(crate) StageArgs);

arguments! {
    StageArgs = Stage,
    SpilledStageArgs as StageArgs = StageSpilled,
    DecodeArgs = Decode,
}
