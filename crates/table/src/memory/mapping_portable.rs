//! Memory where there are no Linux maps: from the allocator, and files are read into it.

use super::{GrantedPages, MemoryError, Placement};
use std::alloc::{self, Layout};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ptr::NonNull;
use std::slice;

/// Allocated memory, freed at the end of its life.
pub(super) struct Mapping {
    start: NonNull<u8>,
    layout: Layout,
    pages: GrantedPages,
}

// SAFETY: it owns its memory as a box would; nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out the address and nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` (at least one) zeroed bytes, aligned to 64.
    pub(super) fn zeroed(bytes: usize, _placement: Placement) -> Result<Mapping, MemoryError> {
        let refused = || MemoryError::Map {
            bytes,
            source: io::Error::from(io::ErrorKind::OutOfMemory),
        };
        let layout = Layout::from_size_align(bytes.next_multiple_of(64), 64).map_err(|_| refused())?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(refused)?;
        Ok(Mapping {
            start,
            layout,
            pages: GrantedPages::Small,
        })
    }

    /// A copy of the bytes of `file` from `offset` on.
    pub(super) fn of_file(file: &File, offset: u64, bytes: usize) -> Result<Mapping, MemoryError> {
        let refused = |source| MemoryError::Map { bytes, source };
        let mapping = Mapping::zeroed(bytes, Placement::default())?;
        let mut file = file;
        file.seek(SeekFrom::Start(offset)).map_err(refused)?;
        // SAFETY: the memory was just allocated with this size, is initialised, and is not shared yet.
        let contents = unsafe { slice::from_raw_parts_mut(mapping.start.as_ptr(), bytes) };
        file.read_exact(contents).map_err(refused)?;
        Ok(mapping)
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
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nothing refers to it any more.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}
