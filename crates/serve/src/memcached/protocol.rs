//! memcached as a protocol of the connection servers: state shared by workers, and counts per bucket.

use super::bucket::Bucket;
use super::counters::{Events, Handoffs, MemcachedCounters, named};
use super::datagrams::Datagrams;
use super::error::MemcachedError;
use super::exchange::Exchange;
use super::plan::{MemcachedPlan, UdpSteering};
use super::shared::{Listens, Shared};
use super::sockets::{Keyed, Sockets};
use crate::handshakes::HandshakeCounts;
use crate::server::ServeError;
use crate::shared::summed;
use crate::streams::{ConnectionCounts, Listening, Protocol, SocketGroup, StreamServer, StreamsServed};
use corelane_measure::counters::Counters;
use corelane_worker::CachePadded;
use corelane_worker::engine::{Chosen, EngineCounters, EngineSettings, choose_batching};
use corelane_worker::steered::SteeredGroup;
use corelane_worker::tls::ServerSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::vec;

/// A running memcached server. Dropping it stops it.
pub type MemcachedServer = StreamServer<Memcached>;

/// Results of a memcached server: the final document of `serve memcached`.
pub type MemcachedServed = StreamsServed<BucketMemcached, MemcachedOwn>;

/// Results specific to memcached servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemcachedOwn {
    /// Bytes of memory for items and their index.
    pub memory_bytes: u64,
    /// Seed of the hash of keys.
    pub seed: u64,
    /// Addresses of UDP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<SocketAddr>,
    /// What decides on the worker of a datagram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_steering: Option<UdpSteering>,
}

/// The counts of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketMemcached {
    /// Its connections.
    #[serde(flatten)]
    pub connections: ConnectionCounts,
    /// TLS handshakes, if there were any.
    #[serde(default, flatten, skip_serializing_if = "HandshakeCounts::is_empty")]
    pub handshakes: HandshakeCounts,
    /// Events of connections and requests.
    #[serde(flatten)]
    pub events: Events,
    /// What handing requests over costs.
    #[serde(flatten)]
    pub handoffs: Handoffs,
    /// How full a mailbox of requests to another worker was at most, in percent.
    pub handoff_queue_percent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Requests by command and outcome, by the names of memcached's statistics.
    pub commands: BTreeMap<String, u64>,
    /// Items stored now, and those whose memory is not reclaimed yet.
    pub items: u64,
    /// Bytes of these items, with what the cache keeps of each.
    pub item_bytes: u64,
    /// Items evicted, neither expired nor flushed.
    pub evicted: u64,
    /// Expired items that were reclaimed.
    pub expired: u64,
}

impl BucketMemcached {
    /// Requests that read or stored a value, or changed one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.commands
            .iter()
            .filter(|(name, _)| {
                matches!(
                    name.as_str(),
                    "cmd_get"
                        | "cmd_set"
                        | "cmd_touch"
                        | "delete_hits"
                        | "delete_misses"
                        | "incr_hits"
                        | "incr_misses"
                        | "decr_hits"
                        | "decr_misses"
                )
            })
            .map(|(_, count)| count)
            .sum()
    }
}

impl MemcachedServed {
    /// Connections of all buckets that could not be accepted or broke, or were closed for what their client sent or did not take, by
    /// cause.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut errors = summed(self.buckets.iter().flat_map(|bucket| bucket.connections.errors()));
        let events = Events::sum(self.buckets.iter().map(|bucket| bucket.events));
        let closed = events
            .closed_by_cause()
            .into_iter()
            .filter(|(_, count)| *count > 0);
        errors.extend(closed.map(|(cause, count)| (cause.to_owned(), count)));
        errors
    }
}

/// memcached, with the state shared by the workers of a server.
pub struct Memcached {
    shared: Arc<Shared>,
    udp: Vec<SocketAddr>,
    /// Kept for as long as the sockets: without it their programs lose those of datagrams without a key.
    keyed: Arc<Keyed>,
    /// For each worker that has no service yet.
    exchanges: iter::Enumerate<vec::IntoIter<Exchange>>,
}

impl Protocol for Memcached {
    const NAME: &'static str = "memcached";
    const SCHEMA: &'static str = "corelane/served-memcached/1";
    type Error = MemcachedError;
    type Plan = MemcachedPlan;
    type Counters = MemcachedCounters;
    type Bucket = Bucket;
    type BucketServed = BucketMemcached;
    type OwnServed = MemcachedOwn;

    #[inline(never)]
    fn start(plan: MemcachedPlan) -> Result<StreamServer<Self>, MemcachedError> {
        plan.check()?;
        StreamServer::of_plan(plan)
    }

