// Layouts: what becomes of runs and fragments (paper, section 4.3.2; the last two are not in the
// paper).
//
//   column      column-major: a thread a lane; unit u of the warp's 32 lanes lies side by side, so
//               that a warp stores 512 bytes at once. Lanes are filled up before each fragment
//               until they are level (the paper's padding, by a maximum over the warp), and from
//               there write the same units together.
//   transposed  the same turned back to one body after the other, the padding squeezed out on the
//               way. The paper pads with white space, which stays in the page; here it is a byte
//               that no text has, and bodies stay what the page says.
//   row         row-major: a warp a request, 512 bytes at a time, a unit of 16 a thread.
//   runs        the runs alone, and where the fragments go: whoever sends the answer has the
//               fragments.
//
// lane_offsets says where each lane's body goes when bodies are delivered one after the other;
// deliver_texts takes along what else the host needs of a lane.
#include "layout.cuh"

#define SCAN_THREADS 256u

DEVICE u64 shfl_up(u64 value, u32 by) { return __shfl_up_sync(FULL_MASK, value, by); }
DEVICE u32 shfl_up(u32 value, u32 by) { return __shfl_up_sync(FULL_MASK, value, by); }

DEVICE void add(LaneOffsets& to, const LaneOffsets& more) {
    to.body += more.body;
    to.segments += more.segments;
    // As much as can be said at most: the host sees that there is no room for so much.
    to.texts = to.texts + more.texts < to.texts ? ~0u : to.texts + more.texts;
    to.queries += more.queries;
    to.headers += more.headers;
}

DEVICE LaneOffsets size_of(const LaneResult& result, u32 runs_only) {
    LaneOffsets size = {};
    bool finished = result.outcome == LANE_FINISHED;
    if (finished)
        size.body = ((runs_only ? result.run_length : result.body_length) + UNIT - 1) & ~(UNIT - 1);
    if (finished && runs_only) size.segments = result.segment_count;
    if (finished || result.outcome == LANE_ACTIVE) {
        size.texts = result.texts_length;
        size.queries = result.query_count;
        size.headers = result.header_count;
    }
    return size;
}

// Prefix sums over the lanes, by one block: within warps by shuffles, over warps in shared memory,
// then on to the next 256 lanes.
KERNEL(lane_offsets, OffsetsArgs, SCAN_THREADS) {
    SHARED_ARRAY(LaneOffsets, warps, SCAN_THREADS / WARP);
    u32 warp = threadIdx.x / WARP;
    LaneOffsets before = {};
    for (u32 first = 0; first < args.lanes; first += SCAN_THREADS) {
        u32 index = first + threadIdx.x;
        LaneOffsets size = {};
        if (index < args.lanes) size = size_of(args.results[index], args.runs_only);
        LaneOffsets sum = size;
        for (u32 by = 1; by < WARP; by *= 2) {
            LaneOffsets lower = {shfl_up(sum.body, by), shfl_up(sum.segments, by),
                                 shfl_up(sum.texts, by), shfl_up(sum.queries, by),
                                 shfl_up(sum.headers, by)};
            if (warp_lane() >= by) add(sum, lower);
        }
        if (warp_lane() == WARP - 1) warps[warp] = sum;
        __syncthreads();
        LaneOffsets all = before;
        for (u32 other = 0; other < SCAN_THREADS / WARP; ++other) {
            if (other < warp) add(before, warps[other]);
            add(all, warps[other]);
        }
        LaneOffsets start = before;
        add(start, sum);
        start.body -= size.body;
        start.segments -= size.segments;
        start.texts -= size.texts;
        start.queries -= size.queries;
        start.headers -= size.headers;
        if (index < args.lanes) args.offsets[index] = start;
        before = all;
        // The sums of the warps have been read by all before they are written again.
        __syncthreads();
    }
    if (threadIdx.x == 0) args.offsets[args.lanes] = before;
}

// Copies a text to where texts are delivered and gives its place there.
DEVICE View deliver(const TextsArgs& args, View text, u32& at) {
    View to = {at, text.length};
    Writer writer(args.texts_out + at, (text.length + 7) & ~7u);
    writer.text(args.arena + text.offset, text.length);
    writer.finish();
    at += (text.length + 7) & ~7u;
    return to;
}

