// Bodies from runs and fragments: what the kernels of layout.cu are given, and the tile in which a warp assembles 16-byte stores.
#pragma once
#include "stage.cuh"
#include "writer.cuh"

// What fills up a unit of a column: no UTF-8 text has this byte, so it can be told from a body and squeezed out.
#define PAD 0xffu

// A column's unit, and what a thread loads or stores at once.
#define UNIT 16u

// Where a lane's things begin in what is delivered; one past the last lane: the sums.
struct LaneOffsets {
    u64 body;
    u32 segments;
    u32 texts;
    u32 requests;
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
    // Delivered: results with files' views into texts_out; requests and headers with theirs.
    LaneResult* results_out;
    struct DeliveredText* requests_out;
    struct DeliveredText* headers_out;
    u8* texts_out;
    Regions regions;
    u32 lanes;
    u32 requests_capacity;
    u32 headers_capacity;
    u32 texts_capacity;
};

// A request or a header of a lane.
struct __align__(8) DeliveredText {
    u32 lane;
    // Of a header: its name.
    u32 name;
    View text;
};

// What bodies are made of.
struct Pieces {
    const LaneResult* results;
    const u8* runs;
    const Segment* segments;
    const Fragment* fragments;
    const u8* fragment_bytes;
    // Heads of answers that go before their bodies, or null: for a head_stride each, and their lengths.
    const u8* heads;
    const u32* head_lengths;
    const u32* lane_count;
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

// Four bytes from any address, by the aligned words they are in.
DEVICE u32 load4(const u8* from) {
    u64 address = reinterpret_cast<u64>(from);
    const u32* words = reinterpret_cast<const u32*>(address & ~3ull);
    u32 shift = u32(address & 3) * 8;
    return shift == 0 ? words[0] : __funnelshift_r(words[0], words[1], shift);
}

// Bytes on their way to a 16-byte aligned place: a warp gathers them in shared memory and stores whole units. All 32 threads call
// with the same arguments.
template <u32 BYTES> struct Tile {
    u8* tile;
    u8* out;
    u32 filled;

    DEVICE_METHOD Tile(u8* shared, u8* to) : tile(shared), out(to), filled(0) {}

    // Stores the first `bytes` bytes, rounded up to units.
    DEVICE_METHOD void store(u32 bytes) {
        __syncwarp(FULL_MASK);
        for (u32 at = warp_lane() * UNIT; at < bytes; at += WARP * UNIT)
            *reinterpret_cast<uint4*>(out + at) = *reinterpret_cast<const uint4*>(tile + at);
        __syncwarp(FULL_MASK);
    }

    // Copies up to what fits: single bytes up to a whole word of the tile, words, and single bytes again.
    DEVICE_METHOD void copy(const u8* from, u32 length) {
        u32 thread = warp_lane();
        u32 first = smaller((4 - filled % 4) % 4, length);
        u32 words = (length - first) / 4;
        u32 last = first + words * 4;
        if (thread < first) tile[filled + thread] = from[thread];
        u32* to = reinterpret_cast<u32*>(tile + filled + first);
        for (u32 word = thread; word < words; word += WARP) to[word] = load4(from + first + word * 4);
        if (thread < length - last) tile[filled + last + thread] = from[last + thread];
        filled += length;
    }

    DEVICE_METHOD void append(const u8* from, u32 length) {
        while (length > 0) {
            u32 part = smaller(length, BYTES - filled);
            copy(from, part);
            from += part;
            length -= part;
            if (filled == BYTES) {
                store(BYTES);
                out += BYTES;
                filled = 0;
            }
        }
    }

    DEVICE_METHOD void finish() {
        if (filled > 0) store(filled);
    }
};
