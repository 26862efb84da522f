//! Every level against the naive definition, at all alignments and lengths around a block.

use super::*;
use proptest::prelude::*;

const SET: ByteSet = ByteSet::new(b"<>&\"'/");
const DISTINCT: DistinctSet = DistinctSet::new(b"<>&\"'/");

/// All masks of one block, by one level.
struct Masks<'a>(&'a [u8]);

impl Task for Masks<'_> {
    type Output = [u64; 8];
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [u64; 8] {
        let block = s.load(self.0);
        let mut whole = [0; 64];
        let length = self.0.len().min(64);
        whole[..length].copy_from_slice(&self.0[..length]);
        let halves = whole.as_chunks::<32>().0;
        let distinct = |half: usize| u64::from(s.in_distinct(&halves[half], &DISTINCT));
        [
            s.eq(block, b'&'),
            s.at_most(block, 0x1f),
            s.eq(block, 0xff),
            s.in_set(block, &SET),
            s.non_ascii(block),
            s.unprintable(block),
            distinct(0) | distinct(1) << 32,
            s.differ(block, s.load(&[b'&'; 64])),
        ]
    }
}

struct Ends<'a>(&'a [u8], usize);

impl Task for Ends<'_> {
    type Output = (usize, usize, Option<Separators>);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let set = ByteSet::range(0x20, 0x7e);
        (
            s.run_end(self.0, self.1, self.0.len(), &set),
            find_byte(s, self.0, self.1, self.0.len(), b'&'),
            (self.1 < self.0.len()).then(|| separators(s, self.0, self.1)),
        )
    }
}

fn naive(bytes: &[u8], test: impl Fn(u8) -> bool) -> u64 {
    let mut mask = 0;
    for i in 0..64 {
        let byte = bytes.get(i).copied().unwrap_or(0);
        mask |= u64::from(test(byte)) << i;
    }
    mask
}

fn check(bytes: &[u8]) {
    let masks = [
        naive(bytes, |b| b == b'&'),
        naive(bytes, |b| b <= 0x1f),
        naive(bytes, |b| b == 0xff),
        naive(bytes, |b| b"<>&\"'/".contains(&b)),
        naive(bytes, |b| !b.is_ascii()),
        naive(bytes, |b| !(0x20..=0x7e).contains(&b)),
        naive(bytes, |b| b"<>&\"'/".contains(&b)),
        naive(bytes, |b| b != b'&'),
    ];
    for level in Level::all() {
        assert_eq!(level.run(Masks(bytes)), masks, "{level:?}");
        // From several places, since the end is read differently from the rest.
        for start in [0, 1, 63, 64, bytes.len().saturating_sub(3)] {
            let Some(part) = bytes.get(start..) else {
                continue;
            };
            let end = |test: &dyn Fn(&u8) -> bool| {
                let place = part.iter().position(test);
                place.map_or(bytes.len(), |place| start + place)
            };
            let run = end(&|b| !(0x20..=0x7e).contains(b));
            let byte = end(&|b| *b == b'&');
            let mask = |test: &dyn Fn(u8) -> bool| {
                let bits = part.iter().take(64).enumerate();
                bits.fold(0, |mask, (i, b)| mask | u64::from(test(*b)) << i)
            };
            let found = Separators {
                ends: mask(&|b| b == b'&' || b == b'\n'),
                lines: mask(&|b| b == b'\n'),
                controls: mask(&|b| b.is_ascii_control() && b != b'\n'),
                non_ascii: mask(&|b| !b.is_ascii()),
            };
            let expected = (!part.is_empty()).then_some(found);
            let ends = (run, byte, expected);
            assert_eq!(level.run(Ends(bytes, start)), ends, "{level:?} {start}");
        }
    }
    assert_eq!(
        html_special(bytes),
        bytes.iter().position(|b| b"<>&\"'/".contains(b))
    );
    assert_eq!(
        encoded(bytes),
        bytes.iter().position(|b| b"%+\0".contains(b))
    );
}

#[test]
fn every_byte_value_at_every_place() {
    for byte in 0..=255u8 {
        for at in 0..64 {
            let mut bytes = [b'a'; 64];
            bytes[at] = byte;
            check(&bytes);
        }
    }
}

#[test]
fn every_length_at_every_alignment() {
    let text: Vec<u8> = (0..300).map(|i| b"plain text, 100"[i % 15]).collect();
    for start in 0..65 {
        for len in 0..200 {
            check(&text[start..start + len]);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), start in 0usize..64) {
        check(&bytes[start.min(bytes.len())..]);
    }

    #[test]
    fn rare_hits(
        len in 0usize..400,
        hit in 0usize..400,
        byte in proptest::sample::select(b"&<'/%+\n\x7f\x80\x00".to_vec())
    ) {
        let mut bytes = vec![b'x'; len];
        if let Some(place) = bytes.get_mut(hit) { *place = byte; }
        check(&bytes);
    }
}

/// In parts, of which one ends within a line, one is empty, and one is long.
fn stream_thirds(ring: &mut Ring, bytes: &[u8]) {
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    let (second, third) = rest.split_at(rest.len() / 3);
    ring.stream_parts(&[first, &[], second, third]);
}

/// In parts of a byte.
fn stream_bytes(ring: &mut Ring, bytes: &[u8]) {
    ring.stream_parts(&bytes.chunks(1).collect::<Vec<_>>());
}

#[test]
fn a_ring_holds_what_is_written_round_and_round() {
    let from: Vec<u8> = (0..400u32).map(|i| (i * 7 + 1) as u8).collect();
    for length in [0, 1, 15, 63, 64, 65, 127, 128, 200, 300] {
        let whole_lines = usize::next_multiple_of(length, 64);
        for (write, step) in [
            (Ring::stream as fn(&mut Ring, &[u8]), whole_lines),
            (stream_thirds, whole_lines),
            (stream_bytes, whole_lines),
            (Ring::copy, length),
        ] {
            let mut ring = Ring::new(700);
            assert_eq!(ring.len(), 704);
            for turn in 0..20 {
                let bytes = &from[turn..turn + length];
                write(&mut ring, bytes);
                let at = step * (turn % (704 / step.max(1)).max(1));
                assert_eq!(&ring.bytes()[at..at + length], bytes, "{length} {turn}");
            }
            // What is longer than all of it is not written.
            let before = ring.bytes().to_vec();
            write(&mut ring, &[9; 705]);
            assert_eq!(ring.bytes(), before);
        }
    }
}
