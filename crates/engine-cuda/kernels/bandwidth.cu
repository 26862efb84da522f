// How fast the device's memory is: a copy, and stores alone. The floors that rendering is measured
// against.
#include "device.cuh"

struct CopyBytes {
    u8* to;
    const u8* from;
    // A multiple of 16.
    u64 bytes;
};

// A thread copies 16 bytes at a time, the whole grid a stretch after the other. Neither side is
// read again: past the caches.
KERNEL(copy_bytes, CopyBytes, 512) {
    uint4* to = reinterpret_cast<uint4*>(args.to);
    const uint4* from = reinterpret_cast<const uint4*>(args.from);
    u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < args.bytes / 16; i += step)
        __stcs(&to[i], __ldcs(&from[i]));
}

struct WriteBytes {
    u8* to;
    // A multiple of 16.
    u64 bytes;
    u32 value;
    u32 unused;
};

KERNEL(write_bytes, WriteBytes, 512) {
    uint4* to = reinterpret_cast<uint4*>(args.to);
    uint4 value = make_uint4(args.value, args.value, args.value, args.value);
    u64 step = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < args.bytes / 16; i += step)
        __stcs(&to[i], value);
}
