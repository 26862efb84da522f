//! A few buckets, all there from the start, in place of memory that grows.

/// Buckets that a table begins with.
pub(super) const FIRST: usize = 4;

/// As in the store.
///
/// # Safety
/// Nothing here relies on it.
pub(super) unsafe trait Zeroed: Default + Sync {}

pub(super) struct Chunks<T>(Vec<T>);

impl<T: Zeroed> Chunks<T> {
    pub(super) fn new() -> Option<Chunks<T>> {
        Some(Chunks((0..=FIRST).map(|_| T::default()).collect()))
    }

    pub(super) fn make(&self, index: usize) -> bool {
        index < self.0.len()
    }

    pub(super) fn populate(&self, _from: usize, _elements: usize) -> Option<bool> {
        Some(false)
    }

    pub(super) fn get(&self, index: usize) -> &T {
        &self.0[index]
    }

    pub(super) fn prefetch(&self, _index: usize) {}
}
