//! Results of a bridge: the final document of `corelane bridge`.

use super::counts::{LinkCounts, WorkerCounts};
use super::plan::{BridgePlan, TablePlan};
use crate::shared::lock;
use corelane_link::{Injected, Tally};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::{Histogram, Summary};
use corelane_report::table::{Rows, Table};
use corelane_rss::Bucket;
use corelane_stage::counts::Class;
use corelane_stage::dispatch::{DispatchPlan, Method, Policy, Protocol, Row, Workstreams};
use corelane_stage::{OnMatch, RuleCounts, Sides, WayCounts};
use corelane_worker::{CachePadded, Counter};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The counters of a bridge. Every received frame either passed or was dropped for a named reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "corelane/bridge/1")]
pub struct Bridged {
    /// Seconds since the start.
    pub duration_s: f64,
    /// Number of workers.
    pub workers: usize,
    /// Frames received on all links.
    pub received: u64,
    /// Frames that passed to the other links.
    pub passed: u64,
    /// Frames dropped, by reason: `table`, `otherwise` (no table decided), `not_ip` (including malformed ones), with buckets
    /// `queue_full`, and `queue_no_memory` (its limit permitted them).
    pub dropped: BTreeMap<String, u64>,
    /// Frames without an IP header.
    pub not_ip: u64,
    /// Frames with a truncated or inconsistent IP header.
    pub malformed: u64,
    /// Frames that stages made others of.
    #[serde(default)]
    pub used: u64,
    /// Frames that stages made.
    #[serde(default)]
    pub made: u64,
    /// Frames that stages hold now, as fragments that wait for others.
    #[serde(default)]
    pub held: u64,
    /// How long each frame may have waited in its batch, with `coalesce`: from the receive call to the end of the stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_wait: Option<Summary>,
    /// The counts of each stage that runs, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, BTreeMap<String, u64>>,
    /// Those counts that are quantities of now.
    #[serde(skip)]
    pub levels: BTreeSet<(&'static str, &'static str)>,
    /// What was dispatched to buckets, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatched>,
    /// Links, in order.
    pub links: Vec<LinkBridged>,
    /// Tables, in order.
    pub tables: Vec<TableBridged>,
    /// Number of times another plan was taken while it ran.
    #[serde(default)]
    pub plans_taken: u64,
    /// Number of times another plan was refused, and the one before kept.
    #[serde(default)]
    pub plans_refused: u64,
    /// Why a plan was last refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_plan_refusal: Option<String>,
}

/// What was dispatched to buckets: the three tables of FreeBSD's `netstat -Q`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dispatched {
    /// CPUs of the workers; worker `w` has the buckets whose number modulo the workers is `w`.
    pub cpus: Vec<u32>,
    /// Frames that wait for one bucket and protocol at most.
    pub queue_limit: u32,
    /// The method of protocols that have none of their own.
    pub method: Method,
    /// By protocol.
    pub protocols: Vec<ProtocolDispatched>,
    /// By bucket and protocol.
    pub workstreams: Vec<WorkstreamDispatched>,
}

/// How frames of one protocol are dispatched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtocolDispatched {
    /// Its name.
    pub protocol: Protocol,
    /// How the bucket is chosen.
    pub policy: Policy,
    /// Where a frame is handled; null: by the method of the dispatch.
    pub method: Option<Method>,
}

/// The counters of one bucket and protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkstreamDispatched {
    /// The bucket.
    pub bucket: u16,
    /// The CPU of its worker.
    pub cpu: u32,
    /// The protocol.
    pub protocol: Protocol,
    /// Its counters.
    #[serde(flatten)]
    pub row: Row,
}

/// The counters of one link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkBridged {
    /// Its specification.
    pub link: String,
    /// Number of its queues.
    pub queues: usize,
    /// Whether it is up now.
    pub up: bool,
    /// Number of times it was lost.
    pub lost: u64,
    /// Number of times it was restored.
    pub returned: u64,
    /// Why it was last lost, or could not be restored.
    pub last_loss: Option<String>,
    /// Its own counters.
    #[serde(flatten)]
    pub tally: Tally,
    /// Frames affected by its faults, by fault: `dropped`, `truncated`, `corrupted`, `duplicated`, `reordered`,
    /// `delayed`, and `held` (still held back); `None` without faults. Received frames are counted after the faults are
    /// applied, and so are sent ones.
    #[serde(default)]
    pub faults: Option<BTreeMap<String, u64>>,
    /// Frames that passed but were not sent to it, by reason: `full`, `oversized`, `link_lost`, `refused` (by the
    /// device).
    pub not_sent: BTreeMap<String, u64>,
}

