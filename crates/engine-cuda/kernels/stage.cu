// Stages of a cohort: the answers of the backend into columns, then the program (paper, section
// 3.2, Process).
//
// run_stage interprets a program for 32 lanes at a time, a thread a lane. The program counter is a
// lane's own, but a warp always runs the lowest one: branches are run once each for the lanes that
// took them, a loop's body as often as its longest lane needs, and lanes meet again where their
// ways join (the program is laid out so). An instruction is therefore fetched and decoded once for
// the lanes that execute it, and they never part within one for long. What comes most often, a
// fragment and then a value, is one instruction.
//
// Where the paper compiles each page to kernels of its own and writes whole padded responses
// (4.3.2), a lane here writes its run, the bytes that differ, and notes where the fragments go, or
// in stretches what else lies somewhere already; layout.cu makes bodies of them in whatever layout
// is wanted.
#include "case.cuh"
#include "decode.cuh"
#include "lane.cuh"
#include "md5.cuh"
#include "search.cuh"

// What is rare and large is called: the loop of the interpreter stays small, in code and in
// registers. Writers come and go by value, so that they stay in registers, too.

DEVICE_CALL Writer make_text(Writer made, u32 function, const u8* text, u32 length,
                             const u8* case_tables) {
    switch (function) {
        case TEXT_UPPER: upper(made, case_tables, text, length); break;
        case TEXT_LOWER: lower(made, case_tables, text, length); break;
        case TEXT_TITLE: title(made, case_tables, text, length); break;
        case TEXT_CAPITALIZE: capitalize(made, case_tables, text, length); break;
        case TEXT_URL_ENCODE: url_encode(made, text, length); break;
        case TEXT_MD5: md5_hex(made, text, length); break;
        case TEXT_ESCAPE + ESCAPE_NONE: made.text(text, length); break;
        case TEXT_ESCAPE + ESCAPE_HTML: escape_html(made, text, length); break;
        case TEXT_ESCAPE + ESCAPE_PERCENT: escape_percent(made, text, length); break;
        case TEXT_ESCAPE + ESCAPE_JSON: escape_json(made, text, length); break;
        default: escape_header(made, text, length); break;
    }
    return made;
}

DEVICE_CALL Writer make_replaced(Writer made, const u8* text, u32 length, const u8* old,
                                 u32 old_length, const u8* by, u32 by_length) {
    replace(made, text, length, old, old_length, by, by_length);
    return made;
}

DEVICE_CALL u64 length_replaced(const u8* text, u32 length, const u8* old, u32 old_length,
                                u32 by_length) {
    return replaced_length(text, length, old, old_length, by_length);
}

// Texts one after the other, whose registers these are: once they are too much, no more of them, or
// they could be more than can be counted.
DEVICE_CALL Writer make_joined(Writer made, const u8* arena, const u64* registers,
                               const u16* parts, u32 count, u32 most) {
#pragma unroll 1
    for (u32 part = 0; part < count && made.length() <= most; ++part) {
        u64 text = registers[parts[part] * WARP];
        made.text(arena + u32(text), u32(text >> 32) & ~TEXT_PLAIN);
    }
    return made;
}

DEVICE_CALL Writer make_float(Writer made, double value) {
    print_float(made, value);
    return made;
}

DEVICE_CALL Calculated calculate_int(u32 operation, i64 left, i64 right) {
    i64 value = 0;
    u8 error = int_arithmetic(operation, left, right, &value);
    return {u64(value), error};
}

DEVICE_CALL Calculated calculate_float(u32 operation, double left, double right) {
    double value = 0;
    u8 error = float_arithmetic(operation, left, right, &value);
    return {bits_of_float(value), error};
}

DEVICE_CALL Calculated read_number(bool as_int, const u8* text, u32 length) {
    if (as_int) {
        i64 value = 0;
        u8 error = text_to_int(text, length, &value);
        return {u64(value), error};
    }
    double value = 0;
    u8 error = text_to_float(text, length, &value);
    return {bits_of_float(value), error};
}

