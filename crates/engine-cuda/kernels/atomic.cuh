// Words that threads of several kernels read and write at the same time, with the order that the
// C++ and the PTX memory models give them: what a thread did before a release is seen by one that
// acquires the value. The scope is the whole GPU.
//
// CUDA's own atomicCAS and the like are relaxed, and its __threadfence orders more than is wanted
// and costs accordingly, hence these few words of PTX.
#pragma once
#include "device.cuh"

#ifdef RHYTHM_EMULATION

// Every one is a place at which the emulation may go on with another thread.
#define ATOMIC_SITE ::emulation::Site site = {__builtin_FILE(), __builtin_LINE()}

DEVICE u64 load_relaxed(const u64* word, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}
DEVICE u64 load_acquire(const u64* word, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
DEVICE void store_release(u64* word, u64 value, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
DEVICE void acquire_fence() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
DEVICE u64 compare_and_swap(u64* word, u64 from, u64 to, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return from;
}
DEVICE u64 fetch_and(u64* word, u64 bits, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    return __atomic_fetch_and(word, bits, __ATOMIC_ACQ_REL);
}
DEVICE u64 fetch_or(u64* word, u64 bits, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    return __atomic_fetch_or(word, bits, __ATOMIC_ACQ_REL);
}
DEVICE u64 fetch_add(u64* word, u64 value, ATOMIC_SITE) {
    ::emulation::before_atomic(word, sizeof(u64), site);
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}

#else

DEVICE u64 load_relaxed(const u64* word) {
    u64 value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(__cvta_generic_to_global(word))
                 : "memory");
    return value;
}

DEVICE u64 load_acquire(const u64* word) {
    u64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(__cvta_generic_to_global(word))
                 : "memory");
    return value;
}

DEVICE void store_release(u64* word, u64 value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(word)), "l"(value)
                 : "memory");
}

// What was loaded before is as if acquired.
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