/// The counters of one table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableBridged {
    /// Its file.
    pub file: PathBuf,
    /// The addresses looked up.
    #[serde(rename = "match")]
    pub sides: Sides,
    /// The verdict for matching frames.
    pub on_match: OnMatch,
    /// Entries in use: addresses and prefixes.
    pub entries: u64,
    /// Their memory in bytes.
    pub memory_bytes: u64,
    /// Number of times the file was loaded.
    pub loads: u64,
    /// Seconds taken to load the current file.
    pub load_s: f64,
    /// Number of times the file was rejected, and the previous table kept.
    pub refused: u64,
    /// Why it was last rejected.
    pub last_refusal: Option<String>,
    /// Invalid lines skipped in the current file.
    pub skipped_lines: u64,
    /// Frames that were looked up.
    pub asked: u64,
    /// Frames that matched.
    pub matched: u64,
    /// Frames that matched, by value of the entry; zero counts are omitted.
    pub rules: BTreeMap<u16, u64>,
}

/// State of links and tables while the bridge runs: the document without the workers' counters.
pub(super) type Known = Arc<Mutex<Bridged>>;

impl Bridged {
    /// The document of a bridge with this plan, before it starts.
    pub(super) fn planned(plan: &BridgePlan) -> Self {
        let link = |link: &String| LinkBridged {
            link: link.clone(),
            up: true,
            ..LinkBridged::default()
        };
        Bridged {
            dispatch: Dispatched::planned(plan),
            links: plan.links.iter().map(link).collect(),
            ..Bridged::default()
        }
    }

    /// Adds the workers' counters so far.
    pub(super) fn with(
        mut self,
        counts: &[Arc<CachePadded<WorkerCounts>>],
        injected: impl Iterator<Item = Option<Injected>>,
        streams: Option<&Workstreams>,
    ) -> Self {
        let bridged = &mut self;
        bridged.workers = counts.len();
        for ((number, link), injected) in bridged.links.iter_mut().enumerate().zip(injected) {
            link.faults = injected.map(|injected| injected.by_name());
            link.add(counts.iter().map(|worker| &worker.links[number]));
        }
        for (number, table) in bridged.tables.iter_mut().enumerate() {
            for worker in counts {
                table.add(&lock(&worker.rules)[number]);
            }
        }
        let sum =
            |of: fn(&WorkerCounts) -> &Counter| -> u64 { counts.iter().map(|worker| of(worker).get()).sum() };
        bridged.dropped = by_name([
            ("table", sum(|worker| &worker.tables.dropped_table)),
            ("otherwise", sum(|worker| &worker.tables.dropped_otherwise)),
            ("not_ip", sum(|worker| &worker.tables.dropped_not_ip)),
        ]);
        bridged.not_ip = sum(|worker| &worker.tables.not_ip);
        bridged.malformed = sum(|worker| &worker.tables.malformed);
        if let Some((dispatch, streams)) = bridged.dispatch.as_mut().zip(streams) {
            dispatch.add(streams, counts.len());
            let rows = || dispatch.workstreams.iter().map(|stream| &stream.row);
            let no_memory: u64 = rows().map(|row| row.no_memory).sum();
            let refused = rows()
                .map(|row| row.dropped)
                .sum::<u64>()
                .saturating_sub(no_memory);
            bridged
                .dropped
                .extend(by_name([("queue_full", refused), ("queue_no_memory", no_memory)]));
        }
        let waits = counts.iter().filter_map(|worker| worker.batch_wait.as_ref());
        bridged.batch_wait = Histogram::sum(waits.map(|waits| lock(waits).clone())).summary();
        bridged.received = sum(|worker| &worker.received);
        bridged.passed = sum(|worker| &worker.passed);
        self
    }
}

impl Bridged {
    /// Adds the counters of the stages of each bucket.
    pub(super) fn with_stages(mut self, ways: &[Arc<WayCounts>]) -> Self {
        for way in ways {
            way.each(&mut |stage, count| {
                let counts = self.stages.entry(stage.to_owned()).or_default();
                *counts.entry(count.name.to_owned()).or_default() += count.value;
                if matches!(count.class, Class::Held | Class::Level) {
                    self.levels.insert((stage, count.name));
                }
                match count.class {
                    Class::Counted | Class::Level => (),
                    Class::Used => self.used += count.value,
                    Class::Made => self.made += count.value,
                    Class::Held => self.held += count.value,
                    Class::Dropped => {
                        let cause = format!("{stage}_{}", count.name);
                        *self.dropped.entry(cause).or_default() += count.value;
                    }
                }
            });
        }
        self
    }

    /// Frames of no cell: 0 once nothing moves. Every frame that was received or made has passed, was dropped, is used or held
    /// by a stage, or waits for its bucket.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let dropped: u64 = self.dropped.values().sum();
        (self.received + self.made) as i64
            - (self.passed + dropped + self.used + self.held + self.waiting()) as i64
    }

    /// The number of frames that wait for their buckets now.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let streams = self.dispatch.iter().flat_map(|dispatch| &dispatch.workstreams);
        streams.map(|stream| stream.row.length).sum()
    }
}