DEVICE_CALL i32 order_of_texts(const u8* left, u32 left_length, const u8* right, u32 right_length) {
    return compare_texts(left, left_length, right, right_length);
}

DEVICE_CALL bool test_texts(u32 test, const u8* left, u32 left_length, const u8* right,
                            u32 right_length) {
    switch (test) {
        case TEST_CONTAINS: return text_contains(left, left_length, right, right_length);
        case TEST_STARTS_WITH: return text_starts_with(left, left_length, right, right_length);
        default: return text_ends_with(left, left_length, right, right_length);
    }
}

DEVICE_CALL u32 count_characters(const u8* text, u32 length) {
    return text_characters(text, length);
}

// Trim, first and last give a part of their operand.
DEVICE_CALL TextRange part_of(u32 function, const u8* text, u32 length) {
    switch (function) {
        case TEXT_TRIM: return trim_range(text, length);
        case TEXT_FIRST: return first_range(text, length);
        default: return last_range(text, length);
    }
}

// What a conversion came to, or the register that stands for what fails, where there is one.
template <bool SPILLED>
DEVICE Calculated or_other(Lane<SPILLED>& lane, const Instruction& op, Calculated made) {
    if (op.d != 0 && made.error != 0 && made.error != ARITHMETIC_HOST) return {lane.reg(op.c), 0};
    return made;
}

// The first position from `from` on that the filter kept; `count` where there is none.
DEVICE u64 next_kept(const u8* bits, u64 from, u64 count) {
    while (from < count) {
        u8 rest = u8(bits[from >> 3] >> (from & 7));
        if (rest) return from + u32(__ffs(rest) - 1);
        from = (from | 7) + 1;
    }
    return count;
}

// The states of loops are three registers: count, position, turn (or number kept); with a filter
// alone a fourth says where the bits are.
#define LOOP_COUNT(op) lane.reg(op.b)
#define LOOP_AT(op) lane.reg(op.b + 1)
#define LOOP_TURN(op) lane.reg(op.b + 2)
#define LOOP_BITS(op) lane.reg(op.b + 3)

// A bit a position, in the lane's text region but not charged for: the reference keeps a list
// elsewhere.
template <bool SPILLED> DEVICE void begin_filter(Lane<SPILLED>& lane, const Instruction& op) {
    u32 bytes = (u32(LOOP_COUNT(op)) + 63) / 64 * 8;
    LaneResult& result = lane.result();
    if (bytes > lane.args.regions.text_stride - result.text_used) {
        result.text_used += bytes;
        return lane.stop(LANE_ROOM);
    }
    u32 start = lane.text_start();
    LOOP_BITS(op) = start;
#pragma unroll 1
    for (u32 at = 0; at < bytes; at += 8) *reinterpret_cast<u64*>(lane.args.arena + start + at) = 0;
    result.text_used += bytes;
}

// A fragment goes here; of what puts something, the one before it, where there is one.
template <bool SPILLED> DEVICE void segment(Lane<SPILLED>& lane, const Instruction& op) {
    if (lane.args.stretches) {
        lane.tell_run();
        lane.stretch(op.d, op.e | STRETCH_FRAGMENT);
    } else {
        const Regions& regions = lane.args.regions;
        u32 at = lane.segment_count++;
        if (at < regions.segment_stride)
            GLOBAL(regions.segments)[u64(lane.args.lanes) * at + lane.index] = {lane.written, op.d};
    }
    lane.grow_body(op.e);
}

// What pages are made of besides: short fragments, and texts as they are or with what HTML needs.
template <bool SPILLED> DEVICE void put(Lane<SPILLED>& lane, const Instruction& op) {
    const u8* text;
    u32 length;
    if (op.code == CODE_FOLD) {
        text = lane.args.fragment_bytes + op.d;
        length = op.e;
    } else {
        text = lane.text(op.b);
        length = lane.length(op.b);
        if (op.e != 0) segment(lane, op);
        bool stays = op.code == CODE_PUT_TEXT || lane.is_plain(op.b);
        if (lane.args.stretches && stays && length <= STRETCH_BYTES_MAX) {
            if (length == 0) return;
            lane.tell_run();
            lane.stretch(u32(lane.reg(op.b)), length | STRETCH_TEXT);
            return lane.grow_body(length);
        }
    }
    Writer to = lane.run();
    if (op.code == CODE_PUT_HTML)
        escape_html(to, text, length);
    else
        to.text(text, length);
    lane.put(to);
}

