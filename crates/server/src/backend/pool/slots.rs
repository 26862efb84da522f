//! Tables of fixed size by who asks, or by what is asked: those that meet in a slot are one.

/// The slot of one of so many, a power of two.
pub(super) fn slot_of(whose: u64, slots: usize) -> usize {
    // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4).
    (whose.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - slots.ilog2())) as usize
}
