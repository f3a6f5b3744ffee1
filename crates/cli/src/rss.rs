//! `corelane rss`: steers the frames of a device to CPUs, as a device with RSS does. Input: a device and a steering. Output: the
//! frames of each bucket, and those that were lost.

use crate::interrupt::{Asked, Interrupt};
use crate::links::refused_link;
use crate::log::{log_line, offer};
use crate::machine::MachineDevice;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::shared::{JsonArgument, RuleArguments, print, print_json};
use crate::standard::{out, say};
use crate::steering;
use crate::terminal::width;
use crate::values::{Choices, duration, one_of};
use clap::{ArgGroup, Args};
use corelane_host::cpus;
use corelane_host::inventory::SoftwareRss as Published;
use corelane_host::published::{self, OF_DEVICE};
use corelane_link::software_rss::{self, RssCounts, RssState, SoftwareRss};
use corelane_link::xdp::XdpHook;
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_rss::{HashFields, Steering};
use serde::Serialize;
use signal_hook::consts::SIGHUP;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane rss --dev lo --buckets 1 --dry-run\n  \
    sudo corelane rss --dev eth0 --attach --stats\n  \
    sudo corelane rss --dev eth0 --attach --steering steering.json\n  \
    sudo corelane rss --dev eth0 --detach\n\n\
    The program stays until SIGINT, or the end of the process in any way. Fragments are hashed by\n\
    their addresses. `corelane host`, `explain` and `verify` know the program (docs/STEERING.md).";

/// Where frames may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Cpu,
    Xsk,
}

const TARGETS: &Choices<Target> = &[
    (
        "cpu",
        Target::Cpu,
        "The CPU of the bucket, whose kernel thread hands it to the host's stack",
    ),
    (
        "xsk",
        Target::Xsk,
        "An AF_XDP socket per bucket: refused, as the kernel hands a frame only to sockets of its queue",
    ),
];

const HOOKS: &Choices<XdpHook> = &[
    (
        "auto",
        XdpHook::Auto,
        "In the driver if it can, but behind that of veth and tun",
    ),
    (
        "native",
        XdpHook::Native,
        "In the driver; on veth the senders must finish checksums (ethtool -K DEV tx off)",
    ),
    (
        "generic",
        XdpHook::Generic,
        "Behind the driver: works with every device; slower",
    ),
];

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action").args(["attach", "detach", "dry_run"]).required(true))]
pub struct RssArguments {
    /// Device whose received frames are steered
    #[arg(long, value_name = "DEVICE")]
    dev: String,
    /// Attach the program, and stay (needs CAP_BPF and CAP_NET_ADMIN)
    #[arg(long)]
    attach: bool,
    /// Detach the program of another corelane rss, which then ends (needs CAP_SYS_ADMIN)
    #[arg(long, conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus", "share_cpus", "steering", "inner", "to",
        "hook", "stats", "duration", "json"])]
    detach: bool,
    #[command(flatten)]
    rule: RuleArguments,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    hash: HashFields,
    /// CPUs of the buckets, such as 0-3,6 [default: those allowed for this process, one per core]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Allow more buckets than CPUs
    #[arg(long)]
    share_cpus: bool,
    /// Steering document to use instead of key, table, buckets and CPUs; SIGHUP reads it again and applies it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus", "share_cpus"])]
    steering: Option<PathBuf>,
    /// Hash the packet inside of a tunnel (IP in IP, GRE, VXLAN, GENEVE), one level deep
    #[arg(long)]
    inner: bool,
    /// Where frames go
    #[arg(long, value_name = "TARGET", default_value = "cpu", value_parser = one_of(TARGETS))]
    to: Target,
    /// Where the program runs
    #[arg(long, value_name = "HOOK", default_value = "auto", value_parser = one_of(HOOKS))]
    hook: XdpHook,
    /// Print rates every second
    #[arg(long)]
    stats: bool,
    /// Detach after this time [default: on SIGINT]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Print the steering document and exit
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: JsonArgument,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/rss/1")]
struct RssDocument {
    device: String,
    inner: bool,
    /// The last one; the counts are of all.
    steering: Steering,
    buckets: Vec<BucketRow>,
    /// Frames without a readable IP header, which stayed on the CPU that received them.
    not_hashed: u64,
    /// Frames that arrived on each CPU.
    arrived: BTreeMap<usize, u64>,
    /// Frames lost because the queue of their CPU was full.
    queue_full: u64,
}

