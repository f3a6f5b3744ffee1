//! What the commands work on, and what is counted.

use crate::memcached::time::Clock;

/// The commands, on the items of one worker, at one time.
#[derive(Debug)]
pub struct Commands<'a, I> {
    /// The items.
    pub items: &'a mut I,
    /// The time.
    pub clock: Clock,
    /// What is counted.
    pub counts: &'a mut Counts,
    /// The largest item, by [`item_size`] (`-I`).
    pub largest_item: usize,
}

/// Requests and their outcomes, as the general statistics have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// `cmd_get`: keys of requests that read without a new expiry.
    pub gets: u64,
    /// `get_hits`.
    pub get_hits: u64,
    /// `get_misses`.
    pub get_misses: u64,
    /// `cmd_touch`: keys of requests that give a new expiry.
    pub touches: u64,
    /// `touch_hits`.
    pub touch_hits: u64,
    /// `touch_misses`.
    pub touch_misses: u64,
    /// `cmd_set`: values for which there was room.
    pub sets: u64,
    /// `delete_hits`.
    pub delete_hits: u64,
    /// `delete_misses`.
    pub delete_misses: u64,
    /// `incr_hits`.
    pub incr_hits: u64,
    /// `incr_misses`.
    pub incr_misses: u64,
    /// `decr_hits`.
    pub decr_hits: u64,
    /// `decr_misses`.
    pub decr_misses: u64,
    /// `cas_hits`.
    pub cas_hits: u64,
    /// `cas_badval`.
    pub cas_badval: u64,
    /// `cas_misses`.
    pub cas_misses: u64,
    /// `cmd_meta`: requests of `me`.
    pub metas: u64,
    /// `store_too_large`.
    pub too_large: u64,
    /// `store_no_memory`.
    pub no_memory: u64,
}

/// Size of an item as memcached has it: header of 48 bytes, number of the change, key and a zero byte, flags if they
/// are not 0, value and a line end. `-I` limits it.
pub const fn item_size(key: usize, flags: u32, value: usize) -> usize {
    let flags = if flags == 0 { 0 } else { 4 };
    48 + 8 + key + 1 + flags + value + 2
}

impl Counts {
    /// All counts, by the names of memcached's general statistics.
    pub fn named(&mut self) -> [(&'static str, &mut u64); 19] {
        [
            ("cmd_get", &mut self.gets),
            ("cmd_set", &mut self.sets),
            ("cmd_touch", &mut self.touches),
            ("cmd_meta", &mut self.metas),
            ("get_hits", &mut self.get_hits),
            ("get_misses", &mut self.get_misses),
            ("delete_misses", &mut self.delete_misses),
            ("delete_hits", &mut self.delete_hits),
            ("incr_misses", &mut self.incr_misses),
            ("incr_hits", &mut self.incr_hits),
            ("decr_misses", &mut self.decr_misses),
            ("decr_hits", &mut self.decr_hits),
            ("cas_misses", &mut self.cas_misses),
            ("cas_hits", &mut self.cas_hits),
            ("cas_badval", &mut self.cas_badval),
            ("touch_hits", &mut self.touch_hits),
            ("touch_misses", &mut self.touch_misses),
            ("store_too_large", &mut self.too_large),
            ("store_no_memory", &mut self.no_memory),
        ]
    }

    /// What was counted after `earlier`.
    #[must_use]
    pub fn since(mut self, mut earlier: Counts) -> Counts {
        for ((_, count), (_, before)) in self.named().into_iter().zip(earlier.named()) {
            *count -= *before;
        }
        self
    }

    /// A key was read, with a new expiry or without.
    pub(super) fn retrieved(&mut self, touched: bool, found: bool) {
        let (all, hits, misses) = if touched {
            (&mut self.touches, &mut self.touch_hits, &mut self.touch_misses)
        } else {
            (&mut self.gets, &mut self.get_hits, &mut self.get_misses)
        };
        *all += 1;
        *if found { hits } else { misses } += 1;
    }

    /// There was no number.
    pub(super) fn missed(&mut self, decrement: bool) {
        *if decrement {
            &mut self.decr_misses
        } else {
            &mut self.incr_misses
        } += 1;
    }

    pub(super) fn deleted(&mut self, found: bool) {
        *if found {
            &mut self.delete_hits
        } else {
            &mut self.delete_misses
        } += 1;
    }
}
