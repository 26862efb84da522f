//! Memory that grows without moving what is in it: chunks, each as large as all before it. A chunk
//! is asked for when its first element is needed, and resident as far as it is used.
#![allow(unsafe_code)]

use super::region::Region;
use rhythm_protocol::scan::prefetch_address;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Elements that are there from the start.
pub(super) const FIRST: usize = 1 << 12;
/// Chunks: enough for 2^32 elements.
const CHUNKS: usize = 21;

/// What memory of zeros is a value of, its default, and may be shared.
///
/// # Safety
/// It is: bytes that are zero are the default, which has nothing to drop, and the alignment is that
/// of a page at most.
pub(super) unsafe trait Zeroed: Default + Sync {}

/// Elements of one kind, in the order in which they were made.
pub(super) struct Chunks<T> {
    chunks: [OnceLock<Chunk>; CHUNKS],
    of: PhantomData<T>,
}

struct Chunk {
    region: Region,
    elements: usize,
}

impl<T: Zeroed> Chunks<T> {
    /// The first elements; none where the system has no memory.
    pub(super) fn new() -> Option<Chunks<T>> {
        let chunks = Chunks {
            chunks: [const { OnceLock::new() }; CHUNKS],
            of: PhantomData,
        };
        chunks.make(0).then_some(chunks)
    }

    /// Sees to it that an element is there. False: the system has no memory, or there are as many
    /// as can be.
    pub(super) fn make(&self, index: usize) -> bool {
        let (chunk, _) = place(index);
        let Some(cell) = self.chunks.get(chunk) else {
            return false;
        };
        if cell.get().is_none() {
            let elements = FIRST << chunk.saturating_sub(1);
            let Some(region) = Region::new(elements * size_of::<T>()) else {
                return false;
            };
            // Should another thread have been first, its chunk is the one, as good as ours.
            let _ = cell.set(Chunk { region, elements });
        }
        true
    }

    /// Makes a piece of the memory of elements resident, from one on that may be made next, in its
    /// chunk. True: there is more to be done. None where the system cannot.
    pub(super) fn populate(&self, from: usize, elements: usize) -> Option<bool> {
        let (chunk, at) = place(from);
        let range = at * size_of::<T>()..(at + elements) * size_of::<T>();
        let region = self.make(from).then(|| self.chunks[chunk].get()).flatten();
        region?.region.populate(range)
    }

    /// An element that was made.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &T {
        let (chunk, at) = place(index);
        let chunk = self.chunks[chunk].get();
        let chunk = chunk.expect("it was made before it was used");
        assert!(at < chunk.elements);
        // SAFETY: the region has room for so many elements, aligned to a page; it lasts as long as
        // `self`, began as zeros, which are values of the type, and is only ever seen as those.
        unsafe { chunk.region.start().cast::<T>().add(at).as_ref() }
    }

    /// Starts loading an element that was made.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        prefetch_address(self.get(index));
    }
}

/// The chunk of an element, and its place there.
#[inline]
fn place(index: usize) -> (usize, usize) {
    match index / FIRST {
        0 => (0, index),
        blocks => {
            let chunk = blocks.ilog2() as usize + 1;
            (chunk, index - (FIRST << (chunk - 1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other_without_gaps() {
        let mut expected = (0, 0);
        for index in 0..FIRST * 20 {
            assert_eq!(place(index), expected);
            let size = FIRST << expected.0.saturating_sub(1);
            expected = if expected.1 + 1 == size {
                (expected.0 + 1, 0)
            } else {
                (expected.0, expected.1 + 1)
            };
        }
    }
}
