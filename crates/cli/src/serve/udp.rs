//! `corelane serve udp`: the echo and sink servers in the foreground.

use super::buckets::{self, ServingArguments};
use super::foreground::{self, Foreground, Refused};
use crate::log::offer;
use crate::names::address;
use crate::outcome::{Outcome, usage};
use crate::ready;
use crate::rebalanced::rebalanced;
use crate::shared::{DatagramIoArguments, MemoryArguments, check_memory};
use crate::standard::out;
use crate::terminal::width;
use crate::values::size;
use clap::Args;
use corelane_host::memory::MemoryPolicy;
use corelane_host::{inventory, transmit_queues};
use corelane_measure::quantity;
use corelane_measure::share::Share;
use corelane_report::table::Rows;
use corelane_rss::{Protocol, Steering};
use corelane_serve::SteeringPlan;
use corelane_serve::udp::metrics::{ANSWERED, DROPPED, LOCALITY, SEEN, STEERING, TX_LOCALITY};
use corelane_serve::udp::{
    Answers, BucketServed, FlowCount, Mode, Model, UdpError, UdpPlan, UdpServed, UdpServer,
};
use signal_hook::consts::SIGUSR1;
use std::io::stderr;
use std::net::SocketAddr;

/// UDP echo, or sink
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  corelane serve udp 127.0.0.1:8080 --duration 1s\n  \
    corelane serve udp '[::]:8080' --duration 1s           every address of both families\n  \
    corelane serve udp '[::]:8080' --ipv6-only --duration 1s\n  \
    corelane serve udp 127.0.0.1:8080 --buckets 2 --share-cpus --rebalance --write-steering steering.json --duration 1s"
)]
pub struct ServeUdpArguments {
    /// Listen address; 0.0.0.0, or [::] for both families, receives on every address of this machine, and answers from
    /// the one that was asked, but only to loopback and private networks
    #[arg(default_value = "127.0.0.1:8080", value_parser = address)]
    pub address: SocketAddr,
    /// Receive datagrams without answering
    #[arg(long)]
    pub sink: bool,
    /// How a datagram is assigned to a worker: single, shared, farm, reuseport, incoming_cpu or exact
    #[arg(long, value_name = "NAME", default_value = "exact")]
    pub model: Model,
    /// How answers are sent: per_send (the kernel hashes each answer), received (on the transmit queue of the bucket that
    /// the received hash selected; needs --watch, Linux 6.6, CAP_BPF and CAP_NET_ADMIN), caller (on the socket that the
    /// worker's own hash selects) or connected (one socket per flow)
    #[arg(long, value_name = "WAY", default_value = "per_send")]
    pub answers: Answers,
    /// Pass hash, hash type and bucket of each datagram to the application
    #[arg(long)]
    pub metadata: bool,
    /// Count datagrams by hash, hash type and bucket; printed on SIGUSR1, and at the end with --json
    #[arg(long)]
    pub flows: bool,
    /// Socket receive buffer of each bucket; without privilege limited to net.core.rmem_max
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = size)]
    pub receive_buffer: u64,
    /// Device on which to observe the CPU of the receive path, and the CPU and queue of outgoing answers (needs
    /// CAP_NET_RAW)
    #[arg(long, value_name = "DEVICE")]
    pub watch: Option<String>,
    #[command(flatten)]
    pub io: DatagramIoArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub serving: ServingArguments,
}

/// `corelane serve udp`.
pub fn run(arguments: &ServeUdpArguments) -> Outcome {
    let serving = &arguments.serving;
    let table = serving.table(&[(Protocol::Udp, arguments.address)])?;
    let plan = plan(arguments, serving.steered(&table, usize::MAX)?)?;
    foreground::serve(arguments, plan, &serving.run, table)
}

impl Foreground for ServeUdpArguments {
    type Server = UdpServer;

    fn ready(&self, served: &UdpServed) -> String {
        let engine = (&served.engine, served.engine_reason.as_ref());
        ready::listening(served.address, engine, &served.steering, served.model)
    }

    fn steering(served: &UdpServed) -> Option<&Steering> {
        Some(&served.steering).filter(|_| served.model == Model::Exact)
    }

