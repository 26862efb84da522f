//! Memory that is kept from request to request. What a long one needs of it is given back: there is
//! some in each worker, and nothing counts it.

/// So much is kept, at most.
const KEPT_BYTES: usize = 64 << 10;

/// Empties what a request has used.
#[inline]
pub(super) fn empty<T>(used: &mut Vec<T>) {
    used.clear();
    used.shrink_to(KEPT_BYTES / size_of::<T>());
}
