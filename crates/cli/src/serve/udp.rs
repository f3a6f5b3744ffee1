//! `corelane serve udp`: the echo and the sink in the foreground.

use super::device::Followed;
use crate::interrupt::{Asked, Interrupt};
use crate::outcome::{Done, Outcome, usage};
use crate::shared::{MemoryArguments, MovingArguments, RuleArguments, check_memory, moving};
use crate::steering::{self, Asking};
use crate::values::{duration, size};
use clap::Args;
use corelane_host::memory::MemoryPolicy;
use corelane_host::transmit_queues;
use corelane_report::quantity;
use corelane_report::scale::{Answers, Mode, Model};
use corelane_report::table::{Column, Table};
use corelane_rss::HashFields;
use corelane_serve::udp::{FlowCount, UdpPlan, UdpServeError, UdpServed, UdpServer};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub struct ServeUdpArguments {
    /// Where to listen; all addresses (0.0.0.0) answer loopback and private networks only
    #[arg(default_value = "127.0.0.1:8080")]
    pub address: SocketAddr,
    /// Listen on an address that no device has, such as one of a prefix routed to this machine
    #[arg(long)]
    pub free_bind: bool,
    /// Take datagrams and answer none
    #[arg(long)]
    pub sink: bool,
    /// How a datagram finds its worker: single, shared, farm, reuseport, incoming_cpu or exact
    #[arg(long, value_name = "NAME", default_value = "exact")]
    pub model: Model,
    /// How it answers: per_send (the kernel hashes each answer), received (the worker that the received hash chose, as
    /// it is), caller (on the socket that the worker's own hash names) or connected (a socket a flow)
    #[arg(long, value_name = "WAY", default_value = "per_send")]
    pub answers: Answers,
    /// Give the application hash, hash type and bucket of each datagram
    #[arg(long)]
    pub metadata: bool,
    /// Count datagrams by hash, hash type and bucket: told on SIGUSR1, and at the end with --json
    #[arg(long)]
    pub flows: bool,
    /// What is hashed
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    #[command(flatten)]
    pub rule: RuleArguments,
    /// CPUs to use, such as 0-3,6 [default: those this process may use, one of each core]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Allow more buckets than CPUs: workers then share CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// A steering document to serve by, instead of key, table, buckets and CPUs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub steering: Option<PathBuf>,
    /// A device whose steering to serve by, and to follow: its key, fields and table, a bucket a queue, on the queue's CPU; a
    /// --steering document given besides has to be the same
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["key", "table_size", "buckets", "hash", "cpus"])]
    pub dev: Option<String>,
    /// Socket receive buffer of each bucket; without privilege the kernel gives net.core.rmem_max at most
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = size)]
    pub receive_buffer: u64,
    /// Device on which to watch which CPU the receive path runs on, and on which CPU and queue answers leave (needs
    /// CAP_NET_RAW)
    #[arg(long, value_name = "DEVICE")]
    pub watch: Option<String>,
    #[command(flatten)]
    pub moving: MovingArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    /// End after so long [default: on SIGINT]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Print the plan and end
    #[arg(long)]
    pub dry_run: bool,
    /// One JSON document on standard output, at the end
    #[arg(long)]
    pub json: bool,
}

/// How often the running server is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// `corelane serve udp`.
pub fn run(arguments: &ServeUdpArguments) -> Outcome {
    let mut followed = followed(arguments)?;
    let plan = plan(arguments, followed.as_ref())?;
    if arguments.dry_run {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&plan)?)?;
        return Ok(Done);
    }
    // One socket a bucket, and the count of what each dropped: more than the usual soft limit for many buckets.
    corelane_host::limits::open_descriptors()?;
    let interrupt = Interrupt::catch()?;
    let flows_asked = Asked::catch()?;
    let mut server = UdpServer::start(plan).map_err(name_flag)?;
    if !arguments.json {
        announce(&server.served())?;
    }
    let started = Instant::now();
    let mut line_due = started + Duration::from_secs(1);
    let (mut last, mut lost) = (0, None);
    while !interrupt.asked()
        && arguments
            .duration
            .is_none_or(|duration| started.elapsed() < duration)
    {
        thread::sleep(LOOK);
        server.collect_samples();
        match followed.as_mut().map_or(Ok(None), Followed::changed) {
            Ok(None) => {}
            Ok(Some(table)) => {
                let moved = server.change_table(table)?;
                followed.iter().for_each(|followed| followed.announce(moved));
            }
            Err(reason) => {
                lost = Some(reason);
                break;
            }
        }
        if flows_asked.taken()
            && let Some(counts) = server.flows()
        {
            let text = flow_table(&counts.flows, counts.uncounted);
            // Standard output is the one document's, where there is to be one.
            if arguments.json {
                write!(std::io::stderr(), "{text}")?;
            } else {
                write!(std::io::stdout(), "{text}")?;
            }
        }
        if !arguments.json && Instant::now() >= line_due {
            let served = server.served();
            writeln!(std::io::stdout(), "{}", line(&served, served.seen() - last))?;
            last = served.seen();
            line_due += Duration::from_secs(1);
        }
    }
    let served = server.stop()?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&served)?)?;
    } else {
        write!(out, "{}", table(&served))?;
    }
    lost.map_or(Ok(Done), Err)
}

/// Says which flag a server could not be started with.
fn name_flag(error: UdpServeError) -> anyhow::Error {
    match error {
        UdpServeError::Group(error) => usage("ADDRESS", error),
        UdpServeError::Steer(error) => usage("--table-size", error),
        error @ UdpServeError::Answers { .. } => usage("--answers", error),
        error @ UdpServeError::NoTuple { .. } => usage("ADDRESS", error),
        error => error.into(),
    }
}

