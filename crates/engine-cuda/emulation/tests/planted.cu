// Kernels for the emulation's own tests: right ones, and ones with a mistake planted.
#include "device.cuh"

struct Values {
    u32* values;
    // Which of a kernel's variants; what each does is said there.
    u32 variant;
};

#define VARIANT_RIGHT 0

// Reverses the values of a block through shared memory; without a barrier in any other variant.
KERNEL(reverse, Values, 256) {
    SHARED_ARRAY(u32, held, 256);
    u32* values = args.values + blockIdx.x * blockDim.x;
    held[threadIdx.x] = values[threadIdx.x];
    if (args.variant == VARIANT_RIGHT) __syncthreads();
    values[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

// The same within each warp, by __syncwarp.
KERNEL(reverse_warps, Values, 256) {
    SHARED_DYNAMIC(u32, held);
    u32* values = args.values + blockIdx.x * blockDim.x;
    held[threadIdx.x] = values[threadIdx.x];
    if (args.variant == VARIANT_RIGHT) __syncwarp();
    values[threadIdx.x] = held[threadIdx.x ^ 31];
}

// Sums of all threads in values[0]: by an atomic, or by a load and a store around an atomic on
// something else.
KERNEL(sum, Values, 256) {
    if (args.variant == VARIANT_RIGHT) {
        atomicAdd(&args.values[0], threadIdx.x);
    } else {
        u32 old = args.values[0];
        atomicAdd(&args.values[1], 1u);
        args.values[0] = old + threadIdx.x;
    }
}

// What a block finds in its shared memory, a word a thread; then it leaves zeros there.
KERNEL(find_shared, Values, 32) {
    SHARED_ARRAY(u32, fixed, 32);
    SHARED_DYNAMIC(u32, dynamic);
    args.values[blockIdx.x * blockDim.x + threadIdx.x] = fixed[threadIdx.x] | dynamic[threadIdx.x];
    fixed[threadIdx.x] = 0;
    dynamic[threadIdx.x] = 0;
}

// Memory that is not the kernel's: the sanitizers end the process.
KERNEL(overrun, Values, 64) {
    SHARED_ARRAY(u32, fixed, 64);
    SHARED_DYNAMIC(u32, dynamic);
    u32 at = threadIdx.x + 1;
    // Nothing that the compiler sees through.
    u32* from = args.values;
    if (args.variant == 1) from = fixed;
    if (args.variant == 2) from = dynamic;
    from[threadIdx.x] = 1;
    __syncthreads();
    from[threadIdx.x] += from[at];
    // A vector at an address that is none of its multiples.
    if (args.variant == 4) reinterpret_cast<uint4*>(args.values + 1)->x = 1;
    if (args.variant == 5) args.values[0] = u32(i32(0x7fffffffu - args.values[0] * 0) + i32(at));
    args.values[threadIdx.x] = from[threadIdx.x];
}

// Hands a number from thread to thread by stores, the highest first: everybody but one waits, in
// one of three ways. Last variant: nobody begins.
KERNEL(hand_over, Values, 128) {
    volatile u32* turn = args.values;
    u32 mine = threadIdx.x + 1;
    if (args.variant != 3 && mine == blockDim.x) *turn = mine;
    if (args.variant == VARIANT_RIGHT || args.variant == 3) {
        while (*turn != mine) __nanosleep(20);
    } else if (args.variant == 1) {
        while (atomicAdd(args.values, 0u) != mine) {
        }
    } else {
        while (__ldcv(args.values) != mine) {
        }
    }
    *turn = threadIdx.x;
}

// Warp primitives and barriers, used as they must not be: by variant.
KERNEL(misuse, Values, 128) {
    u32 lane = warp_lane();
    u32* value = &args.values[threadIdx.x];
    switch (args.variant) {
        case VARIANT_RIGHT:
            // Each half by itself; lanes that end early are in no mask; ended threads are in no
            // barrier.
            if (lane < 16) {
                *value = __shfl_sync(0x0000ffffu, lane, 3);
            } else {
                *value = __shfl_sync(0xffff0000u, lane, 19);
            }
            if (lane >= 8) return;
            __syncthreads();
            *value += __ballot_sync(0xffu, lane & 1);
            return;
        case 1:  // The mask does not name the caller.
            *value = __shfl_sync(0x7fffffffu, lane, 0);
            return;
        case 2:  // It names a lane that ends before.
            if (lane == 5) return;
            __syncwarp();
            return;
        case 3:  // It names a lane that never comes: that one waits at the block's barrier.
            if (lane == 5) __syncthreads();
            *value = __any_sync(FULL_MASK, lane == 3);
            if (lane != 5) __syncthreads();
            return;
        case 4:  // Masks that differ.
            *value = __ballot_sync(lane < 16 ? FULL_MASK : 0xffff0000u, 1);
            return;
        case 5:  // Primitives that differ.
            *value = lane < 16 ? __any_sync(FULL_MASK, 1) : __all_sync(FULL_MASK, 1);
            return;
        case 6:  // A source that takes no part.
            if (lane < 8) *value = __shfl_sync(0xffu, lane, 8);
            return;
        case 7:  // A width that is none.
            *value = __shfl_down_sync(FULL_MASK, lane, 1, 12);
            return;
        case 8:  // A barrier in two branches.
            if (threadIdx.x < 32) {
                __syncthreads();
            } else {
                __syncthreads();
            }
            return;
        case 9:  // A barrier that some never reach: they wait for each other, in a circle.
            if (threadIdx.x == 0) __syncwarp(0x3);
            if (threadIdx.x == 1) __syncwarp(0x6);
            if (threadIdx.x == 2) __syncwarp(0x5);
            __syncthreads();
            return;
        case 10:  // An atomic between two words.
            atomicAdd(reinterpret_cast<u32*>(reinterpret_cast<u8*>(value) + 2), 1u);
            return;
        case 11:  // It gives up.
            if (threadIdx.x == 70) __trap();
            return;
        case 12: {  // Too much memory.
            SHARED_ARRAY(u64, one, 3000);
            SHARED_ARRAY(u64, two, 3200);
            one[0] = two[0] = 1;
            return;
        }
    }
}

// The results of every primitive, a row of blockDim.x words each.
KERNEL(exchange, Values, 64) {
    u32 lane = warp_lane();
    u32 value = lane * 3 + 1;
    i32 below = i32(lane) - 7;
    u64 wide = u64(value) << 33 | lane;
    u32 row = 0;
    auto give = [&](u32 result) { args.values[row++ * blockDim.x + threadIdx.x] = result; };
    give(__shfl_sync(FULL_MASK, value, lane + 1));
    give(__shfl_sync(FULL_MASK, value, -1));
    give(__shfl_sync(FULL_MASK, value, 5, 8));
    give(__shfl_sync(FULL_MASK, value, 13, 8));
    give(__shfl_up_sync(FULL_MASK, value, 3));
    give(__shfl_up_sync(FULL_MASK, value, 3, 8));
    give(__shfl_down_sync(FULL_MASK, value, 5, 16));
    give(__shfl_xor_sync(FULL_MASK, value, 9));
    give(__shfl_xor_sync(FULL_MASK, value, 8, 8));
    give(u32(__shfl_down_sync(FULL_MASK, wide, 1) >> 32));
    give(u32(__shfl_sync(FULL_MASK, below, 0)));
    give(__ballot_sync(FULL_MASK, lane % 3 == 0 ? 4 : 0));
    give(u32(__any_sync(FULL_MASK, lane == 40)));
    give(u32(__any_sync(FULL_MASK, lane == 30)));
    give(u32(__all_sync(FULL_MASK, lane != 30)));
    give(u32(__all_sync(FULL_MASK, lane < 32)));
    give(__match_any_sync(FULL_MASK, lane / 5));
    give(__match_any_sync(FULL_MASK, u64(lane & 1) << 40));
    give(__reduce_add_sync(FULL_MASK, value));
    give(u32(__reduce_min_sync(FULL_MASK, below)));
    give(__reduce_min_sync(FULL_MASK, u32(below)));
    give(u32(__reduce_max_sync(FULL_MASK, below)));
    give(__reduce_max_sync(FULL_MASK, u32(below)));
    give(__reduce_and_sync(FULL_MASK, value | 0x100));
    give(__reduce_or_sync(FULL_MASK, value));
    give(__reduce_xor_sync(FULL_MASK, value));
    // In two halves of a warp that has parted.
    if (lane & 1) {
        give(__reduce_add_sync(0xaaaaaaaau, value));
    } else {
        give(__shfl_sync(0x55555555u, value, 6));
    }
    give(u32(__syncthreads_count(threadIdx.x % 3 == 0)));
    give(u32(__syncthreads_or(threadIdx.x == 63)));
    give(u32(__syncthreads_and(threadIdx.x != 63)));
}

// The functions of one thread that are easily got wrong, on values[0] and values[1]; results
// follow.
KERNEL(bits, Values, 1) {
    u32 a = args.values[0];
    u32 b = args.values[1];
    u64 wide = u64(a) << 32 | b;
    u32* out = args.values + 2;
    *out++ = u32(__popc(a));
    *out++ = u32(__popcll(wide));
    *out++ = u32(__clz(i32(a)));
    *out++ = u32(__clz(0));
    *out++ = u32(__clzll(0));
    *out++ = u32(__ffs(i32(b)));
    *out++ = u32(__ffs(0));
    *out++ = u32(__ffsll(i64(u64(b) << 32)));
    *out++ = __brev(a);
    *out++ = u32(__brevll(wide));
    *out++ = __funnelshift_l(a, b, 8);
    *out++ = __funnelshift_r(a, b, 40);
    *out++ = __byte_perm(a, b, 0x7410);
    *out++ = __byte_perm(a, b, 0x000b);
    *out++ = __umulhi(a, b);
    *out++ = u32(__umul64hi(wide, wide));
    u64 word = 5;
    atomicMax(&word, wide);
    atomicMin(&word, u64(9));
    *out++ = u32(word);
    *out++ = u32(atomicExch(&word, u64(7)));
    *out++ = u32(atomicCAS(&word, u64(6), u64(1)));
    *out++ = u32(atomicCAS(&word, u64(7), u64(2)));
    *out++ = u32(atomicOr(&word, u64(12)));
    *out++ = u32(atomicAnd(&word, u64(6)));
    *out++ = u32(word);
    u32 small = 10;
    atomicSub(&small, 3u);
    *out++ = small;
}
