//! What a policy of a bounded cache does, and how its hit ratio is found.

use super::requests::{CacheRequest, Kind};

/// A bounded cache.
pub(super) trait Policy {
    /// Whether the key is there. The access is counted.
    fn read(&mut self, request: &CacheRequest) -> bool;
    /// Stores the key's item; others may be evicted.
    fn write(&mut self, request: &CacheRequest);
    fn remove(&mut self, request: &CacheRequest);
}

/// Bytes of an item in memory beyond key and value, of all policies but memcached's and the store's, which has what it has (44 to 50).
pub(super) const OVERHEAD: u64 = 48;

/// Bytes that an item is charged.
pub(super) fn bytes(request: &CacheRequest) -> u64 {
    u64::from(request.key_bytes) + u64::from(request.value_bytes) + OVERHEAD
}

/// The share of reads that hit, without those of the first third of the requests, which fill the cache.
pub(super) fn hit_ratio(policy: &mut dyn Policy, requests: &[CacheRequest]) -> f64 {
    let (mut hits, mut reads) = (0_u64, 0_u64);
    for (number, request) in requests.iter().enumerate() {
        match request.kind {
            Kind::Read => {
                let is_hit = policy.read(request);
                if number >= requests.len() / 3 {
                    reads += 1;
                    hits += u64::from(is_hit);
                }
                if !is_hit {
                    policy.write(request);
                }
            }
            Kind::Write => policy.write(request),
            Kind::Remove => policy.remove(request),
        }
    }
    hits as f64 / reads.max(1) as f64
}
