// Words that threads of several kernels read and write at the same time, with the order that the C++ and the PTX memory models
// give them: what a thread did before a release is seen by one that acquires the value. The scope is the whole GPU.
//
// CUDA's own atomicCAS and the like are relaxed, and its __threadfence orders more than is wanted and costs accordingly, hence
// these few words of PTX.
#pragma once
#include "device.cuh"

#ifdef RHYTHM_EMULATION

// The emulation's own are sequentially consistent, and places at which it may go on with another thread.
DEVICE u64 load_relaxed(const u64* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
DEVICE u64 load_acquire(const u64* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
DEVICE void store_release(u64* word, u64 value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
// What was loaded before is as if acquired.
DEVICE void acquire_fence() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
DEVICE u64 compare_and_swap(u64* word, u64 from, u64 to) { return atomicCAS(word, from, to); }
DEVICE u64 fetch_and(u64* word, u64 bits) { return atomicAnd(word, bits); }
DEVICE u64 fetch_or(u64* word, u64 bits) { return atomicOr(word, bits); }
DEVICE u64 fetch_add(u64* word, u64 value) { return atomicAdd(word, value); }

#else

DEVICE u64 load_relaxed(const u64* word) {
    u64 value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(word)) : "memory");
    return value;
}

DEVICE u64 load_acquire(const u64* word) {
    u64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(__cvta_generic_to_global(word)) : "memory");
    return value;
}

DEVICE void store_release(u64* word, u64 value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(__cvta_generic_to_global(word)), "l"(value) : "memory");
}

DEVICE void acquire_fence() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }

// The value found; `to` is stored if that was `from`. Acquires and releases, like those below.
DEVICE u64 compare_and_swap(u64* word, u64 from, u64 to) {
    u64 found;
    asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(found)
                 : "l"(__cvta_generic_to_global(word)), "l"(from), "l"(to)
                 : "memory");
    return found;
}

DEVICE u64 fetch_and(u64* word, u64 bits) {
    u64 found;
    asm volatile("atom.acq_rel.gpu.global.and.b64 %0, [%1], %2;"
                 : "=l"(found)
                 : "l"(__cvta_generic_to_global(word)), "l"(bits)
                 : "memory");
    return found;
}

DEVICE u64 fetch_or(u64* word, u64 bits) {
    u64 found;
    asm volatile("atom.acq_rel.gpu.global.or.b64 %0, [%1], %2;"
                 : "=l"(found)
                 : "l"(__cvta_generic_to_global(word)), "l"(bits)
                 : "memory");
    return found;
}

DEVICE u64 fetch_add(u64* word, u64 value) {
    u64 found;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(found)
                 : "l"(__cvta_generic_to_global(word)), "l"(value)
                 : "memory");
    return found;
}

#endif
