//! A hint to the processor that a value is read soon; it never changes what a program does.

/// Starts loading the cache line where `value` begins.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_address(core::ptr::from_ref(value));
}

/// [`prefetch`] for an element of a slice, or for what lies behind the slice.
#[inline(always)]
pub fn prefetch_at<T>(slice: &[T], index: usize) {
    prefetch_address(slice.as_ptr().wrapping_add(index));
}

/// [`prefetch`] for an address, which need not be one.
#[inline(always)]
pub fn prefetch_address<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can observe and cannot fault, whatever the
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: as above; the instruction writes no register, no memory and no flags.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{}]",
                in(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
