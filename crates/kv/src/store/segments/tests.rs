//! What holds for heaps of all sizes.

use super::*;

#[test]
fn the_end_of_the_last_segment_has_a_location() {
    // Up to all that 32 bits of locations reach in units of 4, 8 and 16 bytes, and some beside. The
    // memory is reserved, and none of it touched.
    const GIB: usize = 1 << 30;
    for memory in [
        64 << 20,
        GIB,
        16 * GIB - 1,
        16 * GIB,
        16 * GIB + 1,
        32 * GIB,
        64 * GIB,
    ] {
        let segments = Segments::new(memory, memory).expect("it is only reserved");
        let (last, capacity) = (segments.segments.len() as u32 - 1, segments.capacity);
        let segment = &segments.segments[last as usize];
        segment.open(0);
        assert_eq!(segment.take(capacity - 1, capacity), Some(0));
        let at = segment.take(1, capacity).expect("a unit is left");
        let (start, end) = segments.range(last);
        assert_eq!(
            segments.room_at(last, at).location,
            end - 1,
            "of {memory} bytes"
        );
        assert_eq!(end - start, capacity, "of {memory} bytes");
        // Nearly all of the memory is used, and none that there is not.
        let used = segments.segments.len() * segments.segment_bytes();
        assert!(
            used <= memory && memory - used < 2 * SIZES.1,
            "of {memory} bytes"
        );
    }
}
