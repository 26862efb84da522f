//! How a heap is cut into segments and units, by the memory that a store begins with.

/// The fewest segments of a store.
pub(super) const SEGMENTS_MIN: usize = 16;
/// The smallest and the largest segment, in bytes; between them a store has about 512.
pub(super) const SIZES: (usize, usize) = (64 << 10, 1 << 20);
/// The most segments of a store that is cut as another was, whose memory was another.
const SEGMENTS_MAX: usize = 64 << 10;

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

    /// Whether a store of so many bytes can be cut so, whatever another began with that was.
    pub(in crate::store) fn suits(self, memory: usize) -> bool {
        let (least, most) = self.bounds();
        self == Layout::of(memory) || (least..=most).contains(&memory)
    }

    /// The least and the most memory that can be cut so: all of it has locations, and is neither
    /// too few segments nor too many. It may be of a file, and say anything.
    pub(in crate::store) fn bounds(self) -> (usize, usize) {
        let is_layout = (2..16).contains(&self.unit) && self.capacity.is_power_of_two();
        let size = (self.capacity as usize) << self.unit.min(16);
        if !is_layout || !(SIZES.0..=SIZES.1).contains(&size) {
            return (usize::MAX, 0);
        }
        let located = (u32::MAX / self.capacity) as usize;
        (SEGMENTS_MIN * size, SEGMENTS_MAX.min(located) * size)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_cut_as_another_was_where_all_of_it_is_found_so() {
        let mib = |count: usize| count << 20;
        for (was, is, suits) in [
            (64, 128, true),
            (128, 64, true),
            (64, 4096, true),
            (1024, 64, true),
            (1024, 16, true),
            // Too few segments, and too many of them.
            (1024, 15, false),
            (8, 8192, false),
            // More than 32 bits of such units tell apart.
            (1024, 1 << 15, false),
            (1 << 15, 1024, true),
            // However many it is.
            (1 << 17, 1 << 17, true),
        ] {
            let layout = Layout::of(mib(was));
            assert_eq!(layout.suits(mib(is)), suits, "from {was} to {is}");
            if suits {
                // But what the locations themselves lack.
                let lacks = mib(is) - layout.bytes(mib(is));
                assert!(lacks <= SIZES.1, "from {was} to {is}");
            }
        }
        let usual = Layout::of(mib(64));
        for (unit, capacity) in [(70, 1 << 15), (2, 0), (2, 3), (0, 1 << 17), (2, 1 << 31)] {
            let layout = Layout { unit, capacity };
            assert!(layout != usual && !layout.suits(mib(64)), "{layout:?}");
        }
    }
}
