//! The runner: rounds, the seeded order within each, and a report after every trial, so that an interrupt loses
//! nothing.

use super::document::{
    ClassifyReport, FRAMES, HeaderTrial, LimitTrial, LockKind, Plan, PrefetchKind, SCHEMA, Setting, Step,
    Stride, TableKind, Trial, Unknowns,
};
use super::memory;
use super::plan::{PAIRS, Request, key, settings};
use crate::document::{Head, as_json};
use crate::experiment::{Experiment, RunningTrial, joined};
use crate::trial::{RawTrials, Trial as _, TrialHead};
use corelane_host::cpus::CacheInfo;
use corelane_host::pages::HugeBytes;
use corelane_host::{HostError, pin};
use corelane_loops::frames::{self, FRAME_BYTES, Traffic};
use corelane_loops::pipeline::{Pipeline, Searched, Stages, ThreadTrial};
use corelane_loops::tables::{self, Reading};
use corelane_measure::quantity;
use corelane_observe::misses::CacheMisses;
use corelane_observe::traffic::MemoryTraffic;
use corelane_table::limit::RandomLines;
use corelane_table::post::{PostLock, PostPrefetch, PostTable};
use corelane_table::{ExactMap, MemoryError, Placement, Prefetch};
use fastrand::Rng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Barrier, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// A planned experiment.
pub struct Classification {
    /// The request.
    pub request: Request,
    /// The data caches of the first CPU.
    pub caches: Vec<CacheInfo>,
    /// Facts about the run for its document.
    pub facts: Head,
    /// The data of all trials, once started.
    pub(super) bench: Option<Bench>,
}

/// The data of all trials.
pub(super) struct Bench {
    tables: Tables,
    traffic: Traffic,
    lines: Vec<Ipv4Addr>,
    units: Vec<Unit>,
    random: Rng,
}

/// One trial of a round.
#[derive(Clone, Copy)]
enum Unit {
    Step(usize),
    Limit(usize),
    Headers(usize),
}

/// The ways of reading random lines: a batch that is prefetched and then read, or rolling so far ahead. Whichever is
/// fastest is the limit: batches are what the post's way of prefetching can reach, distances what rolling ahead can.
const LIMIT_WAYS: [(&str, Reading); 3] = [
    ("batches of 32", Reading::Batches(32)),
    ("32 ahead", Reading::Rolling(Prefetch::Ahead(32))),
    ("64 ahead", Reading::Rolling(Prefetch::Ahead(64))),
];

impl Classification {
    /// An experiment that has not begun.
    #[must_use]
    pub fn new(request: Request, caches: Vec<CacheInfo>, facts: Head) -> Self {
        Self {
            request,
            caches,
            facts,
            bench: None,
        }
    }

    /// The report before any measurement, with the predictions from the caches' geometry.
    fn planned(&self) -> anyhow::Result<ClassifyReport> {
        let request = &self.request;
        let steps: Vec<Step> = settings(request)?.into_iter().map(Step::planned).collect();
        let strides: BTreeSet<usize> = steps.iter().map(|step| step.setting.stride).collect();
        let predicted = |stride: &usize| Stride::predicted(*stride, request.plan.burst, &self.caches);
        let mut report = ClassifyReport {
            head: self.facts.begun(SCHEMA, None),
            plan: Plan {
                ring: self.ring(),
                frame_bytes: FRAME_BYTES,
                present_share: 0.5,
                ..request.plan.clone()
            },
            caches: self.caches.clone(),
            strides: strides.iter().map(predicted).collect(),
            steps,
            unknowns: Unknowns {
                memory_traffic: MemoryTraffic::start().err().map(|error| error.to_string()),
                cache_misses: CacheMisses::of_this_thread().err().map(|error| error.to_string()),
            },
            ..ClassifyReport::default()
        };
        report.conclude();
        Ok(report)
    }

