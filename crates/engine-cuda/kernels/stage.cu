// Stages of a cohort: the answers of the backend into columns, then the program (paper, section 3.2, Process).
//
// run_stage interprets a program for 32 lanes at a time, a thread a lane, a warp a block. The program counter is a lane's own, but a
// warp always runs the lowest one: branches are run once each for the lanes that took them, a loop's body as often as its
// longest lane needs, and lanes meet again where their ways join (the program is laid out so). An instruction is therefore
// fetched and decoded once for the lanes that execute it, and they never part within one for long.
//
// Where the paper compiles each page to kernels of its own and writes whole padded responses (4.3.2), a lane here writes its run, the
// bytes that differ, and notes where the fragments go; layout.cu makes bodies of them in whatever layout is wanted.
#include "case.cuh"
#include "decode.cuh"
#include "md5.cuh"
#include "number.cuh"
#include "search.cuh"
#include "stage.cuh"
#include "text.cuh"
#include "writer.cuh"

// The counter of a lane that has stopped.
#define STOPPED 0xffffffffu

// A lane under way: what does not live in registers of the program.
struct Lane {
    const StageArgs& args;
    // Its registers: every 32nd.
    u64* registers;
    u32 index;
    u32 lane;
    u32 counter;
    Writer run;
    u32 text_left;
    u32 turns_left;
    LaneResult result;

    DEVICE_METHOD Lane(const StageArgs& given, u64* file, u32 at)
        : args(given),
          registers(file + warp_lane()),
          index(at),
          lane(given.lane_list ? given.lane_list[at] : at),
          counter(0),
          run(given.regions.runs + u64(given.regions.run_stride) * at, given.regions.run_stride),
          text_left(given.text_bytes_max),
          turns_left(given.turns_max),
          result() {
        result.file.length = NO_TEXT;
    }

    DEVICE_METHOD u64& reg(u32 number) { return registers[number * WARP]; }
    DEVICE_METHOD i64 integer(u32 number) { return i64(reg(number)); }
    DEVICE_METHOD double real(u32 number) { return __longlong_as_double(i64(reg(number))); }
    DEVICE_METHOD void set_real(u32 number, double value) { reg(number) = u64(__double_as_longlong(value)); }
    DEVICE_METHOD u32 length(u32 number) { return u32(reg(number) >> 32); }
    DEVICE_METHOD const u8* text(u32 number) { return args.arena + u32(reg(number)); }
    DEVICE_METHOD void set_text(u32 number, u32 offset, u32 length) { reg(number) = u64(length) << 32 | offset; }

    DEVICE_METHOD void stop(u8 outcome) {
        result.outcome = outcome;
        counter = STOPPED;
    }

    // Error 0 is none.
    DEVICE_METHOD bool failed(u8 error) {
        if (error == 0) return false;
        stop(error == ARITHMETIC_HOST ? u8(LANE_HOST) : u8(LANE_FAILED + error));
        return true;
    }

    // Where the next text made begins, relative to the arena.
    DEVICE_METHOD u32 text_start() { return args.regions.text_base + args.regions.text_stride * index + result.text_used; }

    // A writer for a text; the operands are read before it is finished, so it never overlaps them.
    DEVICE_METHOD Writer maker() {
        return Writer(args.arena + text_start(), args.regions.text_stride - result.text_used);
    }

    // The text that `made` wrote becomes a register's value.
    DEVICE_METHOD void keep(u32 to, Writer& made) {
        made.finish();
        u32 length = made.length();
        if (length > text_left) return stop(LANE_FAILED + ERROR_TOO_LARGE);
        if (made.overflowed()) {
            result.text_used += length;
            return stop(LANE_ROOM);
        }
        text_left -= length;
        set_text(to, text_start(), length);
        result.text_used += (length + 7) & ~7u;
    }

    // A text that the host needs. Headers are not charged for, so their sum may be beyond what can be said.
    DEVICE_METHOD void owe_text(u32 length) {
        u32 sum = result.texts_length + ((length + 7) & ~7u);
        result.texts_length = sum < result.texts_length ? ~0u : sum;
    }

