//! A ring shared between a socket and the kernel, or between two processes: a producer writes entries, a consumer reads
//! them, and each publishes its index. Indices wrap at 2^32; the number of entries is a power of two.

use super::mapping::Mapping;
use std::borrow::Borrow;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ring of entries of type `T`, of which the process is the producer (fill, transmit) or the consumer (receive,
/// completion), by the methods that it uses.
#[derive(Debug)]
pub(crate) struct Ring<T, M = Mapping> {
    mapping: M,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    /// Our own index; the shared one is a copy for the other side.
    own: u32,
    /// The other side's index when it was last read.
    known: u32,
    entry: std::marker::PhantomData<T>,
}

/// An entry of a ring: a plain C structure.
pub(crate) trait Entry: Copy {}
impl Entry for u32 {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

impl<T: Entry, M: Borrow<Mapping>> Ring<T, M> {
    /// The ring of `size` entries in a mapping, at the offsets that the kernel reports.
    ///
    /// # Panics
    /// If the mapping is too short for it: it was made of the same numbers.
    pub(crate) fn new(mapping: M, offset: &libc::xdp_ring_offset, size: usize) -> Ring<T, M> {
        let entries = offset.desc as usize;
        assert!(
            mapping.borrow().bytes() >= entries + size * size_of::<T>() && size.is_power_of_two(),
            "a ring's mapping holds its entries"
        );
        Ring {
            mapping,
            producer: offset.producer as usize,
            consumer: offset.consumer as usize,
            flags: offset.flags as usize,
            entries,
            mask: size as u32 - 1,
            own: 0,
            known: 0,
            entry: std::marker::PhantomData,
        }
    }

    /// Whether the kernel requests to be woken.
    #[inline(always)]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.atomic(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// As consumer: how many entries there are, up to `limit`.
    #[inline(always)]
    pub(crate) fn available(&mut self, limit: usize) -> usize {
        if (self.known.wrapping_sub(self.own) as usize) < limit {
            self.known = self.atomic(self.producer).load(Ordering::Acquire);
        }
        let there = self.known.wrapping_sub(self.own).min(self.mask + 1);
        limit.min(there as usize)
    }

    /// As consumer: the entry `ahead` places after the first one.
    #[inline(always)]
    pub(crate) fn read(&self, ahead: usize) -> T {
        let place = self.own.wrapping_add(ahead as u32) & self.mask;
        // SAFETY: a masked place lies within the mapping; the other side published it (`available` read its index with
        // acquire) and leaves it alone until we give it back; otherwise it is read once, and any bits are an entry.
        unsafe { self.place(place).read_volatile() }
    }

    /// As consumer: gives `count` entries back.
    #[inline(always)]
    pub(crate) fn consumed(&mut self, count: usize) {
        self.own = self.own.wrapping_add(count as u32);
        self.atomic(self.consumer).store(self.own, Ordering::Release);
    }

    /// As producer: how many entries are free, up to `limit`.
    #[inline(always)]
    pub(crate) fn free(&mut self, limit: usize) -> usize {
        let size = self.mask + 1;
        if (size.wrapping_sub(self.own.wrapping_sub(self.known)) as usize) < limit {
            self.known = self.atomic(self.consumer).load(Ordering::Acquire);
        }
        limit.min(size.wrapping_sub(self.own.wrapping_sub(self.known)).min(size) as usize)
    }

    /// As producer: writes the entry `ahead` places after the last published one; it is free.
    #[inline(always)]
    pub(crate) fn write(&mut self, ahead: usize, entry: T) {
        let place = self.own.wrapping_add(ahead as u32) & self.mask;
        // SAFETY: a masked place lies within the mapping; the other side is done with it (`free` read its index with acquire).
        unsafe { self.place(place).write(entry) }
    }

    /// As producer: publishes `count` entries.
    #[inline(always)]
    pub(crate) fn produced(&mut self, count: usize) {
        self.own = self.own.wrapping_add(count as u32);
        self.atomic(self.producer).store(self.own, Ordering::Release);
    }

    /// As producer: entries that the kernel has not taken yet.
    pub(crate) fn waiting(&mut self) -> usize {
        self.known = self.atomic(self.consumer).load(Ordering::Acquire);
        self.own.wrapping_sub(self.known) as usize
    }

    /// As producer: whether the other side claims to have taken more than was published.
    #[inline(always)]
    pub(crate) fn is_overtaken(&self) -> bool {
        self.own.wrapping_sub(self.known) > self.mask + 1
    }

    /// As consumer: whether the other side claims to have published more than fits.
    #[inline(always)]
    pub(crate) fn is_overfull(&self) -> bool {
        self.known.wrapping_sub(self.own) > self.mask + 1
    }

    /// As consumer: whether `count` entries are all that were published.
    pub(crate) fn holds(&self, count: usize) -> bool {
        let end = self.own.wrapping_add(count as u32);
        self.atomic(self.producer).load(Ordering::Acquire) == end
    }

    /// The number of the entry `ahead` places after our own index, without end.
    #[inline(always)]
    pub(crate) fn number(&self, ahead: usize) -> usize {
        self.own.wrapping_add(ahead as u32) as usize
    }

    #[inline(always)]
    fn atomic(&self, at: usize) -> &AtomicU32 {
        let mapping: &Mapping = self.mapping.borrow();
        mapping.atomic(at)
    }

    #[inline(always)]
    fn place(&self, place: u32) -> *mut T {
        let mapping: &Mapping = self.mapping.borrow();
        mapping
            .start()
            .wrapping_add(self.entries + place as usize * size_of::<T>())
            .cast()
    }
}