// What is charged for the texts that an instruction looks through, of so many bytes: the engine's
// device/cost.rs has the table.
DEVICE_CALL u32 charge_of(u32 code, u32 function, u32 left, u32 right) {
    u32 shift = 4;
    switch (code) {
        case CODE_COMPARE_TEXT:
            if (function <= COMPARISON_NOT_EQUAL && left != right) return 0;
            left = left < right ? left : right;
            shift = 6;
            break;
        case CODE_TEXT_TEST:
            if (right > left) return 0;
            if (function == TEST_CONTAINS)
                left += right;
            else
                left = right, shift = 6;
            break;
        case CODE_REPLACE: left += right; break;
        case CODE_TEXT:
            if (function == TEXT_FIRST || function == TEXT_LAST)
                shift = 6;
            else if (function != TEXT_TRIM && function != TEXT_MD5)
                return 0;
            break;
        case CODE_TEXT_LENGTH: shift = 6; break;
        // Numbers that are read.
        default: break;
    }
    return left >> shift;
}

// The instructions that look through texts, a bit each.
#define READERS                                                                    \
    (1ull << CODE_COMPARE_TEXT | 1ull << CODE_TEXT_TEST | 1ull << CODE_REPLACE |   \
     1ull << CODE_TEXT | 1ull << CODE_TEXT_LENGTH | 1ull << CODE_TEXT_TO_INT |     \
     1ull << CODE_TEXT_TO_FLOAT)

// Charges for it; tells whether the lane goes on.
template <bool SPILLED> DEVICE bool pays(Lane<SPILLED>& lane, const Instruction& op) {
    return lane.pays(charge_of(op.code, op.d, lane.length(op.b), lane.length(op.c)));
}

// Everything else that writes bytes, to the run or to a text that becomes a register's value: both
// by the same code, of which there is one copy this way.
template <bool SPILLED> DEVICE void write(Lane<SPILLED>& lane, const Instruction& op) {
    const StageArgs& args = lane.args;
    if (op.code == CODE_TEXT && op.d >= TEXT_TRIM && op.d <= TEXT_LAST) {
        TextRange part = part_of(op.d, lane.text(op.b), lane.length(op.b));
        return lane.set_text(op.a, u32(lane.reg(op.b)) + part.start, part.length);
    }
    bool puts = op.code <= CODE_PUT_BOOL;
    if (puts && op.e != 0) segment(lane, op);
    Writer to = puts ? lane.run() : lane.maker();
    switch (op.code) {
        case CODE_PUT_INT:
        case CODE_INT_TO_TEXT: print_int(to, lane.integer(op.b)); break;
        case CODE_PUT_FLOAT:
        case CODE_FLOAT_TO_TEXT: to = make_float(to, lane.real(op.b)); break;
        case CODE_PUT_BOOL:
        case CODE_BOOL_TO_TEXT: print_bool(to, lane.reg(op.b) != 0); break;
        case CODE_REPLACE: {
            const u8* text = lane.text(op.b);
            const u8* old = lane.text(op.c);
            u32 length = lane.length(op.b), old_length = lane.length(op.c),
                by_length = lane.length(op.d);
            // Refused before it is made: the result can be far larger than any limit.
            if (length_replaced(text, length, old, old_length, by_length) > lane.left().text)
                return lane.fail(ERROR_TOO_MUCH_TEXT);
            to = make_replaced(to, text, length, old, old_length, lane.text(op.d), by_length);
            break;
        }
        case CODE_CONCAT:
            to = make_joined(to, args.arena, &lane.reg(0), args.parts + op.d, op.e,
                             lane.left().text);
            break;
        default:
            to = make_text(to, puts ? op.a : op.d, lane.text(op.b), lane.length(op.b),
                           args.case_tables);
    }
    if (puts)
        lane.put(to);
    else
        lane.keep(op.a, to);
}

