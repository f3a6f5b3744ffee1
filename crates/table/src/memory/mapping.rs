//! Memory maps of Linux: anonymous ones in huge pages on a chosen node, and private ones of files.

use super::{GrantedPages, MemoryError, Pages, Placement};
use std::fs::File;
use std::io;
use std::mem;
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
    /// Its first byte.
    pub(super) start: NonNull<u8>,
    bytes: usize,
    /// The kind of its pages.
    pub(super) pages: GrantedPages,
}

// SAFETY: it owns its memory as a box would; nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out the address and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// At least `bytes` zeroed bytes, aligned to a page.
    pub(super) fn zeroed(bytes: usize, placement: Placement) -> Result<Mapping, MemoryError> {
        let mapping = if placement.pages == Pages::Small || bytes < HUGE_PAGE {
            Mapping::anonymous(bytes, libc::MAP_NORESERVE, GrantedPages::Small)
        } else {
            let bytes = bytes.next_multiple_of(HUGE_PAGE);
            // Of the reserved pool the kernel sets pages aside now or refuses now: `MAP_NORESERVE` would let it kill the
            // process later instead.
            Mapping::anonymous(bytes, libc::MAP_HUGETLB, GrantedPages::Reserved)
                .or_else(|_| Mapping::transparent(bytes))
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
        libc::off_t::try_from(offset)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
            .and_then(|offset| {
                map(
                    bytes,
                    libc::MAP_PRIVATE,
                    file.as_raw_fd(),
                    offset,
                    GrantedPages::File,
                )
            })
            .map_err(|source| MemoryError::Map { bytes, source })
    }

    fn anonymous(bytes: usize, flags: libc::c_int, pages: GrantedPages) -> io::Result<Mapping> {
        map(
            bytes,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
            pages,
        )
    }

    /// Memory that starts at a huge page, with the advice to use them. `bytes` is a multiple of their size.
    fn transparent(bytes: usize) -> io::Result<Mapping> {
        let wide = Mapping::anonymous(bytes + HUGE_PAGE, libc::MAP_NORESERVE, GrantedPages::Small)?;
        let mut mapping = mem::ManuallyDrop::new(wide);
        let before = mapping.start.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: the range is this mapping's own, nothing refers to it yet, and the parts that are unmapped are outside
        // of the one that is kept; the advice changes no contents.
        unsafe {
            let aligned = mapping.start.add(before);
            libc::munmap(mapping.start.as_ptr().cast(), before);
            libc::munmap(aligned.add(bytes).as_ptr().cast(), HUGE_PAGE - before);
            (mapping.start, mapping.bytes) = (aligned, bytes);
            if libc::madvise(aligned.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) == 0 {
                mapping.pages = GrantedPages::Transparent;
            }
        }
        Ok(mem::ManuallyDrop::into_inner(mapping))
    }

    fn prefer_node(&self, node: u16) -> io::Result<()> {
        let node = usize::from(node);
        if node >= NODES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut mask = [0_u64; NODES / 64];
        mask[node / 64] |= 1 << (node % 64);
        // SAFETY: the range is this mapping's own and the mask has the bits that the call is given (it counts one more
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
fn map(
    bytes: usize,
    flags: libc::c_int,
    file: libc::c_int,
    offset: libc::off_t,
    pages: GrantedPages,
) -> io::Result<Mapping> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without MAP_FIXED a new map touches no memory that is in use.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, file, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok(Mapping { start, bytes, pages })
}