// A thread a lane: these are few and short.
KERNEL(deliver_texts, TextsArgs, 128) {
    u32 index = global_thread();
    if (index >= args.lanes) return;
    LaneResult result = args.results[index];
    LaneOffsets offsets = args.offsets[index];
    const LaneOffsets& sums = args.offsets[args.lanes];
    // Where the room is too small for all of them the host sees that from the sums, and asks again.
    bool fits = sums.texts <= args.texts_capacity && sums.queries <= args.queries_capacity &&
                sums.headers <= args.headers_capacity;
    if (fits && result.outcome <= LANE_FINISHED) {
        u32 lane = args.lane_list ? args.lane_list[index] : index;
        u32 at = offsets.texts;
        for (u32 i = 0; i < result.query_count; ++i) {
            View text = args.regions.queries[u64(args.regions.query_stride) * index + i];
            args.queries_out[offsets.queries + i] = {lane, 0, deliver(args, text, at)};
        }
        for (u32 i = 0; i < result.header_count; ++i) {
            HeaderValue header = args.regions.headers[u64(args.regions.header_stride) * index + i];
            args.headers_out[offsets.headers + i] = {lane, header.name,
                                                     deliver(args, header.value, at)};
        }
        if (result.file.length != NO_TEXT) result.file = deliver(args, result.file, at);
    }
    args.results_out[index] = result;
}

#define ROW_WARPS 4u

// How many parts a lane has.
DEVICE u32 parts_of(const Pieces& pieces, u32 segment_count) {
    u32 body = pieces.arena ? segment_count : 2 * segment_count + 1;
    return body + (pieces.heads ? HEAD_PARTS : 0);
}

// The part that a stretch of a lane is.
DEVICE Part part_of(const Pieces& pieces, u32 index, Stretch stretch) {
    u32 kind = stretch.length & ~STRETCH_BYTES_MAX;
    const u8* from = kind == STRETCH_FRAGMENT ? pieces.fragment_bytes
                     : kind == STRETCH_TEXT   ? pieces.arena
                                              : pieces.runs + u64(pieces.run_stride) * index;
    return {from + stretch.offset, stretch.length & STRETCH_BYTES_MAX};
}

// A lane's parts: those of its head, then its stretches; or of its run and of its fragments by
// turns, the run's end last.
DEVICE Part part_of(const Pieces& pieces, u32 index, u32 part, u32 run_length, u32 segment_count) {
    u32 head = pieces.heads ? HEAD_PARTS : 0;
    if (part < head) return head_part(pieces, index, part);
    if (pieces.arena) return part_of(pieces, index, stretch_of(pieces, index, part - head));
    u32 at = (part - head) / 2;
    if ((part - head) % 2 == 1) {
        Fragment fragment = pieces.fragments[segment_of(pieces, index, at).fragment];
        return {pieces.fragment_bytes + fragment.offset, fragment.length};
    }
    u32 from = at == 0 ? 0 : segment_of(pieces, index, at - 1).run_end;
    u32 to = at == segment_count ? run_length : segment_of(pieces, index, at).run_end;
    return {pieces.runs + u64(pieces.run_stride) * index + from, to - from};
}

// A part that has whole units of the answer to itself.
struct __align__(16) Whole {
    // Where the answer's first byte would be if all of it lay as the part does.
    u64 origin;
    // Behind the last such unit.
    u32 end;
    u32 unused;
};

// What a warp has in view of an answer: 32 parts, in order. Each unit of it either is in one part,
// or has bytes of several and is put together beforehand.
struct PartsInView {
    // Of the parts that have whole units, in order.
    Whole wholes[WARP];
    // The other units, in order; the first is the one in which the view begins, where it does not
    // begin with one.
    uint4 mixed[WARP + 1];
};

