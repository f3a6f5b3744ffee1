//! The workers of a generator: their CPUs, and the buckets of the target that each serves.

use super::request::{Align, AlignBy, FlowDirection, SourceError};
use corelane_rss::{HashFields, Steering};
use corelane_worker::outgoing::Lease;
use serde::{Deserialize, Serialize};

/// Descriptors that a worker requires besides its sockets: engine, waker, standard streams, and a margin.
pub(crate) const OTHER_DESCRIPTORS: usize = 64;

/// Requirements on the workers of a generator.
#[derive(Debug, Clone)]
pub struct WorkerRequest {
    /// The steering documents.
    pub steering: Steerings,
    /// The target buckets; `None` for all. Requires aligned sources.
    pub buckets: Option<Vec<u16>>,
    /// One worker per CPU of this list, or, with one worker per bucket, bucket *i* on the *i*-th CPU. If descriptors
    /// run short, more workers share the CPUs.
    pub cpus: Vec<u32>,
    /// Maximum number of descriptors per table.
    pub descriptor_limit: usize,
}

/// The steering of replies on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplySteering {
    /// The device that receives them.
    pub device: String,
    /// Its key and table; the buckets are its queues.
    pub steering: Steering,
}

/// The steerings of both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steerings {
    /// That of the target, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Steering>,
    /// That of a device of this machine, which receives the replies, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<ReplySteering>,
}

impl Steerings {
    /// The steering of packets to the target, and of replies.
    pub(crate) fn of(&self, direction: FlowDirection) -> Option<&Steering> {
        let reply = self.reply.as_ref().map(|reply| &reply.steering);
        match direction {
            FlowDirection::Forward => self.forward.as_ref(),
            FlowDirection::Reply => reply.or(self.forward.as_ref()),
        }
    }

    /// Whether replies are steered by a document of their own.
    fn has_own(&self, direction: FlowDirection) -> bool {
        direction == FlowDirection::Reply && self.reply.is_some()
    }

    /// The number of buckets of the direction that decides which workers there are, if known.
    #[must_use]
    pub fn buckets(&self, by: AlignBy) -> Option<usize> {
        let steering = self.of(by.directions()[0])?;
        Some(steering.table.buckets())
    }

    /// The same for sources that are aligned, none for others.
    #[must_use]
    pub fn of_plan(&self, align: Align) -> Self {
        match align {
            Align::Kernel => Self::default(),
            Align::Even | Align::Bucket | Align::Owner => self.clone(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forward.is_none() && self.reply.is_none()
    }
}

impl From<Option<Steering>> for Steerings {
    /// The target's steering; replies are steered alike.
    fn from(forward: Option<Steering>) -> Self {
        let reply = None;
        Self { forward, reply }
    }
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
    /// Its sources of connections to further addresses of the server, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Vec<Lease>>,
    /// Under skew, each socket's share of the total traffic, in the order of the leases and their ports. Empty if all
    /// shares are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
}

impl PlannedWorker {
    /// Sockets of this worker.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.by_target().flatten().map(|lease| lease.connections).sum()
    }

    /// Its sources by address of the server.
    pub(crate) fn by_target(&self) -> impl Iterator<Item = &Vec<Lease>> {
        std::iter::once(&self.leases).chain(&self.others)
    }
}

impl WorkerRequest {
    /// The places of the workers for this many sockets: as many as requested, or as many as there must be descriptor
    /// tables, in which case each worker has its own.
    pub(crate) fn place(
        &self,
        sockets: usize,
        per_bucket: bool,
        by: AlignBy,
    ) -> Result<Workers<'_>, SourceError> {
        let places: Vec<(u32, Option<u16>)> = if per_bucket {
            let buckets = self.wanted(by.directions()[0])?;
            buckets
                .into_iter()
                .map(|bucket| (self.cpu(bucket, by), Some(bucket)))
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

    /// The CPU of the one worker of a bucket. Replies are received on the CPU of their bucket, so if they are aligned
    /// their worker runs there.
    fn cpu(&self, bucket: u16, by: AlignBy) -> u32 {
        let bucket = usize::from(bucket);
        let replies = self
            .steering
            .of(FlowDirection::Reply)
            .filter(|_| by != AlignBy::Forward);
        let of_replies = replies.and_then(|steering| steering.cpus.get(bucket));
        let of_replies = of_replies.filter(|cpu| self.cpus.contains(cpu));
        of_replies.copied().unwrap_or(self.cpus[bucket % self.cpus.len()])
    }

    fn steering(&self, direction: FlowDirection) -> Result<&Steering, SourceError> {
        self.steering.of(direction).ok_or(SourceError::NoSteering)
    }

    /// The buckets to which packets of a direction are to be steered.
    fn wanted(&self, direction: FlowDirection) -> Result<Vec<u16>, SourceError> {
        let all = self.steering(direction)?.table.buckets() as u16;
        let named = self.buckets.clone().filter(|_| !self.steering.has_own(direction));
        Ok(named.unwrap_or_else(|| (0..all).collect()))
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

    pub(super) fn steering(&self, direction: FlowDirection) -> Result<&Steering, SourceError> {
        self.request.steering(direction)
    }

    /// Whether only addresses are hashed, in every aligned direction.
    pub(super) fn hash_addresses_alone(&self, by: AlignBy) -> Result<bool, SourceError> {
        let mut alone = by.directions().iter().map(|direction| {
            let steering = self.request.steering.of(*direction);
            steering.is_some_and(|steering| steering.hash_fields == HashFields::TwoTuple)
        });
        let first = alone.next().unwrap_or(false);
        match alone.all(|other| other == first) {
            true => Ok(first),
            false => Err(SourceError::Fields),
        }
    }

    /// The buckets of each worker in a direction.
    pub(super) fn aims(
        &self,
        align: Align,
        by: AlignBy,
        direction: FlowDirection,
    ) -> Result<Vec<Vec<u16>>, SourceError> {
        let (steering, wanted) = (self.steering(direction)?, self.request.wanted(direction)?);
        // A worker's own bucket is one of the direction that decides which workers there are.
        let is_own = by.directions()[0] == direction || !self.request.steering.has_own(direction);
        let aims = |(cpu, own): &(u32, Option<u16>)| {
            let on_cpu = |bucket: &u16| steering.cpus.get(usize::from(*bucket)) == Some(cpu);
            let aims: Vec<u16> = match (align, own) {
                (Align::Bucket | Align::Owner, Some(own)) if is_own => vec![*own],
                (Align::Bucket | Align::Owner, _) => wanted.iter().copied().filter(on_cpu).collect(),
                (Align::Even | Align::Kernel, _) => wanted.clone(),
            };
            let steered_by = match direction {
                FlowDirection::Forward => "the server's steering document",
                FlowDirection::Reply => "what steers replies here (--dev, or the document of --steering)",
            };
            match aims.is_empty() {
                true => Err(SourceError::NoBucketOnCpu {
                    steered_by,
                    cpu: *cpu,
                }),
                false => Ok(aims),
            }
        };
        self.places.iter().map(aims).collect()
    }

    /// The workers, without sources. A worker with exactly one bucket is assigned to it.
    pub(crate) fn planned(&self, align: Align, by: AlignBy) -> Result<Vec<PlannedWorker>, SourceError> {
        let aims = match align {
            Align::Bucket | Align::Owner => self.aims(align, by, by.directions()[0])?,
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
