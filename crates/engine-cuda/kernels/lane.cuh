// A lane of a stage under way: its registers, its run, the texts it makes, and what is left of its
// limits.
//
// It lives in the registers of its thread, and those decide how many warps a multiprocessor keeps:
// with 56 they are 36. So what few instructions touch is elsewhere.
#pragma once
#include "number.cuh"
#include "stage.cuh"
#include "writer.cuh"

// The counter of a lane that has stopped.
#define STOPPED 0xffffffffu

// What a calculation comes to: the bits of its value, and 0, a LaneError or ARITHMETIC_HOST.
struct Calculated {
    u64 bits;
    u8 error;
};

// What is left of a lane's limits: texts made, in bytes, and turns of loops. It lies behind the
// registers, as does how much of the run is told.
struct Budget {
    u32 text;
    u32 turns;
};

// Words in global memory, or else in shared memory, where the address is kept as a number: nvcc
// would put it together anew for each access.
template <bool IS_GLOBAL> struct Words {
    u64* first;
    DEVICE_METHOD Words(u64* words) : first(words) {}
    DEVICE_METHOD u64& operator[](u32 index) const { return *GLOBAL(first + index); }
};

#ifndef RHYTHM_EMULATION
template <> struct Words<false> {
    u32 address;
    DEVICE_METHOD Words(u64* words) : address(static_cast<u32>(__cvta_generic_to_shared(words))) {
        asm("" : "+r"(address));
    }
    DEVICE_METHOD u64& operator[](u32 index) const {
        return *static_cast<u64*>(
            __cvta_shared_to_generic(address + index * static_cast<u32>(sizeof(u64))));
    }
};
#endif

