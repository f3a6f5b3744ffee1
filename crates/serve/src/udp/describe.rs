//! What a worker knows of each datagram's flow, and how often each came: datagrams in, hash, hash type and bucket of each out;
//! the counts by them whenever the control thread asks, and at the end.

use super::current::Current;
use corelane_rss::{FlowMetadata, Protocol, Tuple};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Different hashes that a worker counts; datagrams of more are counted together.
const MOST_HASHES: usize = 65_536;

/// How often one flow, as far as its hash tells flows apart, was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCount {
    /// The hash, `0x` and eight hexadecimal digits.
    pub hash: String,
    /// How it was made, as NDIS names it: `UDP_IPV4`, or `IPV4` for a 2-tuple.
    pub hash_type: String,
    /// The bucket that the hash falls on.
    pub bucket: u16,
    /// The worker that saw it.
    pub worker: u16,
    /// Datagrams.
    pub count: u64,
}

/// The counts of all flows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounts {
    /// One entry for every hash, hash type and bucket that a worker saw; by worker, the largest count first.
    pub flows: Vec<FlowCount>,
    /// Datagrams of further flows, once a worker had 65,536 of them.
    pub uncounted: u64,
}

/// What one worker counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    flows: HashMap<FlowMetadata, u64>,
    uncounted: u64,
}

/// How a worker is asked for its counts, and tells them.
pub(super) struct Telling {
    pub(super) worker: usize,
    /// Grows by one each time that they are asked for.
    pub(super) asked: Arc<AtomicU32>,
    pub(super) told: mpsc::Sender<(usize, Counted)>,
}

/// The control thread's side: asks workers for their counts, and keeps what they told last.
pub(super) struct Counting {
    asked: Arc<AtomicU32>,
    told: mpsc::Sender<(usize, Counted)>,
    tells: mpsc::Receiver<(usize, Counted)>,
    /// One a worker.
    latest: Vec<Counted>,
}

impl Counting {
    pub(super) fn new(workers: usize) -> Self {
        let (told, tells) = mpsc::channel();
        Self {
            asked: Arc::default(),
            told,
            tells,
            latest: vec![Counted::default(); workers],
        }
    }

    /// The side of worker `worker`.
    pub(super) fn telling(&self, worker: usize) -> Telling {
        Telling {
            worker,
            asked: Arc::clone(&self.asked),
            told: self.told.clone(),
        }
    }

    /// Asks all workers, has them woken, and waits for what they tell: at most so long for each.
    pub(super) fn ask(&mut self, wake: impl FnOnce(), longest: Duration) -> FlowCounts {
        self.asked.fetch_add(1, Ordering::Relaxed);
        wake();
        for _ in 0..self.latest.len() {
            match self.tells.recv_timeout(longest) {
                Ok((worker, counted)) => self.latest[worker] = counted,
                Err(_) => break,
            }
        }
        FlowCounts::of(&self.latest)
    }

    /// What workers that have ended told last.
    pub(super) fn last(&mut self) -> FlowCounts {
        for (worker, counted) in self.tells.try_iter() {
            self.latest[worker] = counted;
        }
        FlowCounts::of(&self.latest)
    }
}

/// Describes the datagrams of one worker.
pub(super) struct Describing {
    address: SocketAddr,
    steerer: Arc<Current>,
    tuples: Vec<Tuple>,
    described: Vec<FlowMetadata>,
    counted: Counted,
    /// None where flows are described and not counted.
    telling: Option<Telling>,
    last_asked: u32,
}

impl Describing {
    pub(super) fn new(address: SocketAddr, steerer: Arc<Current>, telling: Option<Telling>) -> Self {
        Self {
            address,
            steerer,
            tuples: Vec::new(),
            described: Vec::new(),
            counted: Counted::default(),
            telling,
            last_asked: 0,
        }
    }

