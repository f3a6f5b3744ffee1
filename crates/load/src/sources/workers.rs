//! The workers of a generator: their CPUs, and the buckets of the target that each serves.

use super::{Align, Lease, SourceError};
use corelane_rss::{HashFields, Steering};
use serde::{Deserialize, Serialize};

/// Descriptors that a worker requires besides its sockets: engine, waker, standard streams, and a margin.
pub(crate) const OTHER_DESCRIPTORS: usize = 64;

/// Requirements on the workers of a generator.
#[derive(Debug, Clone)]
pub struct WorkerRequest {
    /// The target's steering document.
    pub steering: Option<Steering>,
    /// The target buckets; `None` for all. Requires aligned sources.
    pub buckets: Option<Vec<u16>>,
    /// One worker per CPU of this list, or, with one worker per bucket, bucket *i* on the *i*-th CPU. If descriptors
    /// run short, more workers share the CPUs.
    pub cpus: Vec<u32>,
    /// Maximum number of descriptors per table.
    pub descriptor_limit: usize,
}

/// One worker and the sources leased to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// The CPU it is pinned to.
    pub cpu: u32,
    /// The bucket that all of its sources land on, if so planned.
    pub bucket: Option<u16>,
    /// Whether it has its own descriptor table, because one table cannot hold all sockets.
    pub own_descriptors: bool,
    /// Its sources.
    pub leases: Vec<Lease>,
    /// Under skew, each socket's share of the total traffic, in the order of the leases and their ports. Empty if all
    /// shares are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
}

impl PlannedWorker {
    /// Sockets of this worker.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.leases.iter().map(|lease| lease.connections).sum()
    }
}

impl WorkerRequest {
    /// The places of the workers for this many sockets: as many as requested, or as many as there must be descriptor
    /// tables, in which case each worker has its own.
    pub(crate) fn place(&self, sockets: usize, per_bucket: bool) -> Result<Workers<'_>, SourceError> {
        let places: Vec<(u32, Option<u16>)> = if per_bucket {
            let cpu = |bucket: u16| self.cpus[usize::from(bucket) % self.cpus.len()];
            let buckets = self.wanted()?;
            buckets
                .into_iter()
                .map(|bucket| (cpu(bucket), Some(bucket)))
                .collect()
        } else {
            self.cpus.iter().map(|cpu| (*cpu, None)).collect()
        };
        let room = self.descriptor_limit.saturating_sub(OTHER_DESCRIPTORS).max(1);
        // Each place has the same number of workers.
        let tables = sockets.div_ceil(room).div_ceil(places.len().max(1)).max(1);
        let all = places.len() * tables;
        Ok(Workers {
            request: self,
            places: places.into_iter().cycle().take(all).collect(),
            own_descriptors: sockets > room,
        })
    }

    fn steering(&self) -> Result<&Steering, SourceError> {
        self.steering.as_ref().ok_or(SourceError::NoSteering)
    }

    fn wanted(&self) -> Result<Vec<u16>, SourceError> {
        let all = self.steering()?.table.buckets() as u16;
        Ok(self.buckets.clone().unwrap_or_else(|| (0..all).collect()))
    }
}

/// Workers in their places, without sources.
pub(crate) struct Workers<'a> {
    request: &'a WorkerRequest,
    /// The CPU of each, and its bucket where each has one.
    places: Vec<(u32, Option<u16>)>,
    own_descriptors: bool,
}

impl Workers<'_> {
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    pub(super) fn steering(&self) -> Result<&Steering, SourceError> {
        self.request.steering()
    }

    pub(super) fn hash_addresses_alone(&self) -> bool {
        let steering = self.request.steering.as_ref();
        steering.is_some_and(|steering| steering.hash_fields == HashFields::TwoTuple)
    }

    /// The target buckets of each worker.
    pub(super) fn aims(&self, align: Align) -> Result<Vec<Vec<u16>>, SourceError> {
        let (steering, wanted) = (self.steering()?, self.request.wanted()?);
        let aims = |(cpu, own): &(u32, Option<u16>)| {
            let on_cpu = |bucket: &u16| steering.cpus.get(usize::from(*bucket)) == Some(cpu);
            let aims: Vec<u16> = match (align, own) {
                (Align::Bucket, Some(own)) => vec![*own],
                (Align::Bucket, None) => wanted.iter().copied().filter(on_cpu).collect(),
                (Align::Even | Align::Kernel, _) => wanted.clone(),
            };
            if aims.is_empty() {
                return Err(SourceError::NoBucketOnCpu { cpu: *cpu });
            }
            Ok(aims)
        };
        self.places.iter().map(aims).collect()
    }

    /// The workers, without sources. A worker with exactly one target bucket is assigned to it.
    pub(crate) fn planned(&self, align: Align) -> Result<Vec<PlannedWorker>, SourceError> {
        let aims = match align {
            Align::Bucket => self.aims(align)?,
            Align::Even | Align::Kernel => vec![Vec::new(); self.count()],
        };
        let planned = self
            .places
            .iter()
            .zip(aims)
            .map(|((cpu, _), aims)| PlannedWorker {
                cpu: *cpu,
                bucket: (aims.len() == 1).then(|| aims[0]),
                own_descriptors: self.own_descriptors,
                ..PlannedWorker::default()
            });
        Ok(planned.collect())
    }
}
