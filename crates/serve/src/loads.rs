//! The load of each entry of a server's table: counted by its workers, acted on by the control thread.
//!
//! In: datagrams, and events of connections. Out: counts per entry in each worker's own block; with a policy, moved
//! entries. Datagrams are sampled, because their load is one hash each. Of connections every event is counted: the hash
//! is computed when one opens.

use crate::server::ServeError;
use corelane_rss::balance::{EntryLoads, Policy};
use corelane_rss::{Steerer, Tuple};
use corelane_worker::rebalancing::Rebalancing;
use corelane_worker::steered::SteeredGroup;
use corelane_worker::{Counter, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Samples between two adaptations of the interval.
const SAMPLES: u32 = 64;

/// Shortest and longest time for that many samples. At most 10,000 samples per second and worker, which cost less than
/// one part in a thousand of its time; at least 2,500 if that many datagrams arrive.
const SHORTEST: Duration = Duration::from_micros(6_400);
const LONGEST: Duration = Duration::from_micros(25_600);

/// Datagrams per sample at most.
const MOST_INTERVAL: u32 = 1 << 12;

/// The counts of one worker.
#[derive(Debug)]
struct Counts {
    entries: Box<[Counter]>,
    samples: Counter,
}

/// Rebalances a server.
pub(crate) struct Balance {
    pub(crate) rebalancing: Rebalancing,
    steerer: Arc<Steerer>,
    /// Of each worker.
    counts: Vec<Arc<Counts>>,
}

impl Balance {
    /// Rebalances `group` by `policy`, if there is one.
    ///
    /// # Errors
    /// If there is no table to change.
    pub(crate) fn new(
        policy: Option<Policy>,
        group: Option<&SteeredGroup>,
    ) -> Result<Option<Self>, ServeError> {
        let Some(policy) = policy else { return Ok(None) };
        let group = group.ok_or(ServeError::NoTable)?;
        let nothing = EntryLoads::default();
        Ok(Some(Self {
            rebalancing: Rebalancing::new(policy, group.sockets(), Instant::now(), nothing),
            // Of a changed table only the buckets differ.
            steerer: Arc::new(group.steering().steerer()),
            counts: Vec::new(),
        }))
    }

    /// The meter of the next worker.
    pub(crate) fn meter(&mut self) -> Meter {
        let counts = Arc::new(Counts {
            entries: (0..self.steerer.table().size()).map(|_| Counter::new()).collect(),
            samples: Counter::new(),
        });
        self.counts.push(Arc::clone(&counts));
        let steerer = Arc::clone(&self.steerer);
        Meter { steerer, counts }
    }

    /// Moves entries if it is time to.
    pub(crate) fn look(&mut self, group: &mut SteeredGroup) {
        let measure = || {
            let mut loads = EntryLoads::default();
            for counts in &self.counts {
                loads.add(counts.entries.iter().map(Counter::get), counts.samples.get());
            }
            loads
        };
        self.rebalancing.look(Instant::now(), group, measure);
    }
}

/// Counts the loads of one worker.
pub(crate) struct Meter {
    steerer: Arc<Steerer>,
    counts: Arc<Counts>,
}

impl Meter {
    /// The entry of packets from `peer` to this server's address `own`.
    fn entry(&self, peer: SocketAddr, own: SocketAddr) -> Option<usize> {
        let hash = self.steerer.hash_of(&Tuple::new(peer, own).ok()?);
        Some(self.steerer.table().entry(hash))
    }

    /// Adds the load of one event to an entry.
    pub(crate) fn add(&self, entry: usize, load: u64) {
        self.counts.entries[entry].add(load);
        self.counts.samples.add(1);
    }
}

/// Samples datagrams: one in an interval that follows their rate, at random, so that flows in rotation count alike.
pub(crate) struct Sampler {
    meter: Meter,
    /// Average of datagrams per sample.
    interval: u32,
    /// Datagrams until the next sample.
    left: u32,
    /// Samples since the interval was adapted, and when that was.
    taken: u32,
    adapted: Time,
    random: fastrand::Rng,
}

impl Sampler {
    pub(crate) fn new(meter: Meter) -> Self {
        Self {
            meter,
            interval: 1,
            left: 1,
            taken: 0,
            adapted: Time::default(),
            random: fastrand::Rng::new(),
        }
    }

    /// Counts a datagram from `peer` to `own`, if its turn has come.
    #[inline]
    pub(crate) fn count(&mut self, now: Time, peer: SocketAddr, own: SocketAddr) {
        self.left -= 1;
        if self.left == 0 {
            self.take(now, peer, own);
        }
    }

    fn take(&mut self, now: Time, peer: SocketAddr, own: SocketAddr) {
        if let Some(entry) = self.meter.entry(peer, own) {
            self.meter.add(entry, u64::from(self.interval));
        }
        self.taken += 1;
        let passed = now.since(self.adapted);
        if passed > LONGEST {
            self.interval = (self.interval / 2).max(1);
        } else if self.taken >= SAMPLES && passed < SHORTEST {
            self.interval = (self.interval * 2).min(MOST_INTERVAL);
        }
        if passed > LONGEST || self.taken >= SAMPLES {
            (self.taken, self.adapted) = (0, now);
        }
        self.left = self.random.u32(1..2 * self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{HashFields, IndirectionTable, Key, Steering};

    fn meter() -> Meter {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 0,
        };
        Meter {
            steerer: Arc::new(steering.steerer()),
            counts: Arc::new(Counts {
                entries: (0..128).map(|_| Counter::new()).collect(),
                samples: Counter::new(),
            }),
        }
    }

    /// The first tuple of the verification suite: hash 0x51ccc178.
    const PEER: &str = "66.9.149.187:2794";
    const OWN: &str = "161.142.100.80:1766";

    #[test]
    fn a_mapped_address_has_the_entry_of_the_ipv4_hash() {
        let entry = |peer: &str, own: &str| meter().entry(peer.parse().unwrap(), own.parse().unwrap());
        assert_eq!(entry(PEER, OWN), Some(0x78));
        assert_eq!(
            entry("[::ffff:66.9.149.187]:2794", "[::ffff:161.142.100.80]:1766"),
            Some(0x78)
        );
        assert_eq!(entry("[::1]:1", OWN), None);
    }

    #[test]
    fn samples_are_at_most_ten_thousand_a_second_and_count_for_all_datagrams() {
        let (peer, own) = (PEER.parse().unwrap(), OWN.parse().unwrap());
        for rate in [1_000_u64, 100_000, 2_000_000] {
            let mut sampler = Sampler::new(meter());
            sampler.random = fastrand::Rng::with_seed(7);
            let counted = |sampler: &Sampler| {
                let counts = &sampler.meter.counts;
                [counts.entries[0x78].get(), counts.samples.get()]
            };
            let second = |sampler: &mut Sampler, second: u64| {
                let before = counted(sampler);
                for datagram in 0..rate {
                    let at = Duration::from_nanos(second * 1_000_000_000 + datagram * 1_000_000_000 / rate);
                    sampler.count(Time::default() + at, peer, own);
                }
                let after = counted(sampler);
                [after[0] - before[0], after[1] - before[1]]
            };
            second(&mut sampler, 1);
            let [load, samples] = second(&mut sampler, 2);
            let error = load.abs_diff(rate) as f64 / rate as f64;
            assert!(error < 0.05, "{rate}/s: {load} counted from {samples} samples");
            assert!(samples <= rate.min(11_000), "{rate}/s: {samples}");
            assert!(samples >= rate.min(2_500), "{rate}/s: {samples}");
        }
    }
}
