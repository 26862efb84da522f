//! Plain data: what crosses between host and device as it lies in memory.
#![allow(unsafe_code)]

use rhythm_engine::cohort::{Segment, Span, View};

/// Plain data that is copied as it lies in memory.
///
/// # Safety
/// Without gaps, pointers and references: every byte of it is initialized, and any bytes are a
/// value of it.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {$(
        // SAFETY: an integer, or a `#[repr(C)]` struct of two `u32`, which leave no gap.
        unsafe impl Plain for $type {}
    )*};
}

plain!(u8, u16, u32, u64, i64, View, Span, Segment);

// SAFETY: arrays of plain data have no gaps that it has not.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The bytes of plain data.
#[must_use]
pub fn bytes_of<T: Plain>(items: &[T]) -> &[u8] {
    // SAFETY: `T` is plain, so all its bytes are initialized, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts(items.as_ptr().cast::<u8>(), size_of_val(items)) }
}

/// Plain data from its bytes, which begin with it.
///
/// # Panics
/// There are fewer bytes.
#[must_use]
pub fn read<T: Plain>(bytes: &[u8]) -> T {
    let bytes = &bytes[..size_of::<T>()];
    // SAFETY: they are as many as `T` has, any of them are a value of it.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}
