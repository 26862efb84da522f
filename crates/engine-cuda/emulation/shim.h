// What kernels/device.cuh includes where a kernel is compiled as C++: CUDA's words with a meaning
// on a CPU.
//
// Every CUDA thread of a block is a fiber (scheduler.h). A fiber runs until it comes to a barrier
// or to a warp primitive, so a barrier that is missing shows under some order of the lanes; what
// CUDA leaves undefined (a wrong mask, a lane that never comes, a source lane that takes no part)
// is an error of the launch. __activemask and the primitives without a mask are left out: they hide
// mistakes.
//
// A loop that waits for another thread's store must call __nanosleep, an atomic or __ldcv: nothing
// else lets the other one run.
#pragma once

#include <math.h>
#include <string.h>

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline, unused))
#define __align__(bytes) __attribute__((aligned(bytes)))

// A kernel, known to launches by its name: its arguments' size and the most threads of a block go
// with it.
#define KERNEL(name, Args, threads)                                                               \
    static void name(const Args& args);                                                           \
    static ::emulation::Kernel name##_kernel(#name, sizeof(Args), threads, [](const void* from) { \
        name(*static_cast<const Args*>(from));                                                    \
    });                                                                                           \
    static void name([[maybe_unused]] const Args& args)

// An allocation of its own for each declaration, so that the address sanitizer sees where it ends;
// garbage at each block's begin.
#define SHARED_ARRAY(type, name, count)                \
    static char name##_site;                           \
    type(&name)[count] = *static_cast<type(*)[count]>( \
        ::emulation::shared_array(&name##_site, sizeof(type) * (count)))
#define SHARED_DYNAMIC(type, name) \
    type* const name = static_cast<type*>(::emulation::shared_dynamic())

#define CUDA_VECTOR2(name, type, bytes)                          \
    struct __align__(bytes) name {                               \
        type x, y;                                               \
    };                                                           \
    static inline name make_##name(type x, type y) { return {x, y}; }
#define CUDA_VECTOR4(name, type, bytes)                          \
    struct __align__(bytes) name {                               \
        type x, y, z, w;                                         \
    };                                                           \
    static inline name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
CUDA_VECTOR2(uchar2, unsigned char, 2)
CUDA_VECTOR2(ushort2, unsigned short, 4)
CUDA_VECTOR2(int2, int, 8)
CUDA_VECTOR2(uint2, unsigned, 8)
CUDA_VECTOR2(longlong2, long long, 16)
CUDA_VECTOR2(ulonglong2, unsigned long long, 16)
CUDA_VECTOR2(double2, double, 16)
CUDA_VECTOR4(uchar4, unsigned char, 4)
CUDA_VECTOR4(ushort4, unsigned short, 8)
CUDA_VECTOR4(int4, int, 16)
CUDA_VECTOR4(uint4, unsigned, 16)
#undef CUDA_VECTOR2
#undef CUDA_VECTOR4

namespace emulation {

struct Index {
    unsigned x, y, z;
};

// What the running thread sees of its place.
struct Place {
    Index thread, block, block_dim, grid_dim;
};

// Of the thread that runs now, on this OS thread.
extern __thread const Place* place;

// Makes a kernel known before main begins.
struct Kernel {
    using Body = void (*)(const void* args);
    Kernel(const char* name, unsigned long args_size, unsigned threads, Body body);
    const char* name;
    unsigned long args_size;
    unsigned threads;
    Body body;
    const Kernel* next;
};

void* shared_array(const void* site, unsigned long bytes);
void* shared_dynamic();

// Where a primitive is called: what an error says.
struct Site {
    const char* file;
    int line;
};

enum Kind : unsigned {
    SYNCWARP,
    SHFL,
    SHFL_UP,
    SHFL_DOWN,
    SHFL_XOR,
    BALLOT,
    ANY,
    ALL,
    MATCH_ANY,
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MIN_SIGNED,
    REDUCE_MAX,
    REDUCE_MAX_SIGNED,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR,
    SYNCTHREADS,
    SYNCTHREADS_OR,
    SYNCTHREADS_AND,
    SYNCTHREADS_COUNT,
};

// Meets the other lanes of the mask. `operand` and `width` are the shuffles' own.
unsigned long long meet_warp(Kind kind, unsigned mask, unsigned long long value, unsigned operand,
                             int width, Site site);
// Meets the block's other threads.
unsigned meet_block(Kind kind, unsigned value, Site site);
// Lets others run; `spinning`: the thread only waits for them.
void give_way(bool spinning, Site site);
// Before an atomic access of `bytes`, or a load of what others store: may let them run.
void before_atomic(const volatile void* address, unsigned long bytes, Site site);
[[noreturn]] void fail_at(Site site, const char* what);

template <class T> struct Same {
    using Type = T;
};

}  // namespace emulation

#define threadIdx (::emulation::place->thread)
#define blockIdx (::emulation::place->block)
#define blockDim (::emulation::place->block_dim)
#define gridDim (::emulation::place->grid_dim)

// The last parameter of every primitive: its caller's place in the source.
#define CUDA_SITE ::emulation::Site site = {__builtin_FILE(), __builtin_LINE()}

static inline void __syncthreads(CUDA_SITE) {
    ::emulation::meet_block(::emulation::SYNCTHREADS, 0, site);
}
static inline int __syncthreads_or(int value, CUDA_SITE) {
    return int(::emulation::meet_block(::emulation::SYNCTHREADS_OR, value != 0, site));
}
static inline int __syncthreads_and(int value, CUDA_SITE) {
    return int(::emulation::meet_block(::emulation::SYNCTHREADS_AND, value != 0, site));
}
static inline int __syncthreads_count(int value, CUDA_SITE) {
    return int(::emulation::meet_block(::emulation::SYNCTHREADS_COUNT, value != 0, site));
}

static inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_SITE) {
    ::emulation::meet_warp(::emulation::SYNCWARP, mask, 0, 0, 32, site);
}
static inline unsigned __ballot_sync(unsigned mask, int value, CUDA_SITE) {
    return unsigned(::emulation::meet_warp(::emulation::BALLOT, mask, value != 0, 0, 32, site));
}
static inline int __any_sync(unsigned mask, int value, CUDA_SITE) {
    return int(::emulation::meet_warp(::emulation::ANY, mask, value != 0, 0, 32, site));
}
static inline int __all_sync(unsigned mask, int value, CUDA_SITE) {
    return int(::emulation::meet_warp(::emulation::ALL, mask, value != 0, 0, 32, site));
}

// The same for each type that CUDA has an overload for: narrower ones are promoted, as there.
#define CUDA_SHUFFLE(type, name, kind)                                                      \
    static inline type name(unsigned mask, type value, unsigned operand, int width = 32,    \
                            CUDA_SITE) {                                                    \
        unsigned long long bits = 0;                                                        \
        memcpy(&bits, &value, sizeof value);                                                \
        bits = ::emulation::meet_warp(::emulation::kind, mask, bits, operand, width, site); \
        memcpy(&value, &bits, sizeof value);                                                \
        return value;                                                                       \
    }
#define CUDA_EXCHANGES(type)                                                                      \
    CUDA_SHUFFLE(type, __shfl_sync, SHFL)                                                         \
    CUDA_SHUFFLE(type, __shfl_up_sync, SHFL_UP)                                                   \
    CUDA_SHUFFLE(type, __shfl_down_sync, SHFL_DOWN)                                               \
    CUDA_SHUFFLE(type, __shfl_xor_sync, SHFL_XOR)                                                 \
    static inline unsigned __match_any_sync(unsigned mask, type value, CUDA_SITE) {               \
        unsigned long long bits = 0;                                                              \
        memcpy(&bits, &value, sizeof value);                                                      \
        return unsigned(::emulation::meet_warp(::emulation::MATCH_ANY, mask, bits, 0, 32, site)); \
    }
CUDA_EXCHANGES(int)
CUDA_EXCHANGES(unsigned)
CUDA_EXCHANGES(long)
CUDA_EXCHANGES(unsigned long)
CUDA_EXCHANGES(long long)
CUDA_EXCHANGES(unsigned long long)
CUDA_EXCHANGES(float)
CUDA_EXCHANGES(double)
#undef CUDA_EXCHANGES
#undef CUDA_SHUFFLE

#define CUDA_REDUCE(type, name, kind)                                                       \
    static inline type name(unsigned mask, type value, CUDA_SITE) {                         \
        return type(                                                                        \
            ::emulation::meet_warp(::emulation::kind, mask, unsigned(value), 0, 32, site)); \
    }
CUDA_REDUCE(unsigned, __reduce_add_sync, REDUCE_ADD)
CUDA_REDUCE(int, __reduce_add_sync, REDUCE_ADD)
CUDA_REDUCE(unsigned, __reduce_min_sync, REDUCE_MIN)
CUDA_REDUCE(int, __reduce_min_sync, REDUCE_MIN_SIGNED)
CUDA_REDUCE(unsigned, __reduce_max_sync, REDUCE_MAX)
CUDA_REDUCE(int, __reduce_max_sync, REDUCE_MAX_SIGNED)
CUDA_REDUCE(unsigned, __reduce_and_sync, REDUCE_AND)
CUDA_REDUCE(unsigned, __reduce_or_sync, REDUCE_OR)
CUDA_REDUCE(unsigned, __reduce_xor_sync, REDUCE_XOR)
#undef CUDA_REDUCE

// Atomics: really so, for launches run on several OS threads at the same time. No order is
// promised, as in CUDA.
#define CUDA_ATOMIC(type, name, builtin)                            \
    static inline type name(type* address, type value, CUDA_SITE) { \
        ::emulation::before_atomic(address, sizeof(type), site);    \
        return builtin(address, value, __ATOMIC_RELAXED);           \
    }
#define CUDA_ATOMIC_BEST(type, name, better)                                               \
    static inline type name(type* address, type value, CUDA_SITE) {                        \
        ::emulation::before_atomic(address, sizeof(type), site);                           \
        type old = __atomic_load_n(address, __ATOMIC_RELAXED);                             \
        while (value better old &&                                                         \
               !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, \
                                            __ATOMIC_RELAXED)) {                           \
        }                                                                                  \
        return old;                                                                        \
    }