// The 16 bytes from `from` on, of which those from `first` to before `end` (0 to 16) are wanted: by
// aligned loads that each have a wanted byte.
DEVICE uint4 load_unit(u64 from, u32 first, u32 end) {
    u32 skip = u32(from) & (UNIT - 1);
    const uint4* units = GLOBAL(reinterpret_cast<const uint4*>(from - skip));
    uint4 low = make_uint4(0, 0, 0, 0), high = low;
    if (skip + first < UNIT) low = units[0];
    if (skip + end > UNIT) high = units[1];
    return join(low, high, skip);
}

// Puts the bytes from `first` to before `end` of a unit into one of which others put the rest.
DEVICE void mix(uint4& to, uint4 unit, u32 first, u32 end) {
    unit = bytes_within_unit(unit, first, end);
    // Most pieces are short.
    if (unit.x) atomicOr(&to.x, unit.x);
    if (unit.y) atomicOr(&to.y, unit.y);
    if (unit.z) atomicOr(&to.z, unit.z);
    if (unit.w) atomicOr(&to.w, unit.w);
}

// A warp a request, 32 parts of its answer at a time.
//
// First a thread a part: the bytes at its ends that have a unit together with other parts' are put
// together in shared memory. Then a thread a unit, 512 bytes at a time: whole ones come from where
// their part lies, by two loads, the others from shared memory. Which part, a warp finds by a bit
// for each that begins within the 32 units. So what is many instructions (a piece of a unit) is
// done for 32 parts at once, wherever they are, and what is done for each unit is few.
KERNEL(render_row, RowArgs, ROW_WARPS* WARP WITH_BLOCKS(12)) {
    SHARED_ARRAY(PartsInView, views, ROW_WARPS);
    const Pieces& pieces = args.pieces;
    u32 index = global_thread() / WARP, thread = warp_lane();
    if (index >= lanes_of(pieces)) return;
    const LaneResult& result = pieces.results[index];
    if (result.outcome != LANE_FINISHED) return;
    u64 to = args.offsets ? args.offsets[index].body : args.pitch * index;
    u32 head = pieces.heads ? pieces.head_lengths[index] : 0;
    u64 bytes = u64(head) + (args.runs_only ? result.run_length : result.body_length);
    // Too large for where it goes: the host sees that, and asks again.
    u64 room_end = to + ((bytes + UNIT - 1) & ~u64(UNIT - 1));
    if (room_end > args.out_capacity || (!args.offsets && room_end > to + args.pitch)) return;
    PartsInView& view = views[threadIdx.x / WARP];
    uint4* out = GLOBAL(reinterpret_cast<uint4*>(args.out + to));
    u32 run_length = result.run_length;
    u32 segment_count = args.runs_only ? 0 : result.segment_count;
    u32 count = parts_of(pieces, segment_count);
    u32 head_parts = pieces.heads ? HEAD_PARTS : 0;
    u32 before = (1u << thread) - 1;
    // Of the next view, where bodies are said in stretches.
    Stretch ahead = {0, 0};
    // Bytes of the answer that are in earlier views; those of an unfinished unit are mixed[0].
    u32 done = 0;
#pragma unroll 1
    for (u32 first = 0; first < count; first += WARP) {
        Part part = {};
        if (first + thread < count)
            part = first > 0 && pieces.arena
                       ? part_of(pieces, index, ahead)
                       : part_of(pieces, index, first + thread, run_length, segment_count);
        u32 end = done + sum_to_here(part.length), start = end - part.length;
        u64 origin = reinterpret_cast<u64>(part.bytes) - start;
        u32 start_unit = start / UNIT, end_unit = end / UNIT;
        u32 whole_unit = (start + UNIT - 1) / UNIT;
        // The part ends within a unit in which nothing ended before.
        bool begins_mixed = end % UNIT != 0 && (start % UNIT == 0 || start_unit != end_unit);
        bool has_whole = whole_unit < end_unit;
        u32 mixes = __ballot_sync(FULL_MASK, begins_mixed);
        u32 wholes = __ballot_sync(FULL_MASK, has_whole);
        __syncwarp(FULL_MASK);
        view.mixed[thread + 1] = make_uint4(0, 0, 0, 0);
        if (has_whole) view.wholes[__popc(wholes & before)] = {origin, end_unit, 0};
        __syncwarp(FULL_MASK);
        u32 at_start = __popc(mixes & before);
        bool has_start = start % UNIT != 0 && part.length != 0;
        u32 start_end = smaller(UNIT, end - start_unit * UNIT);
        // Both loads, and that of the next view's part, are under way together.
        uint4 at_begin = make_uint4(0, 0, 0, 0), at_end = at_begin;
        if (has_start) at_begin = load_unit(origin + start_unit * UNIT, start % UNIT, start_end);
        if (begins_mixed) at_end = load_unit(origin + end_unit * UNIT, 0, end % UNIT);
        if (pieces.arena && first + WARP + thread < count)
            ahead = stretch_of(pieces, index, first + WARP + thread - head_parts);
        if (has_start) mix(view.mixed[at_start], at_begin, start % UNIT, start_end);
        if (begins_mixed) mix(view.mixed[at_start + 1], at_end, 0, end % UNIT);
        __syncwarp(FULL_MASK);
        u32 view_end = __shfl_sync(FULL_MASK, end, WARP - 1);
        // Whole units, and in the end what is left.
        u32 units = first + WARP < count ? view_end / UNIT : (view_end + UNIT - 1) / UNIT;
        u32 first_unit = done / UNIT;
        // The unit that the view begins within, which is no part's.
        u32 shared_unit = done % UNIT != 0 ? first_unit : ~0u;
#pragma unroll 1
        for (u32 chunk = first_unit & ~(WARP - 1); chunk < units;) {
            // How many are before the chunk's second unit, or before the chunk; and a bit for each
            // unit in which one begins.
            u32 wholes_before = __popc(__ballot_sync(FULL_MASK, has_whole && whole_unit <= chunk));
            u32 mixed_before = __popc(__ballot_sync(FULL_MASK, begins_mixed && end_unit < chunk));
            u32 whole_at = whole_unit - chunk - 1, mixed_at = end_unit - chunk;
            u32 beginning = __reduce_or_sync(
                FULL_MASK, has_whole && whole_at < WARP - 1 ? 2u << whole_at : 0);
            u32 mixing =
                __reduce_or_sync(FULL_MASK, begins_mixed && mixed_at < WARP ? 1u << mixed_at : 0);
            u32 unit = chunk + thread;
            if ((beginning | mixing) == 0 && chunk >= first_unit && chunk != shared_unit &&
                wholes_before > 0 && chunk + WARP <= view.wholes[wholes_before - 1].end) {
                // All of it, and perhaps more, is of one long part.
                Whole whole = view.wholes[wholes_before - 1];
                u64 from = whole.origin + unit * UNIT;
                // Two at a time: the loads of both are under way before the first store.
#pragma unroll 1
                for (; chunk + 2 * WARP <= whole.end; chunk += 2 * WARP) {
                    uint4 first = load_unit(from, 0, UNIT);
                    uint4 second = load_unit(from + WARP * UNIT, 0, UNIT);
                    out[unit] = first;
                    out[unit + WARP] = second;
                    from += 2 * WARP * UNIT;
                    unit += 2 * WARP;
                }
                if (chunk + WARP <= whole.end) {
                    out[unit] = load_unit(from, 0, UNIT);
                    chunk += WARP;
                }
                continue;
            }
            if (unit >= first_unit && unit < units) {
                uint4 bytes;
                if (unit == shared_unit || (mixing >> thread & 1) != 0) {
                    bytes = view.mixed[unit == shared_unit
                                           ? 0
                                           : 1 + mixed_before + __popc(mixing & before)];
                } else {
                    u32 which = wholes_before + __popc(beginning & (before << 1 | 1)) - 1;
                    bytes = load_unit(view.wholes[which].origin + unit * UNIT, 0, UNIT);
                }
                out[unit] = bytes;
            }
            chunk += WARP;
        }
        done = view_end;
        __syncwarp(FULL_MASK);
        if (thread == 0) view.mixed[0] = view.mixed[__popc(mixes)];
    }
    if (args.segments_out && args.runs_only) {
        u32 first = args.offsets[index].segments;
        for (u32 i = thread; i < result.segment_count && first + i < args.segments_capacity;
             i += WARP)
            args.segments_out[first + i] = segment_of(pieces, index, i);
    }
}

