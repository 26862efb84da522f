// Kernels for the emulation's own tests: right ones, and the same with a mistake planted.
#include "device.cuh"

struct Reverse {
    u32* values;
    u32 with_barrier;
};

// Reverses the values of a block, through shared memory.
KERNEL(reverse, Reverse, 256) {
    SHARED_ARRAY(u32, held, 256);
    u32* values = args.values + blockIdx.x * blockDim.x;
    held[threadIdx.x] = values[threadIdx.x];
    if (args.with_barrier) __syncthreads();
    values[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}
