//! What a worker checks of a sample of what it receives: whether its bucket is the one that the hash selects; with a policy
//! of rebalancing, the load of the table entry that the same hash selects.
//!
//! In: tuples of datagrams and of connections. Out: counts in the worker's own block.

use arc_swap::ArcSwap;
use corelane_rss::{Bucket, Steerer, Tuple};
use corelane_worker::sampling::Sampler;
use corelane_worker::{CachePadded, Counter};
use std::sync::Arc;

/// The checks of one worker: written by it, readable by any thread.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Datagrams or connections that were compared with the bucket of their hash.
    pub(crate) samples: Counter,
    /// Those that the current table assigns to the worker's bucket.
    pub(crate) right: Counter,
    /// Connections of which the kernel knows the CPU that received their last packet.
    pub(crate) received: Counter,
    /// Those received on the worker's CPU.
    pub(crate) local: Counter,
}

/// The load of each entry of the table, as one worker counts it. Datagrams are sampled, because their load is one hash each.
/// Of connections every event is counted: the hash is computed when one opens.
#[derive(Debug)]
pub(crate) struct Loads {
    pub(crate) entries: Box<[Counter]>,
    pub(crate) samples: Counter,
}

impl Loads {
    pub(crate) fn new(entries: usize) -> Self {
        Self {
            entries: (0..entries).map(|_| Counter::new()).collect(),
            samples: Counter::new(),
        }
    }

    /// Adds the load of one event to an entry.
    pub(crate) fn add(&self, entry: usize, load: u64) {
        self.entries[entry].add(load);
        self.samples.add(1);
    }
}

/// Datagrams per sample, at least, unless their load is measured.
const SAMPLE_INTERVAL: u32 = 251;

/// Checks what one worker receives.
pub(crate) struct Check {
    /// `None` if buckets are not assigned to workers.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) steerer: Arc<ArcSwap<Steerer>>,
    pub(crate) checked: Arc<CachePadded<Checked>>,
    /// `None` if nothing is rebalanced.
    pub(crate) loads: Option<Arc<Loads>>,
}

impl Check {
    /// Which datagrams are checked.
    pub(crate) fn sampler(&self) -> Sampler {
        Sampler::new(if self.loads.is_some() { 1 } else { SAMPLE_INTERVAL })
    }

    /// Checks the bucket of a sample, and adds its load; returns its entry of the table.
    pub(crate) fn sample(&self, tuple: &Tuple, load: u64) -> usize {
        let steerer = self.steerer.load();
        let hash = steerer.hash_of(tuple);
        let entry = steerer.table().entry(hash);
        if let Some(bucket) = self.bucket {
            self.checked.samples.add(1);
            self.checked
                .right
                .add(u64::from(steerer.table().bucket(hash) == bucket));
        }
        if let Some(loads) = &self.loads {
            loads.add(entry, load);
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{HashFields, IndirectionTable, Key, Steering};

    #[test]
    fn one_hash_checks_the_bucket_and_adds_to_the_load_of_an_entry() {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 0,
        };
        let check = |bucket, loads| Check {
            bucket,
            steerer: Arc::new(ArcSwap::from_pointee(steering.steerer())),
            checked: Arc::default(),
            loads,
        };
        // The first tuple of the verification suite, hash 0x51ccc178, also as mapped addresses.
        let tuples = [
            ("66.9.149.187:2794", "161.142.100.80:1766"),
            ("[::ffff:66.9.149.187]:2794", "[::ffff:161.142.100.80]:1766"),
        ];
        let tuples =
            tuples.map(|(peer, own)| Tuple::new(peer.parse().unwrap(), own.parse().unwrap()).unwrap());
        for (bucket, expected) in [(Some(0), [2, 2]), (Some(1), [2, 0]), (None, [0, 0])] {
            let loads = Arc::new(Loads::new(128));
            let check = check(bucket.map(Bucket::new), Some(Arc::clone(&loads)));
            assert_eq!(tuples.map(|tuple| check.sample(&tuple, 5)), [0x78; 2]);
            let checked = [&check.checked.samples, &check.checked.right].map(|counter| counter.get());
            assert_eq!(checked, expected);
            assert_eq!([loads.entries[0x78].get(), loads.samples.get()], [10, 2]);
        }
        assert_eq!(check(None, None).sample(&tuples[0], 1), 0x78);
    }
}
