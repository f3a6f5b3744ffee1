//! The system calls and instructions of all links, each behind a safe function or a type that upholds its rules.

pub(crate) mod bpf;
pub(crate) mod device;
pub(crate) mod mapping;
pub(crate) mod ring;
pub(crate) mod socket;

/// Makes the CPU load a cache line; any address is valid.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it reads nothing that the program sees and faults on no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
