//! Shared by the generators: flags for placement and output, and the foreground run.

use super::live::{self, ForegroundLoad};
use crate::interrupt::Interrupt;
use crate::lab::facts;
use crate::log::log_line;
use crate::metrics::MetricsArgument;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::outputs::OutputArguments;
use crate::shared::{MemoryArguments, check_memory, print_json};
use crate::steering;
use crate::timeline::TimelineArgument;
use clap::Args;
use corelane_host::bed::OwnNamespace;
use corelane_host::conditions::{self, Snapshot};
use corelane_host::counters::{CpuTimes, Throttling};
use corelane_host::ethtool::FlowType;
use corelane_host::inventory;
use corelane_host::limits;
use corelane_lab::saved::Recorded;
use corelane_load::sources::{ReplySteering, Steerings, WorkerRequest};
use corelane_load::timeline::TimelineFile;
use corelane_load::{LoadReport, Need};
use corelane_measure::counters::Counters as _;
use corelane_report::gate::{self, Gate};
use corelane_report::json;
use corelane_report::measurement::Measurement;
use corelane_rss::Protocol;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

/// The outputs of a generator, or only its plan.
#[derive(Debug, Args)]
pub struct ResultArguments {
    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Percentiles of the latency or round trip to show besides the usual ones, such as 75,99.95
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percent)]
    percentiles: Vec<f64>,
    #[command(flatten)]
    timeline: TimelineArgument,
    #[command(flatten)]
    metrics: MetricsArgument,
    #[command(flatten)]
    outputs: OutputArguments,
}

impl ResultArguments {
    /// Runs the generator to completion and reports. `prepare` returns notes on the machine, which go into the report,
    /// and a value that is dropped after the generator ends; `ended` returns further notes then.
    pub fn run<G: ForegroundLoad, Held>(
        &self,
        plan: G::Plan,
        prepare: impl FnOnce(&G::Plan) -> anyhow::Result<(Vec<String>, Held)>,
        ended: impl FnOnce() -> Vec<String>,
    ) -> Outcome {
        let gates = self.gates::<G::Report>()?;
        self.outputs.check()?;
        let print = self.timeline.printer(self.outputs.json)?;
        let facts = facts(conditions::snapshot(&G::devices(&plan)));
        // Installed before `prepare`, which may change settings that must be restored on interrupt.
        let interrupt = Interrupt::catch()?;
        let metrics = self.metrics.listen()?;
        let (notes, held) = prepare(&plan)?;
        let mut head = facts.begun("", None);
        let (planned, before) = (serde_json::to_value(&plan)?, CpuTimes::read().ok());
        // Replaces a file of an earlier run, so only when nothing but the start can still fail.
        let timeline = self.timeline.create(&facts, &plan, true)?;
        let throttling = Throttling::read(process::id());
        let mut generator = G::start(plan).map_err(G::refused)?;
        timeline.iter().for_each(TimelineFile::begin::<G>);
        let lines = !self.outputs.json.on_stdout() && !self.timeline.on_stdout();
        let look = |generator: &G, snapshot: &_| {
            if let Some(metrics) = &metrics {
                metrics.look(|| Box::new(generator.running(snapshot)));
            }
        };
        let interrupted = live::attend(&mut generator, &interrupt, lines, timeline.as_ref(), look);
        let mut report = match generator.finish() {
            Ok(report) => report,
            Err(error) => return self.timeline.finish(timeline, Err(G::refused(error))),
        };
        let quota = Throttling::read(process::id()).limit_since(&throttling);
        drop(held);
        add_stolen(&mut head.conditions, before);
        let outcome = report.outcome_mut();
        if let Some(quota) = quota {
            // It explains whatever else the generator was late with.
            outcome.limited_by = Some(quota.words("its"));
        }
        outcome.notes.extend(notes.into_iter().chain(ended()));
        outcome.interrupted = interrupted;
        let recorded = Recorded::new(report, head, planned).with_percentiles(&self.percentiles);
        let json = json::pretty(&recorded)?;
        let reported = self.outputs.finish(&recorded, &json, &gates, print);
        self.timeline.finish(timeline, reported)?;
        match &recorded.report.outcome().failed_because {
            Some(why) => anyhow::bail!("{why}"),
            None => Ok(()),
        }
    }
}

impl ResultArguments {
    /// The gates, after a check that the report has the figures of these flags.
    fn gates<R: Measurement>(&self) -> anyhow::Result<Vec<Gate>> {
        let figures = R::gated();
        for percent in &self.percentiles {
            gate::figure(&format!("p{percent}"), &figures).map_err(|error| usage("--percentiles", error))?;
        }
        self.outputs.gates(&figures)
    }
}

/// Adds what other virtual machines took of the CPUs since. What other programs used is not a condition: the server may be
/// one of them.
fn add_stolen(conditions: &mut Option<Snapshot>, before: Option<CpuTimes>) {
    if let (Some(conditions), Some(before), Ok(after)) = (conditions, before, CpuTimes::read()) {
        let mut during = conditions::during(&after.since(&before), Duration::ZERO);
        during.retain(|condition| condition.name == "steal during");
        conditions.add(during);
    }
}

