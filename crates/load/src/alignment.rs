//! Compares where sockets were planned to land with where they do.
//!
//! In: the planned landing of each socket, its addresses and where it received, as the kernel reports them. Out: counts by
//! bucket. What the target receives is not visible here: its bucket is that of the oracle, for the addresses that the
//! socket really has; the target's own report has the observation. The same holds for replies, except where the plan names
//! the device that receives them: then the queue is observed, by its NAPI instance, or by the CPU of its interrupt.

use crate::report::share;
use crate::sources::{FlowDirection, Steerings};
use corelane_host::inventory::{Inventory, inventory};
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::metric::Show;
use corelane_report::table::{Cell, Rows, Table};
use corelane_rss::plan::{Landing, Landings};
use corelane_rss::{Bucket, Tuple};
use corelane_worker::engine::{Id, LastReceived, Ops};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;

counters! {
    /// Sockets or connections by the bucket where they were planned to land, and where they were observed.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct AlignmentCounts {
        /// What the target receives, by its bucket.
        pub forward: BucketAlignment,
        /// What the target sends, by the bucket of this machine.
        pub reply: BucketAlignment,
        /// Sockets that received their last packet on the CPU of their worker.
        pub received_on_own_cpu: u64,
        /// Sockets that received it on another CPU.
        pub received_on_other_cpu: u64,
    }
}

counters! {
    /// One direction. Lists are by bucket; all are empty if the direction was not aligned.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct BucketAlignment {
        /// Sockets planned for each bucket.
        pub planned: Vec<u64>,
        /// Sockets observed on each bucket.
        pub observed: Vec<u64>,
        /// Sockets observed where they were planned.
        #[serde(rename = "right")]
        pub matching: u64,
        /// Sockets whose bucket is the queue that received, as observed; that of others is computed from their addresses.
        #[serde(rename = "by_queue")]
        pub observed_by_queue: u64,
        /// Sockets that could not be observed.
        #[serde(rename = "unknown")]
        pub unobserved: u64,
    }
}

impl BucketAlignment {
    fn count(&mut self, planned: Option<Bucket>, observed: Option<Bucket>) {
        let Some(planned) = planned else { return };
        let count = |counts: &mut Vec<u64>, bucket: Bucket| {
            counts.resize(counts.len().max(bucket.index() + 1), 0);
            counts[bucket.index()] += 1;
        };
        count(&mut self.planned, planned);
        match observed {
            Some(observed) => count(&mut self.observed, observed),
            None => self.unobserved += 1,
        }
        self.matching += u64::from(observed == Some(planned));
    }

    fn sockets(&self) -> u64 {
        Counters::sum(&self.planned)
    }

    fn note(&self, what: &str) -> Option<String> {
        let (sockets, matching) = (self.sockets(), self.matching);
        let how = match self.observed_by_queue {
            0 => "computed from the addresses of each socket".to_owned(),
            queues => format!("{queues} by the queue that received"),
        };
        let unobserved = match self.unobserved {
            0 => String::new(),
            unobserved => format!(", {unobserved} not observed"),
        };
        (sockets > 0)
            .then(|| format!("{what}: {matching} of {sockets} on the planned bucket ({how}{unobserved})"))
    }
}