    // Accounts for bytes of the body.
    DEVICE_METHOD void grow_body(u32 bytes) {
        result.body_length += bytes;
        if (result.body_length > args.body_bytes_max) stop(LANE_FAILED + ERROR_TOO_LARGE);
    }

    DEVICE_METHOD void charge_turns(i64 turns) {
        if (turns > i64(turns_left)) return stop(LANE_FAILED + ERROR_TOO_MANY_TURNS);
        turns_left -= u32(turns);
    }
};

// Writes a text, escaped.
DEVICE void put_escaped(Writer& to, u32 escape, const u8* text, u32 length) {
    switch (escape) {
        case ESCAPE_HTML: return escape_html(to, text, length);
        case ESCAPE_PERCENT: return escape_percent(to, text, length);
        case ESCAPE_HEADER: return escape_header(to, text, length);
        default: return to.text(text, length);
    }
}

// Text functions are rare and large: one call keeps the loop of the interpreter small. The writer comes and goes by value, so
// that the lane's own stays in registers.
DEVICE_CALL Writer make_text(Writer made, u32 function, const u8* text, u32 length, const u8* case_tables) {
    switch (function) {
        case TEXT_UPPER: upper(made, case_tables, text, length); break;
        case TEXT_LOWER: lower(made, case_tables, text, length); break;
        case TEXT_TITLE: title(made, case_tables, text, length); break;
        case TEXT_CAPITALIZE: capitalize(made, case_tables, text, length); break;
        case TEXT_URL_ENCODE: url_encode(made, text, length); break;
        case TEXT_MD5: md5_hex(made, text, length); break;
        default: put_escaped(made, function - TEXT_ESCAPE, text, length); break;
    }
    return made;
}

DEVICE_CALL Writer make_replaced(Writer made, const u8* text, u32 length, const u8* old, u32 old_length, const u8* by,
                                 u32 by_length) {
    replace(made, text, length, old, old_length, by, by_length);
    return made;
}

DEVICE_CALL Writer put_float(Writer made, double value) {
    print_float(made, value);
    return made;
}

DEVICE_CALL bool test_texts(u32 test, const u8* left, u32 left_length, const u8* right, u32 right_length) {
    switch (test) {
        case TEST_CONTAINS: return text_contains(left, left_length, right, right_length);
        case TEST_STARTS_WITH: return text_starts_with(left, left_length, right, right_length);
        default: return text_ends_with(left, left_length, right, right_length);
    }
}

