//! `corelane verify`: checks that frames arrived on the queue that their hash selects. Input: a log of pairs, a capture
//! or a device. Output: counts per bucket, misplaced flows and their likely causes.

mod live;
mod rule;
mod text;

use crate::capture::{self, Unread};
use crate::documents::wrong_file;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::shared::{JsonArgument, check_clients, print};
use crate::standard::write_out;
use crate::values::{Endpoint, count, duration, endpoint, port_range};
use clap::{ArgGroup, Args};
use corelane_host::inventory::SoftwareRss;
use corelane_load::pool::Pool;
use corelane_measure::quantity;
use corelane_packet::verify::{Report, Rule, Verifier};
use corelane_rss::{HashFields, HashType, Toeplitz, Transform, Tuple};
use rule::{RuleArguments, RuleSource};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  printf '0x21f7db62 3\\n0x335a5c03 2\\n' > pairs\n  \
    corelane verify --log pairs --queues 4 --clients 10.11.2.0/24 --server 10.11.2.1 || echo misplaced\n  \
    corelane verify --pcap capture.pcapng --queues 4 --hash 4tuple --json\n  \
    corelane verify --dev eth0 --duration 5s\n  \
    corelane verify --pcap capture.pcapng --host host.json --dev eth0\n\
    Exit code 1 when anything is misplaced, 77 when nothing could be checked.";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").args(["log", "pcap", "dev"]).required(true).multiple(true))]
pub struct VerifyArguments {
    #[command(flatten)]
    source: SourceArguments,
    #[command(flatten)]
    rule: RuleArguments,
    #[command(flatten)]
    naming: NamingArguments,
    /// Only read the capture and count its frames, as a baseline for benchmarks of verification
    #[arg(long, requires = "pcap", conflicts_with_all = ["log", "json"])]
    read_only: bool,
    #[command(flatten)]
    json: JsonArgument,
}

/// Source of frames.
#[derive(Debug, Args)]
#[group(skip)]
struct SourceArguments {
    /// Log of `hash queue` pairs, one frame per line, or of a driver that names them (flowid=0x21f7db62; rxr->me=3); with
    /// --pcap, for the capture's frames in order
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Device whose received frames are read live, with hash and queue (needs CAP_NET_RAW). With --log or --pcap, only
    /// its RSS settings are used
    #[arg(long, value_name = "DEVICE")]
    dev: Option<String>,
    /// With --dev: stop after this time
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// With --dev: stop after this many frames
    #[arg(short = 'n', long = "count", alias = "frames", value_name = "N", value_parser = count)]
    frames: Option<u64>,
    /// With --dev: check queues only; on a device without RSS, frames carry the sender's hash
    #[arg(long)]
    ignore_hash: bool,
    /// Capture, pcap or pcapng; hash and queue are read from pcapng's epb_hash (Toeplitz) and epb_queue
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

/// Candidate flows for misplaced hashes.
#[derive(Debug, Args)]
struct NamingArguments {
    /// Client addresses to search for the flows of misplaced hashes
    #[arg(long, value_name = "POOL", requires = "server")]
    clients: Option<Pool>,
    /// Destination of those flows, as ADDRESS or ADDRESS:PORT; the port is needed if ports are hashed
    #[arg(long, requires = "clients", value_parser = endpoint)]
    server: Option<Endpoint>,
    /// Source ports to search, if ports are hashed
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-65535", value_parser = port_range)]
    ports: (u16, u16),
}

/// What `--json` prints: the rule, and the report.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/verify/1")]
struct VerifyDocument<'a> {
    key: String,
    hash_types: String,
    transform: Transform,
    table_size: usize,
    queues: usize,
    rule_from: &'a RuleSource,
    /// Frames of a device skipped because hash or queue is unknown; `None` for a file.
    incomplete: Option<u64>,
    /// Why reading a device ended early, for example because it disappeared; `None` if it did not.
    ended_because: Option<&'a str>,
    /// What of a capture and a log was not read.
    unread: Unread,
    #[serde(flatten)]
    report: &'a Report,
}