    fn listening(plan: &MemcachedPlan) -> &Listening {
        &plan.listening
    }

    fn listens(plan: &MemcachedPlan) -> bool {
        plan.tcp
    }

    fn steers_datagrams(plan: &MemcachedPlan) -> bool {
        plan.udp_steering() == Some(UdpSteering::Table)
    }

    fn engine(plan: &MemcachedPlan) -> (Chosen, EngineSettings) {
        let settings = EngineSettings {
            gro: plan.merges(),
            coalesce: !plan.udp.is_empty(),
            destinations: plan.needs_destinations(),
            // Connections stop before they execute what they have no room to answer, and never lose an answer.
            stream_queue_bytes: usize::MAX,
            ..EngineSettings::default()
        };
        (choose_batching(plan.listening.engine), settings)
    }

    fn open(plan: &MemcachedPlan, address: SocketAddr) -> Result<Self, MemcachedError> {
        let write = plan.write_certificate.as_deref();
        let tls = plan.tls.as_ref();
        let tls = tls.map(|tls| ServerSettings::new(tls, address.ip(), write, &[]));
        let tls = tls.transpose().map_err(ServeError::from)?;
        let shared = Arc::new(Shared::new(plan));
        // As in memcached the certificate is read, and a Unix socket is plaintext.
        if let Some(tls) = tls.filter(|_| plan.unix.is_none()) {
            // It is called once.
            let _ = shared.tls.set(tls);
        }
        Ok(Self {
            udp: Vec::new(),
            keyed: Arc::default(),
            exchanges: Exchange::all(&shared).into_iter().enumerate(),
            shared,
        })
    }

    fn groups(
        &mut self,
        plan: &MemcachedPlan,
        address: SocketAddr,
    ) -> Result<Vec<SocketGroup>, MemcachedError> {
        let sockets = Sockets::open(plan, self.shared.seed)?;
        let udp = sockets.listens.iter().filter_map(|listens| match listens {
            Listens::Udp(address) => Some(*address),
            _ => None,
        });
        self.udp = udp.collect();
        self.keyed = Arc::new(sockets.keyed);
        let first = plan.tcp.then_some(Listens::Tcp(address));
        let all = first.into_iter().chain(sockets.listens).collect();
        // It is called once.
        let _ = self.shared.listens.set(all);
        Ok(sockets.groups)
    }

    fn steered(&self, group: &mut SteeredGroup) {
        let shared = Arc::clone(&self.shared);
        let keyed = Arc::clone(&self.keyed);
        group.on_move(move |moved| {
            keyed.follow(moved.steering);
            shared.steering.store(Arc::new(moved.steering.clone()));
        });
    }

    fn bucket(&mut self, _: &Arc<MemcachedPlan>, counters: Arc<CachePadded<MemcachedCounters>>) -> Bucket {
        let (index, exchange) = self.exchanges.next().expect("a worker per bucket of the plan");
        Bucket::new(
            index,
            Arc::clone(&self.shared),
            (Datagrams::new(&self.shared.plan, &self.udp), exchange),
            self.shared.tls.get().cloned(),
            counters,
        )
    }

    fn bucket_served(
        counters: &MemcachedCounters,
        connections: ConnectionCounts,
        engine: &EngineCounters,
    ) -> BucketMemcached {
        let snapshot = counters.snapshot();
        let commands = named(&snapshot.commands);
        BucketMemcached {
            connections,
            handshakes: counters.handshakes.counts(),
            events: snapshot.events,
            handoffs: snapshot.handoffs,
            handoff_queue_percent: snapshot.handoff_queue_percent,
            datagrams_received: engine.received,
            datagrams_sent: engine.sent,
            commands: commands.map(|(name, count)| (name.to_owned(), count)).into(),
            items: snapshot.store.items,
            item_bytes: snapshot.store.item_bytes,
            evicted: snapshot.store.evicted,
            expired: snapshot.store.expired,
        }
    }

    fn own_served(&self, plan: &MemcachedPlan) -> MemcachedOwn {
        MemcachedOwn {
            memory_bytes: plan.memory_bytes,
            seed: self.shared.seed,
            udp: self.udp.clone(),
            udp_steering: plan.udp_steering(),
        }
    }

    fn stop(&mut self) -> Result<(), MemcachedError> {
        if let Some(unix) = &self.shared.plan.unix {
            // It may have been removed by hand.
            let _ = fs::remove_file(&unix.path);
        }
        Ok(())
    }
}
