#include "scheduler.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

namespace emulation {

__thread const Place* place;
__thread Launch* launch;
__thread Thread* current;

namespace {

// The fibers of an OS thread, kept from launch to launch.
struct Pool {
    Fiber own;
    Fiber made[MAX_THREADS];
    Fiber* free[MAX_THREADS];
    unsigned made_count = 0, free_count = 0;

    Fiber* take() {
        if (free_count > 0) return free[--free_count];
        if (made_count == MAX_THREADS || !fiber_make(made[made_count], made_count)) return nullptr;
        return &made[made_count++];
    }
    void give(Fiber* fiber) { free[free_count++] = fiber; }
    // After a failure: whatever they were in the middle of is forgotten.
    void reset() {
        free_count = 0;
        for (unsigned i = 0; i < made_count; i++) {
            fiber_reset(made[i]);
            give(&made[i]);
        }
    }
    ~Pool() {
        for (unsigned i = 0; i < made_count; i++) fiber_free(made[i]);
    }
};
// Of the OS thread, while a launch runs; looked up once.
__thread Pool* pool;

void make_current(Thread& thread) {
    current = &thread;
    place = &thread.place;
}

// Goes on with a thread that has begun or that gets a fiber now.
void go_on(Fiber& from, Thread& to) {
    if (to.fiber == nullptr) {
        to.fiber = pool->take();
        if (to.fiber == nullptr) {
            launch->report("kernel %s: the host has no memory for another stack",
                           launch->kernel->name);
            if (&from != &pool->own) fiber_switch(from, pool->own);
            return;
        }
    }
    make_current(to);
    fiber_switch(from, *to.fiber);
}

const char* base_name(const char* file) {
    const char* slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

}  // namespace

void fiber_main() {
    for (;;) {
        launch->kernel->body(launch->args);
        Thread& ended = *current;
        Fiber* own = ended.fiber;
        launch->end_thread(ended);
        Thread* to = launch->failed ? nullptr : launch->next();
        if (to != nullptr && to->fiber == nullptr) {
            to->fiber = own;
            make_current(*to);
            continue;
        }
        pool->give(own);
        if (to != nullptr) {
            go_on(*own, *to);
        } else {
            if (launch->live > 0) launch->report_deadlock();
            fiber_switch(*own, pool->own);
        }
        // Taken from the pool for another thread, which is the current one.
    }
}

void suspend() {
    Thread& self = *current;
    Thread* to = launch->next();
    if (to == &self) return;
    if (to == nullptr) {
        launch->report_deadlock();
        fiber_switch(*self.fiber, pool->own);
    } else {
        go_on(*self.fiber, *to);
    }
}

bool run(Launch& of) {
    thread_local Pool own_pool;
    pool = &own_pool;
    launch = &of;
    unsigned* blocks = nullptr;
    if (of.order == SHUFFLED) {
        blocks = static_cast<unsigned*>(malloc(sizeof(unsigned) * of.blocks));
        if (blocks == nullptr) of.report("kernel %s: the host has no memory", of.kernel->name);
        for (unsigned i = 0; !of.failed && i < of.blocks; i++) {
            unsigned other = of.random.below(i + 1);
            blocks[i] = blocks[other];
            blocks[other] = i;
        }
    }
    for (unsigned i = 0; !of.failed && i < of.blocks; i++) {
        of.begin_block(of.order == ASCENDING    ? i
                       : of.order == DESCENDING ? of.blocks - 1 - i
                                                : blocks[i]);
        go_on(pool->own, *of.next());
    }
    free(blocks);
    of.release_shared();
    if (of.failed) pool->reset();
    launch = nullptr;
    current = nullptr;
    place = nullptr;
    return !of.failed;
}

void Launch::begin_block(unsigned block) {
    blocks_begun++;
    live = threads;
    spins = 0;
    at_barrier = 0;
    barrier_nonzero = 0;
    ready_warps = 0;
    round_at = round_length = 0;
    round_spins = false;
    memset(waits_at_barrier, 0, threads);
    for (unsigned i = 0; i < threads; i++) {
        threads_of_block[i].place.block.x = block;
        threads_of_block[i].fiber = nullptr;
    }
    for (unsigned first = 0; first < threads; first += WARP_LANES) {
        Warp& warp = warps[first / WARP_LANES];
        unsigned lanes = threads - first;
        warp.live = warp.ready = lanes < WARP_LANES ? (1u << lanes) - 1 : ~0u;
        warp.group_count = 0;
        ready_warps |= 1u << first / WARP_LANES;
    }
}

Thread* Launch::next() {
    if (round_at == round_length && !begin_round()) return nullptr;
    unsigned lane = round[round_at++];
    Warp& warp = warps[round_warp];
    warp.ready &= ~(1u << lane);
    if (warp.ready == 0) ready_warps &= ~(1u << round_warp);
    return &threads_of_block[round_warp * WARP_LANES + lane];
}

unsigned Launch::choose_warp() {
    unsigned from = ready_warps;
    if (order == SHUFFLED) {
        for (unsigned skip = random.below(__builtin_popcount(from)); skip > 0; skip--)
            from &= from - 1;
        return __builtin_ctz(from);
    }
    if (round_spins) {
        unsigned others = order == ASCENDING ? ~1u << round_warp : (1u << round_warp) - 1;
        if (from & others) from &= others;
    }
    return order == ASCENDING ? __builtin_ctz(from) : 31 - __builtin_clz(from);
}

bool Launch::begin_round() {
    if (ready_warps == 0) return false;
    round_warp = choose_warp();
    round_spins = false;
    round_at = round_length = 0;
    for (unsigned lanes = warps[round_warp].ready; lanes != 0;) {
        unsigned lane = order == DESCENDING ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes);
        lanes &= ~(1u << lane);
        unsigned at = round_length++;
        if (order == SHUFFLED) {
            unsigned other = random.below(at + 1);
            round[at] = round[other];
            at = other;
        }
        round[at] = lane;
    }
    return true;
}

void Launch::make_ready(unsigned thread) {
    warps[thread / WARP_LANES].ready |= 1u << thread % WARP_LANES;
    ready_warps |= 1u << thread / WARP_LANES;
}

void Launch::end_thread(Thread& thread) {
    unsigned lane = number(thread) % WARP_LANES;
    Warp& warp = warps[number(thread) / WARP_LANES];
    warp.live &= ~(1u << lane);
    live--;
    spins = 0;
    for (unsigned i = 0; i < warp.group_count; i++) {
        const Group& group = warp.groups[i];
        if (group.mask >> lane & 1) {
            report(
                "kernel %s, block %u: lanes %08x of warp %u wait at %s with mask %08x (%s:%d) for "
                "lane %u, which has ended",
                kernel->name, thread.place.block.x, group.arrived, number(thread) / WARP_LANES,
                kind_name(group.kind), group.mask, base_name(group.site.file), group.site.line,
                lane);
        }
    }
    if (at_barrier > 0 && at_barrier == live) release_barrier();
}

void Launch::release_barrier() {
    unsigned result = barrier_kind == SYNCTHREADS_OR    ? barrier_nonzero > 0
                      : barrier_kind == SYNCTHREADS_AND ? barrier_nonzero == at_barrier
                                                        : barrier_nonzero;
    for (unsigned i = 0; i < threads; i++) {
        if (!waits_at_barrier[i]) continue;
        waits_at_barrier[i] = false;
        threads_of_block[i].result = result;
        make_ready(i);
    }
    at_barrier = barrier_nonzero = 0;
    spins = 0;
}

void give_way(bool spinning, Site site) {
    if (spinning) {
        launch->round_spins = true;
        if (++launch->spins > MAX_SPINS)
            fail(site, "the block's threads wait for a store that does not come");
    }
    launch->make_ready(launch->number(*current));
    suspend();
}

void Launch::report(const char* format, ...) {
    if (failed) return;
    failed = true;
    va_list values;
    va_start(values, format);
    vsnprintf(error, error_size, format, values);
    va_end(values);
}

void Launch::report_deadlock() {
    if (failed) return;
    char text[1024];
    unsigned long length = 0;
    auto add = [&](int written) {
        length =
            written < 0 || length + written >= sizeof text ? sizeof text - 1 : length + written;
    };
    auto room = [&] { return sizeof text - length; };
    if (at_barrier > 0) {
        add(snprintf(text, room(), "; %u of %u live threads wait at %s (%s:%d)", at_barrier, live,
                     kind_name(barrier_kind), base_name(barrier_site.file), barrier_site.line));
    }
    for (unsigned w = 0; w * WARP_LANES < threads; w++) {
        for (unsigned i = 0; i < warps[w].group_count; i++) {
            const Group& group = warps[w].groups[i];
            add(snprintf(text + length, room(),
                         "; lanes %08x of warp %u wait at %s (%s:%d) for lanes %08x", group.arrived,
                         w, kind_name(group.kind), base_name(group.site.file), group.site.line,
                         group.mask & ~group.arrived));
        }
    }
    report("kernel %s, block %u: no thread can go on%s", kernel->name,
           threads_of_block[0].place.block.x, text);
}

void fail(Site site, const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    unsigned thread = launch->number(*current);
    launch->report("kernel %s, block %u, thread %u (lane %u of warp %u): %s (%s:%d)",
                   launch->kernel->name, current->place.block.x, thread, thread % WARP_LANES,
                   thread / WARP_LANES, text, base_name(site.file), site.line);
    fiber_switch(*current->fiber, pool->own);
    __builtin_trap();
}

void fail_at(Site site, const char* what) { fail(site, "%s", what); }

void* Launch::fill(SharedArray& array) {
    if (array.block != blocks_begun) {
        array.block = blocks_begun;
        memset(array.memory, int(0x5b + 37 * blocks_begun), array.bytes);
    }
    return array.memory;
}

void Launch::release_shared() {
    for (unsigned i = 0; i < array_count; i++) free(arrays[i].memory);
    free(dynamic.memory);
}

void* shared_array(const void* site, unsigned long bytes) {
    Launch& of = *launch;
    for (unsigned i = 0; i < of.array_count; i++) {
        if (of.arrays[i].site == site) return of.fill(of.arrays[i]);
    }
    Site nowhere = {of.kernel->name, 0};
    of.array_bytes += bytes;
    if (of.array_count == MAX_ARRAYS) fail(nowhere, "too many SHARED_ARRAYs");
    if (of.array_bytes > MAX_SHARED_ARRAYS || of.array_bytes + of.shared_bytes > MAX_SHARED) {
        fail(nowhere, "%lu bytes of SHARED_ARRAYs and %lu of dynamic shared memory are too much",
             of.array_bytes, of.shared_bytes);
    }
    void* memory = malloc(bytes);
    if (memory == nullptr) fail(nowhere, "the host has no memory for shared memory");
    of.arrays[of.array_count] = {site, memory, bytes, 0};
    return of.fill(of.arrays[of.array_count++]);
}

void* shared_dynamic() {
    Launch& of = *launch;
    if (of.dynamic.memory == nullptr) {
        of.dynamic = {nullptr, malloc(of.shared_bytes), of.shared_bytes, 0};
        if (of.dynamic.memory == nullptr)
            fail({of.kernel->name, 0}, "the host has no memory for shared memory");
    }
    return of.fill(of.dynamic);
}

}  // namespace emulation
