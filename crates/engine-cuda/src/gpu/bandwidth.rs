//! How fast the device's memory is: a copy, and stores alone. What rendering is measured against.
#![allow(unsafe_code)]

use super::{Address, Arguments, DeviceBuffer, Gpu, GpuError, Grid, Kernel, Stream, launch};

const THREADS: u32 = 512;
/// Enough to fill every multiprocessor (2048 threads each on sm_90).
const BLOCKS_PER_MULTIPROCESSOR: u32 = 4;

/// The struct of `copy_bytes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct CopyBytes {
    to: Address,
    from: Address,
    bytes: u64,
}

// SAFETY: it is the struct of `kernels/bandwidth.cu`.
unsafe impl Arguments for CopyBytes {
    const KERNEL: Kernel = Kernel::CopyBytes;
}

/// The struct of `write_bytes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct WriteBytes {
    to: Address,
    bytes: u64,
    value: u32,
}

// SAFETY: it is the struct of `kernels/bandwidth.cu`.
unsafe impl Arguments for WriteBytes {
    const KERNEL: Kernel = Kernel::WriteBytes;
}

fn grid(gpu: &dyn Gpu) -> Grid {
    Grid {
        blocks: gpu.multiprocessors() * BLOCKS_PER_MULTIPROCESSOR,
        threads: THREADS,
        shared_bytes: 0,
    }
}

/// Copies one buffer to the other by a kernel, in a stream, as much as both hold. Gives the bytes moved: read and written.
///
/// # Errors
/// The GPU failed.
///
/// # Safety
/// Both buffers live, and nobody else uses `to` or writes to `from`, until the stream has done it.
pub unsafe fn copy_bytes(
    gpu: &dyn Gpu,
    stream: Stream,
    to: &DeviceBuffer,
    from: &DeviceBuffer,
) -> Result<u64, GpuError> {
    let bytes = to.len().min(from.len()) as u64;
    let arguments = CopyBytes {
        to: to.address(),
        from: from.address(),
        bytes,
    };
    // SAFETY: `bytes` are in both buffers, a multiple of 16; the rest is the caller's promise.
    unsafe { launch(gpu, stream, grid(gpu), &arguments)? };
    Ok(2 * bytes)
}

/// Fills a buffer with copies of `value` by a kernel, in a stream. Gives the bytes written.
///
/// # Errors
/// The GPU failed.
///
/// # Safety
/// The buffer lives, and nobody else uses it, until the stream has done it.
pub unsafe fn write_bytes(
    gpu: &dyn Gpu,
    stream: Stream,
    to: &DeviceBuffer,
    value: u32,
) -> Result<u64, GpuError> {
    let bytes = to.len() as u64;
    let arguments = WriteBytes {
        to: to.address(),
        bytes,
        value,
    };
    // SAFETY: `bytes` are in the buffer, a multiple of 16; the rest is the caller's promise.
    unsafe { launch(gpu, stream, grid(gpu), &arguments)? };
    Ok(bytes)
}