template <bool SPILLED> DEVICE void execute(Lane<SPILLED>& lane, const Instruction& op) {
    const StageArgs& args = lane.args;
    if (op.code == CODE_SEGMENT) return segment(lane, op);
    if (op.code <= CODE_PUT_HTML) return put(lane, op);
    if (READERS >> op.code & 1 && !pays(lane, op)) return;
    if (op.code <= CODE_REPLACE) return write(lane, op);
    switch (u32(op.code)) {
        case CODE_END: lane.stop(args.has_call ? LANE_ACTIVE : LANE_FINISHED); break;
        case CODE_FINISH: lane.stop(LANE_FINISHED); break;
        case CODE_JUMP: lane.counter = op.d; break;
        case CODE_JUMP_UNLESS:
            if (!lane.reg(op.a)) lane.counter = op.d;
            break;
        case CODE_COPY: lane.reg(op.a) = lane.reg(op.b); break;
        case CODE_FIELD: lane.reg(op.a) = value_column(args.columns, op.d)[lane.place()]; break;
        case CODE_LENGTH:
            lane.reg(op.a) = span_column(args.columns, op.d)[lane.place()].length;
            break;
        case CODE_ITEM: {
            // Both addresses are on their way at once.
            const u64* values = value_column(args.columns, op.e);
            Span span = span_column(args.columns, op.d)[lane.place()];
            u64 position = lane.reg(op.b);
            if (position >= span.length) return lane.fail(ERROR_OUT_OF_RANGE);
            lane.reg(op.a) = values[item_of(span, u32(position), args.item_pitch)];
            break;
        }
        case CODE_CONSTANT_ITEM: {
            u64 position = lane.reg(op.b);
            if (position >= op.e) return lane.fail(ERROR_OUT_OF_RANGE);
            lane.reg(op.a) = args.tables[op.d + u32(position)];
            break;
        }
        case CODE_INT_ARITHMETIC:
            lane.set(op.a, calculate_int(op.d, lane.integer(op.b), lane.integer(op.c)));
            break;
        case CODE_FLOAT_ARITHMETIC:
            lane.set(op.a, calculate_float(op.d, lane.real(op.b), lane.real(op.c)));
            break;
        case CODE_NEGATE_INT:
        case CODE_ABSOLUTE_INT: {
            u64 value = lane.reg(op.b);
            bool negates = op.code == CODE_NEGATE_INT || i64(value) < 0;
            if (negates && value == 1ull << 63) return lane.fail(ERROR_OVERFLOW);
            lane.reg(op.a) = negates ? 0 - value : value;
            break;
        }
        case CODE_NEGATE_FLOAT:
            lane.reg(op.a) = bits_of_float(float_negate(lane.real(op.b)));
            break;
        case CODE_ABSOLUTE_FLOAT:
            lane.reg(op.a) = bits_of_float(float_absolute(lane.real(op.b)));
            break;
        case CODE_COMPARE_TEXT: {
            i32 order = order_of_texts(lane.text(op.b), lane.length(op.b), lane.text(op.c),
                                       lane.length(op.c));
            lane.reg(op.a) = ints_hold(op.d, order, 0);
            break;
        }
        case CODE_COMPARE_INT:
            lane.reg(op.a) = ints_hold(op.d, lane.integer(op.b), lane.integer(op.c));
            break;
        case CODE_COMPARE_FLOAT:
            lane.reg(op.a) = floats_hold(op.d, lane.real(op.b), lane.real(op.c));
            break;
        case CODE_NOT: lane.reg(op.a) = !lane.reg(op.b); break;
        case CODE_TRUTH_TEXT: lane.reg(op.a) = lane.length(op.b) > 0; break;
        case CODE_TRUTH_INT: lane.reg(op.a) = lane.reg(op.b) != 0; break;
        case CODE_TRUTH_FLOAT: lane.reg(op.a) = lane.real(op.b) != 0.0; break;
        case CODE_INT_TO_FLOAT: lane.reg(op.a) = bits_of_float(double(lane.integer(op.b))); break;
        case CODE_FLOAT_TO_INT: {
            i64 value = 0;
            u8 error = float_to_int(lane.real(op.b), &value);
            lane.set(op.a, or_other(lane, op, {u64(value), error}));
            break;
        }
        case CODE_TEXT_TO_INT:
        case CODE_TEXT_TO_FLOAT:
            lane.set(op.a, or_other(lane, op,
                                    read_number(op.code == CODE_TEXT_TO_INT, lane.text(op.b),
                                                lane.length(op.b))));
            break;
        case CODE_TEXT_TEST:
            lane.reg(op.a) = test_texts(op.d, lane.text(op.b), lane.length(op.b), lane.text(op.c),
                                        lane.length(op.c));
            break;
        case CODE_TEXT_LENGTH:
            lane.reg(op.a) = count_characters(lane.text(op.b), lane.length(op.b));
            break;
        case CODE_LOOP_BEGIN:
        case CODE_FILTER_BEGIN: {
            i64 count = larger(lane.integer(op.a), i64(0));
            LOOP_COUNT(op) = u64(count);
            LOOP_AT(op) = 0;
            LOOP_TURN(op) = 0;
            lane.charge_turns(count);
            if (lane.counter == STOPPED) break;
            if (op.code == CODE_FILTER_BEGIN) return begin_filter(lane, op);
            lane.reg(op.c) = u64(count);
            if (count == 0) lane.counter = op.d;
            break;
        }
        case CODE_FILTER_NEXT:
            if (LOOP_AT(op) == LOOP_COUNT(op))
                lane.counter = op.d;
            else
                lane.reg(op.a) = LOOP_AT(op);
            break;
        case CODE_FILTER_KEEP: {
            u64 at = LOOP_AT(op);
            if (lane.reg(op.a)) {
                args.arena[LOOP_BITS(op) + (at >> 3)] |= u8(1 << (at & 7));
                LOOP_TURN(op) += 1;
            }
            LOOP_AT(op) = at + 1;
            lane.counter = op.d;
            break;
        }
        case CODE_FILTER_END: {
            u64 kept = LOOP_TURN(op);
            lane.reg(op.c) = kept;
            LOOP_AT(op) = 0;
            LOOP_TURN(op) = 0;
            if (kept == 0) lane.counter = op.d;
            break;
        }
        case CODE_TURN:
        case CODE_TURN_KEPT: {
            u64 at = LOOP_AT(op), count = LOOP_COUNT(op);
            if (op.code == CODE_TURN_KEPT)
                LOOP_AT(op) = at = next_kept(args.arena + LOOP_BITS(op), at, count);
            if (at == count) {
                lane.counter = op.d;
                break;
            }
            lane.reg(op.a) = at;
            lane.reg(op.c) = LOOP_TURN(op);
            break;
        }
        case CODE_TURN_END:
            LOOP_AT(op) += 1;
            LOOP_TURN(op) += 1;
            lane.counter = op.d;
            break;
        case CODE_QUERY: {
            u32 length = lane.length(op.a);
            if (length > lane.left().text) return lane.fail(ERROR_TOO_MUCH_TEXT);
            lane.left().text -= length;
            u32 at = lane.result().query_count++;
            if (at < args.regions.query_stride)
                args.regions.queries[u64(args.regions.query_stride) * lane.index + at] = {
                    u32(lane.reg(op.a)), length};
            lane.deliver(length);
            break;
        }
        case CODE_STATUS: lane.result().status = u16(op.d); break;
        case CODE_HEADER: {
            u32 length = lane.length(op.a);
            u32 at = lane.result().header_count++;
            if (at < args.regions.header_stride)
                args.regions.headers[u64(args.regions.header_stride) * lane.index + at] = {
                    op.d, 0, {u32(lane.reg(op.a)), length}};
            lane.deliver(length);
            break;
        }
        case CODE_FILE: lane.result().file = {u32(lane.reg(op.a)), lane.length(op.a)}; break;
        case CODE_SESSION_CREATE:
            lane.result().session = SESSION_CREATE;
            lane.result().user = lane.integer(op.a);
            break;
        case CODE_SESSION_DESTROY: lane.result().session = SESSION_DESTROY; break;
        default: lane.fail(ERROR_DEVICE_FAILED); break;
    }
}

