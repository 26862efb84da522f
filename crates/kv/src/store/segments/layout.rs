//! How a heap is cut into segments and units, by the memory that a store begins with.

/// The fewest segments of a store.
pub(super) const SEGMENTS_MIN: usize = 16;
/// The smallest and the largest segment, in bytes; between them a store has about 512.
pub(super) const SIZES: (usize, usize) = (64 << 10, 1 << 20);
/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Layout {
    /// A unit is 1 << `unit` bytes.
    pub(in crate::store) unit: u32,
    /// Units of a segment, a power of two.
    pub(in crate::store) capacity: u32,
}

impl Layout {
    /// Of a store that begins with so many bytes.
    pub(in crate::store) fn of(memory: usize) -> Layout {
        let memory = memory.max(SEGMENTS_MIN * SIZES.0);
        let size = (memory / 512).next_power_of_two().clamp(SIZES.0, SIZES.1);
        // As many bits as the locations lack.
        let unit = (usize::BITS - (memory - 1).leading_zeros())
            .saturating_sub(32)
            .max(2);
        let capacity = (size >> unit) as u32;
        Layout { unit, capacity }
    }

    /// Bytes of a segment.
    pub(in crate::store) fn segment_bytes(self) -> usize {
        (self.capacity as usize) << self.unit
    }

    /// Bytes of a heap for so much memory: whole segments.
    pub(in crate::store) fn bytes(self, memory: usize) -> usize {
        let memory = memory.max(SEGMENTS_MIN * SIZES.0);
        let size = self.segment_bytes();
        // What is behind the last segment has a location as well: where the memory is all that
        // locations of these units reach, that costs a segment.
        size * (memory / size).min((u32::MAX / self.capacity) as usize)
    }
}
