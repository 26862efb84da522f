// The session array on the device (paper, section 4.3.1): the engine's session array with its ids
// and its rules, for cohorts.
//
// An id names a slot and proves itself by 128 random bits, so a lookup is one slot of 32 bytes,
// whoever else logs in or out. It departs from the paper, whose array is a hash table with a bucket
// for each lane of a cohort and whose id can be computed by anyone.
//
// Kernels of several streams use the array at the same time. No thread ever waits for another: each
// step is one 64-bit atomic, and where it fails another thread has got on.
//
// A slot. Its state holds a generation, which grows by one when a session begins and when it ends
// (odd: live), and the tick of the last use. Every change to a live slot's state is a
// compare-and-swap on that one word: of several threads that destroy or expire a session one wins
// and owns the slot, an expiry fails if the session was used meanwhile, and a late use cannot touch
// the slot's next session. Secret and user are written only by the owner of a slot that is not
// live.
//
// What a lookup reads is from one session or it finds nothing. It acquires the state; loads secret
// and user; fences; looks at the state again. The owner stores secret and user with release, after
// the atomic that ended the session before. So what the lookup loads is at least as new as the
// beginning of the session whose state it saw first, since `begin` stores the state last and with
// release. And if any of it is newer than the end of that session, load and fence make it an
// acquire: then the second look, which comes after the fence, sees that end too (or something
// later), the generations differ, and it finds nothing. Causality order in the PTX model is
// transitive, so this holds also where one thread ended the session, another took the slot from the
// free bits, and a third one reads.
//
// Free slots are bits, 64 to a word and 2048 to a window, which is what a warp looks at in one
// coalesced load. The host's lists of free slots would have the thousands of logins of a cohort
// fight for a few heads, one hop at a time; from bits a warp takes all the slots it wants with a
// few atomics, and as a bit says of itself that it is free there is no ABA problem. So that nobody
// goes through 16 million slots to find the last one or that there is none, the array is divided
// into 32 regions that count their free slots. A warp first takes from a region's count what it
// wants, and what it was granted it then finds: a slot's bit is set before it is counted, so at any
// time a region has at least as many bits as were granted and not yet found, and a search ends
// unless other warps keep moving the bits, that is, get on themselves.
#include "abi.cuh"
#include "atomic.cuh"

#define NO_SLOT 0xffffffffu
#define REGIONS WARP
#define WORD_SLOTS 64u
#define WINDOW_SLOTS (WARP * WORD_SLOTS)

// The alignment of 32 bytes keeps it in one sector.
struct Slot {
    u64 state;
    u64 secret[2];
    i64 user;
};

struct SessionArray {
    Slot* slots;
    // A bit a slot, set where it is free; a whole number of windows.
    u64* free_bits;
    // Free slots of each region that are not promised to anyone. May be below zero (as two's
    // complement) for a moment.
    u64* free_counts;
    // Where the next search for expired sessions begins.
    u64* cursor;
    u32 capacity;
    // Windows of a region.
    u32 region_windows;
    // A session whose last use is more ticks ago has expired.
    u32 idle_ticks;
    u32 padding;
};

struct InitArgs {
    SessionArray array;
};

struct LookupArgs {
    SessionArray array;
    const SessionKey* keys;
    // Of each lane: 1 and its user, or 0 and 0.
    i64* present;
    i64* users;
    u32 lanes;
    u32 now;
};

struct CreateArgs {
    SessionArray array;
    LaneResult* results;
    // 128 bits for each lane, low half first, that nobody can predict.
    const u64* randoms;
    // Of each lane: the id of the session it created, or none.
    SessionKey* created;
    u32 lanes;
    u32 now;
    // Slots that are searched for expired sessions for each lane that finds none free.
    u32 search;
    u32 padding;
};

struct DestroyArgs {
    SessionArray array;
    const LaneResult* results;
    const SessionKey* keys;
    u32 lanes;
    u32 padding;
};

struct SweepArgs {
    SessionArray array;
    // Slots first .. first + budget, counted round the array.
    u32 first;
    u32 budget;
    u32 now;
    u32 padding;
};

DEVICE u32 generation_of(u64 state) { return static_cast<u32>(state >> 32); }
DEVICE bool is_live(u64 state) { return (state >> 32 & 1) != 0; }
DEVICE u64 make_state(u32 generation, u32 tick) {
    return static_cast<u64>(generation) << 32 | tick;
}

// Ticks from the last use to `now`, counted modulo 2^32; 0 where the clock of another stream's
// launch was a little ahead.
DEVICE u32 age_of(u64 state, u32 now) {
    u32 age = now - static_cast<u32>(state);
    return age > 0x7fffffffu ? 0 : age;
}

