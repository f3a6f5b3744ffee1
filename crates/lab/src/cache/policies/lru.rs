//! The least recently used object goes first.

use super::objects::Objects;
use crate::cache::policy::Policy;
use crate::cache::requests::CacheRequest;

pub(super) struct Lru {
    objects: Objects<1>,
    limit: u64,
}

impl Lru {
    pub fn new(limit: u64) -> Lru {
        Lru {
            objects: Objects::default(),
            limit,
        }
    }
}

impl Policy for Lru {
    fn read(&mut self, request: &CacheRequest) -> bool {
        let is_here = self.objects.is_alive(request);
        if is_here {
            self.objects.requeue(request.key, 0);
        }
        is_here
    }

    fn write(&mut self, request: &CacheRequest) {
        self.objects.create(request, 0);
        while let Some(oldest) = self
            .objects
            .oldest(0)
            .filter(|_| self.objects.bytes() > self.limit)
        {
            self.objects.take(oldest);
        }
    }

    fn remove(&mut self, request: &CacheRequest) {
        self.objects.take(request.key);
    }
}
