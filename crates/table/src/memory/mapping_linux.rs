//! Memory maps of Linux: anonymous ones in huge pages on a chosen node, and private ones of files.

use super::{GrantedPages, MemoryError, Pages, Placement};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

/// The huge page of x86-64 and, with 4 KiB base pages, of Arm. Where it is another size, advice on this one is harmless.
const HUGE_PAGE: usize = 2 << 20;
/// `MPOL_PREFERRED` of `linux/mempolicy.h`: from this node while it has memory, then from others.
const PREFERRED: libc::c_long = 1;
/// Nodes that the mask of [`prefer_node`] can name: `MAX_NUMNODES` of the kernel's largest configuration.
const NODES: usize = 1024;

/// Mapped memory, unmapped at the end of its life.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    pages: GrantedPages,
}

// SAFETY: it owns its memory as a box would; nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out the address and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// At least `bytes` zeroed bytes, aligned to a page.
    pub(super) fn zeroed(bytes: usize, placement: Placement) -> Result<Mapping, MemoryError> {
        let mapping = match placement.pages {
            Pages::Small => Mapping::anonymous(bytes, 0, GrantedPages::Small),
            Pages::Huge if bytes < HUGE_PAGE => Mapping::anonymous(bytes, 0, GrantedPages::Small),
            Pages::Huge => Mapping::reserved(bytes).or_else(|_| Mapping::transparent(bytes)),
        };
        let mapping = mapping.map_err(|source| MemoryError::Map { bytes, source })?;
        if let Some(node) = placement.node {
            mapping
                .prefer_node(node)
                .map_err(|source| MemoryError::Node { node, source })?;
        }
        Ok(mapping)
    }

    /// The bytes of `file` from `offset` on, which writes do not change.
    pub(super) fn of_file(file: &File, offset: u64, bytes: usize) -> Result<Mapping, MemoryError> {
        let refused = |source| MemoryError::Map { bytes, source };
        let offset = libc::off_t::try_from(offset)
            .map_err(|_| refused(io::Error::from(io::ErrorKind::InvalidInput)))?;
        map(bytes, libc::MAP_PRIVATE, file.as_raw_fd(), offset)
            .map(|start| Mapping {
                start,
                bytes,
                pages: GrantedPages::File,
            })
            .map_err(refused)
    }

    /// Its first byte.
    #[inline(always)]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The pages it has.
    pub(super) fn pages(&self) -> GrantedPages {
        self.pages
    }

    fn anonymous(bytes: usize, flags: libc::c_int, pages: GrantedPages) -> io::Result<Mapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
        map(bytes, flags, -1, 0).map(|start| Mapping { start, bytes, pages })
    }

    /// Pages of the reserved pool, which the kernel sets aside now or refuses now: `MAP_NORESERVE` would let it kill the
    /// process later instead.
    fn reserved(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        map(bytes, flags, -1, 0).map(|start| Mapping {
            start,
            bytes,
            pages: GrantedPages::Reserved,
        })
    }

    /// Memory that starts at a huge page, with the advice to use them.
    fn transparent(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE);
        let wide = Mapping::anonymous(bytes + HUGE_PAGE, 0, GrantedPages::Small)?;
        let before = wide.start.as_ptr().align_offset(HUGE_PAGE);
        let (mut aligned, _outside) = wide.cut(before, bytes);
        // SAFETY: the range is this mapping's own; the advice changes no contents.
        let taken = unsafe { libc::madvise(aligned.start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) } == 0;
        if taken {
            aligned.pages = GrantedPages::Transparent;
        }
        Ok(aligned)
    }

    /// The part of `bytes` after `before` bytes, and what is left around it. All three are multiples of a page.
    fn cut(self, before: usize, bytes: usize) -> (Mapping, [Option<Mapping>; 2]) {
        let whole = std::mem::ManuallyDrop::new(self);
        let part = |from: usize, bytes: usize| {
            // SAFETY: `from` is within the whole mapping, whose parts do not overlap and are each unmapped once.
            let start = unsafe { whole.start.add(from) };
            Mapping {
                start,
                bytes,
                pages: whole.pages,
            }
        };
        let after = whole.bytes - before - bytes;
        let outside = [
            (before > 0).then(|| part(0, before)),
            (after > 0).then(|| part(before + bytes, after)),
        ];
        (part(before, bytes), outside)
    }

    fn prefer_node(&self, node: u16) -> io::Result<()> {
        let node = usize::from(node);
        if node >= NODES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut mask = [0_u64; NODES / 64];
        mask[node / 64] |= 1 << (node % 64);
        // SAFETY: the range is this mapping's own and the mask has the bits that the call is told of (it counts one more
        // than the highest); the call moves no page that somebody else maps.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.bytes,
                PREFERRED,
                mask.as_ptr(),
                NODES + 1,
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value and nothing refers to it any more: every slice of it borrows this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A new map, readable and writable, at an address of the kernel's choice.
fn map(bytes: usize, flags: libc::c_int, file: libc::c_int, offset: libc::off_t) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without MAP_FIXED a new map touches no memory that is in use.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, file, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}
