//! A hint to the processor that memory is read soon; it never changes what a program does.
#![allow(unsafe_code)]

/// Starts loading the cache line of an address, which need not be one.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can observe and cannot fault, whatever the
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: as above; the instruction writes no register, no memory and no flags.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{}]",
                in(reg) at,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}