/// A bucket, and the frames sent to its CPU.
#[derive(Serialize)]
struct BucketRow {
    bucket: usize,
    cpu: Option<u32>,
    entries: usize,
    frames: u64,
}

/// `corelane rss`.
pub fn run(arguments: &RssArguments) -> Outcome {
    if arguments.detach {
        return detach(&arguments.dev);
    }
    if arguments.to == Target::Xsk {
        return Err(usage(
            "--to",
            "xsk: the kernel hands a frame only to AF_XDP sockets of the queue that received it (xsk_rcv_check in \
             net/xdp/xsk.c), so another bucket's socket cannot have it: use cpu",
        ));
    }
    let steering = match &arguments.steering {
        Some(path) => steering::from_file(path)?,
        None => {
            let rule = &arguments.rule;
            let cpus = steering::bucket_cpus(arguments.cpus.as_deref(), rule.buckets, arguments.share_cpus)?;
            steering::from_rule(rule, arguments.hash, cpus)?
        }
    };
    check_cpus(&steering)?;
    if arguments.dry_run {
        return print_json(&steering);
    }
    attach(arguments, steering)
}

/// An error if the table names a CPU that is not online.
fn check_cpus(steering: &Steering) -> Outcome {
    let online = cpus::topology()?.online();
    let used = steering
        .table
        .entries()
        .iter()
        .map(|bucket| steering.cpus[bucket.index()]);
    let mut missing = used.filter(|cpu| !online.contains(cpu));
    match missing.next() {
        Some(cpu) => Err(usage("--steering", format!("CPU {cpu} is not online here"))),
        None => Ok(()),
    }
}

/// Detaches the program that another process attached.
fn detach(device: &str) -> Outcome {
    let machine = MachineDevice::of_flags(None, Some(device))?;
    let found = machine.inventory.device(device);
    let Some(rss) = found.and_then(|found| found.software_rss.as_ref()) else {
        let other = found.is_some_and(|found| found.link.xdp.is_some());
        let what = if other {
            "its XDP program is not of corelane rss"
        } else {
            "it has no program"
        };
        return Err(usage("--detach", format!("{device}: {what}")));
    };
    software_rss::detach(rss.link).map_err(|error| match error.raw_os_error() {
        Some(nix::libc::EPERM) => {
            cannot_run(format!("--detach: {device}: it needs CAP_SYS_ADMIN: run as root"))
        }
        _ => usage("--detach", format!("{device}: {error}")),
    })
}

/// How often signals and the deadline are polled, and the kernel is asked whether the program is still attached.
const LOOK: Duration = Duration::from_millis(20);

/// How long lines wait for a reader of standard output, in milliseconds.
const LAST_WAIT: u8 = 250;

/// An attached program.
struct Run<'a> {
    arguments: &'a RssArguments,
    rss: SoftwareRss,
    steering: Steering,
    published: published::Published,
}

/// Attaches the program, and keeps it until the run ends.
fn attach(arguments: &RssArguments, steering: Steering) -> Outcome {
    arguments.json.check()?;
    let (device, on_stdout) = (&arguments.dev, arguments.json.on_stdout());
    let reread = Asked::catch(SIGHUP)?;
    let interrupt = Interrupt::catch()?;
    let mut run = Run::start(arguments, steering)?;
    if !on_stdout {
        offer(&mut out(), &run.ready()?, LAST_WAIT);
    }
    let started = Instant::now();
    let (mut line_due, mut last) = (started + SECOND, run.rss.counts()?);
    let mut state = RssState::Attached;
    let over = |duration| started.elapsed() >= duration;
    while !interrupt.asked() && !arguments.duration.is_some_and(over) && state == RssState::Attached {
        thread::sleep(LOOK);
        state = run.rss.state()?;
        if reread.taken() {
            run.reread();
        }
        if arguments.stats && Instant::now() >= line_due {
            line_due += SECOND;
            let counts = run.rss.counts()?;
            let line = line(&counts, &last);
            match on_stdout {
                true => say(&line),
                false => drop(offer(&mut out(), &line, 0)),
            }
            last = counts;
        }
    }
    drop(run.published);
    let counts = run.rss.end()?;
    print(arguments.json, &of_counts(arguments, run.steering, &counts), text)?;
    match state {
        RssState::Gone => anyhow::bail!("{device} is gone"),
        RssState::Detached => log_line(&format!("{device}: the program was detached")),
        RssState::Attached => {}
    }
    Ok(())
}

