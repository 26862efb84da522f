//! What was fetched ahead: a few stretches of memory, on their way or here, as they were when they
//! were asked for. What this borrower writes there afterwards has them forgotten.

use crate::channel::rdma::Chunk;
use std::collections::VecDeque;

/// Stretches, at most.
pub(super) const STRETCHES_MAX: usize = 3;
/// Bytes of a stretch, at most.
pub(super) const STRETCH_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug)]
struct Stretch {
    /// The transfer that brings it.
    id: u64,
    address: u64,
    bytes: Vec<u8>,
    came: usize,
    /// Something of it was written since.
    is_stale: bool,
}

impl Stretch {
    fn is_here(&self) -> bool {
        self.came == self.bytes.len()
    }

    fn meets(&self, address: u64, bytes: u64) -> bool {
        self.address < address.saturating_add(bytes)
            && address < self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// Where what is wanted is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It was copied.
    Here,
    /// All of it is on its way.
    Coming,
    /// It is to be asked for.
    Nowhere,
}

/// The stretches of a connection.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    stretches: VecDeque<Stretch>,
}

impl Ahead {
    /// Room for one more, where the oldest that is here makes it if need be; false where all are on
    /// their way.
    pub(super) fn make_room(&mut self) -> bool {
        if self.stretches.len() < STRETCHES_MAX {
            return true;
        }
        let oldest = self.stretches.iter().position(Stretch::is_here);
        oldest.is_some_and(|oldest| self.stretches.remove(oldest).is_some())
    }

    /// A stretch is asked for.
    pub(super) fn asked(&mut self, id: u64, address: u64, bytes: usize) {
        self.stretches.push_back(Stretch {
            id,
            address,
            bytes: vec![0; bytes],
            came: 0,
            is_stale: false,
        });
    }

    /// Takes a chunk; false where it is not of a stretch.
    pub(super) fn came(&mut self, chunk: &Chunk<'_>) -> bool {
        let mut stretches = self.stretches.iter_mut();
        let Some(stretch) = stretches.find(|stretch| stretch.id == chunk.id) else {
            return false;
        };
        let end = chunk.at + chunk.bytes.len();
        stretch.bytes[chunk.at..end].copy_from_slice(chunk.bytes);
        stretch.came = end;
        if stretch.is_here() && stretch.is_stale {
            self.stretches.retain(|stretch| stretch.id != chunk.id);
        }
        true
    }

    /// Copies what is wanted, where a stretch has all of it.
    pub(super) fn find(&self, address: u64, into: &mut [u8]) -> Found {
        let found = self.stretches.iter().find(|stretch| {
            let end = address.checked_add(into.len() as u64);
            let all = stretch.address.saturating_add(stretch.bytes.len() as u64);
            !stretch.is_stale && stretch.address <= address && end.is_some_and(|end| end <= all)
        });
        match found {
            Some(stretch) => {
                let at = (address - stretch.address) as usize;
                // Chunks come in order.
                if stretch.came < at + into.len() {
                    return Found::Coming;
                }
                into.copy_from_slice(&stretch.bytes[at..at + into.len()]);
                Found::Here
            }
            None => Found::Nowhere,
        }
    }

    /// This range is written, or freed.
    pub(super) fn written(&mut self, address: u64, bytes: u64) {
        self.stretches
            .retain(|stretch| !(stretch.is_here() && stretch.meets(address, bytes)));
        for stretch in &mut self.stretches {
            stretch.is_stale |= stretch.meets(address, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(id: u64, at: usize, bytes: &[u8]) -> Chunk<'_> {
        Chunk { id, at, bytes }
    }

    #[test]
    fn what_was_written_since_is_never_found() {
        let mut ahead = Ahead::default();
        let mut two = [0; 2];
        assert!(ahead.make_room());
        ahead.asked(1, 100, 4);
        assert_eq!(ahead.find(102, &mut two), Found::Coming);
        assert!(ahead.came(&chunk(1, 0, b"ab")));
        assert!(!ahead.came(&chunk(2, 0, b"ab")));
        assert_eq!(ahead.find(100, &mut two), Found::Here);
        assert_eq!(&two, b"ab");
        assert_eq!(ahead.find(103, &mut two), Found::Nowhere);
        assert_eq!(ahead.find(99, &mut two), Found::Nowhere);
        ahead.written(104, 9);
        assert_eq!(ahead.find(102, &mut two), Found::Coming);
        ahead.written(103, 1);
        assert_eq!(ahead.find(100, &mut two), Found::Nowhere);
        assert!(ahead.came(&chunk(1, 2, b"cd")), "still on its way");
        assert!(ahead.stretches.is_empty());
    }

    #[test]
    fn only_what_is_here_makes_room() {
        let mut ahead = Ahead::default();
        for id in 0..STRETCHES_MAX as u64 {
            assert!(ahead.make_room());
            ahead.asked(id, 100 * id, 1);
        }
        assert!(!ahead.make_room());
        assert!(ahead.came(&chunk(1, 0, b"a")));
        assert!(ahead.make_room());
        assert_eq!(ahead.find(100, &mut [0]), Found::Nowhere);
        ahead.asked(9, u64::MAX - 1, 4);
        ahead.written(u64::MAX, u64::MAX);
        assert_eq!(ahead.find(u64::MAX, &mut [0; 4]), Found::Nowhere);
    }
}