// A lane's column: bytes are collected in a unit and stored when it is full.
struct ColumnWriter {
    // Where the lane's next unit goes; the one after it is a row further.
    uint4* next;
    u32 capacity;
    u32 row;
    u32 filled;
    u64 low;
    u64 high;

    DEVICE_METHOD ColumnWriter(u8* tile, u32 rows)
        : next(reinterpret_cast<uint4*>(tile) + warp_lane()),
          capacity(rows),
          row(0),
          filled(0),
          low(0),
          high(0) {}

    DEVICE_METHOD void store(uint4 unit) {
        if (row < capacity) {
            *next = unit;
            next += WARP;
        }
        ++row;
    }

    DEVICE_METHOD void store(u64 first, u64 second) {
        store(make_uint4(u32(first), u32(first >> 32), u32(second), u32(second >> 32)));
    }

    // Up to 8 bytes, the rest of the word zero.
    DEVICE_METHOD void bytes8(u64 bytes, u32 count) {
        u64 rest = 0;
        if (filled < 8) {
            low |= bytes << 8 * filled;
            if (filled > 0) high |= bytes >> (64 - 8 * filled);
        } else {
            high |= bytes << (8 * filled - 64);
            if (filled > 8) rest = bytes >> (128 - 8 * filled);
        }
        filled += count;
        if (filled >= UNIT) {
            store(low, high);
            low = rest;
            high = 0;
            filled -= UNIT;
        }
    }

