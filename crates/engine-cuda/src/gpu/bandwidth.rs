//! How fast the device's memory is: a copy, and stores alone. What rendering is measured against.
#![allow(unsafe_code)]

use super::{
    Address, Arguments, DeviceBuffer, Gpu, GpuError, Grid, Kernel, SharedGpu, Stream, launch,
};
use serde::Serialize;

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

/// Copies one buffer to the other by a kernel, in a stream, as much as both hold. Gives the bytes
/// moved: read and written.
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

/// Times that each is measured; the median counts.
const TIMES: usize = 5;

/// What the device's memory does for kernels that do nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Gigabytes a second, read and written, by a copy.
    pub copy_gb_per_s: f64,
    /// Gigabytes a second written by stores alone.
    pub write_gb_per_s: f64,
}

/// Measures it with buffers of so many bytes, which should be many times the device's L2 cache.
///
/// # Errors
/// There is no room for two such buffers, or the GPU failed.
pub fn measure(gpu: &SharedGpu, bytes: usize) -> Result<Bandwidth, GpuError> {
    let stream = gpu.stream()?;
    let (to, from) = (
        DeviceBuffer::new(gpu, bytes)?,
        DeviceBuffer::new(gpu, bytes)?,
    );
    let marks = [gpu.mark()?, gpu.mark()?];
    let median = |copies: bool| -> Result<f64, GpuError> {
        let mut rates = Vec::new();
        // Once more than counts, to warm up.
        for _ in 0..=TIMES {
            gpu.record(stream, marks[0])?;
            // SAFETY: the buffers are only ours, and the stream is waited for before they go.
            let moved = unsafe {
                match copies {
                    true => copy_bytes(&**gpu, stream, &to, &from),
                    false => write_bytes(&**gpu, stream, &to, 0x2020_2020),
                }
            };
            let recorded = gpu.record(stream, marks[1]);
            gpu.synchronize(stream)?;
            recorded?;
            rates.push(moved? as f64 / f64::from(gpu.elapsed_ms(marks[0], marks[1])?) / 1e6);
        }
        rates.remove(0);
        rates.sort_by(f64::total_cmp);
        Ok(rates[TIMES / 2])
    };
    Ok(Bandwidth {
        copy_gb_per_s: median(true)?,
        write_gb_per_s: median(false)?,
    })
}