// An instruction, by one load for the whole warp.
DEVICE Instruction fetch(const Instruction* from) {
    uint4 words = *reinterpret_cast<const uint4*>(from);
    return {u16(words.x), u16(words.x >> 16), u16(words.y), u16(words.y >> 16), words.z, words.w};
}

// Whether a lane may go elsewhere than to the next instruction, for another reason than that it
// fails.
DEVICE bool leads_elsewhere(u32 code) {
    return code - CODE_END <= CODE_JUMP_UNLESS - CODE_END ||
           code - CODE_LOOP_BEGIN <= CODE_TURN_END - CODE_LOOP_BEGIN;
}

// Runs the lanes of a warp; `file` has its registers, and `code` the program, where shared memory
// has room for it.
template <bool SPILLED>
DEVICE void run_lanes(const StageArgs& args, u64* file, const Instruction* code) {
    u32 lanes = args.lane_count ? smaller(*args.lane_count, args.lanes) : args.lanes;
    u32 index = global_thread();
    bool takes_part = index < lanes && args.results[index].outcome == LANE_ACTIVE;
    Lane<SPILLED> lane(args, file, takes_part ? index : 0);
    if (takes_part)
        begin(lane);
    else
        lane.counter = STOPPED;
    for (;;) {
        u32 now = __reduce_min_sync(FULL_MASK, lane.counter);
        if (now == STOPPED) break;
        // The others wait where the lowest of them is. Up to there, and to what may lead elsewhere,
        // the program is one way, and nobody need be asked.
        u32 others =
            __reduce_min_sync(FULL_MASK, lane.counter == now ? STOPPED : lane.counter);
        u32 last;
        do {
            Instruction op = args.shared_code ? fetch(code + now) : fetch(args.code + now);
            last = op.code;
            if (lane.counter == now) {
                lane.counter = now + 1;
                execute(lane, op);
            }
            __syncwarp(FULL_MASK);
            ++now;
        } while (!leads_elsewhere(last) && now < others);
    }
    if (takes_part) finish(lane);
}

