//! Arrays that a test and kernels share.
#![allow(unsafe_code)]

use rhythm_engine_cuda::gpu::{Extent, PinnedBuffer, SharedGpu, Slice};
use rhythm_engine_cuda::plain::Plain;
use std::marker::PhantomData;

/// An array in pinned memory, which kernels use where it is.
pub(crate) struct Typed<T> {
    buffer: PinnedBuffer,
    length: usize,
    items: PhantomData<T>,
}

impl<T: Plain> Typed<T> {
    /// An array of these.
    pub(crate) fn new(gpu: &SharedGpu, items: &[T]) -> Typed<T> {
        // An empty one has an address, too.
        let buffer = PinnedBuffer::new(gpu, size_of_val(items).max(16)).unwrap();
        let mut typed = Typed {
            buffer,
            length: items.len(),
            items: PhantomData,
        };
        typed.items_mut().copy_from_slice(items);
        typed
    }

    pub(crate) fn slice(&self) -> Slice<'_, T> {
        self.buffer.slice(Extent::new(0, self.length))
    }

    /// The items. Tests launch on the emulation, which has done it when the launch returns.
    pub(crate) fn items(&self) -> &[T] {
        let first = self.buffer.address().0 as *const T;
        // SAFETY: the emulation's addresses are the host's; no work is under way, the memory is
        // aligned to 16 bytes and has so many items, and any bytes are items.
        unsafe { std::slice::from_raw_parts(first, self.length) }
    }

    pub(crate) fn items_mut(&mut self) -> &mut [T] {
        let first = self.buffer.host().as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(first, self.length) }
    }
}