    /// Slots of a ring: whole bursts.
    fn ring(&self) -> usize {
        self.request.plan.ring.next_multiple_of(self.request.plan.burst)
    }

    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.request.plan.duration_s)
    }

    /// Reads random lines on the first CPU.
    fn read_lines(&self, way: usize, head: TrialHead, bench: &Bench) -> anyhow::Result<LimitTrial> {
        let (name, reading) = LIMIT_WAYS[way];
        let limit = &bench.tables.limit.table;
        let read = || tables::lines_per_s(limit, &bench.lines, reading, self.duration());
        let lines_per_s = self.on_first_cpu(read)?;
        Ok(LimitTrial {
            head,
            way: name.to_owned(),
            lines_per_s,
        })
    }

    /// Fetches headers one after the other on the first CPU.
    fn fetch_headers(&self, stride: usize, head: TrialHead, bench: &Bench) -> anyhow::Result<HeaderTrial> {
        let (request, duration) = (&self.request, self.duration());
        let ns_per_header = self.on_first_cpu(|| {
            let mut order = Rng::with_seed(request.plan.seed ^ head.round as u64);
            frames::nanoseconds(
                stride,
                self.ring(),
                request.plan.burst,
                &bench.traffic,
                &mut order,
                duration,
            )
        })?;
        Ok(HeaderTrial {
            head,
            stride,
            ns_per_header,
        })
    }

    /// Measures on a thread of the first CPU.
    fn on_first_cpu(
        &self,
        measure: impl FnOnce() -> Result<f64, HostError> + Send,
    ) -> Result<f64, HostError> {
        let cpu = self.request.plan.cpus[0];
        let pinned = move || pin::current_thread(cpu).and_then(|()| measure());
        thread::scope(|scope| joined(scope.spawn(pinned).join()))
    }

    /// One trial of a step: its threads start together, each on its CPU.
    fn classify(
        &self,
        setting: &Setting,
        head: TrialHead,
        bench: &Bench,
        first: usize,
    ) -> anyhow::Result<Trial> {
        let (lock, start) = (RwLock::new(()), Barrier::new(setting.threads));
        let (mut traffic_counters, begun) = (MemoryTraffic::start().ok(), Instant::now());
        let work = |thread: usize| -> Result<(ThreadTrial, Option<u64>), HostError> {
            let pinned = pin::current_thread(self.request.plan.cpus[thread]);
            let mut misses = CacheMisses::of_this_thread().ok();
            let searched = searched(setting, &bench.tables, &lock);
            // Threads begin far from each other, so that none finds lines that another just fetched.
            let first = first + thread * (PAIRS / setting.threads);
            let mut pipeline = Pipeline::new(stages(setting), self.ring(), &bench.traffic, first, searched);
            start.wait();
            pinned?;
            let trial = pipeline.run(self.duration(), misses.as_mut())?;
            Ok((trial, misses.and_then(|mut misses| misses.read())))
        };
        let done: Result<Vec<_>, HostError> = thread::scope(|scope| {
            let work = &work;
            let start = |thread| scope.spawn(move || work(thread));
            let threads: Vec<_> = (0..setting.threads).map(start).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        let moved = traffic_counters.as_mut().and_then(MemoryTraffic::read);
        let elapsed_ns = begun.elapsed().as_nanos() as u64;
        let done = done?;
        Ok(Trial {
            head,
            cache_misses: done.iter().map(|(_, misses)| *misses).sum(),
            threads: done.into_iter().map(|(trial, _)| trial).collect(),
            mem_read_bytes: moved.map(|moved| moved.read),
            mem_write_bytes: moved.map(|moved| moved.written),
            elapsed_ns,
        })
    }
}

impl Experiment for Classification {
    type Document = ClassifyReport;

    fn plan(&self) -> anyhow::Result<Value> {
        Ok(as_json(&self.planned()?))
    }

    fn begin(&mut self) -> anyhow::Result<ClassifyReport> {
        let mut report = self.planned()?;
        let settings: Vec<Setting> = report.steps.iter().map(|step| step.setting).collect();
        memory::check(&self.request, &settings)?;
        let tables = Tables::new(&self.request, &settings)?;
        describe_memory(&mut report, &tables);
        let mut random = Rng::with_seed(self.request.plan.seed ^ 1);
        let limits = (0..LIMIT_WAYS.len()).map(Unit::Limit);
        let headers = report.strides.iter().map(|stride| Unit::Headers(stride.stride));
        // Steps come first: the place of one in the schedule is its place in the report.
        let steps = (0..settings.len()).map(Unit::Step);
        self.bench = Some(Bench {
            traffic: Traffic::new(PAIRS, &tables.entries, &mut random),
            lines: (0..PAIRS).map(|_| Ipv4Addr::from_bits(random.u32(..))).collect(),
            units: steps.chain(limits).chain(headers).collect(),
            tables,
            random,
        });
        Ok(report)
    }

    fn steps(&self) -> usize {
        self.bench.as_ref().map_or(0, |bench| bench.units.len())
    }

    fn title(&self, step: usize, report: &ClassifyReport) -> String {
        match self.bench.as_ref().map(|bench| bench.units[step]) {
            Some(Unit::Limit(way)) => format!("limit, {}", LIMIT_WAYS[way].0),
            Some(Unit::Headers(stride)) => format!("headers, stride {stride}"),
            Some(Unit::Step(step)) => report.steps[step].setting.to_string(),
            None => String::new(),
        }
    }

    fn result(&self, step: usize, report: &ClassifyReport) -> Option<String> {
        match self.bench.as_ref()?.units[step] {
            Unit::Step(_) => report.trials.last()?.in_words(|trial| FRAMES.words_of(trial)),
            Unit::Limit(_) => {
                let trial = report.limit.trials.last()?;
                trial.in_words(|trial| Some(quantity::rate_of(trial.lines_per_s, "lines")))
            }
            Unit::Headers(_) => {
                let trial = report.header_trials.last()?;
                trial.in_words(|trial| Some(format!("{:.2} ns/header", trial.ns_per_header)))
            }
        }
    }

    fn trial(&mut self, running: &mut RunningTrial<'_>, report: &mut ClassifyReport) -> anyhow::Result<()> {
        const BEGUN: &str = "trials follow the beginning";
        let first = self.bench.as_mut().expect(BEGUN).random.usize(..PAIRS);
        let bench = self.bench.as_ref().expect(BEGUN);
        let head = running.head(self.request.plan.duration_s);
        match bench.units[running.turn.step] {
            Unit::Step(step) => {
                let setting = report.steps[step].setting;
                let trial = running.clock(|_| self.classify(&setting, head, bench, first))?;
                report.trials.push(trial);
            }
            Unit::Limit(way) => {
                let trial = running.clock(|_| self.read_lines(way, head, bench))?;
                report.limit.trials.push(trial);
            }
            Unit::Headers(stride) => {
                let trial = running.clock(|_| self.fetch_headers(stride, head, bench))?;
                report.header_trials.push(trial);
            }
        }
        Ok(())
    }

    fn raw<'a>(&self, step: usize, report: &'a mut ClassifyReport) -> &'a mut dyn RawTrials {
        match self.bench.as_ref().map(|bench| bench.units[step]) {
            Some(Unit::Limit(_)) => &mut report.limit.trials,
            Some(Unit::Headers(_)) => &mut report.header_trials,
            Some(Unit::Step(_)) | None => &mut report.trials,
        }
    }

    fn conclude(&self, report: &mut ClassifyReport) {
        report.conclude();
    }
}

