//! How fast the device's memory is: a copy, and stores alone. What rendering is measured against.

use crate::abi::bandwidth::{CopyBytes, WriteBytes};
use crate::gpu::{DeviceBuffer, Gpu, GpuError, PinnedBuffer, Queue, SharedGpu, Slice, scope};
use serde::Serialize;

/// Enough to fill every multiprocessor (2048 threads each on sm_90).
const BLOCKS_PER_MULTIPROCESSOR: u32 = 4;

fn blocks(gpu: &dyn Gpu) -> u32 {
    gpu.multiprocessors() * BLOCKS_PER_MULTIPROCESSOR
}

/// Copies bytes by a kernel, in a stream. Gives the bytes moved: read and written.
///
/// # Errors
/// The GPU failed.
///
/// # Panics
/// They are not as many, or not a multiple of 16.
pub fn copy_bytes<'m>(
    gpu: &dyn Gpu,
    queue: &Queue<'m>,
    to: Slice<'m, u8>,
    from: Slice<'m, u8>,
) -> Result<u64, GpuError> {
    assert_eq!(to.len(), from.len(), "a copy has two sides");
    let bytes = to.len() as u64;
    queue.launch(CopyBytes {
        to,
        from,
        bytes,
        blocks: blocks(gpu),
    })?;
    Ok(2 * bytes)
}

/// Fills memory with copies of `value` by a kernel, in a stream. Gives the bytes written.
///
/// # Errors
/// The GPU failed.
///
/// # Panics
/// They are not a multiple of 16.
pub fn write_bytes<'m>(
    gpu: &dyn Gpu,
    queue: &Queue<'m>,
    to: Slice<'m, u8>,
    value: u32,
) -> Result<u64, GpuError> {
    let bytes = to.len() as u64;
    queue.launch(WriteBytes {
        to,
        bytes,
        value,
        unused: 0,
        blocks: blocks(gpu),
    })?;
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
    /// Gigabytes a second from page-locked memory of the host to the device's, and back.
    pub to_device_gb_per_s: f64,
    /// Likewise, back.
    pub to_host_gb_per_s: f64,
}

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    Copied,
    Written,
    ToDevice,
    ToHost,
}

/// Most bytes of the host's memory that are locked for it.
const PINNED_MAX: usize = 256 << 20;

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
    let host = PinnedBuffer::new(gpu, bytes.min(PINNED_MAX))?;
    let marks = [gpu.mark()?, gpu.mark()?];
    let median = |way: Way| -> Result<f64, GpuError> {
        let mut rates = Vec::new();
        // Once more than counts, to warm up.
        for _ in 0..=TIMES {
            let moved = scope(&**gpu, &[stream], |queue| {
                gpu.record(stream, marks[0])?;
                let all = (to.first(to.len()), from.first(from.len()));
                let (near, far) = (to.first(host.len()), host.first(host.len()));
                let crossed = host.len() as u64;
                let moved = match way {
                    Way::Copied => copy_bytes(&**gpu, queue, all.0, all.1),
                    Way::Written => write_bytes(&**gpu, queue, all.0, 0x2020_2020),
                    Way::ToDevice => queue.copy(near, far).map(|()| crossed),
                    Way::ToHost => queue.copy(far, near).map(|()| crossed),
                }?;
                gpu.record(stream, marks[1])?;
                Ok(moved)
            })?;
            rates.push(moved as f64 / f64::from(gpu.elapsed_ms(marks[0], marks[1])?) / 1e6);
        }
        rates.remove(0);
        rates.sort_by(f64::total_cmp);
        Ok(rates[TIMES / 2])
    };
    Ok(Bandwidth {
        copy_gb_per_s: median(Way::Copied)?,
        write_gb_per_s: median(Way::Written)?,
        to_device_gb_per_s: median(Way::ToDevice)?,
        to_host_gb_per_s: median(Way::ToHost)?,
    })
}
