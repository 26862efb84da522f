//! A GPU as the rest of the crate sees it: the trait that the driver and the emulation implement,
//! and the words it is spoken in.

use super::kernel::Kernel;
use crate::plain::Plain;
use std::sync::Arc;

/// An address in the device's memory; what kernels get as a pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Address(pub u64);

impl Address {
    /// Of nothing: what kernels take for "there is none".
    pub(crate) const NULL: Address = Address(0);

    /// The address `bytes` further.
    #[must_use]
    pub const fn plus(self, bytes: usize) -> Address {
        Address(self.0 + bytes as u64)
    }
}

// SAFETY: a transparent `u64`. Any is a value; whether there is memory is for whoever uses it.
unsafe impl Plain for Address {}

/// A sequence of copies and launches, done one after the other; streams run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub u32);

/// A point in a stream, for timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(pub u32);

/// What a device did not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// There is no device to be used; says why and what to do.
    #[error("{0}")]
    Absent(String),
    /// So many bytes more do not fit its memory; 0 where it does not say what for, such as a
    /// kernel's code at its first launch.
    #[error("the GPU's memory has no room{}", for_bytes(*.0))]
    OutOfMemory(usize),
    /// It failed; nothing more is to be expected of it.
    #[error("the GPU failed: {0}")]
    Failed(String),
}

fn for_bytes(bytes: usize) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(" for {bytes} more bytes"),
    }
}

/// How many threads a kernel is run by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks. With none, nothing is launched.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
}

impl Grid {
    /// A thread for each of `items`, in blocks of `threads`.
    #[must_use]
    pub const fn over(items: usize, threads: u32) -> Grid {
        Grid::blocks(items.div_ceil(threads as usize), threads)
    }

    /// So many blocks of so many threads.
    #[must_use]
    pub const fn blocks(blocks: usize, threads: u32) -> Grid {
        Grid {
            blocks: blocks as u32,
            threads,
            shared_bytes: 0,
        }
    }

    /// The same with so many bytes of dynamic shared memory a block.
    #[must_use]
    pub const fn with_shared(self, shared_bytes: u32) -> Grid {
        Grid {
            shared_bytes,
            ..self
        }
    }
}

/// Which GPU something is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId(usize);

impl DeviceId {
    /// That of a GPU, while it lives.
    #[must_use]
    pub fn of(gpu: &dyn Gpu) -> DeviceId {
        DeviceId(std::ptr::from_ref(gpu).addr())
    }
}

/// Called once when a stream has come to a point, on any thread; it must be short and must not call
/// the GPU.
pub type Completion = Box<dyn FnOnce(Result<(), GpuError>) + Send>;

/// A GPU. All methods may be called from any thread.
///
/// # Safety
/// Memory that it gives is as large as asked for and nobody else's until it is freed.
/// [`Gpu::synchronize`] comes back, and [`Gpu::on_completion`] calls, when the stream has done what
/// was put into it before; with an error, when it does nothing more.
pub unsafe trait Gpu: Send + Sync + std::fmt::Debug {
    /// Its name, for people.
    fn name(&self) -> String;

    /// Its multiprocessors: how many blocks it takes to keep it busy.
    fn multiprocessors(&self) -> u32;

    /// Memory of the device, 256-byte aligned, contents undefined. `DeviceBuffer` frees it.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], or it failed.
    fn allocate(&self, bytes: usize) -> Result<Address, GpuError>;

    /// Gives back what `allocate` gave.
    ///
    /// # Safety
    /// It is not used any more, by the host or by work in any stream.
    unsafe fn free(&self, address: Address);

    /// Page-locked memory of the host, cached for the CPU to read fast and mapped for the device:
    /// where it is for each. Zeroed. `PinnedBuffer` frees it.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], or it failed.
    fn allocate_pinned(&self, bytes: usize) -> Result<(*mut u8, Address), GpuError>;

    /// Gives back what `allocate_pinned` gave.
    ///
    /// # Safety
    /// It is not used any more, by the host or by work in any stream.
    unsafe fn free_pinned(&self, pointer: *mut u8);

    /// A new stream.
    ///
    /// # Errors
    /// It failed.
    fn stream(&self) -> Result<Stream, GpuError>;

    /// Copies between any two of host (pinned) and device memory, in a stream.
    ///
    /// # Errors
    /// It failed.
    ///
    /// # Safety
    /// Both ranges are alive and not written by others (the source) or used by others (the
    /// destination) until the stream has done it.
    unsafe fn copy(
        &self,
        stream: Stream,
        to: Address,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Sets bytes, in a stream.
    ///
    /// # Errors
    /// It failed.
    ///
    /// # Safety
    /// As [`Gpu::copy`].
    unsafe fn fill(
        &self,
        stream: Stream,
        to: Address,
        value: u8,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Launches a kernel in a stream. `arguments` points to its struct of so many bytes, which is
    /// copied before this returns.
    ///
    /// # Errors
    /// It failed; failures of the kernel itself show later, in any call.
    ///
    /// # Safety
    /// `arguments` points to the kernel's struct; what that points to is alive and used as the
    /// kernel says until the stream has done it.
    unsafe fn launch_raw(
        &self,
        stream: Stream,
        kernel: Kernel,
        grid: Grid,
        arguments: *const u8,
        bytes: usize,
    ) -> Result<(), GpuError>;

    /// Calls back when everything put into the stream so far is done or the device has failed.
    ///
    /// # Errors
    /// It failed; then there is no call.
    fn on_completion(&self, stream: Stream, call: Completion) -> Result<(), GpuError>;

    /// Waits until everything put into the stream so far is done.
    ///
    /// # Errors
    /// It failed.
    fn synchronize(&self, stream: Stream) -> Result<(), GpuError>;

    /// A mark, to be put into streams again and again.
    ///
    /// # Errors
    /// It failed.
    fn mark(&self) -> Result<Mark, GpuError>;

    /// Puts a mark into a stream.
    ///
    /// # Errors
    /// It failed.
    fn record(&self, stream: Stream, mark: Mark) -> Result<(), GpuError>;

    /// Makes a stream wait until another one has come to where a mark was last put.
    ///
    /// # Errors
    /// It failed.
    fn wait(&self, stream: Stream, mark: Mark) -> Result<(), GpuError>;

    /// Milliseconds from one mark to another; both have been passed.
    ///
    /// # Errors
    /// It failed, or a mark has not been passed.
    fn elapsed_ms(&self, from: Mark, to: Mark) -> Result<f32, GpuError>;

    /// Tells a profiler that is attached, and looks at parts alone, that one begins or ends.
    fn profile(&self, _is_begin: bool) {}
}

/// A GPU shared by executors.
pub type SharedGpu = Arc<dyn Gpu>;
