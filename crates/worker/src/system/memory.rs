//! Memory that the kernel may read and write while Rust holds other parts of it: pages from `mmap`.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A private anonymous mapping: zeroed, page-aligned, and on no memory node until it is first touched, so that it ends up
/// on the node of the worker that uses it.
///
/// Slices are made of the asked range alone. System calls take [`Pages::pointer`] instead, so that no reference covers
/// bytes that the kernel may be using.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    length: usize,
    mapping: Arc<Mapping>,
}

/// The addresses of a mapping, which stays mapped as long as anyone has them. They say nothing about its bytes, and so
/// may go to any thread.
#[derive(Debug)]
pub(crate) struct Mapping {
    addresses: Range<usize>,
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
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
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
            addresses: first..first + length,
        });
        Ok(Self {
            start,
            length,
            mapping,
        })
    }

    /// The addresses, for asking and telling the kernel where the pages are to lie.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// The bytes of a range.
    ///
    /// # Panics
    /// When the range leaves the mapping.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: the range lies in the mapping, which is initialised (zero) memory; writers need `&mut self`, and the
        // engines let the kernel write only where nothing is lent.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(range.start), range.end - range.start) }
    }

    /// The bytes of a range, to be written.
    ///
    /// # Panics
    /// When the range leaves the mapping.
    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        // SAFETY: as in `bytes`, and `&mut self` excludes other slices; the kernel reads only ranges that the arena has
        // given to a send and does not hand out again before it completed.
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
        // SAFETY: the offset lies in the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(self.addresses.start);
        // SAFETY: the mapping is this value's own; `Pages`, of which all slices are borrowed, holds it and is gone. The
        // result is ignored: `munmap` of a whole mapping fails only for arguments that were never mapped.
        unsafe { libc::munmap(start, self.addresses.len()) };
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