impl Dispatched {
    /// What a plan sets; `None` without buckets.
    pub(super) fn planned(plan: &BridgePlan) -> Option<Dispatched> {
        let (plan, cpus) = (&plan.buckets.as_ref()?.dispatch, &plan.cpus);
        let protocols = Protocol::ALL.map(|protocol| ProtocolDispatched {
            protocol,
            policy: plan.rule(protocol).policy,
            method: plan.method_of(protocol),
        });
        Some(Dispatched {
            cpus: cpus.clone(),
            queue_limit: plan.limit,
            method: plan.default,
            protocols: protocols.into(),
            workstreams: Vec::new(),
        })
    }

    /// The three tables of `netstat -Q`, each with its title: settings, protocols, and the queues of buckets ("workstreams").
    #[must_use]
    pub fn tables(&self) -> [(&'static str, Table); 3] {
        let (threads, limit) = (self.cpus.len(), self.queue_limit);
        let settings = [
            ("Thread count", threads.to_string(), threads.to_string()),
            (
                "Default queue limit",
                limit.to_string(),
                DispatchPlan::LARGEST_LIMIT.to_string(),
            ),
            ("Dispatch policy", self.method.to_string(), "n/a".to_owned()),
            ("Threads bound to CPUs", "enabled".to_owned(), "n/a".to_owned()),
        ];
        let settings = Rows::of(&settings)
            .left("Setting", |row| row.0)
            .right("Current", |row| row.1.clone())
            .right("Limit", |row| row.2.clone())
            .table();
        let protocols = Rows::of(&self.protocols)
            .left("Name", |protocol| protocol.protocol.to_string())
            .right("Proto", |protocol| (protocol.protocol as usize + 1).to_string())
            .right("QLimit", |_| limit.to_string())
            .right("Policy", |protocol| protocol.policy.to_string())
            .right("Dispatch", |protocol| {
                let method = protocol.method.map(|method| method.to_string());
                method.unwrap_or_else(|| "default".to_owned())
            })
            .right("Flags", |protocol| match protocol.policy {
                Policy::Cpu => "C--",
                _ => "---",
            })
            .table();
        let streams = Rows::of(&self.workstreams)
            .right("WSID", |stream| stream.bucket.to_string())
            .right("CPU", |stream| stream.cpu.to_string())
            .left("Name", |stream| stream.protocol.to_string())
            .count("Len", |stream| stream.row.length)
            .count("WMark", |stream| stream.row.watermark)
            .count("Disp'd", |stream| stream.row.dispatched)
            .count("HDisp'd", |stream| stream.row.hybrid)
            .count("QDrops", |stream| stream.row.dropped)
            .count("Queued", |stream| stream.row.queued)
            .count("Handled", |stream| stream.row.handled)
            .table();
        [
            ("Configuration", settings),
            ("Protocols", protocols),
            ("Workstreams", streams),
        ]
    }

    /// Adds the counters so far.
    fn add(&mut self, streams: &Workstreams, workers: usize) {
        self.cpus.truncate(workers);
        for bucket in 0..streams.buckets() as u16 {
            let rows = streams.rows(Bucket::new(bucket));
            let streams = Protocol::ALL.into_iter().zip(rows);
            let cpu = self.cpus[usize::from(bucket) % workers];
            self.workstreams
                .extend(streams.map(|(protocol, row)| WorkstreamDispatched {
                    bucket,
                    cpu,
                    protocol,
                    row,
                }));
        }
    }
}

impl LinkBridged {
    /// Adds the counters of each worker.
    fn add<'a>(&mut self, workers: impl Iterator<Item = &'a LinkCounts>) {
        let (mut full, mut oversized, mut lost) = (0, 0, 0);
        for worker in workers {
            self.tally.add(&lock(&worker.tally));
            full += worker.full.get();
            oversized += worker.oversized.get();
            lost += worker.link_lost.get();
        }
        self.not_sent = by_name([
            ("full", full),
            ("oversized", oversized),
            ("link_lost", lost),
            ("refused", self.tally.send_failed),
        ]);
    }
}

impl TableBridged {
    /// A table of this plan, before it is loaded.
    pub(super) fn planned(plan: &TablePlan) -> TableBridged {
        TableBridged {
            file: plan.file.clone(),
            sides: plan.sides,
            on_match: plan.on_match,
            ..TableBridged::default()
        }
    }

    /// Adds the counters of a worker.
    fn add(&mut self, worker: &RuleCounts) {
        self.asked += worker.asked.get();
        self.matched += worker.matched.get();
        let values = (0u16..).zip(worker.values.iter().map(Counter::get));
        for (value, count) in values.filter(|(_, count)| *count > 0) {
            *self.rules.entry(value).or_default() += count;
        }
    }
}

fn by_name<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}