/// Duration of a run of which neither duration nor counts are given.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// The seconds after which a run ends: those that are given, or the default if no count `ends` it.
pub fn duration_s(given: Option<Duration>, ends: bool) -> Option<f64> {
    let duration = given.or((!ends).then_some(DEFAULT_DURATION))?;
    Some(duration.as_secs_f64())
}

/// Parses a percentile: `99.95`.
fn percent(text: &str) -> Result<f64, &'static str> {
    gate::percent(&format!("p{text}")).ok_or("give numbers between 0 and 100, such as 75,99.95")
}

/// The help of `--fail-if`.
pub fn gates(examples: &str) -> String {
    format!("Fail with exit code 3 if this condition holds, such as {examples}; may be repeated")
}

/// Placement and output of a generator that uses sockets.
#[derive(Debug, Args)]
#[command(mut_arg("dry_run", |dry_run| dry_run.help("Print the plan and its requirements on this machine, then exit")))]
pub struct ForegroundArguments {
    /// The server's steering document
    #[arg(long, value_name = "FILE")]
    pub steering: Option<PathBuf>,
    /// With --align-by reply or both: the device that receives the replies, whose key, fields and table steer them and
    /// whose queues are its buckets [default: replies are steered as in --steering]
    #[arg(long, value_name = "DEVICE", requires = "align_by")]
    pub dev: Option<String>,
    /// Workers, one per CPU; more if the descriptor limit requires it [default: one per CPU allowed for this process]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// Configure this network namespace for the run (addresses of --sources, port range) and restore it at the end.
    /// Allowed only in a private namespace, such as one made by `unshare -n`
    #[arg(long)]
    pub own_namespace: bool,
    #[command(flatten)]
    pub result: ResultArguments,
}

impl ForegroundArguments {
    /// The workers that these flags request, for connections or flows to `target`.
    pub fn workers(&self, target: Option<IpAddr>, protocol: Protocol) -> anyhow::Result<WorkerRequest> {
        check_memory(&self.placing)?;
        let workers = self.workers.map(|workers| workers as usize);
        Ok(WorkerRequest {
            steering: Steerings {
                forward: steering::given(self.steering.as_ref())?,
                reply: self.reply_steering(target, protocol)?,
            },
            buckets: None,
            cpus: steering::worker_cpus(self.cpus.as_deref(), workers)?,
            descriptor_limit: limits::open_descriptors()?,
        })
    }

    /// What steers the packets from `target` on `--dev`.
    fn reply_steering(
        &self,
        target: Option<IpAddr>,
        protocol: Protocol,
    ) -> anyhow::Result<Option<ReplySteering>> {
        let (Some(device), Some(target)) = (self.dev.clone(), target) else {
            return Ok(None);
        };
        let flow_type = FlowType::of(protocol, target.to_canonical());
        let steering = inventory::steering(&inventory::inventory(), &device, flow_type)
            .map_err(|error| steering::refused_device(&error))?;
        Ok(Some(ReplySteering { device, steering }))
    }

    /// With `--dry-run`, prints the plan; otherwise runs the generator to completion, and reports with these notes.
    pub fn run<G: ForegroundLoad>(&self, plan: G::Plan, notes: Vec<String>) -> Outcome {
        self.run_and::<G>(plan, notes, Vec::new)
    }

    /// The same; `ended` returns further notes when the generator has ended.
    pub fn run_and<G: ForegroundLoad>(
        &self,
        plan: G::Plan,
        notes: Vec<String>,
        ended: impl FnOnce() -> Vec<String>,
    ) -> Outcome {
        if self.result.dry_run {
            return print_json(&serde_json::json!({ "plan": plan, "needs": G::needs(&plan) }));
        }
        self.result
            .run::<G, _>(plan, |plan| self.prepare::<G>(plan, notes), ended)
    }

    /// With `--own-namespace`, configures what the run needs; reports every need that remains unmet.
    fn prepare<G: ForegroundLoad>(
        &self,
        plan: &G::Plan,
        mut notes: Vec<String>,
    ) -> anyhow::Result<(Vec<String>, Option<OwnNamespace>)> {
        let mut needs = G::needs(plan);
        let mut own = None;
        if self.own_namespace {
            let changes = needs.changes();
            let refused = |error| cannot_run(format!("--own-namespace: {error}"));
            own = Some(OwnNamespace::change(&changes).map_err(refused)?);
            notes.extend(changes.iter().map(|change| format!("for this run: {change}")));
            if changes.is_empty() {
                notes.push("--own-namespace: nothing had to be changed".to_owned());
            }
            needs = G::needs(plan);
        }
        if let Some(memory) = needs.lacking_memory() {
            return Err(cannot_run(memory.text()));
        }
        if let Some(sources) = needs.lacking_sources() {
            return Err(usage("--sources", sources.text()));
        }
        notes.extend(needs.lacking().map(Need::text));
        notes.iter().for_each(|note| log_line(note));
        Ok((notes, own))
    }
}