/// The device that is followed, if one is.
fn followed(arguments: &ServeUdpArguments) -> anyhow::Result<Option<Followed>> {
    let Some(device) = &arguments.dev else {
        return Ok(None);
    };
    let given = arguments
        .steering
        .as_deref()
        .map(steering::from_file)
        .transpose()?;
    Followed::udp(device, arguments.address.ip(), given.as_ref()).map(Some)
}

fn plan(arguments: &ServeUdpArguments, followed: Option<&Followed>) -> anyhow::Result<UdpPlan> {
    let steering = match (followed, &arguments.steering) {
        (Some(followed), _) => followed.steering().clone(),
        (None, Some(path)) => steering::from_file(path)?,
        (None, None) => {
            let cpus = steering::place(
                arguments.cpus.as_deref(),
                arguments.rule.buckets,
                Asking::Buckets {
                    share: arguments.share_cpus,
                },
            )?;
            steering::from_rule(&arguments.rule, arguments.hash, cpus)?
        }
    };
    let moving = moving(&arguments.moving);
    check_memory(&arguments.placing)?;
    let queues = |device: &String| transmit_queues(device).map_err(|error| usage("--watch", error));
    Ok(UdpPlan {
        free_bind: arguments.free_bind,
        mode: if arguments.sink { Mode::Sink } else { Mode::Echo },
        model: arguments.model,
        engine: arguments.moving.engine,
        batch: moving.datagram_batch,
        coalesce: moving.coalesce,
        gro: moving.gro,
        memory: arguments.placing.memory,
        buffer_memory: arguments.placing.buffer_memory,
        receive_buffer_bytes: Some(arguments.receive_buffer as usize),
        device: arguments.watch.clone(),
        answers: arguments.answers,
        transmit_queues: arguments.watch.as_ref().map(queues).transpose()?,
        metadata: arguments.metadata,
        flows: arguments.flows,
        ..UdpPlan::new(arguments.address, steering)
    })
}

fn announce(served: &UdpServed) -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}, engine {}", served.address, served.engine)?;
    if let Some(reason) = &served.engine_reason {
        writeln!(out, "({reason})")?;
    }
    writeln!(out, "steering {}", serde_json::to_string(&served.steering)?)?;
    Ok(Done)
}

fn line(served: &UdpServed, last_second: u64) -> String {
    let share = |share: Option<f64>| quantity::or_missing(share, quantity::percent);
    format!(
        "{:>12}  seen {:>13}  answered {:>13}  steering {:>6}  locality {:>6}",
        quantity::rate(last_second as f64),
        quantity::count(served.seen()),
        quantity::count(served.answered()),
        share(served.steering_ok()),
        share(served.locality()),
    )
}

fn table(served: &UdpServed) -> String {
    let headers = [
        "bucket", "cpu", "seen", "answered", "dropped", "steering", "locality", "tx local",
    ];
    let mut table = Table::new(headers.into_iter().map(Column::right).collect());
    let share = |share: Option<f64>| quantity::or_missing(share, quantity::percent);
    for bucket in &served.buckets {
        table.row([
            bucket.bucket.to_string(),
            bucket.cpu.to_string(),
            quantity::count(bucket.seen),
            quantity::count(bucket.answered),
            quantity::count(bucket.dropped.values().sum()),
            share(bucket.steering_ok()),
            share(bucket.locality()),
            share(bucket.tx_locality()),
        ]);
    }
    let mut text = table.without_silent_columns().render(100);
    for (cause, count) in served.dropped() {
        text.push_str(&format!(
            "dropped, {}: {}\n",
            cause.replace('_', " "),
            quantity::count(count)
        ));
    }
    text.push_str(&memory_lines(served));
    if let Some(flows) = &served.flows {
        text.push_str(&flow_table(flows, served.flows_uncounted.unwrap_or(0)));
    }
    if let Some(reason) = &served.locality_unknown {
        text.push_str(&format!("locality unknown: {reason}\n"));
    }
    text
}

/// Every flow's count, as far as hashes tell flows apart.
fn flow_table(flows: &[FlowCount], uncounted: u64) -> String {
    let mut table = Table::new(vec![
        Column::left("hash"),
        Column::left("hash type"),
        Column::right("bucket"),
        Column::right("worker"),
        Column::right("datagrams"),
    ]);
    for flow in flows {
        table.row([
            flow.hash.clone(),
            flow.hash_type.clone(),
            flow.bucket.to_string(),
            flow.worker.to_string(),
            quantity::count(flow.count),
        ]);
    }
    let mut text = table.render(100);
    if uncounted > 0 {
        text.push_str(&format!("of further flows: {}\n", quantity::count(uncounted)));
    }
    text
}

/// Where the buffers lie: told where there was a choice, by a policy or by several nodes.
fn memory_lines(served: &UdpServed) -> String {
    let mut text = String::new();
    for bucket in &served.buckets {
        let Some(memory) = &bucket.memory else { continue };
        let nodes = memory
            .buffer_pages_by_node
            .as_ref()
            .map_or(0, |nodes| nodes.len());
        if memory.policy == MemoryPolicy::default().to_string()
            && memory.buffers_policy == memory.policy
            && nodes < 2
        {
            continue;
        }
        let found = memory.unknown.clone().unwrap_or_else(|| memory.words());
        text.push_str(&format!(
            "memory of bucket {}: {}, buffers {}; pages of buffers on {found}\n",
            bucket.bucket, memory.policy, memory.buffers_policy
        ));
    }
    text
}
