//! The buckets' memory: chunks, each as large as all before it, so that a table that grows moves
//! nothing. A chunk is asked for when its first bucket is needed, and resident as far as it is
//! used.
#![allow(unsafe_code)]

use super::super::prefetch::prefetch;
use super::super::region::Region;
use super::bucket::Bucket;
use std::sync::OnceLock;

/// Buckets that are there from the start.
pub(crate) const FIRST: usize = 1 << 12;
/// Chunks: enough for 2^32 buckets.
const CHUNKS: usize = 21;

/// All buckets of a table.
pub(super) struct Chunks {
    chunks: [OnceLock<Chunk>; CHUNKS],
}

struct Chunk {
    region: Region,
    buckets: usize,
}

impl Chunks {
    /// The first buckets; none where the system has no memory.
    pub(super) fn new() -> Option<Chunks> {
        let chunks = Chunks {
            chunks: [const { OnceLock::new() }; CHUNKS],
        };
        chunks.make(0).then_some(chunks)
    }

    /// Sees to it that the bucket is there; for one thread at a time. False: the system has no
    /// memory, or the table is as large as can be.
    pub(super) fn make(&self, bucket: usize) -> bool {
        let (chunk, _) = place(bucket);
        let Some(cell) = self.chunks.get(chunk) else {
            return false;
        };
        if cell.get().is_none() {
            let buckets = FIRST << chunk.saturating_sub(1);
            let Some(region) = Region::new(buckets * size_of::<Bucket>()) else {
                return false;
            };
            // Should another thread have been first, its chunk is the one, as good as ours.
            let _ = cell.set(Chunk { region, buckets });
        }
        true
    }

    /// A bucket that was made.
    #[inline]
    pub(super) fn get(&self, bucket: usize) -> &Bucket {
        let (chunk, at) = place(bucket);
        let chunk = self.chunks[chunk]
            .get()
            .expect("it was made before it was used");
        assert!(at < chunk.buckets);
        // SAFETY: the region has room for so many buckets, is aligned to pages, lasts as long as
        // `self`, and is only ever seen as buckets, whose bytes are atomics, and zero is one.
        unsafe { chunk.region.start().cast::<Bucket>().add(at).as_ref() }
    }

    /// Starts loading a bucket that was made.
    #[inline]
    pub(super) fn prefetch(&self, bucket: usize) {
        prefetch(self.get(bucket));
    }
}

/// The chunk of a bucket, and its place there.
#[inline]
fn place(bucket: usize) -> (usize, usize) {
    match bucket / FIRST {
        0 => (0, bucket),
        blocks => {
            let chunk = blocks.ilog2() as usize + 1;
            (chunk, bucket - (FIRST << (chunk - 1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other_without_gaps() {
        let mut expected = (0, 0);
        for bucket in 0..FIRST * 20 {
            assert_eq!(place(bucket), expected);
            let size = FIRST << expected.0.saturating_sub(1);
            expected = if expected.1 + 1 == size {
                (expected.0 + 1, 0)
            } else {
                (expected.0, expected.1 + 1)
            };
        }
    }
}
