//! Keeps a word out of vectors.

/// The word itself, in a general register.
///
/// Without this the compiler gathers words of several keys into vectors, takes them out again for each multiplication of
/// 64 by 64 bits, which vectors do not have, and looks up IPv6 addresses a fifth slower.
#[inline(always)]
pub(crate) fn scalar(word: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word = word;
        // SAFETY: the block is empty.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
        word
    }
    #[cfg(not(target_arch = "x86_64"))]
    word
}
