//! Every level against the naive definition, at all alignments and lengths around a block.

use super::*;
use proptest::prelude::*;

const SET: ByteSet = ByteSet::new(b"<>&\"'/");

/// All masks of one block, by one level.
struct Masks<'a>(&'a [u8]);

impl Task for Masks<'_> {
    type Output = [u64; 4];
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [u64; 4] {
        let block = s.load(self.0);
        [
            s.eq(block, b'&'),
            s.at_most(block, 0x1f),
            s.eq(block, 0xff),
            s.in_set(block, &SET),
        ]
    }
}

struct Ends<'a>(&'a [u8], usize);

impl Task for Ends<'_> {
    type Output = (usize, usize, Separators);
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let set = ByteSet::range(0x20, 0x7e);
        (
            s.run_end(self.0, self.1, self.0.len(), &set),
            find_byte(s, self.0, self.1, self.0.len(), b'&'),
            separators(s, &self.0[self.1..]),
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
    ];
    let run = bytes
        .iter()
        .position(|b| !(0x20..=0x7e).contains(b))
        .unwrap_or(bytes.len());
    let byte = bytes.iter().position(|b| *b == b'&').unwrap_or(bytes.len());
    let valid = valid(bytes.len());
    let lines = naive(bytes, |b| b == b'\n') & valid;
    let found = Separators {
        ends: naive(bytes, |b| b == b'&') | lines,
        lines,
        controls: naive(bytes, |b| b.is_ascii_control() && b != b'\n') & valid,
    };
    for level in Level::all() {
        assert_eq!(level.run(Masks(bytes)), masks, "{level:?}");
        assert_eq!(level.run(Ends(bytes, 0)), (run, byte, found), "{level:?}");
    }
    assert_eq!(
        html_special(bytes),
        bytes.iter().position(|b| b"<>&\"'/".contains(b))
    );
    assert_eq!(
        percent_or_plus(bytes),
        bytes.iter().position(|b| b"%+".contains(b))
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
    fn rare_hits(len in 0usize..400, hit in 0usize..400, byte in proptest::sample::select(b"&<'/%+\n\x7f\x80\x00".to_vec())) {
        let mut bytes = vec![b'x'; len];
        if let Some(place) = bytes.get_mut(hit) { *place = byte; }
        check(&bytes);
    }
}