/// The stages of a setting.
fn stages(setting: &Setting) -> Stages {
    Stages {
        burst: setting.burst,
        batch: setting.batch,
        stride: setting.stride,
        headers_ahead: match (setting.prefetch.header(), setting.prefetch_distance) {
            (false, _) => 0,
            (true, distance) => distance.unwrap_or(usize::MAX),
        },
    }
}

/// How a setting prefetches lines of the exact table.
fn exact_prefetch(setting: &Setting) -> Prefetch {
    match setting.prefetch_distance {
        Some(distance) => Prefetch::Ahead(distance),
        None if setting.prefetch.bucket() => Prefetch::Ahead(2 * setting.batch),
        None => Prefetch::None,
    }
}

/// What a setting looks addresses up in.
fn searched<'a>(setting: &Setting, tables: &'a Tables, lock: &'a RwLock<()>) -> Option<Searched<'a>> {
    let lock = match setting.lock {
        LockKind::None => PostLock::None,
        LockKind::Read => PostLock::Pair(lock),
        LockKind::ReadPerBatch => PostLock::Batch(lock),
    };
    Some(match (setting.table, setting.prefetch_distance) {
        (TableKind::None, _) => return None,
        (TableKind::Exact, _) => Searched::Exact(tables.exact.table.reader(), exact_prefetch(setting)),
        (TableKind::Post, Some(distance)) => Searched::Rolling(&tables.post(setting).table, distance, lock),
        (TableKind::Post, None) => {
            let prefetch = match setting.prefetch {
                PrefetchKind::BucketAndArray => PostPrefetch::HeadAndArray,
                kind if kind.bucket() => PostPrefetch::Head,
                _ => PostPrefetch::None,
            };
            Searched::Post(&tables.post(setting).table, prefetch, lock)
        }
    })
}