// More than one to a block: a multiprocessor takes 32 blocks, and other kernels want some, too.
#define STAGE_WARPS 2u

// Of a warp: the program's, what is left of limits, and how much of the run is told.
DEVICE u32 register_words(const StageArgs& args) { return (args.register_count + 2) * WARP; }

// A block's copy of the program: an instruction is waited for by all that comes after it.
DEVICE void share_code(const StageArgs& args, Instruction* to) {
#pragma unroll 1
    for (u32 at = threadIdx.x; at < args.shared_code; at += STAGE_WARPS * WARP)
        *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(args.code + at);
    __syncthreads();
}

KERNEL(run_stage, StageArgs, STAGE_WARPS* WARP WITH_BLOCKS(18)) {
    SHARED_DYNAMIC(u64, registers);
    u32 words = register_words(args);
    Instruction* code = reinterpret_cast<Instruction*>(registers + STAGE_WARPS * words);
    share_code(args, code);
    run_lanes<false>(args, registers + threadIdx.x / WARP * words, code);
}

// The same of programs whose registers are more than shared memory has room for.
KERNEL(run_stage_spilled, StageArgs, STAGE_WARPS* WARP) {
    SHARED_DYNAMIC(Instruction, code);
    share_code(args, code);
    u64 warp = global_thread() / WARP;
    run_lanes<true>(args, args.registers + warp * register_words(args), code);
}

KERNEL(decode_answers, DecodeArgs, 128) {
    u32 lanes = args.lane_count ? smaller(*args.lane_count, args.lanes) : args.lanes;
    u32 index = global_thread();
    if (index < lanes && args.results[index].outcome == LANE_ACTIVE) decode_lane(args, index);
}
