//! What is put into a stream: copies, fills and launches, of borrowed memory.
//!
//! A stream does its work after the call that put it there, so a borrow alone proves nothing: it
//! may end before the work does. Whoever makes a [`Queue`] promises, once, that what is borrowed
//! for `'m` stays until then; everything put into it after that is checked by types and asserts.

use super::extent::Slice;
use super::interface::{Gpu, GpuError, Grid, Stream};
use super::kernel::Arguments;
use std::marker::PhantomData;

/// A stream that may be given work on what is borrowed for `'m`.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'m> {
    gpu: &'m dyn Gpu,
    stream: Stream,
    /// Neither longer nor shorter than what was promised for.
    memory: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> Queue<'m> {
    /// A queue for this stream.
    ///
    /// # Safety
    /// Whatever is borrowed for `'m` and put into the queue stays alive and is left alone by the
    /// host until the stream has done the work, and by work in other streams where one of the two
    /// writes: also after `'m` has ended.
    #[must_use]
    pub unsafe fn new(gpu: &'m dyn Gpu, stream: Stream) -> Queue<'m> {
        Queue {
            gpu,
            stream,
            memory: PhantomData,
        }
    }

    /// Copies items between any two of host (pinned) and device memory.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Panics
    /// One side has more items than the other.
    pub fn copy<T>(&self, to: Slice<'m, T>, from: Slice<'m, T>) -> Result<(), GpuError> {
        assert_eq!(to.len(), from.len(), "a copy has two sides");
        let (to, from, bytes) = (to.address(), from.address(), to.bytes());
        // SAFETY: both are borrowed for 'm, of so many bytes, and stay by the promise of `new`.
        unsafe { self.gpu.copy(self.stream, to, from, bytes) }
    }

    /// Sets all bytes of some items.
    ///
    /// # Errors
    /// The device failed.
    pub fn fill<T>(&self, to: Slice<'m, T>, value: u8) -> Result<(), GpuError> {
        // SAFETY: it is borrowed for 'm, of so many bytes, and stays by the promise of `new`.
        unsafe { self.gpu.fill(self.stream, to.address(), value, to.bytes()) }
    }

    /// Launches a kernel with its struct; nothing where the grid has no blocks.
    ///
    /// # Errors
    /// As [`Gpu::launch_raw`].
    ///
    /// # Safety
    /// The addresses in `arguments` are of slices borrowed for `'m`, as large as the kernel uses
    /// them with the struct's numbers, or null where it says so; addresses that it finds in memory
    /// likewise.
    pub unsafe fn launch<A: Arguments>(&self, grid: Grid, arguments: &A) -> Result<(), GpuError> {
        if grid.blocks == 0 {
            return Ok(());
        }
        let (bytes, from) = (size_of::<A>(), std::ptr::from_ref(arguments).cast());
        // SAFETY: `A` is the kernel's struct, by the promise of `Arguments`; what it points to is
        // there by the caller's promise and stays by that of `new`.
        unsafe { (self.gpu).launch_raw(self.stream, A::KERNEL, grid, from, bytes) }
    }
}