fn describe_memory(report: &mut ClassifyReport, tables: &Tables) {
    (report.limit.bytes, report.limit.page_size) = tables.limit.memory;
    for step in &mut report.steps {
        let (bytes, page_size) = match step.setting.table {
            TableKind::None => continue,
            TableKind::Exact => tables.exact.memory,
            TableKind::Post => tables.post(&step.setting).memory,
        };
        (step.table_bytes, step.page_size) = (Some(bytes), page_size);
    }
}

/// Everything that threads read.
pub struct Tables {
    /// The addresses in the full tables.
    pub entries: Vec<Ipv4Addr>,
    posts: BTreeMap<(u64, bool), Made<PostTable>>,
    pub exact: Made<ExactMap<Ipv4Addr>>,
    /// Memory of the exact table's size, for reading random lines.
    pub limit: Made<RandomLines>,
}

/// A table and its memory.
pub struct Made<T> {
    pub table: T,
    /// Bytes of its memory, and of the pages that most of it is in.
    pub memory: (u64, Option<u64>),
}

impl<T> Made<T> {
    /// Builds a table and determines its page size.
    fn make<E>(make: impl FnOnce() -> Result<T, E>, bytes: impl FnOnce(&T) -> usize) -> Result<Made<T>, E> {
        let before = HugeBytes::read();
        let table = make()?;
        let bytes = bytes(&table) as u64;
        let page_size = before.ok().and_then(|before| before.page_size_of(bytes));
        Ok(Made {
            table,
            memory: (bytes, page_size),
        })
    }
}

impl Tables {
    /// The tables that these settings take.
    pub fn new(request: &Request, settings: &[Setting]) -> Result<Tables, MemoryError> {
        let mut random = Rng::with_seed(request.plan.seed);
        let entries: Vec<Ipv4Addr> = (0..request.plan.entries)
            .map(|_| Ipv4Addr::from_bits(random.u32(..)))
            .collect();
        let exact = Made::make(
            || tables::exact(&entries, request.plan.seed),
            |map| map.memory_bytes(),
        )?;
        let limit = Made::make(
            || RandomLines::new(exact.table.memory_bytes(), Placement::default()),
            |lines| lines.memory_bytes(),
        )?;
        let mut posts = BTreeMap::new();
        for setting in settings.iter().filter(|setting| setting.table == TableKind::Post) {
            let (buckets, full) = key(setting);
            posts.entry((buckets, full)).or_insert_with(|| {
                let members = if full { entries.as_slice() } else { &[] };
                let make = || Ok::<_, std::convert::Infallible>(PostTable::new(buckets as usize, members));
                let Ok(made) = Made::make(make, PostTable::memory_bytes);
                made
            });
        }
        Ok(Tables {
            entries,
            posts,
            exact,
            limit,
        })
    }

    /// The post's table of a setting that looks up in it, and that the tables were made for.
    pub fn post(&self, setting: &Setting) -> &Made<PostTable> {
        &self.posts[&key(setting)]
    }
}