    /// Describes a batch of datagrams by their senders, all of the server's own address family.
    pub(super) fn describe(&mut self, peers: impl Iterator<Item = SocketAddr>) {
        let address = self.address;
        self.tuples.clear();
        self.tuples
            .extend(peers.filter_map(|peer| Tuple::new(peer, address).ok()));
        self.steerer
            .describe(&self.tuples, Protocol::Udp, &mut self.described);
    }

    /// Takes one datagram with what is known of its flow, the `index`-th of the batch: this is the application's part.
    pub(super) fn take(&mut self, index: usize) {
        let Some(flow) = self.described.get(index) else {
            return;
        };
        if self.telling.is_none() {
            // Nobody counts: the application has it, and that is all.
            std::hint::black_box(flow);
            return;
        }
        let room = self.counted.flows.len() < MOST_HASHES;
        match self.counted.flows.entry(*flow) {
            Entry::Occupied(mut count) => *count.get_mut() += 1,
            Entry::Vacant(place) if room => *place.insert(0) += 1,
            Entry::Vacant(_) => self.counted.uncounted += 1,
        }
    }

    /// Tells the counts if they were asked for since the last time, or in any case when `last`.
    pub(super) fn tell(&mut self, last: bool) {
        let Some(telling) = &self.telling else { return };
        let asked = telling.asked.load(Ordering::Relaxed);
        if last || asked != self.last_asked {
            self.last_asked = asked;
            // A server that is gone asks for nothing.
            let _ = telling.told.send((telling.worker, self.counted.clone()));
        }
    }
}

impl FlowCounts {
    /// Puts the counts of workers together, in their order.
    pub(super) fn of(workers: &[Counted]) -> Self {
        let mut all = Self::default();
        for (worker, counted) in workers.iter().enumerate() {
            let mut own: Vec<FlowCount> = (counted.flows.iter())
                .map(|(flow, count)| told(*flow, worker, *count))
                .collect();
            own.sort_by(|one, other| (other.count, &one.hash).cmp(&(one.count, &other.hash)));
            all.flows.append(&mut own);
            all.uncounted += counted.uncounted;
        }
        all
    }
}

fn told(FlowMetadata { hash, bucket }: FlowMetadata, worker: usize, count: u64) -> FlowCount {
    FlowCount {
        hash: hash.to_string(),
        hash_type: hash.hash_type.to_string(),
        bucket: bucket.index() as u16,
        worker: worker as u16,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{HashFields, IndirectionTable, Key, Steering};

    #[test]
    fn flows_are_counted_by_hash_and_told_when_asked_and_at_the_end() {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 0,
        };
        let mut counting = Counting::new(2);
        // The verification suite's first tuple, and its neighbour.
        let server = "161.142.100.80:1766".parse().unwrap();
        let (often, once) = ("66.9.149.187:2794", "66.9.149.187:2795");
        let steerer = Arc::new(Current::new(&steering));
        let mut describing = Describing::new(server, steerer, Some(counting.telling(1)));
        let peers = [often, once, often].map(|peer| peer.parse().unwrap());
        describing.describe(peers.into_iter());
        (0..3).for_each(|index| describing.take(index));
        describing.tell(false);
        assert_eq!(counting.last(), FlowCounts::default(), "nobody asked");
        let counts = counting.ask(|| describing.tell(false), Duration::ZERO);
        let expected = FlowCount {
            hash: "0x51ccc178".to_owned(),
            hash_type: "UDP_IPV4".to_owned(),
            bucket: 0,
            worker: 1,
            count: 2,
        };
        assert_eq!((counts.flows.len(), &counts.flows[0]), (2, &expected));
        assert_eq!(counts.flows[1].count, 1);
        describing.take(0);
        describing.tell(false);
        assert_eq!(counting.last(), counts, "it was told once, as it was asked once");
        describing.tell(true);
        assert_eq!(counting.last().flows[0].count, 3, "and the last time unasked");
    }
}
