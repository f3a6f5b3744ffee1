//! The segmented LRU of memcached 1.6 (`doc/new_lru.txt`) as one size class, with the bytes that memcached needs per item: the reference.
//!
//! New objects are HOT. The oldest of HOT and WARM become COLD when their queue has more than a fifth, or two fifths, of the memory, or
//! is older than a fifth, or twice, the age of COLD. Objects that are read twice become WARM instead. The oldest of COLD are evicted.

use super::objects::Objects;
use crate::cache::policy::{self, Policy};
use crate::cache::requests::CacheRequest;

const HOT: u8 = 0;
const WARM: u8 = 1;
const COLD: u8 = 2;
/// Bytes of an item beyond key and value: a header of 48, the number of its change (8), three that end key and value, and a pointer of the hash
/// table (8). What its slabs waste is not counted.
const OVERHEAD: u64 = 67;
/// Objects that the background thread moves in one turn.
const MOVES: usize = 500;

pub(super) struct SegmentedLru {
    objects: Objects<3>,
    limit: u64,
}

impl SegmentedLru {
    pub fn new(limit: u64) -> SegmentedLru {
        SegmentedLru {
            objects: Objects::charged(OVERHEAD - policy::OVERHEAD),
            limit,
        }
    }

    /// Moves the oldest object of a queue on, if it has to; whether one was moved.
    fn pull(&mut self, queue: u8, share: f64, age: f64, now: u32) -> bool {
        let Some(key) = self.objects.oldest(queue) else {
            return false;
        };
        let is_large = self.objects.bytes_of(queue) as f64 > self.objects.bytes() as f64 * share;
        let object = self.objects.of(key);
        let to = if object.accesses >= 2 {
            object.accesses = 1;
            WARM
        } else if queue != COLD && (is_large || f64::from(now - object.time) > age) {
            COLD
        } else {
            return false;
        };
        self.objects.requeue(key, to);
        true
    }

    fn maintain(&mut self, now: u32) {
        let oldest = self.objects.oldest(COLD);
        let age = oldest.map_or(0.0, |key| f64::from(now - self.objects.of(key).time));
        for _ in 0..MOVES {
            let is_moved = self.pull(HOT, 0.2, age * 0.2, now) || self.pull(WARM, 0.4, age * 2.0, now);
            if !self.pull(COLD, 1.0, 0.0, now) && !is_moved {
                return;
            }
        }
    }
}

impl Policy for SegmentedLru {
    fn read(&mut self, request: &CacheRequest) -> bool {
        if !self.objects.is_alive(request) {
            return false;
        }
        let object = self.objects.of(request.key);
        if object.accesses < 2 {
            object.accesses += 1;
            if object.accesses == 2 {
                object.time = request.now;
                if object.queue == Some(COLD) {
                    object.accesses = 1;
                    self.objects.requeue(request.key, WARM);
                }
            }
        }
        true
    }

    fn write(&mut self, request: &CacheRequest) {
        self.objects.create(request, HOT);
        self.maintain(request.now);
        while self.objects.bytes() > self.limit {
            let oldest = [COLD, HOT, WARM]
                .into_iter()
                .find_map(|queue| self.objects.oldest(queue));
            let Some(oldest) = oldest else {
                return;
            };
            self.objects.take(oldest);
        }
    }

    fn remove(&mut self, request: &CacheRequest) {
        self.objects.take(request.key);
    }
}