    DEVICE_METHOD void text(const u8* from, u32 length) {
        for (u32 at = 0; at < length; at += 8) {
            u32 count = smaller(length - at, 8u);
            bytes8(load8(from + at, count), count);
        }
    }

    // Fills the unit under way up with padding.
    DEVICE_METHOD void fill_up() {
        if (filled == 0) return;
        u64 pads = ~0ull;
        if (filled < 8) {
            low |= pads << 8 * filled;
            high = pads;
        } else {
            high |= filled == 8 ? pads : pads << (8 * filled - 64);
        }
        store(low, high);
        low = high = filled = 0;
    }

    DEVICE_METHOD void pad_to(u32 rows) {
#pragma unroll 1
        while (row < rows) store(~0ull, ~0ull);
    }

    // A fragment's units, where none is under way.
    DEVICE_METHOD void fragment(const uint4* units, u32 count) {
        u32 at = 0;
        // Four loads under way at once: the stores between them would keep the compiler from moving
        // them.
#pragma unroll 1
        for (; at + 4 <= count; at += 4) {
            uint4 first = units[at], second = units[at + 1], third = units[at + 2],
                  fourth = units[at + 3];
            store(first);
            store(second);
            store(third);
            store(fourth);
        }
#pragma unroll 1
        for (; at < count; ++at) store(units[at]);
    }
};

#define NO_FRAGMENT 0xffffffffu

