//! A slice of cells in mapped memory.

use super::mapping::Mapping;
use super::{GrantedPages, Line, MemoryError, Placement};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A value that a region may hold.
///
/// # Safety
/// Any bits are a valid value, its alignment is at most 64, and it needs no drop. Values shared between threads are
/// atomic, or not written while they are shared.
pub unsafe trait Cell: Send + Sync {}

// SAFETY: an integer; shared references to it are never written through.
unsafe impl Cell for u8 {}
// SAFETY: an atomic integer.
unsafe impl Cell for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Cell for AtomicU64 {}
// SAFETY: eight atomic integers, aligned to 64.
unsafe impl Cell for Line<AtomicU64> {}

/// `count` cells in memory of its own.
pub struct Region<T> {
    mapping: Mapping,
    count: usize,
    cells: PhantomData<T>,
}

impl<T: Cell> Region<T> {
    /// Zeroed memory, which takes pages as it is touched.
    ///
    /// # Errors
    /// If it cannot be mapped, or not be placed.
    pub fn zeroed(count: usize, placement: Placement) -> Result<Region<T>, MemoryError> {
        let bytes = count
            .checked_mul(size_of::<T>())
            .filter(|bytes| *bytes < isize::MAX as usize / 2)
            .ok_or(MemoryError::TooLarge { entries: count })?;
        Mapping::zeroed(bytes.max(1), placement).map(|mapping| Region::of_mapping(mapping, count))
    }

    /// The bytes of a file from `offset` (a multiple of the page size) on: changes stay private to this process.
    /// The file must hold them all.
    pub(crate) fn of_file(file: &File, offset: u64, count: usize) -> Result<Region<T>, MemoryError> {
        let mapping = Mapping::of_file(file, offset, (count * size_of::<T>()).max(1))?;
        Ok(Region::of_mapping(mapping, count))
    }

    fn of_mapping(mapping: Mapping, count: usize) -> Region<T> {
        Region {
            mapping,
            count,
            cells: PhantomData,
        }
    }

    /// A copy of those bytes, in memory of its own.
    pub(crate) fn read_from(
        mut file: &File,
        offset: u64,
        count: usize,
        placement: Placement,
    ) -> Result<Region<T>, MemoryError> {
        let region = Region::<T>::zeroed(count, placement)?;
        let bytes = region.bytes();
        // SAFETY: the mapping holds at least these bytes, initialised, and nothing else refers to it yet.
        let contents = unsafe { slice::from_raw_parts_mut(region.mapping.start.as_ptr(), bytes) };
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(contents))
            .map_err(|source| MemoryError::Map { bytes, source })?;
        Ok(region)
    }

    /// Its bytes as words, padded to whole words; for the writer, while the cells do not change.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let words = self.bytes().div_ceil(size_of::<u64>());
        // SAFETY: mappings are whole multiples of words, aligned to more than a word, readable to their end, and live as
        // long as this borrow. Loads of cells by others do not disturb loads of words.
        unsafe { slice::from_raw_parts(self.mapping.start.cast::<AtomicU64>().as_ptr(), words) }
    }

    /// The kind of its pages.
    #[must_use]
    pub fn pages(&self) -> GrantedPages {
        self.mapping.pages
    }

    /// Bytes of its cells.
    pub(crate) fn bytes(&self) -> usize {
        self.count * size_of::<T>()
    }
}

/// The bytes of words, in this machine's order.
pub(crate) fn bytes_of(words: &[u64]) -> &[u8] {
    // SAFETY: the slice's memory is as long, and any byte of an integer is a byte.
    unsafe { slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

impl<T: Cell> Deref for Region<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds at least `count` cells, is aligned to a page or to 64 bytes, readable and writable
        // for as long as it lives, and was zeroed or filled by the kernel; `Cell` makes any bits valid and sharing sound.
        unsafe { slice::from_raw_parts(self.mapping.start.cast::<T>().as_ptr(), self.count) }
    }
}

impl AsRef<[u8]> for Region<u8> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Region<u8> {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl DerefMut for Region<u8> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the exclusive reference to the region is the only way to its bytes.
        unsafe { slice::from_raw_parts_mut(self.mapping.start.as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pages;
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_region_is_zeroed_aligned_and_writable_to_its_end() {
        for pages in [Pages::Huge, Pages::Small] {
            for count in [0, 1, 3, 40_000, 70_000] {
                let placement = Placement { pages, node: None };
                let region = Region::<Line>::zeroed(count, placement).unwrap();
                assert_eq!(region.len(), count);
                assert_eq!(region.as_ptr().addr() % 64, 0);
                for line in region.iter() {
                    assert!(line.0.iter().all(|word| word.load(Ordering::Relaxed) == 0));
                    line.0[7].store(7, Ordering::Relaxed);
                }
            }
        }
    }

    #[test]
    fn the_first_node_takes_a_region_and_an_absurd_one_is_refused() {
        let on = |node| {
            Region::<u8>::zeroed(
                1 << 20,
                Placement {
                    pages: Pages::Small,
                    node: Some(node),
                },
            )
        };
        match on(0) {
            Ok(mut region) => region[1 << 19] = 1,
            Err(MemoryError::Node { source, .. }) => eprintln!("skipped: no memory policy here: {source}"),
            Err(error) => panic!("{error}"),
        }
        assert!(matches!(on(60_000), Err(MemoryError::Node { node: 60_000, .. })));
    }
}
