//! Mapped memory: of this process alone, shared through a file in memory, or shared with the kernel through a socket.

use nix::errno::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

/// The size of a huge page on x86-64 and, with 4 KiB base pages, on Arm; elsewhere the advice is harmless.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its mapping as a box owns its memory; nothing in it is bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out addresses and atomics and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of this process, in huge pages if the kernel has them and it is large enough.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapping = Mapping::map(bytes, flags, -1, 0)?;
        if bytes >= HUGE_PAGE {
            // Rejected if huge pages are off; the memory is then in small ones.
            // SAFETY: the range is this mapping's own; advice changes no content.
            let _ = unsafe { libc::madvise(mapping.start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(mapping)
    }

    /// The first `bytes` of a file, shared with all who map it.
    pub(crate) fn shared(file: &File, bytes: usize) -> io::Result<Mapping> {
        Mapping::map(bytes, libc::MAP_SHARED, file.as_raw_fd(), 0)
    }

    /// Memory that a socket shares with the kernel, populated now so that no page fault delays a frame.
    pub(crate) fn of_socket(socket: &impl AsRawFd, offset: i64, bytes: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Mapping::map(bytes, flags, socket.as_raw_fd(), offset)
    }

    fn map(bytes: usize, flags: libc::c_int, file: libc::c_int, offset: i64) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, so no existing memory changes.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, file, offset) };
        let start = NonNull::new(Errno::result(start)?.cast());
        let start = start.expect("the kernel maps nothing at address 0 unless asked to");
        Ok(Mapping { start, bytes })
    }

    /// Its first byte. The caller keeps the mapping alive and stays within its bytes.
    #[inline(always)]
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The 32-bit number at `offset`, which others may change at any time.
    ///
    /// # Panics
    /// If it is not aligned or not within the mapping.
    #[inline(always)]
    pub(crate) fn atomic(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset + 4 <= self.bytes,
            "an index lies in its mapping"
        );
        // SAFETY: within the mapping and aligned by the assertion (mappings start on pages); accesses are atomic.
        unsafe { AtomicU32::from_ptr(self.start().add(offset).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is its own, and no borrow of it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
