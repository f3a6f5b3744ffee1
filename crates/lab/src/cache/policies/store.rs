//! The store itself, with all that it needs of the same memory.

use crate::cache::policy::Policy;
use crate::cache::requests::CacheRequest;
use corelane_store::{Attributes, Hash, Memory, Partition, Placement, Settings, hash};

/// Segments of a store, at least: large stores have many more.
const SEGMENTS: u64 = 128;
const SEGMENT_BYTES: [u64; 2] = [4 << 10, 128 << 10];
/// Items that are looked at for expiry per request.
const TIDIED: usize = 4;
/// Longer than all values.
const VALUE: [u8; 8 << 10] = [0; 8 << 10];

pub(super) struct Store {
    partition: Partition,
}

impl Store {
    pub fn new(limit: u64) -> Store {
        let segment = 1 << (limit / SEGMENTS).max(1).ilog2();
        let [least, most] = SEGMENT_BYTES;
        let settings = Settings {
            segment: segment.clamp(least, most) as usize,
            ..Settings::default()
        };
        let bytes = limit.max(8 * least) as usize;
        let memory = Memory::zeroed(bytes, Placement::default()).expect("memory");
        let partition = Partition::new(memory, &settings).expect("the sizes suit");
        Store { partition }
    }
}

/// A key of the request's length, and its hash.
fn key(request: &CacheRequest) -> (Hash, [u8; 256]) {
    let mut key = [b'k'; 256];
    key[..4].copy_from_slice(&request.key.to_le_bytes());
    (hash(&key[..usize::from(request.key_bytes)], 0), key)
}

impl Policy for Store {
    fn read(&mut self, request: &CacheRequest) -> bool {
        self.partition.tidy(request.now, TIDIED);
        let (hash, key) = key(request);
        let key = &key[..usize::from(request.key_bytes)];
        self.partition.read(hash, key, request.now).is_some()
    }

    fn write(&mut self, request: &CacheRequest) {
        let (hash, key) = key(request);
        let key = &key[..usize::from(request.key_bytes)];
        let value = &VALUE[..usize::from(request.value_bytes)];
        let attributes = Attributes {
            expiry: request.expiry,
            ..Attributes::default()
        };
        // What a very small store refuses, it does not have when it is read.
        let _refused = self.partition.set(hash, key, value, attributes, request.now);
    }

    fn remove(&mut self, request: &CacheRequest) {
        let (hash, key) = key(request);
        let key = &key[..usize::from(request.key_bytes)];
        self.partition.remove(hash, key, request.now);
    }
}