#define CUDA_ATOMICS(type)                                                              \
    CUDA_ATOMIC(type, atomicAdd, __atomic_fetch_add)                                    \
    CUDA_ATOMIC(type, atomicOr, __atomic_fetch_or)                                      \
    CUDA_ATOMIC(type, atomicAnd, __atomic_fetch_and)                                    \
    CUDA_ATOMIC(type, atomicXor, __atomic_fetch_xor)                                    \
    CUDA_ATOMIC(type, atomicExch, __atomic_exchange_n)                                  \
    CUDA_ATOMIC_BEST(type, atomicMin, <)                                                \
    CUDA_ATOMIC_BEST(type, atomicMax, >)                                                \
    static inline type atomicCAS(type* address, type expected, type value, CUDA_SITE) { \
        ::emulation::before_atomic(address, sizeof(type), site);                        \
        type old = expected;                                                            \
        if (!__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, \
                                         __ATOMIC_RELAXED)) {                           \
            ::emulation::give_way(true, site);                                          \
        }                                                                               \
        return old;                                                                     \
    }
CUDA_ATOMICS(int)
CUDA_ATOMICS(unsigned)
CUDA_ATOMICS(unsigned long long)
CUDA_ATOMIC_BEST(long long, atomicMin, <)
CUDA_ATOMIC_BEST(long long, atomicMax, >)
static inline unsigned atomicSub(unsigned* address, unsigned value, CUDA_SITE) {
    return atomicAdd(address, 0u - value, site);
}
#undef CUDA_ATOMICS
#undef CUDA_ATOMIC_BEST
#undef CUDA_ATOMIC

