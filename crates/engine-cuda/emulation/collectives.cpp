// What lanes exchange where they meet. Shuffles follow the formulas of the PTX manual (shfl.sync).
#include "scheduler.h"

namespace emulation {

const char* kind_name(unsigned kind) {
    static const char* const NAMES[] = {
        "__syncwarp",          "__shfl_sync",
        "__shfl_up_sync",      "__shfl_down_sync",
        "__shfl_xor_sync",     "__ballot_sync",
        "__any_sync",          "__all_sync",
        "__match_any_sync",    "__reduce_add_sync",
        "__reduce_min_sync",   "__reduce_min_sync (int)",
        "__reduce_max_sync",   "__reduce_max_sync (int)",
        "__reduce_and_sync",   "__reduce_or_sync",
        "__reduce_xor_sync",   "__syncthreads",
        "__syncthreads_or",    "__syncthreads_and",
        "__syncthreads_count",
    };
    return NAMES[kind];
}

namespace {

// The lane a shuffle reads from.
int shuffle_source(unsigned kind, int lane, unsigned operand, int width) {
    int outside = 32 - width;
    int first = lane & outside;
    int last = first | (31 & ~outside);
    int by = int(operand & 31);
    int source = lane;
    bool inside = false;
    switch (kind) {
        case SHFL:
            source = first | (by & ~outside);
            inside = source <= last;
            break;
        case SHFL_UP:
            source = lane - by;
            inside = source >= first;
            break;
        case SHFL_DOWN:
            source = lane + by;
            inside = source <= last;
            break;
        default:
            source = lane ^ by;
            inside = source <= last;
    }
    return inside ? source : lane;
}

unsigned reduce(unsigned kind, unsigned a, unsigned b) {
    switch (kind) {
        case REDUCE_ADD: return a + b;
        case REDUCE_MIN: return a < b ? a : b;
        case REDUCE_MIN_SIGNED: return int(a) < int(b) ? a : b;
        case REDUCE_MAX: return a > b ? a : b;
        case REDUCE_MAX_SIGNED: return int(a) > int(b) ? a : b;
        case REDUCE_AND:
        case ALL: return a & b;
        case REDUCE_XOR: return a ^ b;
        default: return a | b;
    }
}

// Gives every lane of the mask its result; all have come.
void exchange(Thread* lanes, unsigned kind, unsigned mask) {
    unsigned common = unsigned(lanes[__builtin_ctz(mask)].value);
    if (kind == BALLOT) common = 0;
    for (unsigned left = mask; left != 0; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        if (kind == BALLOT) common |= unsigned(lanes[lane].value) << lane;
        else if (left != mask) common = reduce(kind, common, unsigned(lanes[lane].value));
    }
    for (unsigned left = mask; left != 0; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        Thread& self = lanes[lane];
        self.result = common;
        if (kind >= SHFL && kind <= SHFL_XOR) {
            self.result = lanes[self.source].value;
        } else if (kind == MATCH_ANY) {
            self.result = 0;
            for (unsigned others = mask; others != 0; others &= others - 1) {
                unsigned other = __builtin_ctz(others);
                if (lanes[other].value == self.value) self.result |= 1u << other;
            }
        }
    }
}

}  // namespace

unsigned long long meet_warp(Kind kind, unsigned mask, unsigned long long value, unsigned operand,
                             int width, Site site) {
    Thread& self = *current;
    unsigned number = launch->number(self);
    unsigned lane = number % WARP_LANES;
    Warp& warp = launch->warps[number / WARP_LANES];
    if (!(mask >> lane & 1))
        fail(site, "%s with mask %08x, which does not name the caller", kind_name(kind), mask);
    if (mask & ~warp.live) {
        fail(site, "%s with mask %08x, which names lanes %08x that have ended or never were",
             kind_name(kind), mask, mask & ~warp.live);
    }
    if (kind >= SHFL && kind <= SHFL_XOR) {
        if (width < 1 || width > 32 || (width & (width - 1)) != 0)
            fail(site, "%s with width %d", kind_name(kind), width);
        self.source = unsigned(shuffle_source(kind, int(lane), operand, width));
        if (!(mask >> self.source & 1)) {
            fail(site, "%s reads lane %u, which mask %08x does not name", kind_name(kind),
                 self.source, mask);
        }
    }
    self.value = value;

    unsigned at = warp.group_count;
    for (unsigned i = 0; i < warp.group_count; i++) {
        const Group& group = warp.groups[i];
        if (group.mask == mask && group.kind == kind) {
            at = i;
        } else if ((group.mask >> lane & 1) && (group.arrived & mask)) {
            // Each waits for the other.
            fail(site, "%s with mask %08x, while lanes %08x are at %s with mask %08x (line %d)",
                 kind_name(kind), mask, group.arrived, kind_name(group.kind), group.mask,
                 group.site.line);
        }
    }
    if (at == warp.group_count) {
        warp.group_count++;
        warp.groups[at] = {kind, mask, 0, site};
    }
    Group& group = warp.groups[at];
    group.arrived |= 1u << lane;
    if (group.arrived == mask) {
        Thread* lanes = launch->threads_of_block + number / WARP_LANES * WARP_LANES;
        exchange(lanes, kind, mask);
        group = warp.groups[--warp.group_count];
        warp.ready |= mask;
        launch->ready_warps |= 1u << number / WARP_LANES;
        launch->spins = 0;
    }
    suspend();
    return self.result;
}

unsigned meet_block(Kind kind, unsigned value, Site site) {
    Thread& self = *current;
    Launch& of = *launch;
    if (of.at_barrier == 0) {
        of.barrier_kind = kind;
        of.barrier_site = site;
    } else if (of.barrier_kind != kind || of.barrier_site.line != site.line ||
               strcmp(of.barrier_site.file, site.file) != 0) {
        fail(site, "%s, while %u threads of the block are at %s (line %d)", kind_name(kind),
             of.at_barrier, kind_name(of.barrier_kind), of.barrier_site.line);
    }
    of.at_barrier++;
    of.barrier_nonzero += value;
    of.waits_at_barrier[of.number(self)] = true;
    if (of.at_barrier == of.live) of.release_barrier();
    suspend();
    return unsigned(self.result);
}

void before_atomic(const volatile void* address, unsigned long bytes, Site site) {
    if (reinterpret_cast<unsigned long>(address) % bytes != 0)
        fail(site, "an atomic access of %lu bytes at %p", bytes, address);
    bool turn = ++launch->atomics % ATOMICS_PER_TURN == 0;
    if (turn || (launch->order == SHUFFLED && launch->random.below(4) == 0)) give_way(turn, site);
}

}  // namespace emulation