// Trim, first and last give a part of their operand.
DEVICE_CALL TextRange part_of(u32 function, const u8* text, u32 length) {
    switch (function) {
        case TEXT_TRIM: return trim_range(text, length);
        case TEXT_FIRST: return first_range(text, length);
        default: return last_range(text, length);
    }
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

// The states of loops are four registers: count, position, turn (or number kept), and where the bits are.
#define LOOP_COUNT(op) lane.reg(op.b)
#define LOOP_AT(op) lane.reg(op.b + 1)
#define LOOP_TURN(op) lane.reg(op.b + 2)
#define LOOP_BITS(op) lane.reg(op.b + 3)

DEVICE void begin_loop(Lane& lane, const Instruction& op) {
    i64 count = larger(lane.integer(op.a), i64(0));
    LOOP_COUNT(op) = u64(count);
    LOOP_AT(op) = 0;
    LOOP_TURN(op) = 0;
    lane.charge_turns(count);
}

// A bit a position, in the lane's text region but not charged for: the reference keeps a list elsewhere.
DEVICE void begin_filter(Lane& lane, const Instruction& op) {
    begin_loop(lane, op);
    if (lane.counter == STOPPED) return;
    u32 bytes = (u32(LOOP_COUNT(op)) + 63) / 64 * 8;
    if (bytes > lane.args.regions.text_stride - lane.result.text_used) {
        lane.result.text_used += bytes;
        return lane.stop(LANE_ROOM);
    }
    u32 start = lane.text_start();
    LOOP_BITS(op) = start;
    for (u32 at = 0; at < bytes; at += 8) *reinterpret_cast<u64*>(lane.args.arena + start + at) = 0;
    lane.result.text_used += bytes;
}

DEVICE void execute(Lane& lane, const Instruction& op) {
    const StageArgs& args = lane.args;
    switch (op.code) {
        case CODE_END: lane.stop(args.has_call ? LANE_ACTIVE : LANE_FINISHED); break;
        case CODE_FINISH: lane.stop(LANE_FINISHED); break;
        case CODE_JUMP: lane.counter = op.d; break;
        case CODE_JUMP_UNLESS:
            if (!lane.reg(op.a)) lane.counter = op.d;
            break;
        case CODE_COPY: lane.reg(op.a) = lane.reg(op.b); break;
        // A text's view has the bits that a register has.
        case CODE_FIELD: lane.reg(op.a) = reinterpret_cast<const u64*>(args.columns[op.d])[lane.lane]; break;
        case CODE_LENGTH: lane.reg(op.a) = span_column(args.columns, op.d)[lane.lane].length; break;
        case CODE_ITEM: {
            Span span = span_column(args.columns, op.d)[lane.lane];
            u64 position = lane.reg(op.b);
            if (position >= span.length) {
                lane.stop(LANE_FAILED + ERROR_OUT_OF_RANGE);
                break;
            }
            lane.reg(op.a) = reinterpret_cast<const u64*>(args.columns[op.e])[span.start + u32(position)];
            break;
        }
        case CODE_CONSTANT_ITEM: {
            u64 position = lane.reg(op.b);
            if (position >= op.e) {
                lane.stop(LANE_FAILED + ERROR_OUT_OF_RANGE);
                break;
            }
            lane.reg(op.a) = args.tables[op.d + u32(position)];
            break;
        }
        case CODE_INT_ARITHMETIC: {
            i64 value = 0;
            if (!lane.failed(int_arithmetic(op.d, lane.integer(op.b), lane.integer(op.c), &value)))
                lane.reg(op.a) = u64(value);
            break;
        }
        case CODE_FLOAT_ARITHMETIC: {
            double value = 0;
            if (!lane.failed(float_arithmetic(op.d, lane.real(op.b), lane.real(op.c), &value)))
                lane.set_real(op.a, value);
            break;
        }
        case CODE_NEGATE_INT:
        case CODE_ABSOLUTE_INT: {
            u64 value = lane.reg(op.b);
            bool negates = op.code == CODE_NEGATE_INT || i64(value) < 0;
            if (negates && value == 1ull << 63) {
                lane.stop(LANE_FAILED + ERROR_OVERFLOW);
                break;
            }
            lane.reg(op.a) = negates ? 0 - value : value;
            break;
        }
        case CODE_NEGATE_FLOAT: lane.reg(op.a) = lane.reg(op.b) ^ 1ull << 63; break;
        case CODE_ABSOLUTE_FLOAT: lane.reg(op.a) = lane.reg(op.b) & ~(1ull << 63); break;
        case CODE_COMPARE_TEXT: {
            i32 order = compare_texts(lane.text(op.b), lane.length(op.b), lane.text(op.c), lane.length(op.c));
            lane.reg(op.a) = ints_hold(op.d, order, 0);
            break;
        }
        case CODE_COMPARE_INT: lane.reg(op.a) = ints_hold(op.d, lane.integer(op.b), lane.integer(op.c)); break;
        case CODE_COMPARE_FLOAT: lane.reg(op.a) = floats_hold(op.d, lane.real(op.b), lane.real(op.c)); break;
        case CODE_NOT: lane.reg(op.a) = !lane.reg(op.b); break;
        case CODE_TRUTH_TEXT: lane.reg(op.a) = lane.length(op.b) > 0; break;
        case CODE_TRUTH_INT: lane.reg(op.a) = lane.reg(op.b) != 0; break;
        case CODE_TRUTH_FLOAT: lane.reg(op.a) = lane.real(op.b) != 0.0; break;
        case CODE_INT_TO_FLOAT: lane.set_real(op.a, double(lane.integer(op.b))); break;
        case CODE_FLOAT_TO_INT: {
            i64 value = 0;
            if (!lane.failed(float_to_int(lane.real(op.b), &value))) lane.reg(op.a) = u64(value);
            break;
        }
        case CODE_INT_TO_TEXT: {
            Writer made = lane.maker();
            print_int(made, lane.integer(op.b));
            lane.keep(op.a, made);
            break;
        }
        case CODE_FLOAT_TO_TEXT: {
            Writer made = put_float(lane.maker(), lane.real(op.b));
            lane.keep(op.a, made);
            break;
        }
        case CODE_BOOL_TO_TEXT: {
            Writer made = lane.maker();
            print_bool(made, lane.reg(op.b) != 0);
            lane.keep(op.a, made);
            break;
        }
        case CODE_TEXT_TO_INT: {
            i64 value = 0;
            if (!lane.failed(text_to_int(lane.text(op.b), lane.length(op.b), &value))) lane.reg(op.a) = u64(value);
            break;
        }
        case CODE_TEXT_TO_FLOAT: {
            double value = 0;
            if (!lane.failed(text_to_float(lane.text(op.b), lane.length(op.b), &value))) lane.set_real(op.a, value);
            break;
        }
        case CODE_CONCAT: {
            Writer made = lane.maker();
            for (u32 at = op.d; at < op.d + op.e; ++at) made.text(lane.text(args.parts[at]), lane.length(args.parts[at]));
            lane.keep(op.a, made);
            break;
        }
        case CODE_TEXT: {
            if (op.d >= TEXT_TRIM && op.d <= TEXT_LAST) {
                TextRange part = part_of(op.d, lane.text(op.b), lane.length(op.b));
                lane.set_text(op.a, u32(lane.reg(op.b)) + part.start, part.length);
                break;
            }
            Writer made = make_text(lane.maker(), op.d, lane.text(op.b), lane.length(op.b), args.case_tables);
            lane.keep(op.a, made);
            break;
        }
        case CODE_REPLACE: {
            const u8* text = lane.text(op.b);
            u32 old_length = lane.length(op.c), by_length = lane.length(op.d);
            // Refused before it is made: the result can be far larger than any limit.
            if (replaced_length(text, lane.length(op.b), lane.text(op.c), old_length, by_length) > lane.text_left) {
                lane.stop(LANE_FAILED + ERROR_TOO_LARGE);
                break;
            }
            Writer made = make_replaced(lane.maker(), text, lane.length(op.b), lane.text(op.c), old_length,
                                        lane.text(op.d), by_length);
            lane.keep(op.a, made);
            break;
        }
        case CODE_TEXT_TEST:
            lane.reg(op.a) =
                test_texts(op.d, lane.text(op.b), lane.length(op.b), lane.text(op.c), lane.length(op.c));
            break;
        case CODE_TEXT_LENGTH: lane.reg(op.a) = text_characters(lane.text(op.b), lane.length(op.b)); break;
        case CODE_LOOP_BEGIN:
            begin_loop(lane, op);
            if (lane.counter == STOPPED) break;
            lane.reg(op.c) = LOOP_COUNT(op);
            if (LOOP_COUNT(op) == 0) lane.counter = op.d;
            break;
        case CODE_FILTER_BEGIN: begin_filter(lane, op); break;
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
        case CODE_TURN_KEPT: LOOP_AT(op) = next_kept(args.arena + LOOP_BITS(op), LOOP_AT(op), LOOP_COUNT(op));
        // Fall through: from here on a loop with a filter is one without.
        case CODE_TURN:
            if (LOOP_AT(op) == LOOP_COUNT(op)) {
                lane.counter = op.d;
                break;
            }
            lane.reg(op.a) = LOOP_AT(op);
            lane.reg(op.c) = LOOP_TURN(op);
            break;
        case CODE_TURN_END:
            LOOP_AT(op) += 1;
            LOOP_TURN(op) += 1;
            lane.counter = op.d;
            break;
        case CODE_FOLD:
            lane.run.text(args.fragment_bytes + args.fragments[op.d].offset, op.e);
            lane.grow_body(op.e);
            break;
        case CODE_SEGMENT: {
            u32 at = lane.result.segment_count++;
            if (at < args.regions.segment_stride)
                args.regions.segments[u64(args.regions.segment_stride) * lane.index + at] = {lane.run.length(), op.d};
            lane.grow_body(op.e);
            break;
        }
        case CODE_PUT_TEXT: {
            u32 before = lane.run.length();
            put_escaped(lane.run, op.d, lane.text(op.a), lane.length(op.a));
            lane.grow_body(lane.run.length() - before);
            break;
        }
        case CODE_PUT_INT: {
            u32 before = lane.run.length();
            print_int(lane.run, lane.integer(op.a));
            lane.grow_body(lane.run.length() - before);
            break;
        }
        case CODE_PUT_FLOAT: {
            u32 before = lane.run.length();
            lane.run = put_float(lane.run, lane.real(op.a));
            lane.grow_body(lane.run.length() - before);
            break;
        }
        case CODE_PUT_BOOL: {
            u32 before = lane.run.length();
            print_bool(lane.run, lane.reg(op.a) != 0);
            lane.grow_body(lane.run.length() - before);
            break;
        }
        case CODE_REQUEST: {
            u32 length = lane.length(op.a);
            if (length > lane.text_left) {
                lane.stop(LANE_FAILED + ERROR_TOO_LARGE);
                break;
            }
            lane.text_left -= length;
            u32 at = lane.result.request_count++;
            if (at < args.regions.request_stride)
                args.regions.requests[u64(args.regions.request_stride) * lane.index + at] = {u32(lane.reg(op.a)), length};
            lane.owe_text(length);
            break;
        }
        case CODE_STATUS: lane.result.status = u16(op.d); break;
        case CODE_HEADER: {
            u32 length = lane.length(op.a);
            u32 at = lane.result.header_count++;
            if (at < args.regions.header_stride)
                args.regions.headers[u64(args.regions.header_stride) * lane.index + at] = {
                    op.d, 0, {u32(lane.reg(op.a)), length}};
            lane.owe_text(length);
            break;
        }
        case CODE_FILE: lane.result.file = {u32(lane.reg(op.a)), lane.length(op.a)}; break;
        case CODE_SESSION_CREATE:
            lane.result.session = SESSION_CREATE;
            lane.result.user = lane.integer(op.a);
            break;
        case CODE_SESSION_DESTROY: lane.result.session = SESSION_DESTROY; break;
        default: lane.stop(LANE_FAILED + ERROR_DEVICE_FAILED); break;
    }
}

// Ends a lane: the last bytes are stored, and one that wrote more than its regions hold is to be run again.
DEVICE void finish(Lane& lane) {
    const Regions& regions = lane.args.regions;
    lane.run.finish();
    LaneResult& result = lane.result;
    result.run_length = lane.run.length();
    bool overflowed = lane.run.overflowed() || result.segment_count > regions.segment_stride ||
                      result.request_count > regions.request_stride || result.header_count > regions.header_stride;
    if (overflowed && result.outcome <= LANE_FINISHED) result.outcome = LANE_ROOM;
    if (result.file.length != NO_TEXT) lane.owe_text(result.file.length);
    lane.args.results[lane.index] = result;
}

KERNEL(run_stage, StageArgs, 32) {
    SHARED_DYNAMIC(u64, shared_registers);
    u32 lanes = args.lane_count ? smaller(*args.lane_count, args.lanes) : args.lanes;
    u32 index = global_thread();
    u64* file = args.registers ? args.registers + u64(blockIdx.x) * args.register_count * WARP : shared_registers;
    bool takes_part = index < lanes && args.results[index].outcome == LANE_ACTIVE;
    Lane lane(args, file, takes_part ? index : 0);
    if (takes_part) {
        for (u32 at = 0; at < args.constant_count; ++at) lane.reg(args.constants[at].reg) = args.constants[at].bits;
    } else {
        lane.counter = STOPPED;
    }
    for (;;) {
        u32 now = __reduce_min_sync(FULL_MASK, lane.counter);
        if (now == STOPPED) break;
        if (lane.counter == now) {
            lane.counter = now + 1;
            execute(lane, args.code[now]);
        }
    }
    if (takes_part) finish(lane);
}

KERNEL(decode_answers, DecodeArgs, 128) {
    u32 lanes = args.lane_count ? smaller(*args.lane_count, args.lanes) : args.lanes;
    u32 index = global_thread();
    if (index < lanes && args.results[index].outcome == LANE_ACTIVE) decode_lane(args, index);
}