// A thread a lane, a warp a tile. Between fragments each lane writes its own bytes; before a
// fragment the lanes that have the same one next are brought level, and then store its units side
// by side.
KERNEL(render_column, ColumnArgs, 128) {
    const Pieces& pieces = args.pieces;
    u32 index = global_thread();
    u32 lanes = lanes_of(pieces);
    u32 tile = index / WARP;
    if (tile * WARP >= lanes) return;
    bool renders = index < lanes && pieces.results[index].outcome == LANE_FINISHED;
    u32 own = renders ? index : 0;
    u32 run_length = renders ? pieces.results[own].run_length : 0;
    u32 segment_count = renders ? pieces.results[own].segment_count : 0;
    ColumnWriter writer(args.tiles + u64(tile) * args.rows_capacity * (WARP * UNIT),
                        args.rows_capacity);
    for (u32 part = 0; renders && pieces.heads && part < HEAD_PARTS; ++part) {
        Part of = head_part(pieces, own, part);
        writer.text(of.bytes, of.length);
    }
    const u8* run = pieces.runs + u64(pieces.run_stride) * own;
    u32 at = 0;
    for (u32 i = 0; __any_sync(FULL_MASK, renders && i <= segment_count); ++i) {
        Segment segment = {run_length, NO_FRAGMENT};
        if (i < segment_count) segment = segment_of(pieces, own, i);
        if (i <= segment_count) {
            writer.text(run + at, segment.run_end - at);
            at = segment.run_end;
        }
        u32 having = __ballot_sync(FULL_MASK, segment.fragment != NO_FRAGMENT);
        if (segment.fragment == NO_FRAGMENT) continue;
        u32 same = __match_any_sync(having, segment.fragment);
        writer.fill_up();
        writer.pad_to(__reduce_max_sync(same, writer.row));
        Fragment fragment = pieces.fragments[segment.fragment];
        const u8* units = pieces.fragment_bytes + fragment.offset;
        writer.fragment(reinterpret_cast<const uint4*>(units), (fragment.length + UNIT - 1) / UNIT);
    }
    writer.fill_up();
    u32 rows = __reduce_max_sync(FULL_MASK, writer.row);
    if (renders) writer.pad_to(rows);
    if (warp_lane() == 0) {
        args.tile_rows[tile] = smaller(rows, args.rows_capacity);
        if (rows > args.rows_capacity) atomicMax(args.rows_needed, rows);
    }
}

// How many bytes of a unit are text: padding comes last.
DEVICE u32 text_bytes(uint4 unit) {
    u64 low = u64(unit.y) << 32 | unit.x, high = u64(unit.w) << 32 | unit.z;
    // The padding's bits are all ones, and the byte before has a zero among its own.
    u32 pads = high == ~0ull ? 8 + u32(__clzll(i64(~low))) / 8 : u32(__clzll(i64(~high))) / 8;
    return UNIT - smaller(pads, UNIT);
}

#define TURN_WARPS 8u
// A lane's bytes that wait for a whole unit, and those of a turn.
#define TURN_BYTES (WARP * UNIT + UNIT)

// The bytes of 32 units, one a thread, behind one another in `to` from `filled` on; gives how many.
DEVICE u32 squeeze(u8* to, u32 filled, uint4 unit, u32 count) {
    u32 end = sum_to_here(count);
    u8* at = to + filled + end - count;
    u64 word = u64(unit.y) << 32 | unit.x;
    for (u32 byte = 0; byte < count; ++byte) {
        if (byte == 8) word = u64(unit.w) << 32 | unit.z;
        at[byte] = u8(word);
        word >>= 8;
    }
    return __shfl_sync(FULL_MASK, end, WARP - 1);
}

// The same where all units are full: gives each thread a unit of the body, and what waits is behind
// them, as much as before.
DEVICE uint4 squeeze_full(u8* wait, u32 filled, uint4 unit) {
    if (filled == 0) return unit;
    // The end of the unit before goes ahead of the beginning of one's own.
    uint4 before =
        make_uint4(__shfl_up_sync(FULL_MASK, unit.x, 1), __shfl_up_sync(FULL_MASK, unit.y, 1),
                   __shfl_up_sync(FULL_MASK, unit.z, 1), __shfl_up_sync(FULL_MASK, unit.w, 1));
    if (warp_lane() == 0) {
        uint4 waiting = *reinterpret_cast<const uint4*>(wait);
        before = join(waiting, waiting, filled);
    }
    __syncwarp(FULL_MASK);
    if (warp_lane() == WARP - 1) *reinterpret_cast<uint4*>(wait) = join(unit, unit, UNIT - filled);
    __syncwarp(FULL_MASK);
    return join(before, unit, UNIT - filled);
}

