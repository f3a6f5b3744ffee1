//! `corelane serve udp`: the echo and the sink in the foreground.

use super::buckets::{self, ServingArguments};
use super::foreground::Foreground;
use crate::interrupt::Asked;
use crate::outcome::{Done, Outcome, usage};
use crate::shared::{MemoryArguments, MovingArguments, check_memory, moving};
use crate::values::size;
use clap::Args;
use corelane_host::memory::MemoryPolicy;
use corelane_host::transmit_queues;
use corelane_measure::quantity;
use corelane_report::table::{Column, Table};
use corelane_rss::{Protocol, Steering};
use corelane_serve::udp::{Answers, Mode, Model};
use corelane_serve::udp::{FlowCount, UdpPlan, UdpServed, UdpServer};
use corelane_serve::{ServeError, Server, read_word};
use std::io::Write;
use std::net::SocketAddr;

#[derive(Debug, Args)]
pub struct ServeUdpArguments {
    /// Where to listen; all addresses (0.0.0.0) answer loopback and private networks only
    #[arg(default_value = "127.0.0.1:8080")]
    pub address: SocketAddr,
    /// Take datagrams and answer none
    #[arg(long)]
    pub sink: bool,
    /// How a datagram finds its worker: single, shared, farm, reuseport, incoming_cpu or exact
    #[arg(long, value_name = "NAME", default_value = "exact", value_parser = read_word::<Model>)]
    pub model: Model,
    /// How it answers: per_send (the kernel hashes each answer), received (the worker that the received hash chose, as
    /// it is), caller (on the socket that the worker's own hash names) or connected (a socket a flow)
    #[arg(long, value_name = "WAY", default_value = "per_send", value_parser = read_word::<Answers>)]
    pub answers: Answers,
    /// Give the application hash, hash type and bucket of each datagram
    #[arg(long)]
    pub metadata: bool,
    /// Count datagrams by hash, hash type and bucket: told on SIGUSR1, and at the end with --json
    #[arg(long)]
    pub flows: bool,
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
    #[command(flatten)]
    pub serving: ServingArguments,
}

/// `corelane serve udp`.
pub fn run(arguments: &ServeUdpArguments) -> Outcome {
    let serving = &arguments.serving;
    let followed = serving.followed(Protocol::Udp, arguments.address)?;
    let plan = plan(arguments, serving.steering(followed.as_ref())?)?;
    let shown = Shown {
        flows_asked: None,
        json: serving.output.json,
    };
    serving.serve(shown, plan, followed)
}

/// What is shown of the server, and of flows when it is asked for.
struct Shown {
    flows_asked: Option<Asked>,
    /// Whether standard output is the one document's.
    json: bool,
}

impl Foreground for Shown {
    type Server = UdpServer;

    fn prepare(&mut self) -> Outcome {
        self.flows_asked = Some(Asked::catch()?);
        Ok(Done)
    }

    fn refused(error: ServeError) -> anyhow::Error {
        buckets::refused(error)
    }

    fn ready(&self, served: &UdpServed) -> anyhow::Result<String> {
        buckets::listening(
            served.address,
            &served.engine,
            served.engine_reason.as_ref(),
            &served.steering,
        )
    }

    fn line(&self, served: &UdpServed, last: &UdpServed) -> String {
        let share = |share: Option<f64>| quantity::or_missing(share, quantity::percent);
        format!(
            "{:>12}  seen {:>13}  answered {:>13}  steering {:>6}  locality {:>6}",
            quantity::rate((served.seen() - last.seen()) as f64),
            quantity::count(served.seen()),
            quantity::count(served.answered()),
            share(served.steering_ok()),
            share(served.locality()),
        )
    }

    fn summary(served: &UdpServed) -> String {
        table(served)
    }

    fn look(&mut self, server: &mut UdpServer) -> Outcome {
        if self.flows_asked.as_ref().is_some_and(Asked::taken)
            && let Some(counts) = server.flows()
        {
            let text = flow_table(&counts.flows, counts.uncounted);
            if self.json {
                write!(std::io::stderr(), "{text}")?;
            } else {
                write!(std::io::stdout(), "{text}")?;
            }
        }
        Ok(Done)
    }
}

fn plan(arguments: &ServeUdpArguments, steering: Steering) -> anyhow::Result<UdpPlan> {
    let moving = moving(&arguments.moving);
    check_memory(&arguments.placing)?;
    let queues = |device: &String| transmit_queues(device).map_err(|error| usage("--watch", error));
    Ok(UdpPlan {
        free_bind: arguments.serving.free_bind,
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
