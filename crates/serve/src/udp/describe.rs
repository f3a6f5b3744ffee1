//! Flow metadata of each datagram, and counts by it: takes datagrams, returns hash, hash type and bucket of each, and
//! counts to the control thread on request.

use super::common::Common;
use super::served::{FlowCount, FlowCounts};
use crate::shared::lock;
use corelane_rss::{FlowMetadata, Protocol, Tuple};
use corelane_worker::engine::Datagram;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

/// Maximum number of distinct hashes counted per worker; the datagrams of further hashes are counted together.
const MOST_HASHES: usize = 65_536;

/// The counts of one worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    flows: HashMap<FlowMetadata, u64>,
    uncounted: u64,
}

/// The counts of one worker, which locks them for one batch at a time.
pub(super) type SharedCounts = Arc<Mutex<Counted>>;

/// Computes the flow metadata of one worker's datagrams.
pub(super) struct Describing {
    common: Arc<Common>,
    tuples: Vec<Tuple>,
    described: Vec<FlowMetadata>,
    /// `None` if flows are described but not counted.
    counted: Option<SharedCounts>,
}

impl Describing {
    pub(super) fn new(common: Arc<Common>, counted: Option<SharedCounts>) -> Self {
        Self {
            common,
            tuples: Vec::new(),
            described: Vec::new(),
            counted,
        }
    }

    /// Computes the metadata of a batch of datagrams, except those of unknown destination, and counts them: this is the
    /// application's part.
    pub(super) fn describe<'a>(&mut self, datagrams: impl Iterator<Item = Datagram<'a>>) {
        let common = &self.common;
        self.tuples.clear();
        self.tuples
            .extend(datagrams.filter_map(|datagram| common.tuple(&datagram)));
        let steerer = self.common.steerer.load();
        steerer.describe(&self.tuples, Protocol::Udp, &mut self.described);
        let Some(counted) = &self.counted else {
            // Without counting, only prevents the work from being optimised away.
            std::hint::black_box(&self.described);
            return;
        };
        let Counted { flows, uncounted } = &mut *lock(counted);
        for flow in &self.described {
            let room = flows.len() < MOST_HASHES;
            match flows.entry(*flow) {
                Entry::Occupied(mut count) => *count.get_mut() += 1,
                Entry::Vacant(place) if room => *place.insert(0) += 1,
                Entry::Vacant(_) => *uncounted += 1,
            }
        }
    }
}

impl FlowCounts {
    /// Merges the counts of workers, in their order.
    pub(super) fn of(workers: &[SharedCounts]) -> Self {
        let mut all = Self::default();
        for (worker, counted) in workers.iter().enumerate() {
            // Copied, to hold the worker's lock as briefly as possible.
            let counted = lock(counted).clone();
            let mut own: Vec<FlowCount> = (counted.flows.iter())
                .map(|(FlowMetadata { hash, bucket }, count)| FlowCount {
                    hash: hash.to_string(),
                    hash_type: hash.hash_type.to_string(),
                    bucket: bucket.index() as u16,
                    worker: worker as u16,
                    count: *count,
                })
                .collect();
            own.sort_by(|one, other| (other.count, &one.hash).cmp(&(one.count, &other.hash)));
            all.flows.append(&mut own);
            all.uncounted += counted.uncounted;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::UdpPlan;
    use corelane_rss::{HashFields, IndirectionTable, Key, Steering};

    #[test]
    fn flows_are_counted_by_hash_and_those_with_the_most_datagrams_come_first() {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 0,
        };
        let counted = [SharedCounts::default(), SharedCounts::default()];
        // The first tuple of the verification suite, and a neighbour.
        let server = "161.142.100.80:1766".parse().unwrap();
        let (often, once) = ("66.9.149.187:2794", "66.9.149.187:2795");
        let common = Common::new(UdpPlan::new(server, steering), server);
        let mut describing = Describing::new(common, Some(Arc::clone(&counted[1])));
        assert_eq!(FlowCounts::of(&counted), FlowCounts::default());
        let datagram = |peer: &str| Datagram {
            peer: peer.parse().unwrap(),
            payload: &[],
            truncated: false,
            destination: None,
            broadcast: false,
            merged: false,
        };
        describing.describe([often, once, often].map(datagram).into_iter());
        let counts = FlowCounts::of(&counted);
        let expected = FlowCount {
            hash: "0x51ccc178".to_owned(),
            hash_type: "UDP_IPV4".to_owned(),
            bucket: 0,
            worker: 1,
            count: 2,
        };
        assert_eq!((counts.flows.len(), &counts.flows[0]), (2, &expected));
        assert_eq!(counts.flows[1].count, 1);
        describing.describe([datagram(often)].into_iter());
        assert_eq!(FlowCounts::of(&counted).flows[0].count, 3);
    }
}