// A block a tile: 32 rows at a time are loaded as they lie, 512 bytes a warp, and then taken lane
// by lane, a warp a lane, a unit a thread: padding is squeezed out in shared memory and whole units
// go on to the lane's body (after Ruetsch and Micikevicius, the transpose through shared memory).
KERNEL(transpose_column, TransposeArgs, TURN_WARPS* WARP) {
    SHARED_ARRAY(uint4, units, WARP * (WARP + 1));
    SHARED_ARRAY(u8, waiting, WARP * TURN_BYTES);
    const Pieces& pieces = args.pieces;
    u32 warp = threadIdx.x / WARP, thread = warp_lane();
    // Tiles past the last lane were not rendered.
    u32 rows = blockIdx.x * WARP < lanes_of(pieces) ? args.tile_rows[blockIdx.x] : 0;
    const u8* tile = args.tiles + u64(blockIdx.x) * args.rows_capacity * (WARP * UNIT);
    const uint4* from = reinterpret_cast<const uint4*>(tile) + threadIdx.x;
    // What each warp knows of its own lanes: bytes that wait, where the body goes on, and how far
    // it may; 0 for a lane without one.
    const u32 LANES = WARP / TURN_WARPS;
    u32 filled[LANES];
    u64 next[LANES], limit[LANES];
#pragma unroll
    for (u32 own = 0; own < LANES; ++own) {
        u32 index = blockIdx.x * WARP + warp * LANES + own;
        filled[own] = 0;
        next[own] = limit[own] = 0;
        if (index >= lanes_of(pieces) || pieces.results[index].outcome != LANE_FINISHED) continue;
        next[own] = args.offsets ? args.offsets[index].body : args.pitch * index;
        limit[own] =
            args.offsets ? args.out_capacity : smaller(args.out_capacity, next[own] + args.pitch);
    }
#pragma unroll 1
    for (u32 first = 0; first < rows; first += WARP) {
        // A row a warp, four times; all loads before the first store, so that they are under way
        // together.
        uint4 loaded[LANES];
#pragma unroll
        for (u32 turn = 0; turn < LANES; ++turn) {
            u32 row = turn * TURN_WARPS + warp;
            loaded[turn] = make_uint4(~0u, ~0u, ~0u, ~0u);
            if (first + row < rows) loaded[turn] = from[turn * (TURN_WARPS * WARP)];
        }
#pragma unroll
        for (u32 turn = 0; turn < LANES; ++turn)
            units[(turn * TURN_WARPS + warp) * (WARP + 1) + thread] = loaded[turn];
        from += WARP * WARP;
        __syncthreads();
#pragma unroll
        for (u32 own = 0; own < LANES; ++own) {
            if (limit[own] == 0) continue;
            u32 lane = warp * LANES + own;
            u8* wait = waiting + lane * TURN_BYTES;
            u8* out = args.out + next[own];
            uint4 unit = units[thread * (WARP + 1) + lane];
            // Most often there is no padding at all. It comes last, so the last byte tells.
            if (__all_sync(FULL_MASK, unit.w >> 24 != PAD)) {
                unit = squeeze_full(wait, filled[own], unit);
                if (next[own] + WARP * UNIT <= limit[own])
                    *reinterpret_cast<uint4*>(out + thread * UNIT) = unit;
                next[own] += WARP * UNIT;
                continue;
            }
            u32 all = filled[own] + squeeze(wait, filled[own], unit, text_bytes(unit));
            __syncwarp(FULL_MASK);
            u32 bytes = all & ~(UNIT - 1);
            bool fits = next[own] + bytes <= limit[own];
#pragma unroll 1
            for (u32 at = thread * UNIT; fits && at < bytes; at += WARP * UNIT)
                *reinterpret_cast<uint4*>(out + at) = *reinterpret_cast<const uint4*>(wait + at);
            // Bytes of the unfinished unit move to the front.
            u8 moved = bytes + thread < all ? wait[bytes + thread] : u8(0);
            __syncwarp(FULL_MASK);
            if (bytes + thread < all) wait[thread] = moved;
            __syncwarp(FULL_MASK);
            filled[own] = all - bytes;
            next[own] += bytes;
        }
        __syncthreads();
    }
    // What still waits is the end of the body.
#pragma unroll
    for (u32 own = 0; own < LANES; ++own) {
        const u8* wait = waiting + (warp * LANES + own) * TURN_BYTES;
        if (thread == 0 && filled[own] > 0 && next[own] + UNIT <= limit[own])
            *reinterpret_cast<uint4*>(args.out + next[own]) = *reinterpret_cast<const uint4*>(wait);
    }
}