/// Verifies and prints. Returns an error if a frame is misplaced.
pub fn run(arguments: &VerifyArguments) -> Outcome {
    if let (true, Some(path)) = (arguments.read_only, &arguments.source.pcap) {
        let mut frames = 0_u64;
        let unread = capture::each_frame(path, None, |frame, _| {
            frames += u64::from(!std::hint::black_box(frame.data).is_empty());
        })?;
        write_out(&format!("{frames} frames read\n{}", unread.text()));
        return Ok(());
    }
    let live = arguments.source.log.is_none() && arguments.source.pcap.is_none();
    if arguments.rule.host.is_some() && live {
        let what = "applies to frames of another machine: give them with --log or --pcap";
        return Err(usage("--host", what));
    }
    if let (Some(clients), Some(server)) = (&arguments.naming.clients, arguments.naming.server) {
        check_clients(clients, server.address)?;
    }
    let (rule, source) = rule::rule(&arguments.rule, arguments.source.dev.as_deref(), live)?;
    let mut verifier = Verifier::new(&rule);
    let taken = take_source(&arguments.source, source.software_rss.as_ref(), &mut verifier)?;
    let mut report = verifier.report();
    name_flows(&mut report, &arguments.naming, &rule)?;
    let document = VerifyDocument {
        key: rule.key.to_string(),
        hash_types: rule.hash_types.to_string(),
        transform: rule.transform,
        table_size: rule.table.size(),
        queues: rule.table.buckets(),
        rule_from: &source,
        incomplete: taken.incomplete,
        ended_because: taken.ended_because.as_deref(),
        unread: taken.unread,
        report: &report,
    };
    print(arguments.json, &document, |document| text::text(document, &rule))?;
    if report.misplaced > 0 {
        let (misplaced, frames) = (report.misplaced, report.frames);
        anyhow::bail!("{misplaced} of {frames} frames arrived on another queue than their hash selects");
    }
    if let Some(because) = taken.ended_because {
        anyhow::bail!("{because}");
    }
    unchecked(&report).map_or(Ok(()), |because| Err(cannot_run(because)))
}

/// Why no frame's queue was checked; `None` if one was.
fn unchecked(report: &Report) -> Option<String> {
    let mut buckets = report.buckets.iter();
    if buckets.any(|bucket| bucket.right_queue.is_some()) {
        return None;
    }
    let frames = match report.frames {
        0 => "there is no frame".to_owned(),
        frames if frames == report.cut_short => capture::cut_short(frames),
        frames => format!("none of {} frames has a queue", quantity::count(frames)),
    };
    Some(format!(
        "no queue was checked, because {frames}: take a log or pcapng (epb_queue) with queues, or a device with queues"
    ))
}

/// What was read of a source.
#[derive(Default)]
struct Taken {
    /// Frames of a device that were skipped because hash or queue is unknown; `None` for a file.
    incomplete: Option<u64>,
    /// Why reading a device ended early, if it did.
    ended_because: Option<String>,
    unread: Unread,
}

/// Passes every frame of the source to the verifier.
fn take_source(
    source: &SourceArguments,
    rss: Option<&SoftwareRss>,
    verifier: &mut Verifier,
) -> anyhow::Result<Taken> {
    let unread = match (&source.pcap, &source.log) {
        (None, Some(path)) => {
            let mut pairs = capture::pairs(path)?;
            for pair in pairs.by_ref() {
                let pair = pair.map_err(|error| wrong_file("--log", path, error))?;
                verifier.pair(pair.hash, pair.queue);
            }
            Unread {
                log_lines: pairs.skipped(),
                ..Unread::default()
            }
        }
        (Some(path), log) => capture::each_frame(path, log.as_deref(), |frame, observed| {
            verifier.frame(frame.data, observed);
        })?,
        (None, None) => {
            let what = "give a log, a capture (--pcap), both, or a device (--dev)";
            let device = source.dev.as_ref().ok_or_else(|| usage("--log", what))?;
            return live::take(device, source, rss, verifier);
        }
    };
    Ok(Taken {
        unread,
        ..Taken::default()
    })
}

/// Searches the pool for the flows of misplaced hashes.
fn name_flows(report: &mut Report, naming: &NamingArguments, rule: &Rule) -> anyhow::Result<()> {
    let (Some(pool), Some(server)) = (&naming.clients, naming.server) else {
        return Ok(());
    };
    let to = server.socket_address();
    let clients = || pool.addresses_like(to.ip()).filter(|client| *client != to.ip());
    let flow = |client, port| Tuple::new(SocketAddr::new(client, port), to).ok();
    let toeplitz = Toeplitz::new(&rule.key);
    let hash = |flow: &Tuple, fields| toeplitz.hash(&rule.transform.of_tuple(flow), fields);
    let has = |types: [HashType; 3]| types.into_iter().any(|kind| rule.hash_types.contains(kind));
    if has([HashType::IPV4, HashType::IPV6, HashType::IPV6_EX]) {
        let flows = clients().filter_map(|client| flow(client, 0));
        report.name_flows(|flow| hash(flow, HashFields::TwoTuple), flows);
    }
    let (first, last) = naming.ports;
    if server.port.is_some() {
        let flows = clients().flat_map(|client| (first..=last).filter_map(move |port| flow(client, port)));
        report.name_flows(|flow| hash(flow, HashFields::FourTuple), flows);
    }
    Ok(())
}
