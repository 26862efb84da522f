// The instructions of a stage's program (src/program.rs makes them) and what a launch of it is
// given.
#pragma once
#include "abi.cuh"

struct __align__(16) Instruction {
    u16 code;
    u16 a;
    u16 b;
    u16 c;
    u32 d;
    u32 e;
};

// As src/abi/stage.rs numbers them: what pages are made of, most of all, is first, then what else
// writes bytes to the run, then what makes texts, then the rest. What may lead elsewhere than to
// the next instruction stands together twice: END to JUMP_UNLESS, LOOP_BEGIN to TURN_END.
enum Code : u16 {
    CODE_SEGMENT,
    CODE_FOLD,
    CODE_PUT_TEXT,
    CODE_PUT_HTML,
    CODE_PUT_ESCAPED,
    CODE_PUT_INT,
    CODE_PUT_FLOAT,
    CODE_PUT_BOOL,
    CODE_INT_TO_TEXT,
    CODE_FLOAT_TO_TEXT,
    CODE_BOOL_TO_TEXT,
    CODE_CONCAT,
    CODE_TEXT,
    CODE_REPLACE,
    CODE_END,
    CODE_FINISH,
    CODE_JUMP,
    CODE_JUMP_UNLESS,
    CODE_COPY,
    CODE_FIELD,
    CODE_LENGTH,
    CODE_ITEM,
    CODE_CONSTANT_ITEM,
    CODE_INT_ARITHMETIC,
    CODE_FLOAT_ARITHMETIC,
    CODE_NEGATE_INT,
    CODE_NEGATE_FLOAT,
    CODE_ABSOLUTE_INT,
    CODE_ABSOLUTE_FLOAT,
    CODE_COMPARE_TEXT,
    CODE_COMPARE_INT,
    CODE_COMPARE_FLOAT,
    CODE_NOT,
    CODE_TRUTH_TEXT,
    CODE_TRUTH_INT,
    CODE_TRUTH_FLOAT,
    CODE_INT_TO_FLOAT,
    CODE_FLOAT_TO_INT,
    CODE_TEXT_TO_INT,
    CODE_TEXT_TO_FLOAT,
    CODE_TEXT_TEST,
    CODE_TEXT_LENGTH,
    CODE_LOOP_BEGIN,
    CODE_FILTER_BEGIN,
    CODE_FILTER_NEXT,
    CODE_FILTER_KEEP,
    CODE_FILTER_END,
    CODE_TURN,
    CODE_TURN_KEPT,
    CODE_TURN_END,
    CODE_QUERY,
    CODE_STATUS,
    CODE_HEADER,
    CODE_FILE,
    CODE_SESSION_CREATE,
    CODE_SESSION_DESTROY,
};

// Text functions, as src/abi/stage.rs numbers them.
enum TextFunction : u32 {
    TEXT_UPPER,
    TEXT_LOWER,
    TEXT_TITLE,
    TEXT_CAPITALIZE,
    TEXT_TRIM,
    TEXT_FIRST,
    TEXT_LAST,
    TEXT_URL_ENCODE,
    TEXT_MD5,
    // Then the escapes, in the order of Escape.
    TEXT_ESCAPE,
};

// How a text is made harmless; the engine's Escape.
enum Escape : u32 {
    ESCAPE_NONE,
    ESCAPE_HTML,
    ESCAPE_PERCENT,
    ESCAPE_HEADER,
    ESCAPE_JSON,
};

// The engine's TextTest.
enum TextTest : u32 {
    TEST_CONTAINS,
    TEST_STARTS_WITH,
    TEST_ENDS_WITH,
};

struct __align__(16) Constant {
    u32 reg;
    u32 unused;
    u64 bits;
};

// A header that a lane sets.
struct HeaderValue {
    u32 name;
    u32 unused;
    View value;
};

// A fragment: its place among all fragments of the service, which begin at multiples of 16 and are
// filled up with PAD.
struct __align__(8) Fragment {
    u32 offset;
    u32 length;
};

// What a body has next, where answers stay on the device: nothing is copied that lies somewhere
// already. It takes the place of a segment.
struct __align__(8) Stretch {
    // From where its kind lies.
    u32 offset;
    // Bytes, and in the upper two bits its kind.
    u32 length;
};

#define STRETCH_BYTES_MAX 0x3fffffffu
// Of the lane's run, of the fragments, of the arena.
#define STRETCH_RUN 0u
#define STRETCH_FRAGMENT 0x40000000u
#define STRETCH_TEXT 0x80000000u

// What each lane of a launch may use, and how large its share of each buffer is.
struct Regions {
    // Output: runs (bytes, a multiple of 16) and segments. Those of one lane are as many apart as
    // there are lanes: neighbors, who write their n-th together, write side by side.
    u8* runs;
    Segment* segments;
    u32 run_stride;
    u32 segment_stride;
    // Texts made: bytes of the arena from text_base on, a multiple of 16 each.
    u32 text_base;
    u32 text_stride;
    View* queries;
    HeaderValue* headers;
    u32 query_stride;
    u32 header_stride;
};

struct StageArgs {
    const Instruction* code;
    const Constant* constants;
    const u16* parts;
    const u64* tables;
    const u64* columns;
    u8* arena;
    const u8* fragment_bytes;
    const u8* case_tables;
    // Registers in global memory, where the block's shared memory is too small. A warp's share
    // after the other: of each register 32 words, and of what else is kept there.
    u64* registers;
    // The lanes to run: lane_list[i], or i where there is no list; `lanes` of them, or *lane_count
    // if that is less.
    const u32* lane_list;
    const u32* lane_count;
    // By place in the launch, like the regions: in and out. Lanes that are not LANE_ACTIVE are left
    // alone.
    LaneResult* results;
    Regions regions;
    u32 lanes;
    u32 register_count;
    u32 constant_count;
    // Does the stage end with a call? Else its lanes are finished.
    u32 has_call;
    u32 body_bytes_max;
    u32 text_bytes_max;
    u32 turns_max;
    // Lanes that a line of interleaved items is for.
    u32 item_pitch;
    // Instructions that a block keeps in shared memory: all of them, or 0 where they are too many.
    u32 shared_code;
    // Bodies are said in stretches.
    u32 stretches;
};
