//! Objects in queues, for the policies. Keys are small numbers.

use crate::cache::policy::bytes;
use crate::cache::requests::CacheRequest;

#[derive(Clone, Copy, Default)]
pub(super) struct Object {
    pub bytes: u64,
    expiry: u32,
    /// The second in which it was stored, or what the policy makes of it.
    pub time: u32,
    /// Accesses, or what the policy makes of them.
    pub accesses: u8,
    /// The queue, if it is here.
    pub queue: Option<u8>,
    before: Option<u32>,
    after: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    oldest: Option<u32>,
    newest: Option<u32>,
    bytes: u64,
}

pub(super) struct Objects<const QUEUES: usize> {
    objects: Vec<Object>,
    queues: [Queue; QUEUES],
    /// Bytes of each beyond what every policy is charged.
    more: u64,
}

impl<const QUEUES: usize> Default for Objects<QUEUES> {
    fn default() -> Self {
        Objects {
            objects: Vec::new(),
            queues: [Queue::default(); QUEUES],
            more: 0,
        }
    }
}

impl<const QUEUES: usize> Objects<QUEUES> {
    /// None, of which each will need so many bytes beyond what every policy is charged.
    pub fn charged(more: u64) -> Self {
        Objects {
            more,
            ..Objects::default()
        }
    }

    pub fn of(&mut self, key: u32) -> &mut Object {
        let place = key as usize;
        if place >= self.objects.len() {
            self.objects.resize(place + 1, Object::default());
        }
        &mut self.objects[place]
    }

    /// Bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.queues.iter().map(|queue| queue.bytes).sum()
    }

    pub fn bytes_of(&self, queue: u8) -> u64 {
        self.queues[usize::from(queue)].bytes
    }

    pub fn oldest(&self, queue: u8) -> Option<u32> {
        self.queues[usize::from(queue)].oldest
    }

    /// The next newer object of the same queue.
    pub fn newer(&mut self, key: u32) -> Option<u32> {
        self.of(key).after
    }

    /// Whether the key is here; an expired one is taken out.
    pub fn is_alive(&mut self, request: &CacheRequest) -> bool {
        let object = *self.of(request.key);
        if object.expiry != 0 && object.expiry <= request.now {
            self.take(request.key);
        }
        self.of(request.key).queue.is_some()
    }

    /// Stores an object as the newest of a queue.
    pub fn create(&mut self, request: &CacheRequest, queue: u8) {
        self.take(request.key);
        *self.of(request.key) = Object {
            bytes: bytes(request) + self.more,
            expiry: request.expiry,
            time: request.now,
            ..Object::default()
        };
        self.push(request.key, queue);
    }

    /// Makes an object that is here the newest of a queue.
    pub fn requeue(&mut self, key: u32, queue: u8) {
        self.take(key);
        self.push(key, queue);
    }

    fn push(&mut self, key: u32, queue: u8) {
        let place = &mut self.queues[usize::from(queue)];
        let before = place.newest.replace(key);
        place.oldest.get_or_insert(key);
        let object = self.of(key);
        (object.queue, object.before, object.after) = (Some(queue), before, None);
        let bytes = object.bytes;
        self.queues[usize::from(queue)].bytes += bytes;
        if let Some(before) = before {
            self.of(before).after = Some(key);
        }
    }

    /// Takes an object out, if it is here.
    pub fn take(&mut self, key: u32) {
        let object = *self.of(key);
        let Some(queue) = self.of(key).queue.take() else {
            return;
        };
        let queue = usize::from(queue);
        match object.before {
            Some(before) => self.of(before).after = object.after,
            None => self.queues[queue].oldest = object.after,
        }
        match object.after {
            Some(after) => self.of(after).before = object.before,
            None => self.queues[queue].newest = object.before,
        }
        self.queues[queue].bytes -= object.bytes;
    }
}
