// Bodies from runs and fragments: what the kernels of layout.cu are given, and how units of 16
// bytes are put together.
#pragma once
#include "stage.cuh"
#include "writer.cuh"

// What fills up a unit of a column: no UTF-8 text has this byte, so it can be told from a body and
// squeezed out.
#define PAD 0xffu

// A column's unit, and what a thread loads or stores at once.
#define UNIT 16u

// Where a lane's things begin in what is delivered; one past the last lane: the sums.
struct LaneOffsets {
    u64 body;
    u32 segments;
    u32 texts;
    u32 queries;
    u32 headers;
};

struct OffsetsArgs {
    const LaneResult* results;
    LaneOffsets* offsets;
    u32 lanes;
    // Bodies are the runs alone.
    u32 runs_only;
};

struct TextsArgs {
    const LaneResult* results;
    const LaneOffsets* offsets;
    const u32* lane_list;
    const u8* arena;
    // Delivered: results with files' views into texts_out; queries and headers with theirs.
    LaneResult* results_out;
    struct DeliveredText* queries_out;
    struct DeliveredText* headers_out;
    u8* texts_out;
    Regions regions;
    u32 lanes;
    u32 queries_capacity;
    u32 headers_capacity;
    u32 texts_capacity;
};

// A query or a header of a lane.
struct __align__(8) DeliveredText {
    u32 lane;
    // Of a header: its name.
    u32 name;
    View text;
};

// A text among those uploaded for heads.
struct HeadText {
    u32 offset;
    u32 length;
};

#define STATUS_MIN 100u
#define STATUS_MAX 599u
// Bytes of a head's end: the field for Content-Length, and two line feeds; and where a lane's own
// lines begin behind it.
#define HEAD_END 14u
#define HEAD_LINES 16u
// Parts that a head has.
#define HEAD_PARTS 4u

// What bodies are made of.
struct Pieces {
    const LaneResult* results;
    const u8* runs;
    const Segment* segments;
    const Fragment* fragments;
    const u8* fragment_bytes;
    // Where bodies are said in stretches, which stand where segments would: what those of texts are
    // of; else null.
    const u8* arena;
    // Heads of answers that go before their bodies, or null: what each has of its own in a
    // head_stride, its end before its lines, and the length of all of it; then what heads share.
    const u8* heads;
    const u32* head_lengths;
    const u8* head_texts;
    const HeadText* status_lines;
    const u32* lane_count;
    // Date, Content-Type and what all answers of the page have, up to "Content-Length: ".
    HeadText fields;
    u32 run_stride;
    u32 segment_stride;
    u32 head_stride;
    u32 lanes;
};

struct RowArgs {
    Pieces pieces;
    // Where bodies go: at their offsets, or where there are none at multiples of `pitch`.
    const LaneOffsets* offsets;
    u8* out;
    Segment* segments_out;
    u64 out_capacity;
    u64 pitch;
    u32 segments_capacity;
    u32 runs_only;
};

struct ColumnArgs {
    Pieces pieces;
    // For each warp's 32 lanes a tile of rows_capacity rows of 32 units.
    u8* tiles;
    // Rows that each tile has in use.
    u32* tile_rows;
    // The most rows any tile needs.
    u32* rows_needed;
    u32 rows_capacity;
    u32 unused;
};

struct TransposeArgs {
    Pieces pieces;
    const LaneOffsets* offsets;
    const u8* tiles;
    const u32* tile_rows;
    u8* out;
    u64 out_capacity;
    u64 pitch;
    u32 rows_capacity;
    u32 unused;
};

DEVICE u32 lanes_of(const Pieces& pieces) {
    return pieces.lane_count ? smaller(*pieces.lane_count, pieces.lanes) : pieces.lanes;
}

// A lane's segment: those of one number lie side by side.
DEVICE const Segment& segment_of(const Pieces& pieces, u32 index, u32 at) {
    return pieces.segments[u64(pieces.lanes) * at + index];
}

// A lane's stretch, likewise.
DEVICE Stretch stretch_of(const Pieces& pieces, u32 index, u32 at) {
    return GLOBAL(reinterpret_cast<const Stretch*>(
        pieces.segments))[u64(pieces.lanes) * at + index];
}

// A part of what is rendered.
struct Part {
    const u8* bytes;
    u32 length;
};

// A part of a lane's head: the line of its status, its own lines, the fields of all, its end.
DEVICE Part head_part(const Pieces& pieces, u32 index, u32 part) {
    const u8* own = pieces.heads + u64(pieces.head_stride) * index;
    if (part == 2) return {pieces.head_texts + pieces.fields.offset, pieces.fields.length};
    if (part == 3) return {own, HEAD_END};
    u32 status = pieces.results[index].status;
    HeadText line = pieces.status_lines[(status == 0 ? 200 : status) - STATUS_MIN];
    if (part == 0) return {pieces.head_texts + line.offset, line.length};
    u32 shared = line.length + pieces.fields.length + HEAD_END;
    return {own + HEAD_LINES, pieces.head_lengths[index] - shared};
}

// The 16 bytes from byte `skip` (0 to 15) on of two units side by side.
DEVICE uint4 join(uint4 low, uint4 high, u32 skip) {
    // By two words, by one, and by bits: shifts of registers would need indices that are constants.
    bool by_two = (skip & 8) != 0, by_one = (skip & 4) != 0;
    u32 a = by_two ? low.z : low.x, b = by_two ? low.w : low.y, c = by_two ? high.x : low.z;
    u32 d = by_two ? high.y : low.w, e = by_two ? high.z : high.x, f = by_two ? high.w : high.y;
    a = by_one ? b : a;
    b = by_one ? c : b;
    c = by_one ? d : c;
    d = by_one ? e : d;
    e = by_one ? f : e;
    u32 bits = (skip & 3) * 8;
    return make_uint4(__funnelshift_r(a, b, bits), __funnelshift_r(b, c, bits),
                      __funnelshift_r(c, d, bits), __funnelshift_r(d, e, bits));
}

// The first `count` bytes (0 to 16) of a unit all ones.
DEVICE uint4 first_bytes(u32 count) {
    u64 low = count < 8 ? (1ull << (8 * count)) - 1 : ~0ull;
    u64 high = count <= 8 ? 0 : ~0ull >> (128 - 8 * count);
    return make_uint4(u32(low), u32(low >> 32), u32(high), u32(high >> 32));
}

// A unit of which only the bytes from `first` to before `end` (0 to 16) stay.
DEVICE uint4 bytes_within_unit(uint4 unit, u32 first, u32 end) {
    uint4 drop = first_bytes(first), keep = first_bytes(end);
    return make_uint4(unit.x & keep.x & ~drop.x, unit.y & keep.y & ~drop.y,
                      unit.z & keep.z & ~drop.z, unit.w & keep.w & ~drop.w);
}
