//! Memory from `mmap` that the kernel may access while Rust holds references to other parts of it.

use super::placement::page_bytes;
use nix::errno::Errno;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// The kernel aligns mappings of a multiple of this, so that huge pages fit.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A private anonymous mapping: zeroed, page-aligned, and on no memory node until it is first touched, so that it ends
/// up on the node of the worker that uses it.
///
/// An inaccessible part follows, so that the kernel never joins two mappings and counts the pages of each by itself.
///
/// A slice covers only the requested range. System calls use [`Pages::pointer`] instead, so that no reference covers
/// bytes that the kernel may be accessing.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    length: usize,
    mapping: Arc<Mapping>,
}

/// The addresses of a mapping, which stays mapped as long as this value exists. It gives no access to the bytes, so it
/// may be sent to any thread.
#[derive(Debug)]
pub(crate) struct Mapping {
    addresses: Range<usize>,
    /// Bytes from the first address, the inaccessible part included.
    reserved: usize,
}

impl Mapping {
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.addresses.clone()
    }
}

impl Pages {
    /// Maps `length` bytes, at least one page.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let length = length.max(1);
        let accessible = length.next_multiple_of(page_bytes());
        let mut reserved = accessible + page_bytes();
        if accessible >= HUGE_PAGE_BYTES {
            reserved = reserved.next_multiple_of(HUGE_PAGE_BYTES);
        }
        // Accessible pages next to those of another mapping would be one with them in what the kernel reports, until a
        // guard is between them, so that the whole is a guard at first.
        // SAFETY: a new private anonymous mapping at an address chosen by the kernel does not affect memory in use.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).expect("mmap never maps page zero on its own");
        let first = start.as_ptr().expose_provenance();
        let mapping = Arc::new(Mapping {
            addresses: first..first + accessible,
            reserved,
        });
        // SAFETY: these are the first pages of the mapping that was just made, and nothing refers to them yet.
        let opened = unsafe {
            libc::mprotect(
                start.as_ptr().cast(),
                accessible,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        Errno::result(opened)?;
        Ok(Self {
            start,
            length,
            mapping,
        })
    }

    /// The addresses, to query and set the memory nodes of the pages.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// The bytes of a range.
    ///
    /// # Panics
    /// When the range leaves the mapping.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: the range is inside the mapping, which is initialised (zeroed) memory; writers need `&mut self`, and
        // the engines let the kernel write only to parts that are not lent.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.end - range.start) }
    }

    /// The bytes of a range, mutable.
    ///
    /// # Panics
    /// When the range leaves the mapping.
    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: as in `bytes`, and `&mut self` excludes other slices; the kernel reads only ranges that the arena has
        // passed to a send and does not reuse before that send has completed.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr().add(range.start), range.end - range.start)
        }
    }

    /// The address of a byte, for system calls.
    ///
    /// # Panics
    /// When the offset lies outside the mapping.
    pub(crate) fn pointer(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.length);
        // SAFETY: the offset is inside the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(self.addresses.start);
        // SAFETY: this value owns the mapping. All slices borrow from `Pages`, which holds a reference to this value
        // and therefore no longer exists. The result is ignored: `munmap` of a whole mapping fails only for arguments
        // that were never mapped.
        unsafe { libc::munmap(start, self.reserved) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_start_zeroed_and_keep_what_is_written() {
        let mut pages = Pages::new(10_000).unwrap();
        assert!(pages.bytes(0..10_000).iter().all(|byte| *byte == 0));
        pages.bytes_mut(9_998..10_000).copy_from_slice(&[7, 8]);
        assert_eq!(pages.bytes(9_997..10_000), [0, 7, 8]);
    }

    #[test]
    #[should_panic]
    fn a_range_outside_is_refused() {
        let _ = Pages::new(4_096).unwrap().bytes(4_000..5_000);
    }
}
