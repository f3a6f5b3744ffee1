//! SIEVE (Zhang et al., "SIEVE is simpler than LRU", NSDI 2024): a hand goes from the oldest object to newer ones, passes those that
//! were read since it last came, and evicts the others where they are.

use super::objects::Objects;
use crate::cache::policy::Policy;
use crate::cache::requests::CacheRequest;

pub(super) struct Sieve {
    objects: Objects<1>,
    limit: u64,
    hand: Option<u32>,
}

impl Sieve {
    pub fn new(limit: u64) -> Sieve {
        Sieve {
            objects: Objects::default(),
            limit,
            hand: None,
        }
    }

    /// The hand does not stay at an object that goes.
    fn pass(&mut self, key: u32) {
        if self.hand == Some(key) {
            self.hand = self.objects.newer(key);
        }
    }
}

impl Policy for Sieve {
    fn read(&mut self, request: &CacheRequest) -> bool {
        let after = self.objects.newer(request.key);
        let is_here = self.objects.is_alive(request);
        if is_here {
            self.objects.of(request.key).accesses = 1;
        } else if self.hand == Some(request.key) {
            self.hand = after;
        }
        is_here
    }

    fn write(&mut self, request: &CacheRequest) {
        self.remove(request);
        self.objects.create(request, 0);
        while self.objects.bytes() > self.limit {
            let Some(key) = self.hand.or(self.objects.oldest(0)) else {
                return;
            };
            self.hand = self.objects.newer(key);
            if self.objects.of(key).accesses > 0 {
                self.objects.of(key).accesses = 0;
            } else {
                self.objects.take(key);
            }
        }
    }

    fn remove(&mut self, request: &CacheRequest) {
        self.pass(request.key);
        self.objects.take(request.key);
    }
}