impl<'a> Run<'a> {
    fn start(arguments: &'a RssArguments, steering: Steering) -> anyhow::Result<Run<'a>> {
        let attached = SoftwareRss::attach(&arguments.dev, &steering, arguments.inner, arguments.hook);
        let rss = attached.map_err(|error| refused_link("--dev", &error))?;
        let document = document(&rss, arguments.inner, &steering)?;
        Ok(Run {
            arguments,
            rss,
            steering,
            published: published::Published::new(OF_DEVICE, &document)?,
        })
    }

    /// Programs wait for this line.
    fn ready(&self) -> anyhow::Result<String> {
        let (program, steering) = (self.rss.numbers()?.program, &self.steering);
        let (size, buckets) = (steering.table.size(), steering.table.buckets());
        Ok(format!(
            "{}: program {program} steers by {}, {size} entries, {buckets} buckets\n",
            self.arguments.dev, steering.hash_fields
        ))
    }

    /// Reads the file of `--steering` again, if there is one, and applies it. An error is logged, and nothing changes.
    fn reread(&mut self) {
        let Some(path) = &self.arguments.steering else {
            return;
        };
        match self.apply(path) {
            Ok(()) => log_line(&format!("{} was read again", path.display())),
            Err(error) => log_line(&format!("the steering stays as it was: {error:#}")),
        }
    }

    fn apply(&mut self, path: &Path) -> Outcome {
        let (inner, steering) = (self.arguments.inner, steering::from_file(path)?);
        check_cpus(&steering)?;
        self.rss.change(&steering, inner)?;
        self.published.replace(&document(&self.rss, inner, &steering)?)?;
        self.steering = steering;
        Ok(())
    }
}

/// What other processes can read.
fn document(rss: &SoftwareRss, inner: bool, steering: &Steering) -> anyhow::Result<String> {
    let numbers = rss.numbers()?;
    Ok(serde_json::to_string(&Published {
        process: std::process::id(),
        program: numbers.program,
        link: numbers.link,
        inner,
        steering: steering.clone(),
    })?)
}

const SECOND: Duration = Duration::from_secs(1);

/// The line of a second.
fn line(now: &RssCounts, before: &RssCounts) -> String {
    let since = |bucket: usize| now.buckets[bucket] - before.buckets.get(bucket).copied().unwrap_or(0);
    let frames: Vec<u64> = (0..now.buckets.len()).map(since).collect();
    let (sum, fullest) = (
        frames.iter().sum::<u64>(),
        frames.iter().max().copied().unwrap_or(0),
    );
    let share = fullest as f64 / sum.max(1) as f64;
    let [steered, not_hashed] =
        [sum, now.not_hashed - before.not_hashed].map(|count| quantity::rate(count as f64));
    format!(
        "steered {steered:>11}  fullest bucket {:>6}  not hashed {not_hashed:>11}  waiting or lost {:>7}\n",
        quantity::percent(share),
        quantity::count(now.queue_full())
    )
}

fn of_counts(arguments: &RssArguments, steering: Steering, counts: &RssCounts) -> RssDocument {
    let rows = counts
        .buckets
        .iter()
        .enumerate()
        .map(|(bucket, frames)| BucketRow {
            bucket,
            cpu: steering.cpus.get(bucket).copied(),
            entries: steering
                .table
                .entries()
                .iter()
                .filter(|entry| entry.index() == bucket)
                .count(),
            frames: *frames,
        });
    RssDocument {
        device: arguments.dev.clone(),
        inner: arguments.inner,
        buckets: rows.collect(),
        not_hashed: counts.not_hashed,
        arrived: counts
            .arrived
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, frames)| *frames > 0)
            .collect(),
        queue_full: counts.queue_full(),
        steering,
    }
}

fn text(document: &RssDocument) -> String {
    let rows = Rows::of(&document.buckets)
        .right("bucket", |row| row.bucket.to_string())
        .right("cpu", |row| quantity::or_missing(row.cpu, |cpu| cpu.to_string()))
        .count("entries", |row| row.entries as u64)
        .count("frames", |row| row.frames)
        .table();
    let [not_hashed, queue_full] = [document.not_hashed, document.queue_full].map(quantity::count);
    let mut text = rows.render(width().tables);
    text.push_str(&format!(
        "not hashed {not_hashed}, lost as the queue of their CPU was full {queue_full}\n"
    ));
    text
}