// The user of the session with this id, if it lives; `seen` is its state. It holds only if `touch`
// or `end` then finds the session unchanged. Both halves of the secret are compared whatever the
// first one says, and there is no branch between them.
DEVICE bool find_session(const SessionArray& array, const SessionKey& key, u64& seen, i64& user) {
    if (!key.present || key.slot >= array.capacity) return false;
    const Slot* slot = array.slots + key.slot;
    seen = load_acquire(&slot->state);
    // In any order; this one would show the most in tests if the second look were missing.
    u64 difference = (load_relaxed(&slot->secret[0]) ^ key.secret[0]) |
                     (load_relaxed(&slot->secret[1]) ^ key.secret[1]);
    user = static_cast<i64>(load_relaxed(reinterpret_cast<const u64*>(&slot->user)));
    acquire_fence();
    return is_live(seen) && difference == 0;
}

// Whether the session of `seen` is still there; then it is one used at `now`. The tick is stored
// only when it is a later one, so a cohort writes to few of the slots it reads.
DEVICE bool touch(Slot* slot, u64 seen, u32 now) {
    u64 state = load_relaxed(&slot->state);
    while (generation_of(state) == generation_of(seen)) {
        if (age_of(state, now) == 0) return true;
        u64 found = compare_and_swap(&slot->state, state, make_state(generation_of(state), now));
        if (found == state) return true;
        state = found;
    }
    return false;
}

// Ends the session of `seen` unless it was used since; then the caller owns the slot. `state`
// becomes what was found.
DEVICE bool end_unused(Slot* slot, u64& state) {
    u64 found = compare_and_swap(&slot->state, state,
                                 make_state(generation_of(state) + 1, static_cast<u32>(state)));
    bool is_ended = found == state;
    state = found;
    return is_ended;
}

// Ends the session of `seen` even if it was used since; then the caller owns the slot.
DEVICE bool end_session(Slot* slot, u64 seen) {
    u64 state = seen;
    while (generation_of(state) == generation_of(seen)) {
        if (end_unused(slot, state)) return true;
    }
    return false;
}

// Makes a session of a slot that the caller owns.
DEVICE void begin_session(Slot* slot, i64 user, u64 low, u64 high, u32 now) {
    u64 free = load_relaxed(&slot->state);
    store_release(reinterpret_cast<u64*>(&slot->user), static_cast<u64>(user));
    store_release(&slot->secret[0], low);
    store_release(&slot->secret[1], high);
    store_release(&slot->state, make_state(generation_of(free) + 1, now));
}

DEVICE bool has_expired(const SessionArray& array, u64 state, u32 now) {
    return is_live(state) && age_of(state, now) > array.idle_ticks;
}

// Returns a slot that the caller owns.
DEVICE void give_slot(const SessionArray& array, u32 slot) {
    fetch_or(array.free_bits + slot / WORD_SLOTS, 1ull << slot % WORD_SLOTS);
    // After the bit: what is counted can be found.
    fetch_add(array.free_counts + slot / (array.region_windows * WINDOW_SLOTS), 1);
}

// The bits of `word` without its lowest `count`.
DEVICE u64 without_lowest(u64 word, u32 count) {
    for (; count > 0; --count) word &= word - 1;
    return word;
}

DEVICE u32 lanes_below() { return (1u << warp_lane()) - 1; }

// Takes up to `wanted` from a region's count, for the warp.
DEVICE u32 promise(u64* count, u32 wanted) {
    u32 granted = 0;
    if (warp_lane() == 0) {
        i64 before = static_cast<i64>(fetch_add(count, 0ull - wanted));
        granted = static_cast<u32>(smaller<i64>(larger<i64>(before, 0), wanted));
        if (granted < wanted) fetch_add(count, wanted - granted);
    }
    return __shfl_sync(FULL_MASK, granted, 0);
}