// A lane under way: what does not live in registers of the program. What few pages touch is kept in
// its LaneResult in memory. SPILLED: the program's registers are in global memory; else in shared
// memory.
template <bool SPILLED> struct Lane {
    const StageArgs& args;
    // Where its registers are: every 32nd word.
    Words<SPILLED> registers;
    u32 index;
    u32 counter;
    // The run: the bytes that are not stored yet, and how many it has.
    u64 pending;
    u32 written;
    u32 body_length;
    u32 segment_count;

    DEVICE_METHOD Lane(const StageArgs& given, u64* file, u32 at)
        : args(given),
          registers(file + warp_lane()),
          index(at),
          counter(0),
          pending(0),
          written(0),
          body_length(0),
          segment_count(0) {}

    DEVICE_METHOD u64& reg(u32 number) { return registers[number * WARP]; }
    DEVICE_METHOD i64 integer(u32 number) { return i64(reg(number)); }
    DEVICE_METHOD double real(u32 number) { return __longlong_as_double(i64(reg(number))); }
    DEVICE_METHOD u32 length(u32 number) { return u32(reg(number) >> 32) & ~TEXT_PLAIN; }
    DEVICE_METHOD bool is_plain(u32 number) { return i64(reg(number)) < 0; }
    DEVICE_METHOD const u8* text(u32 number) { return args.arena + u32(reg(number)); }
    DEVICE_METHOD void set_text(u32 number, u32 offset, u32 length) {
        reg(number) = u64(length) << 32 | offset;
    }
    DEVICE_METHOD LaneResult& result() { return args.results[index]; }
    DEVICE_METHOD Budget& left() { return *reinterpret_cast<Budget*>(&reg(args.register_count)); }
    // Up to where its run is in stretches.
    DEVICE_METHOD u64& told() { return reg(args.register_count + 1); }
    // Its place in the cohort.
    DEVICE_METHOD u32 place() { return args.lane_list ? args.lane_list[index] : index; }

    DEVICE_METHOD void stop(u8 outcome) {
        result().outcome = outcome;
        counter = STOPPED;
    }

    DEVICE_METHOD void fail(u8 error) {
        stop(error == ARITHMETIC_HOST ? u8(LANE_HOST) : u8(LANE_FAILED + error));
    }

    // What was calculated becomes a register's value.
    DEVICE_METHOD void set(u32 to, Calculated value) {
        if (value.error) return fail(value.error);
        reg(to) = value.bits;
    }

    // Where the next text made begins, relative to the arena.
    DEVICE_METHOD u32 text_start() {
        return args.regions.text_base + args.regions.text_stride * index + result().text_used;
    }

    // A writer for a text; the operands are read before it is finished, so it never overlaps them.
    DEVICE_METHOD Writer maker() {
        return Writer(args.arena + text_start(), args.regions.text_stride - result().text_used);
    }

    // The text that `made` wrote becomes a register's value.
    DEVICE_METHOD void keep(u32 to, Writer& made) {
        made.finish();
        u32 length = made.length();
        if (length > left().text) return fail(ERROR_TOO_MUCH_TEXT);
        if (made.overflowed()) {
            result().text_used += length;
            return stop(LANE_ROOM);
        }
        left().text -= length;
        set_text(to, text_start(), length);
        result().text_used += (length + 7) & ~7u;
    }

    // The run's writer, as far as it has come.
    DEVICE_METHOD Writer run() {
        u32 capacity = args.regions.run_stride;
        Writer writer(args.regions.runs + u64(capacity) * index, capacity);
        writer.pending = pending;
        writer.written = written;
        return writer;
    }

    // What `writer` appended stays.
    DEVICE_METHOD void put(const Writer& writer) {
        u32 bytes = writer.written - written;
        pending = writer.pending;
        written = writer.written;
        grow_body(bytes);
    }

    // The body goes on with a stretch.
    DEVICE_METHOD void stretch(u32 offset, u32 length) {
        const Regions& regions = args.regions;
        u32 at = segment_count++;
        if (at < regions.segment_stride)
            GLOBAL(reinterpret_cast<Stretch*>(regions.segments))[u64(args.lanes) * at + index] = {
                offset, length};
    }

    // What has come to the run since the last stretch is one.
    DEVICE_METHOD void tell_run() {
        u32 from = u32(told());
        if (written == from) return;
        stretch(from, (written - from) | STRETCH_RUN);
        told() = written;
    }

    // Accounts for bytes of the body.
    DEVICE_METHOD void grow_body(u32 bytes) {
        body_length += bytes;
        if (body_length > args.body_bytes_max) fail(ERROR_TOO_LARGE);
    }

    // Accounts for text looked through, by what is charged for it; tells whether the lane goes on.
    DEVICE_METHOD bool pays(u32 charge) {
        if (charge > left().text) {
            fail(ERROR_TOO_MUCH_TEXT);
            return false;
        }
        left().text -= charge;
        return true;
    }

    DEVICE_METHOD void charge_turns(i64 turns) {
        if (turns > i64(left().turns)) return fail(ERROR_TOO_MANY_TURNS);
        left().turns -= u32(turns);
    }

    // Accounts for a text that the host needs.
    // Headers are not charged for, so their sum may be beyond what can be said.
    DEVICE_METHOD void deliver(u32 length) {
        u32 sum = result().texts_length + ((length + 7) & ~7u);
        result().texts_length = sum < result().texts_length ? ~0u : sum;
    }
};

// Begins a lane: its constants, and a result that says nothing yet.
template <bool SPILLED> DEVICE void begin(Lane<SPILLED>& lane) {
    LaneResult& result = lane.result();
    result.session = SESSION_KEPT;
    result.status = 0;
    result.query_count = 0;
    result.header_count = 0;
    result.file = {0, NO_TEXT};
    result.user = 0;
    result.text_used = 0;
    result.texts_length = 0;
    lane.left() = {lane.args.text_bytes_max, lane.args.turns_max};
    lane.told() = 0;
#pragma unroll 1
    for (u32 at = 0; at < lane.args.constant_count; ++at) {
        Constant constant = lane.args.constants[at];
        lane.reg(constant.reg) = constant.bits;
    }
}

// Ends a lane: the last bytes are stored, and one that wrote more than its regions hold is to be
// run again.
template <bool SPILLED> DEVICE void finish(Lane<SPILLED>& lane) {
    const Regions& regions = lane.args.regions;
    Writer run = lane.run();
    run.finish();
    if (lane.args.stretches) lane.tell_run();
    LaneResult& result = lane.result();
    result.run_length = lane.written;
    result.segment_count = lane.segment_count;
    result.body_length = lane.body_length;
    bool overflowed = run.overflowed() || lane.segment_count > regions.segment_stride ||
                      result.query_count > regions.query_stride ||
                      result.header_count > regions.header_stride;
    if (overflowed && result.outcome <= LANE_FINISHED) result.outcome = LANE_ROOM;
    if (result.file.length != NO_TEXT) lane.deliver(result.file.length);
}
