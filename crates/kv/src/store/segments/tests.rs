//! What holds for heaps of all sizes.

use super::*;
use std::os::unix::fs::FileExt;

const MIB: usize = 1 << 20;

/// Bytes of a heap that are resident: neighbors of the mapping may be one with it to the system.
fn resident(segments: &Segments) -> usize {
    const PAGE: usize = 4096;
    let map = std::fs::File::open("/proc/self/pagemap").expect("Linux tells");
    let first = segments.heap.start().as_ptr().addr() / PAGE;
    let mut entries = vec![0; segments.heap.bytes() / PAGE * 8];
    map.read_exact_at(&mut entries, first as u64 * 8)
        .expect("an entry for each page");
    // Present, or swapped out.
    let there = |entry: &&[u8]| entry[7] & 0xc0 != 0;
    entries.chunks(8).filter(there).count() * PAGE
}

#[test]
fn what_is_resident_ahead_goes_where_long_values_take_its_room() {
    let segments = Segments::new(64 * MIB, 64 * MIB).expect("there is memory");
    let epochs = Epochs::new(1);
    let populate = || {
        while let Some(has_more) = segments.populate(64 * MIB) {
            if !has_more {
                return true;
            }
        }
        false
    };
    if !populate() {
        return; // Where the system cannot, nothing is resident ahead.
    }
    assert!((63 * MIB..).contains(&resident(&segments)));
    let mut values = Vec::new();
    for number in 1..=48 {
        let large = segments.reserve(MIB, &epochs).expect("there is room");
        values.push(large.expect("the system has it"));
        assert!(populate());
        let most = (64 - number + 3) * MIB;
        assert!(
            resident(&segments) <= most,
            "{number}: {}",
            resident(&segments)
        );
    }
    values.clear();
    assert!(populate());
    assert!((63 * MIB..).contains(&resident(&segments)));
}

#[test]
fn all_of_a_heap_of_any_size_is_made_resident() {
    const GIB: usize = 1 << 30;
    for memory in [15 * GIB, 16 * GIB, 32 * GIB, 64 * GIB] {
        let segments = Segments::new(memory, memory).expect("it is only reserved");
        // A few pieces of it.
        for _ in 0..3 {
            match segments.populate(memory) {
                Some(has_more) => assert!(has_more, "of {memory} bytes"),
                None => return, // The system cannot.
            }
        }
    }
}

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

#[test]
fn what_nothing_was_found_in_is_looked_through_again_when_something_changed() {
    const CAPACITY: u32 = 64;
    let segments: Vec<Segment> = (0..3).map(|_| Segment::new()).collect();
    let mut pool = Pool::new(3);
    for segment in &segments {
        let index = pool.take().expect("there are three");
        segment.open(0);
        assert_eq!(segment.take(CAPACITY, CAPACITY), Some(0));
        segment.written(100, 0);
        segment.seal();
        pool.sealed(index);
    }
    let choose =
        |pool: &mut Pool, now, may| pool.choose(&segments, (2, CAPACITY), 1 << 20, now, may);
    assert_eq!(choose(&mut pool, 1, May::Compact), None);
    segments[1].died(CAPACITY / 2, 0);
    let again = choose(&mut pool, 1, May::Compact);
    assert_eq!(again, None, "nobody said that it changed");
    // Where all may be evicted, something is found in any case.
    assert_eq!(choose(&mut pool, 1, May::Evict), Some((1, Fate::Move)));
    pool.put_back(1);
    assert_eq!(choose(&mut pool, 1, May::Compact), None);
    pool.look_again();
    assert_eq!(choose(&mut pool, 1, May::Compact), Some((1, Fate::Move)));
    pool.put_back(1);
    assert_eq!(choose(&mut pool, 1, May::Clean), None);
    segments[1].died(CAPACITY / 2, 0);
    assert_eq!(choose(&mut pool, 1, May::Clean), None);
    // Time goes on.
    assert_eq!(choose(&mut pool, 2, May::Clean), Some((1, Fate::Drop)));
    assert_eq!(choose(&mut pool, 2, May::Clean), None);
    assert_eq!(choose(&mut pool, 100, May::Clean), Some((0, Fate::Drop)));
}

/// Nothing is dead, but one segment of very many.
#[test]
fn what_is_evicted_is_chosen_among_some_and_all_are_looked_at_in_their_turn() {
    const CAPACITY: u32 = 64;
    const COUNT: u32 = 65_536;
    let segments: Vec<Segment> = (0..COUNT).map(|_| Segment::new()).collect();
    let mut pool = Pool::new(COUNT);
    for segment in &segments {
        let index = pool.take().expect("there are as many");
        segment.open(0);
        assert_eq!(segment.take(CAPACITY, CAPACITY), Some(0));
        segment.written(100, 0);
        segment.seal();
        pool.sealed(index);
    }
    let dead = COUNT / 2;
    segments[dead as usize].died(CAPACITY, 0);
    let room = u64::from(COUNT) * u64::from(CAPACITY);
    let mut choose = |may| pool.choose(&segments, (2, CAPACITY), room, 1, may);
    // The oldest goes as long as it is not seen, which is not at once, and not long after.
    let chosen = std::iter::from_fn(|| choose(May::Evict));
    let oldest = chosen.take_while(|(_, fate)| *fate == Fate::Evict);
    let oldest: Vec<u32> = oldest.map(|(index, _)| index).collect();
    assert!((100..300).contains(&oldest.len()), "{}", oldest.len());
    assert!(oldest.iter().copied().eq(0..oldest.len() as u32));
    // It was taken, and who may evict nothing looks at all.
    segments[dead as usize + 1].died(CAPACITY, 0);
    let last = choose(May::Clean);
    assert_eq!(last, Some((dead + 1, Fate::Drop)));
}
