// What every kernel begins with: the types, and the few words in which nvcc, NVRTC and the
// emulation differ.
//
// One source serves all three. A kernel takes one struct of arguments by value, so that whoever
// launches it passes the address of that struct and nothing else; blocks and grids have one
// dimension. nvcc and NVRTC need nothing but this file. The emulation (../emulation/) compiles the
// same file as C++ and gives threadIdx, barriers, shuffles and atomics a meaning on a CPU.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

#ifdef RHYTHM_EMULATION
// KERNEL, SHARED_ARRAY and what is CUDA's own.
#include "shim.h"
#define WITH_BLOCKS(blocks)
#else
// A kernel: its name, the struct of its arguments (`args`), and the threads of a block.
#define KERNEL(name, Args, threads) \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args args)
// Behind the threads of a block: how many blocks a multiprocessor is to have registers for at once.
#define WITH_BLOCKS(blocks) , blocks
// An array in the block's shared memory.
#define SHARED_ARRAY(type, name, count) __shared__ __align__(16) type name[count]
// The block's dynamic shared memory, whose size the launch gives.
#define SHARED_DYNAMIC(type, name) extern __shared__ __align__(16) type name[]
#endif

// The same pointer, of which the compiler knows that it is one into global memory: where it cannot
// tell (in a function that is called), it uses instructions that find out at each access.
template <class T> static __device__ __forceinline__ T* GLOBAL(T* pointer) {
#ifndef RHYTHM_EMULATION
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

// The same pointer, kept in a register: the compiler would put it together anew for each access.
template <class T> static __device__ __forceinline__ T* KEPT(T* pointer) {
#ifndef RHYTHM_EMULATION
    asm("" : "+l"(pointer));
#endif
    return pointer;
}

// Device functions: inlined, and those that are too rare or too large for it.
#define DEVICE static __device__ __forceinline__
#define DEVICE_CALL static __device__ __noinline__
// Member functions: inlined, as DEVICE's are.
#define DEVICE_METHOD __device__ __forceinline__

#define WARP 32u
#define FULL_MASK 0xffffffffu

DEVICE u32 global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u32 warp_lane() { return threadIdx.x & (WARP - 1); }

// The sum of what the lanes of a warp have, up to one's own: all of them call.
DEVICE u32 sum_to_here(u32 value) {
    u32 sum = value;
    for (u32 by = 1; by < WARP; by *= 2) {
        u32 lower = __shfl_up_sync(FULL_MASK, sum, by);
        if (warp_lane() >= by) sum += lower;
    }
    return sum;
}

template <class T> DEVICE T smaller(T a, T b) { return a < b ? a : b; }
template <class T> DEVICE T larger(T a, T b) { return a < b ? b : a; }
