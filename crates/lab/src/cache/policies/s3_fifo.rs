//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): what the store does, object by object.

use super::objects::Objects;
use crate::cache::policy::Policy;
use crate::cache::requests::CacheRequest;
use std::collections::{HashSet, VecDeque};

const SMALL: u8 = 0;
const MAIN: u8 = 1;

pub(super) struct S3Fifo {
    objects: Objects<2>,
    limit: u64,
    ghosts: VecDeque<(u32, u64)>,
    is_ghost: HashSet<u32>,
    ghost_bytes: u64,
}

impl S3Fifo {
    pub fn new(limit: u64) -> S3Fifo {
        S3Fifo {
            objects: Objects::default(),
            limit,
            ghosts: VecDeque::new(),
            is_ghost: HashSet::new(),
            ghost_bytes: 0,
        }
    }

    /// Remembers keys of as many bytes as the main queue may have.
    fn add_ghost(&mut self, key: u32) {
        let bytes = self.objects.of(key).bytes;
        if self.is_ghost.insert(key) {
            self.ghosts.push_back((key, bytes));
            self.ghost_bytes += bytes;
        }
        while self.ghost_bytes > self.limit / 10 * 9 {
            let Some((key, bytes)) = self.ghosts.pop_front() else {
                return;
            };
            self.is_ghost.remove(&key);
            self.ghost_bytes -= bytes;
        }
    }

    /// Evicts the oldest object of a queue, or keeps it.
    fn evict(&mut self) {
        let is_small = self.objects.bytes_of(SMALL) * 10 > self.limit || self.objects.oldest(MAIN).is_none();
        let queue = if is_small { SMALL } else { MAIN };
        let Some(key) = self.objects.oldest(queue) else {
            return;
        };
        let object = self.objects.of(key);
        if object.accesses > 0 {
            object.accesses = if is_small { 0 } else { object.accesses - 1 };
            return self.objects.requeue(key, MAIN);
        }
        self.objects.take(key);
        if is_small {
            self.add_ghost(key);
        }
    }
}

impl Policy for S3Fifo {
    fn read(&mut self, request: &CacheRequest) -> bool {
        let is_here = self.objects.is_alive(request);
        if is_here {
            let object = self.objects.of(request.key);
            object.accesses = (object.accesses + 1).min(3);
        }
        is_here
    }

    fn write(&mut self, request: &CacheRequest) {
        let before = *self.objects.of(request.key);
        match before.queue {
            Some(queue) => {
                self.objects.create(request, queue);
                self.objects.of(request.key).accesses = before.accesses;
            }
            None if self.is_ghost.contains(&request.key) => self.objects.create(request, MAIN),
            None => self.objects.create(request, SMALL),
        }
        while self.objects.bytes() > self.limit {
            self.evict();
        }
    }

    fn remove(&mut self, request: &CacheRequest) {
        self.objects.take(request.key);
    }
}
