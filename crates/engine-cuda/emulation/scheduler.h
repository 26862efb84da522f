// The threads of a block on one OS thread, and how they meet.
//
// Warps go as far as they can one after the other; the lanes of a warp go in rounds, each until it
// meets a barrier or a warp primitive. Which warp and which lane is first is the launch's order. A
// fiber that ends a thread takes the next thread that has not begun, so a kernel without barriers
// runs on one fiber, without a switch.
#pragma once

#include "fiber.h"
#include "shim.h"

namespace emulation {

constexpr unsigned WARP_LANES = 32;
constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned MAX_WARPS = MAX_THREADS / WARP_LANES;
// A block's shared memory on sm_90, and how much of it declarations with a size can take.
constexpr unsigned long MAX_SHARED = 227 * 1024;
constexpr unsigned long MAX_SHARED_ARRAYS = 48 * 1024;
constexpr unsigned MAX_ARRAYS = 64;
// Of so many atomic accesses one lets others run under every order: some may wait for them.
constexpr unsigned ATOMICS_PER_TURN = 256;
// So often may a block's threads wait for each other's stores while none meets another or ends.
constexpr unsigned MAX_SPINS = 1 << 20;

enum Order : unsigned { ASCENDING = 0, DESCENDING = 1, SHUFFLED = 2 };

// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"
// (2016).
struct Random {
    unsigned long long state;
    unsigned below(unsigned bound) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return unsigned(((state * 0x2545f4914f6cdd1dull >> 32) * bound) >> 32);
    }
};

// Lanes of a warp that are at the same primitive with the same mask.
struct Group {
    unsigned kind, mask, arrived;
    Site site;
};

struct Warp {
    // Lanes that can run, and that have not ended.
    unsigned ready, live;
    unsigned group_count;
    Group groups[WARP_LANES];
};

struct Thread {
    Place place;
    // None: it has not begun.
    Fiber* fiber;
    // What it brought to where it waits, the lane that it reads from, and what it gets.
    unsigned long long value;
    unsigned source;
    unsigned long long result;
};

struct SharedArray {
    const void* site;
    void* memory;
    unsigned long bytes;
    // The block that it was filled with garbage for.
    unsigned long long block;
};

// A launch, and the block of it that runs.
struct Launch {
    const Kernel* kernel;
    const void* args;
    Order order;
    Random random;
    unsigned threads, blocks;
    unsigned long shared_bytes;

    // The block.
    unsigned long long blocks_begun;
    unsigned live, ready_warps, spins, atomics;
    Warp warps[MAX_WARPS];
    Thread threads_of_block[MAX_THREADS];
    // Threads at the block's barrier.
    unsigned at_barrier, barrier_nonzero;
    unsigned barrier_kind;
    Site barrier_site;
    bool waits_at_barrier[MAX_THREADS];

    // The round: the warp whose lanes run, and which of them are still to come.
    unsigned round_warp, round_at, round_length;
    unsigned char round[WARP_LANES];
    // The warp that has just found nothing to do but to wait for others' stores: it lets another go
    // first.
    bool round_spins;

    SharedArray arrays[MAX_ARRAYS];
    unsigned array_count;
    unsigned long array_bytes;
    SharedArray dynamic;

    bool failed;
    char* error;
    unsigned long error_size;

    void begin_block(unsigned block);
    // The next thread to run; none: the block is done, or has failed.
    Thread* next();
    bool begin_round();
    unsigned choose_warp();
    void make_ready(unsigned thread);
    void end_thread(Thread& thread);
    void release_barrier();
    void* fill(SharedArray& array);
    void release_shared();
    static unsigned number(const Thread& thread) { return thread.place.thread.x; }
    // Says who waits where.
    void report_deadlock();
    void report(const char* format, ...) __attribute__((format(printf, 2, 3)));
};

// Of this OS thread, while a launch runs.
extern __thread Launch* launch;
extern __thread Thread* current;

// Runs all its blocks. False: it failed and says why.
bool run(Launch& launch);

// Waits until somebody has made the current thread ready.
void suspend();
// Fails the launch and leaves the current thread for good.
[[noreturn]] void fail(Site site, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* kind_name(unsigned kind);

}  // namespace emulation