// Finds the `granted` slots that a region has promised the warp and gives them to its first lanes
// that want one.
DEVICE void find_promised(const SessionArray& array, u32 region, u32 granted, u32 hash, bool wants,
                          u32& slot) {
    u32 first = region * array.region_windows;
    u32 windows =
        smaller((array.capacity + WINDOW_SLOTS - 1) / WINDOW_SLOTS - first, array.region_windows);
    u32 window = (hash >> 10) % windows;
    // Warps that come to the same window begin at different words.
    u32 turn = hash >> 5;
    while (granted > 0) {
        u32 index = (first + window) * WARP + ((warp_lane() + turn) & (WARP - 1));
        u64 word = load_relaxed(array.free_bits + index);
        // Each lane takes of its word what the lanes before it leave to be taken.
        u32 here = __popcll(word);
        u32 before = sum_to_here(here) - here;
        u32 mine = before < granted ? smaller(here, granted - before) : 0;
        u64 bits = word ^ without_lowest(word, mine);
        u64 got = 0;
        if (bits != 0) got = fetch_and(array.free_bits + index, ~bits) & bits;
        // What a lane acquired with a bit, the lane that gets the slot has acquired, too.
        __syncwarp(FULL_MASK);
        // The bits in order of lanes go to the lanes that want one, in order.
        u32 wanting = __ballot_sync(FULL_MASK, wants && slot == NO_SLOT);
        u32 rank = __popc(wanting & lanes_below());
        bool is_waiting = wanting >> warp_lane() & 1;
        u32 handed = 0;
        for (u32 from = 0; from < WARP; ++from) {
            u64 theirs = __shfl_sync(FULL_MASK, got, from);
            u32 word_index = __shfl_sync(FULL_MASK, index, from);
            u32 count = __popcll(theirs);
            if (is_waiting && rank >= handed && rank - handed < count)
                slot = word_index * WORD_SLOTS + __ffsll(without_lowest(theirs, rank - handed)) - 1;
            handed += count;
        }
        granted -= handed;
        window = window + 1 < windows ? window + 1 : 0;
    }
}

// Takes a free slot for each lane that wants one; all of the warp come. A lane gets none only if no
// region had one that was not promised to others.
DEVICE_CALL u32 take_free(const SessionArray& array, bool wants, i64 user) {
    u32 slot = NO_SLOT;
    u32 wanting = __ballot_sync(FULL_MASK, wants);
    if (wanting == 0) return slot;
    // Where to look first depends on the user and not on the session's random bits: the slot is no
    // secret and would betray some of them. The multiplier is 2^64 divided by the golden ratio,
    // which spreads consecutive ids evenly.
    u32 hash = static_cast<u32>(static_cast<u64>(user) * 0x9e3779b97f4a7c15ull >> 32);
    hash = __shfl_sync(FULL_MASK, hash, __ffs(wanting) - 1);
    while (wanting != 0) {
        bool has_free = static_cast<i64>(load_relaxed(array.free_counts + warp_lane())) > 0;
        u32 having = __ballot_sync(FULL_MASK, has_free);
        if (having == 0) break;
        u32 start = hash & (REGIONS - 1);
        u32 rotated = having >> start | (start > 0 ? having << (REGIONS - start) : 0);
        u32 region = (start + __ffs(rotated) - 1) & (REGIONS - 1);
        u32 granted = promise(array.free_counts + region, __popc(wanting));
        find_promised(array, region, granted, hash, wants, slot);
        wanting = __ballot_sync(FULL_MASK, wants && slot == NO_SLOT);
    }
    return slot;
}

// Takes over slots of sessions that have expired, for the lanes that want one; all of the warp
// come. It examines `search` slots for each of them, every slot at most once, and ends no more
// sessions than it needs.
DEVICE_CALL u32 take_expired(const SessionArray& array, bool wants, u32 now, u32 search) {
    u32 slot = NO_SLOT;
    u32 wanting = __ballot_sync(FULL_MASK, wants);
    u64 sum = static_cast<u64>(search) * __popc(wanting);
    u32 budget = static_cast<u32>(smaller<u64>(sum, array.capacity));
    if (budget == 0) return slot;
    u32 start = 0;
    // Other warps search elsewhere.
    if (warp_lane() == 0)
        start = static_cast<u32>(fetch_add(array.cursor, budget) % array.capacity);
    start = __shfl_sync(FULL_MASK, start, 0);
    for (u32 done = 0; wanting != 0 && done < budget; done += WARP) {
        u32 step = done + warp_lane();
        u64 state = 0;
        u32 candidate = 0;
        if (step < budget) {
            // Both are below the capacity, their sum may be above 2^32.
            candidate =
                start < array.capacity - step ? start + step : start - (array.capacity - step);
            state = load_acquire(&array.slots[candidate].state);
        }
        bool can_end = has_expired(array, state, now);
        u32 candidates = __ballot_sync(FULL_MASK, can_end);
        can_end = can_end && __popc(candidates & lanes_below()) < __popc(wanting);
        bool is_ended = can_end && end_unused(array.slots + candidate, state);
        // As with bits: the lane that gets the slot comes after the one that ended its session.
        __syncwarp(FULL_MASK);
        u32 ended = __ballot_sync(FULL_MASK, is_ended);
        // The n-th of those that want one gets the n-th of them.
        bool is_waiting = wanting >> warp_lane() & 1;
        u32 rank = __popc(wanting & lanes_below());
        for (u32 rest = ended, n = 0; rest != 0; rest &= rest - 1, ++n) {
            u32 found = __shfl_sync(FULL_MASK, candidate, __ffs(rest) - 1);
            if (is_waiting && rank == n) slot = found;
        }
        wanting = __ballot_sync(FULL_MASK, wants && slot == NO_SLOT);
    }
    return slot;
}

