//! Prefetches cache lines.

/// Starts the load of the cache line of `cell` and does not wait for it: for frames and tables that are needed soon. Does
/// nothing on CPUs other than x86-64 and 64-bit Arm.
#[inline(always)]
pub fn prefetch<T>(cell: &T) {
    let address = std::ptr::from_ref(cell);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it reads no architectural state and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; `prfm` never faults and touches neither flags nor stack.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
