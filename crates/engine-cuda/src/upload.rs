//! Bytes put together on the host and copied to the device in one go.

use crate::abi::layout::UNIT;
use crate::gpu::{DeviceBuffer, Extent, GpuError, PinnedBuffer, SharedGpu, Slice, Stream, scope};
use crate::plain::{Plain, bytes_of};

/// Bytes being put together for one copy to the device; places are multiples of 16.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    bytes: Vec<u8>,
}

impl Bundle {
    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends items and gives their place.
    pub(crate) fn push<T: Plain>(&mut self, items: &[T]) -> Extent<T> {
        let place = Extent::new(self.bytes.len(), items.len());
        self.bytes.extend_from_slice(bytes_of(items));
        self.align();
        place
    }

    /// Appends so many items of zeros.
    pub(crate) fn reserve<T: Plain>(&mut self, count: usize) -> Extent<T> {
        let place = Extent::new(self.bytes.len(), count);
        self.bytes.resize(place.range().end, 0);
        self.align();
        place
    }

    fn align(&mut self) {
        let end = self.bytes.len().next_multiple_of(UNIT);
        self.bytes.resize(end, 0);
    }

    /// Bytes that it has of the system.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// What it has.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies bytes to a new buffer of the device and waits until they are there.
pub(crate) fn upload(
    gpu: &SharedGpu,
    stream: Stream,
    bytes: &[u8],
) -> Result<DeviceBuffer, GpuError> {
    let buffer = DeviceBuffer::new(gpu, bytes.len().max(UNIT))?;
    copy_in(gpu, stream, buffer.first(bytes.len()), bytes)?;
    Ok(buffer)
}

/// Copies bytes into memory of the device, which no work uses, and waits until they are there.
pub(crate) fn copy_in(
    gpu: &SharedGpu,
    stream: Stream,
    to: Slice<'_, u8>,
    bytes: &[u8],
) -> Result<(), GpuError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut pinned = PinnedBuffer::new(gpu, bytes.len())?;
    pinned.host()[..bytes.len()].copy_from_slice(bytes);
    let from = pinned.first(bytes.len());
    scope(&**gpu, &[stream], |queue| queue.copy(to, from))
}
