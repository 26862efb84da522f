//! Requests in the device's memory.

use crate::gpu::{DeviceBuffer, Extent, GpuError, SharedGpu, Slice, Stream};
use crate::plain::bytes_of;
use crate::upload::upload;
use std::ops::Range;

/// Requests, each in a place of the size of the largest.
#[derive(Debug)]
pub struct Trace {
    bytes: DeviceBuffer,
    lengths: DeviceBuffer,
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
        let mut bytes = vec![0; request_bytes * requests.len()];
        for (place, request) in bytes.chunks_exact_mut(request_bytes).zip(requests) {
            place[..request.len()].copy_from_slice(request);
        }
        let lengths: Vec<u32> = requests
            .iter()
            .map(|request| request.len() as u32)
            .collect();
        Ok(Trace {
            bytes: upload(gpu, stream, &bytes)?,
            lengths: upload(gpu, stream, bytes_of(&lengths))?,
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

    /// Up to `count` requests from the `first` on: their places, and their lengths.
    pub(super) fn part(&self, first: usize, count: usize) -> (Slice<'_, u8>, Slice<'_, u32>) {
        let first = first.min(self.count);
        let Range { start, end } = first..self.count.min(first + count);
        let bytes = self.bytes.first(self.count * self.request_bytes);
        let lengths = self.lengths.slice(Extent::new(0, self.count));
        (
            bytes.part(start * self.request_bytes..end * self.request_bytes),
            lengths.part(start..end),
        )
    }
}
