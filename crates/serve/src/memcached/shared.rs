//! What all workers of a server share.

use super::counters::{MemcachedCounters, Snapshot};
use super::plan::MemcachedPlan;
use super::prefixes::Prefixes;
use super::watchers::Watchers;
use crate::shared::lock;
use arc_swap::ArcSwap;
use corelane_proto::memcached::control::Allowed;
use corelane_rss::Steering;
use corelane_store::Reader;
use corelane_worker::engine::{Id, Waker};
use corelane_worker::tls::{Certificate, ServerSettings};
use corelane_worker::{CachePadded, Time};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The version that clients see. They compare its numbers with those of memcached; its end says what this is.
pub(super) const VERSION: &str = concat!("1.6.45-corelane-", env!("CARGO_PKG_VERSION"));

/// Seconds of the clock when the server starts. 0 means "never" and 1 "in the past", and clients that compare times with
/// those of memcached, which starts at the same number, find them alike.
pub(super) const START: u32 = 62;

/// An address that clients connect to.
pub(super) enum Listens {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Listens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "tcp {address}"),
            Self::Udp(address) => write!(formatter, "udp {address}"),
            Self::Unix(path) => write!(formatter, "unix {}", path.display()),
        }
    }
}

/// The state of a server that all of its workers read.
pub(super) struct Shared {
    pub(super) plan: MemcachedPlan,
    /// Seed of the hash of keys.
    pub(super) seed: u64,
    /// How arrivals are steered now.
    pub(super) steering: ArcSwap<Steering>,
    /// The settings of its TLS, once they are read.
    pub(super) tls: OnceLock<ServerSettings>,
    /// Where it listens, once the sockets are open.
    pub(super) listens: OnceLock<Vec<Listens>>,
    /// Unix time at second 0 of the clock.
    pub(super) epoch: u32,
    /// When the clock was at [`START`].
    pub(super) started: Time,
    /// Whether lists of keys are allowed (`lru_crawler enable`).
    pub(super) crawler: AtomicBool,
    /// Bytes of memory for items and their index (`cache_memlimit`).
    pub(super) memory_limit: AtomicU64,
    pub(super) watchers: Watchers<Id>,
    /// Counts by prefix of key, and what ends a prefix.
    pub(super) prefixes: Prefixes,
    pub(super) delimiter: u8,
    /// Verbosity, which has no effect (`verbosity`).
    pub(super) verbosity: AtomicU8,
    /// Connections open now, over all workers.
    pub(super) open: AtomicUsize,
    /// The handle that wakes each worker, once it runs.
    pub(super) wakers: Vec<OnceLock<Waker>>,
    /// What reads the items of each worker, once it runs.
    pub(super) readers: Vec<OnceLock<Reader>>,
    /// The counters of each worker, once it is made.
    pub(super) counters: Vec<OnceLock<Arc<CachePadded<MemcachedCounters>>>>,
}

impl Shared {
    pub(super) fn new(plan: &MemcachedPlan) -> Self {
        let unix = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |time| time.as_secs() as u32);
        let watchers = Watchers::default();
        watchers.set_detail(plan.behaviour.prefix_delimiter.is_some());
        Self {
            plan: plan.clone(),
            seed: plan.seed.unwrap_or_else(|| fastrand::u64(..)),
            steering: ArcSwap::from_pointee(plan.listening.steered.steering.clone()),
            tls: OnceLock::new(),
            listens: OnceLock::new(),
            epoch: unix.saturating_sub(START),
            started: Time::now(),
            crawler: AtomicBool::new(plan.behaviour.allowed().crawler),
            memory_limit: AtomicU64::new(plan.memory_bytes),
            watchers,
            prefixes: Prefixes::default(),
            delimiter: plan
                .behaviour
                .prefix_delimiter
                .map_or(b':', |delimiter| delimiter as u8),
            verbosity: AtomicU8::new(plan.verbosity),
            open: AtomicUsize::new(0),
            readers: (0..plan.workers()).map(|_| OnceLock::new()).collect(),
            wakers: (0..plan.workers()).map(|_| OnceLock::new()).collect(),
            counters: (0..plan.workers()).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Counts a connection as open, if there may be one more.
    pub(super) fn admit(&self) -> bool {
        let most = self.plan.connections as usize;
        let one_more = |open| (open < most).then_some(open + 1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.open.fetch_update(set, fetch, one_more).is_ok()
    }

    /// Reads the files of the certificate and its key again (`refresh_certs`).
    ///
    /// # Errors
    /// The line that says why not.
    pub(super) fn refresh_certificates(&self) -> Result<(), String> {
        let refreshed = match (self.tls.get(), &self.plan.tls) {
            (Some(tls), Some(Certificate::Files(files))) => tls.reload(files),
            (Some(_), _) => Ok(()),
            (None, _) => return Err("Error TLS not enabled\r\n".into()),
        };
        refreshed.map_err(|error| format!("Error {error}\r\n"))
    }

    /// The requests about the whole server that are executed.
    pub(super) fn allowed(&self) -> Allowed {
        Allowed {
            crawler: self.crawler.load(Ordering::Relaxed),
            ..self.plan.behaviour.allowed()
        }
    }

    /// What each worker has published, counted since the statistics were reset.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        let counters = self.counters.iter().filter_map(OnceLock::get);
        counters.map(|counters| counters.since_reset())
    }

    /// Items by size over all workers, as they have published them.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sum = Vec::new();
        for counters in self.counters.iter().filter_map(OnceLock::get) {
            let sizes = lock(&counters.sizes);
            sum.resize(sizes.len().max(sum.len()), 0);
            let both = sum.iter_mut().zip(&*sizes);
            both.for_each(|(sum, size)| *sum += u64::from(*size));
        }
        sum
    }

    /// Resets the statistics, at what each worker has published.
    pub(super) fn reset(&self) {
        let counters = self.counters.iter().filter_map(OnceLock::get);
        counters.for_each(|counters| counters.reset());
        self.prefixes.clear();
    }

    /// The second of a moment.
    pub(super) fn second(&self, now: Time) -> u32 {
        START.saturating_add(now.since(self.started).as_secs() as u32)
    }
}