impl AlignmentCounts {
    /// Whether nothing was aligned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forward.planned.is_empty() && self.reply.planned.is_empty()
    }

    /// The share of sockets observed where they were planned, in the worse direction.
    pub(crate) fn share(&self) -> Option<f64> {
        let shares = [&self.forward, &self.reply].map(|of| share(of.matching, of.sockets()));
        shares.into_iter().flatten().reduce(f64::min)
    }

    /// Lines of a report.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let own = self.received_on_own_cpu;
        let all = own.plus(&self.received_on_other_cpu);
        let replies = !self.reply.planned.is_empty() && all > 0;
        let cpu = replies.then(|| format!("replies received on the worker's own CPU: {own} of {all}"));
        let [forward, reply] = [self.forward.note("to the server"), self.reply.note("replies")];
        forward.into_iter().chain(reply).chain(cpu)
    }

    /// Planned and observed sockets by bucket, of the aligned directions.
    pub(crate) fn table(&self) -> Table {
        let columns = [
            ("planned", &self.forward.planned),
            ("observed", &self.forward.observed),
            ("replies planned", &self.reply.planned),
            ("replies observed", &self.reply.observed),
        ];
        let most = columns.iter().map(|(_, counts)| counts.len()).max();
        let buckets: Vec<usize> = (0..most.unwrap_or(0)).collect();
        let rows = Rows::of(&buckets).left("bucket", usize::to_string);
        let table = columns.into_iter().fold(rows, |rows, (header, counts)| {
            rows.right(header, |bucket| match counts.is_empty() {
                true => Cell::number(None, Show::Count),
                false => Cell::count(counts.get(*bucket).copied().unwrap_or(0)),
            })
        });
        table.table()
    }
}

/// Observes where the sockets of a run land.
#[derive(Debug)]
pub(crate) struct Observer {
    landings: Landings,
    queues: Option<Queues>,
}

/// The receive queues of a device.
#[derive(Debug, Default)]
struct Queues {
    by_napi: HashMap<u32, Bucket>,
    /// CPUs that the interrupts of exactly one queue reach.
    by_cpu: HashMap<u32, Bucket>,
}

impl Observer {
    /// The observer of a plan; `None` if its sources were not aligned.
    pub(crate) fn of(steering: &Steerings) -> Option<Self> {
        let landings = Landings::new(
            steering.of(FlowDirection::Forward),
            steering.of(FlowDirection::Reply),
        );
        let queues = steering.reply.as_ref();
        let queues = queues.map(|reply| Queues::of(&inventory(), &reply.device));
        (!steering.is_empty()).then_some(Self { landings, queues })
    }

    /// Counts an open socket of the worker on `cpu`, connected to `target`.
    pub(crate) fn count(
        &self,
        counts: &mut AlignmentCounts,
        planned: Landing,
        (ops, id): (&Ops, Id),
        (cpu, target): (u32, SocketAddr),
    ) {
        if planned.is_any() {
            return;
        }
        let tuple = ops.local_address(id).and_then(|own| Tuple::new(own, target).ok());
        let mut observed = tuple.map_or_else(Landing::default, |tuple| self.landings.of(&tuple));
        if planned.reply.is_some() {
            let last = ops.last_received(id);
            if let Some(queues) = &self.queues {
                observed.reply = queues.of_packet(last);
                counts.reply.observed_by_queue += u64::from(observed.reply.is_some());
            }
            counts.received_on_own_cpu += u64::from(last.cpu == Some(cpu));
            counts.received_on_other_cpu += u64::from(last.cpu.is_some_and(|other| other != cpu));
        }
        counts.forward.count(planned.forward, observed.forward);
        counts.reply.count(planned.reply, observed.reply);
    }
}

impl Queues {
    fn of(inventory: &Inventory, device: &str) -> Self {
        let queues = inventory.device(device).map(|device| &device.receive_queues[..]);
        let (mut by_napi, mut by_cpu) = (HashMap::new(), HashMap::<u32, Vec<Bucket>>::new());
        for queue in queues.unwrap_or_default() {
            let bucket = Bucket::new(queue.queue as u16);
            by_napi.extend(queue.napi.value.map(|napi| (napi, bucket)));
            for cpu in queue.cpus.value.iter().flatten() {
                by_cpu.entry(*cpu).or_default().push(bucket);
            }
        }
        let single = |(cpu, buckets): (u32, Vec<Bucket>)| match buckets[..] {
            [bucket] => Some((cpu, bucket)),
            _ => None,
        };
        Self {
            by_napi,
            by_cpu: by_cpu.into_iter().filter_map(single).collect(),
        }
    }

    fn of_packet(&self, last: LastReceived) -> Option<Bucket> {
        let by_napi = last.napi.and_then(|napi| self.by_napi.get(&napi));
        by_napi.or_else(|| self.by_cpu.get(&last.cpu?)).copied()
    }
}
