//! What is put into a stream: copies, fills and launches, of borrowed memory.
//!
//! A stream does its work after the call that put it there, so a borrow alone proves nothing: it
//! may end before the work does. A [`Queue`] takes what is borrowed for its `'m`, and there are two
//! ways to one, both of which see to it that `'m` lasts until the work is done:
//!
//! - [`scope`]: what lives outside of a closure is borrowed, and when the closure is left, however
//!   that is, the streams are waited for;
//! - [`Lent`](super::Lent): memory is given away until the device has told that it is done.

use super::extent::Slice;
use super::interface::{DeviceId, Gpu, GpuError, Stream};
use super::signature::Launch;
use std::marker::PhantomData;
use std::ops::Deref;

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
    /// Whatever is borrowed for `'m` stays borrowed until the stream has done the work that is put
    /// into the queue.
    pub(super) unsafe fn new(gpu: &'m dyn Gpu, stream: Stream) -> Queue<'m> {
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
    /// One side has more items than the other, or is another device's.
    pub fn copy<T>(&self, to: Slice<'m, T>, from: Slice<'m, T>) -> Result<(), GpuError> {
        assert_eq!(to.len(), from.len(), "a copy has two sides");
        let (device, bytes) = (DeviceId::of(self.gpu), to.bytes());
        let (to, from) = (to.address_on(device), from.address_on(device));
        // SAFETY: both are this device's, of so many bytes, and borrowed for 'm: they are alive,
        // and the host leaves them alone, until the stream has done it. What streams do at the same
        // time to the same memory changes bytes, of which any are values.
        unsafe { self.gpu.copy(self.stream, to, from, bytes) }
    }

    /// Sets all bytes of some items.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Panics
    /// They are another device's.
    pub fn fill<T>(&self, to: Slice<'m, T>, value: u8) -> Result<(), GpuError> {
        let address = to.address_on(DeviceId::of(self.gpu));
        // SAFETY: as of `copy`.
        unsafe { self.gpu.fill(self.stream, address, value, to.bytes()) }
    }

    /// Launches a kernel; nothing where its grid has no blocks.
    ///
    /// # Errors
    /// As [`Gpu::launch_raw`].
    ///
    /// # Panics
    /// Memory is shorter than the kernel uses it, or another device's.
    pub fn launch<A: Launch<'m>>(&self, arguments: A) -> Result<(), GpuError> {
        let (kernel, grid) = (arguments.kernel(), arguments.grid());
        let lowered = arguments.lower(DeviceId::of(self.gpu));
        if grid.blocks == 0 {
            return Ok(());
        }
        let (from, bytes) = (std::ptr::from_ref(&lowered).cast(), size_of::<A::Raw>());
        // SAFETY: by the promise of `Launch` it is the kernel's struct, with memory that is as
        // large as the kernel uses it, which stays until the stream has done it: it is borrowed
        // for 'm. What kernels find there (views, spans, lists of lanes, addresses of columns), the
        // encoders of this crate and other kernels have written for the same cohort.
        unsafe { (self.gpu).launch_raw(self.stream, kernel, grid, from, bytes) }
    }

    /// Puts more into the stream, and waits until it has done everything.
    ///
    /// # Errors
    /// As [`scope`].
    pub fn scope<'env, R>(
        &self,
        work: impl for<'s> FnOnce(&Scope<'s, 'env>) -> Result<R, GpuError>,
    ) -> Result<R, GpuError> {
        scope(self.gpu, &[self.stream], work)
    }
}

/// Streams that may be given work on what is borrowed for `'env`, and are waited for before that
/// ends. It is a queue for the first of them.
#[derive(Debug)]
pub struct Scope<'s, 'env: 's> {
    streams: &'s [Stream],
    first: Queue<'s>,
    /// What is borrowed outside lives longer than all that is put into the queues.
    outside: PhantomData<&'env mut &'env ()>,
}

impl<'s> Scope<'s, '_> {
    /// A queue for one of the streams.
    ///
    /// # Panics
    /// It is none of them.
    #[must_use]
    pub fn queue(&self, stream: Stream) -> Queue<'s> {
        assert!(self.streams.contains(&stream), "it is waited for");
        Queue {
            stream,
            ..self.first
        }
    }
}

impl<'s> Deref for Scope<'s, '_> {
    type Target = Queue<'s>;

    fn deref(&self) -> &Queue<'s> {
        &self.first
    }
}

/// Puts work into streams, of which there is at least one, and waits until they have done it. What
/// is borrowed outside may be used; the host gets it back when all is done.
///
/// # Errors
/// That of the work, or the device failed.
pub fn scope<'env, R>(
    gpu: &dyn Gpu,
    streams: &[Stream],
    work: impl for<'s> FnOnce(&Scope<'s, 'env>) -> Result<R, GpuError>,
) -> Result<R, GpuError> {
    let waits = Waits { gpu, streams };
    // SAFETY: the queue's lifetime is the closure's to choose for no other than the call, and ends
    // with 'env at the latest; before that, `waits` has waited for the streams, even where the
    // closure panics. Where a device fails, it does nothing more.
    let first = unsafe { Queue::new(gpu, streams[0]) };
    let done = work(&Scope {
        streams,
        first,
        outside: PhantomData,
    });
    let waited = waits.wait();
    std::mem::forget(waits);
    let done = done?;
    waited?;
    Ok(done)
}

/// Waits when it is dropped.
struct Waits<'a> {
    gpu: &'a dyn Gpu,
    streams: &'a [Stream],
}

impl Waits<'_> {
    /// Waits for all streams; gives the first error.
    fn wait(&self) -> Result<(), GpuError> {
        let waited = self.streams.iter().map(|s| self.gpu.synchronize(*s));
        waited.fold(Ok(()), Result::and)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        // An error means that nothing runs any more.
        let _ = self.wait();
    }
}
