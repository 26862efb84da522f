//! Requests in the device's memory.

use crate::gpu::{
    DeviceBuffer, Extent, Extents, GpuError, PinnedBuffer, Queue, SharedGpu, Slice, Stream, scope,
};
use crate::plain::bytes_of;
use std::ops::Range;

/// Requests, each in a place of the size of the largest; on the host, too, from where they can come
/// again.
#[derive(Debug)]
pub struct Trace {
    host: PinnedBuffer,
    device: DeviceBuffer,
    bytes: Extent<u8>,
    lengths: Extent<u32>,
    request_bytes: usize,
    count: usize,
}

impl Trace {
    pub(super) fn new(
        gpu: &SharedGpu,
        stream: Stream,
        requests: &[Vec<u8>],
    ) -> Result<Trace, GpuError> {
        let longest = requests.iter().map(Vec::len).max().unwrap_or(0);
        let request_bytes = longest.max(1).next_multiple_of(16);
        let mut places = Extents::default();
        let bytes: Extent<u8> = places.take(request_bytes * requests.len());
        let lengths: Extent<u32> = places.take(requests.len());
        let mut host = PinnedBuffer::new(gpu, places.bytes())?;
        let room = host.host()[bytes.range()].chunks_exact_mut(request_bytes);
        for (place, request) in room.zip(requests) {
            place[..request.len()].copy_from_slice(request);
        }
        let said: Vec<u32> = requests
            .iter()
            .map(|request| request.len() as u32)
            .collect();
        host.host()[lengths.range()].copy_from_slice(bytes_of(&said));
        let device = DeviceBuffer::new(gpu, places.bytes())?;
        let all = places.bytes();
        scope(&**gpu, &[stream], |queue| {
            queue.copy(device.first(all), host.first(all))
        })?;
        Ok(Trace {
            host,
            device,
            bytes,
            lengths,
            request_bytes,
            count: requests.len(),
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of a request's place.
    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// How many lots of so many requests it has: the last may be smaller where it is the only one.
    pub(super) fn lots(&self, size: usize) -> usize {
        (self.count / size).max(1)
    }

    /// The places of up to `count` requests from the `first` on among all bytes, and among their
    /// lengths.
    fn ranges(&self, first: usize, count: usize) -> (Range<usize>, Range<usize>) {
        let (start, end) = (first.min(self.count), self.count.min(first + count));
        let bytes = start * self.request_bytes..end * self.request_bytes;
        (bytes, start..end)
    }

    /// Up to `count` requests from the `first` on: their places, and their lengths.
    pub(super) fn part(&self, first: usize, count: usize) -> (Slice<'_, u8>, Slice<'_, u32>) {
        let (bytes, lengths) = self.ranges(first, count);
        (
            self.device.slice(self.bytes).part(bytes),
            self.device.slice(self.lengths).part(lengths),
        )
    }

    /// Copies such a part to the device once more, as if it had just come; gives the bytes. Who
    /// reads it there meanwhile reads the same.
    pub(super) fn arrive<'m>(
        &'m self,
        queue: &Queue<'m>,
        first: usize,
        count: usize,
    ) -> Result<usize, GpuError> {
        let (to_bytes, to_lengths) = self.part(first, count);
        let (bytes, lengths) = self.ranges(first, count);
        queue.copy(to_bytes, self.host.slice(self.bytes).part(bytes))?;
        queue.copy(to_lengths, self.host.slice(self.lengths).part(lengths))?;
        Ok(to_bytes.len() + size_of::<u32>() * to_lengths.len())
    }
}
