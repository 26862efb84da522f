// What the host and the kernels both know: the structs that cross, and the numbers of things.
// src/abi/ says the same in Rust; a test compares sizes, offsets and numbers.
#pragma once
#include "device.cuh"

// A text in a cohort's arena: the same struct as the engine's. Aligned, so that it is loaded at
// once.
struct __align__(8) View {
    u32 offset;
    u32 length;
};

// A view of this length is no text: an answer that has not come, a file that was not asked for.
#define NO_TEXT 0xffffffffu

// A lane's share of an array: items start .. start + length; or, with INTERLEAVED in `start`, every
// item_pitch-th from there on, so that what neighbors have at one position lies side by side.
struct __align__(8) Span {
    u32 start;
    u32 length;
};

#define INTERLEAVED 0x80000000u

// Where in an array the item at a position of a lane's share is.
DEVICE u32 item_of(Span span, u32 position, u32 item_pitch) {
    bool interleaved = (span.start & INTERLEAVED) != 0;
    return (span.start & ~INTERLEAVED) + position * (interleaved ? item_pitch : 1);
}

// A fragment's place in a lane's body: after so many bytes of the run.
struct __align__(8) Segment {
    u32 run_end;
    u32 fragment;
};

// Where a lane stands. Errors are the engine's LaneError, which are 1 and up.
enum LaneOutcome : u8 {
    LANE_ACTIVE = 0,
    LANE_FINISHED = 1,
    // One of its regions is too small: to be run again with larger ones.
    LANE_ROOM = 2,
    // It asks for something only the host computes (floats to a power): the reference runs it.
    LANE_HOST = 3,
    // Added to the error.
    LANE_FAILED = 64,
};

enum LaneError : u8 {
    ERROR_DIVISION_BY_ZERO = 1,
    ERROR_OVERFLOW,
    ERROR_OUT_OF_RANGE,
    ERROR_NOT_A_NUMBER,
    ERROR_TOO_LARGE,
    ERROR_TOO_MANY_TURNS,
    ERROR_BAD_ANSWER,
    ERROR_BACKEND_FAILED,
    ERROR_BACKEND_REFUSED,
    ERROR_BACKEND_TIMEOUT,
    ERROR_SESSIONS_FULL,
    ERROR_DEVICE_FAILED,
    ERROR_MEMORY_SHORT,
    ERROR_TOO_MUCH_TEXT,
    ERROR_ARENA_FULL,
    ERROR_TEXT_TOO_LONG,
    ERROR_NO_USER,
};

// What a lane's stage came to.
struct LaneResult {
    u8 outcome;
    // SessionChange: what its answer does to sessions.
    u8 session;
    // HTTP status; 0 means 200.
    u16 status;
    u32 run_length;
    u32 segment_count;
    u32 body_length;
    u32 query_count;
    u32 header_count;
    // The file of static/ that is its body; length NO_TEXT: none.
    View file;
    // Of SESSION_CREATE.
    i64 user;
    // Bytes of its text region that it used.
    u32 text_used;
    // Bytes of the texts that the host needs: queries, header values, the file's path.
    u32 texts_length;
};

enum SessionChange : u8 {
    SESSION_KEPT = 0,
    SESSION_CREATE = 1,
    SESSION_DESTROY = 2,
};

// A session's id: slot and secret (the engine's SessionId), where there is one.
struct SessionKey {
    u32 slot;
    u32 present;
    // The low and the high half of the secret's 128 bits.
    u64 secret[2];
};

// In the length of a text that is a column's or a register's value: nothing in it is changed for
// HTML. What decodes answers finds that out on the way; where it is not said, one must look.
#define TEXT_PLAIN 0x80000000u

// The column of a page's field is found by its slot: `columns[slot]` is the address of the values.
// A scalar field has one slot (View or i64 a lane); a list field one for its spans (Span a lane),
// then one for each column of its records (View or i64 an item).
template <class T> DEVICE T* column_of(const u64* columns, u32 slot) {
    return GLOBAL(reinterpret_cast<T*>(columns[slot]));
}
DEVICE View* text_column(const u64* columns, u32 slot) { return column_of<View>(columns, slot); }
DEVICE i64* int_column(const u64* columns, u32 slot) { return column_of<i64>(columns, slot); }
DEVICE Span* span_column(const u64* columns, u32 slot) { return column_of<Span>(columns, slot); }
// Of values of any type: a text's view has the bits that a register has.
DEVICE u64* value_column(const u64* columns, u32 slot) { return column_of<u64>(columns, slot); }