    fn line(&self, served: &UdpServed, last: &UdpServed) -> String {
        format!(
            "{:>12}  seen {:>13}  answered {:>13}  steering {:>6}  locality {:>6}",
            quantity::rate((served.seen() - last.seen()) as f64),
            quantity::count(served.seen()),
            quantity::count(served.answered()),
            share(served.share(BucketServed::steering)),
            share(served.share(BucketServed::locality)),
        )
    }

    fn summary(served: &UdpServed) -> String {
        let table = Rows::of(&served.buckets)
            .right("bucket", |bucket| bucket.bucket.to_string())
            .right("cpu", |bucket| bucket.cpu.to_string())
            .metrics(
                &[&SEEN, &ANSWERED, &DROPPED, &STEERING, &LOCALITY, &TX_LOCALITY],
                |bucket| bucket,
            )
            .table();
        let mut text = table.without_silent_columns().render(width().tables);
        text.push_str(&buckets::by_cause("dropped", &served.dropped()));
        text.push_str(&rebalanced(served.rebalanced.as_ref()));
        text.push_str(&memory_lines(served));
        if let Some(flows) = &served.flows {
            text.push_str(&flow_table(flows, served.flows_uncounted.unwrap_or(0)));
        }
        if let Some(reason) = &served.locality_unknown {
            text.push_str(&format!("locality unknown: {reason}\n"));
        }
        text
    }

    /// Prints the counts of flows.
    fn signal(&self) -> Option<i32> {
        Some(SIGUSR1)
    }

    fn signalled(&self, server: &mut UdpServer) -> Outcome {
        if let Some(counts) = server.flows() {
            let text = flow_table(&counts.flows, counts.uncounted);
            match self.serving.run.json.on_stdout() {
                true => offer(&mut stderr(), &text, 0),
                false => offer(&mut out(), &text, 0),
            };
        }
        Ok(())
    }
}

impl Refused for UdpError {
    fn refused(self) -> anyhow::Error {
        let flag = match self {
            Self::Serve(error) => return error.refused(),
            Self::Answers { .. } | Self::NoDevice | Self::Queues(_) => "--answers",
            Self::ConnectedFlows => "--rebalance",
            _ => return self.into(),
        };
        usage(flag, self)
    }
}

fn plan(arguments: &ServeUdpArguments, steered: SteeringPlan) -> anyhow::Result<UdpPlan> {
    check_memory(&arguments.placing)?;
    let queues = |device: &String| {
        inventory::inventory()
            .require(device)
            .map_err(|error| usage("--watch", error))?;
        transmit_queues(device).map_err(|error| usage("--watch", error))
    };
    Ok(UdpPlan {
        socket: arguments.serving.socket(arguments.address)?,
        mode: if arguments.sink { Mode::Sink } else { Mode::Echo },
        model: arguments.model,
        steered,
        engine: arguments.io.engine.engine,
        settings: arguments.io.settings(&arguments.placing),
        memory: arguments.placing.memory,
        receive_buffer_bytes: Some(arguments.receive_buffer as usize),
        device: arguments.watch.clone(),
        answers: arguments.answers,
        transmit_queues: arguments.watch.as_ref().map(queues).transpose()?,
        metadata: arguments.metadata,
        flows: arguments.flows,
    })
}

fn share(share: Share) -> String {
    quantity::or_missing(share.value(), quantity::percent)
}

/// One row per hash; flows with equal hashes share a row.
fn flow_table(flows: &[FlowCount], uncounted: u64) -> String {
    let table = Rows::of(flows)
        .left("hash", |flow| &flow.hash)
        .left("hash type", |flow| &flow.hash_type)
        .right("bucket", |flow| flow.bucket.to_string())
        .right("worker", |flow| flow.worker.to_string())
        .count("datagrams", |flow| flow.count)
        .table();
    let mut text = table.render(width().tables);
    if uncounted > 0 {
        text.push_str(&format!("of further flows: {}\n", quantity::count(uncounted)));
    }
    text
}

/// NUMA placement of the buffers; only if a policy was set or the pages are on several nodes.
fn memory_lines(served: &UdpServed) -> String {
    let mut text = String::new();
    for bucket in &served.buckets {
        let Some(memory) = &bucket.memory else { continue };
        let pages = memory.buffer_pages_by_node.as_ref();
        let nodes = pages.map_or(0, |nodes| nodes.len());
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