static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __threadfence(); }
static inline void __threadfence_system() { __threadfence(); }
static inline void __nanosleep(unsigned, CUDA_SITE) { ::emulation::give_way(true, site); }
[[noreturn]] static inline void __trap(CUDA_SITE) { ::emulation::fail_at(site, "__trap()"); }

// Loads and stores with hints for the caches: plain ones.
#define CUDA_LOAD(name) \
    template <class T> static inline T name(const T* address) { return *address; }
#define CUDA_STORE(name)                                                                    \
    template <class T> static inline void name(T* address,                                  \
                                               typename ::emulation::Same<T>::Type value) { \
        *address = value;                                                                   \
    }
CUDA_LOAD(__ldg)
CUDA_LOAD(__ldca)
CUDA_LOAD(__ldcg)
CUDA_LOAD(__ldcs)
CUDA_LOAD(__ldlu)
CUDA_STORE(__stwb)
CUDA_STORE(__stcg)
CUDA_STORE(__stcs)
CUDA_STORE(__stwt)
#undef CUDA_LOAD
template <class T> static inline T __ldcv(const T* address, CUDA_SITE) {
    ::emulation::before_atomic(address, 1, site);
    return *address;
}
#undef CUDA_STORE

// Bits.
static inline int __popc(unsigned value) { return __builtin_popcount(value); }
static inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
static inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(unsigned(value)); }
static inline int __clzll(long long value) {
    return value == 0 ? 64 : __builtin_clzll((unsigned long long)value);
}
static inline int __ffs(int value) { return __builtin_ffs(value); }
static inline int __ffsll(long long value) { return __builtin_ffsll(value); }
static inline unsigned __brev(unsigned value) {
    value = (value >> 1 & 0x55555555u) | (value & 0x55555555u) << 1;
    value = (value >> 2 & 0x33333333u) | (value & 0x33333333u) << 2;
    value = (value >> 4 & 0x0f0f0f0fu) | (value & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(value);
}
static inline unsigned long long __brevll(unsigned long long value) {
    return (unsigned long long)__brev(unsigned(value)) << 32 | __brev(unsigned(value >> 32));
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
// Each byte of the result is one of the eight of `y:x`, named by a nibble of the selector; the
// nibble's top bit spreads that byte's sign.
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned nibble = selector >> (4 * i) & 15;
        unsigned byte = unsigned(bytes >> (8 * (nibble & 7))) & 0xff;
        if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return unsigned((unsigned long long)a * b >> 32);
}
static inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
    return (long long)((__int128)a * b >> 64);
}
static inline double __longlong_as_double(long long bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline long long __double_as_longlong(double value) {
    long long bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