// A thread a slot: all free.
KERNEL(sessions_init, InitArgs, 256) {
    u32 thread = global_thread();
    const SessionArray& array = args.array;
    u32 windows = (array.capacity + WINDOW_SLOTS - 1) / WINDOW_SLOTS;
    if (thread < windows * WARP) {
        u32 first = thread * WORD_SLOTS;
        u32 count = first < array.capacity ? smaller(array.capacity - first, WORD_SLOTS) : 0;
        array.free_bits[thread] = count == WORD_SLOTS ? ~0ull : (1ull << count) - 1;
    }
    if (thread < REGIONS) {
        u64 size = static_cast<u64>(array.region_windows) * WINDOW_SLOTS;
        u64 first = thread * size;
        array.free_counts[thread] =
            first < array.capacity ? smaller<u64>(array.capacity - first, size) : 0;
    }
    if (thread == 0) *array.cursor = 0;
    if (thread < array.capacity) array.slots[thread] = Slot{0, {0, 0}, 0};
}

// A thread a lane: whose session is this? It counts as a use.
KERNEL(sessions_lookup, LookupArgs, 256) {
    u32 lane = global_thread();
    if (lane >= args.lanes) return;
    SessionKey key = args.keys[lane];
    u64 seen;
    i64 user = 0;
    bool is_found = find_session(args.array, key, seen, user) &&
                    age_of(seen, args.now) <= args.array.idle_ticks &&
                    touch(args.array.slots + key.slot, seen, args.now);
    args.present[lane] = is_found ? 1 : 0;
    args.users[lane] = is_found ? user : 0;
}

// A thread a lane, and a warp together for its slots: those that have finished and want a session
// get one, or fail.
KERNEL(sessions_create, CreateArgs, 128) {
    u32 lane = global_thread();
    bool wants = false;
    i64 user = 0;
    if (lane < args.lanes) {
        const LaneResult& result = args.results[lane];
        wants = result.outcome == LANE_FINISHED && result.session == SESSION_CREATE;
        user = result.user;
    }
    u32 slot = take_free(args.array, wants, user);
    if (__any_sync(FULL_MASK, wants && slot == NO_SLOT)) {
        u32 expired = take_expired(args.array, wants && slot == NO_SLOT, args.now, args.search);
        if (expired != NO_SLOT) slot = expired;
        // What was returned during the search.
        u32 returned = take_free(args.array, wants && slot == NO_SLOT, user);
        if (returned != NO_SLOT) slot = returned;
    }
    if (lane >= args.lanes) return;
    SessionKey key = {0, 0, {0, 0}};
    if (slot != NO_SLOT) {
        key = {slot, 1, {args.randoms[2 * lane], args.randoms[2 * lane + 1]}};
        begin_session(args.array.slots + slot, user, key.secret[0], key.secret[1], args.now);
    } else if (wants) {
        args.results[lane].outcome = LANE_FAILED + ERROR_SESSIONS_FULL;
    }
    args.created[lane] = key;
}

// A thread a lane: those that have finished and want their session ended.
KERNEL(sessions_destroy, DestroyArgs, 256) {
    u32 lane = global_thread();
    if (lane >= args.lanes) return;
    const LaneResult& result = args.results[lane];
    if (result.outcome != LANE_FINISHED || result.session != SESSION_DESTROY) return;
    SessionKey key = args.keys[lane];
    u64 seen;
    i64 user;
    if (find_session(args.array, key, seen, user) && end_session(args.array.slots + key.slot, seen))
        give_slot(args.array, key.slot);
}

// A thread a slot of the budget: ends what has expired.
KERNEL(sessions_sweep, SweepArgs, 256) {
    u32 step = global_thread();
    if (step >= args.budget) return;
    const SessionArray& array = args.array;
    u32 slot = args.first < array.capacity - step ? args.first + step
                                                  : args.first - (array.capacity - step);
    u64 state = load_acquire(&array.slots[slot].state);
    if (has_expired(array, state, args.now) && end_unused(array.slots + slot, state))
        give_slot(array, slot);
}
