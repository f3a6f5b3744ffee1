//! `corelane lab scale udp`: the scaling experiment for UDP datagrams.

use super::scale::ScaleArguments;
use crate::lab::bed::{PORT, snapshot};
use crate::lab::shell;
use crate::outcome::{Outcome, usage};
use crate::shared::DatagramIoArguments;
use crate::values::{duration, size};
use clap::Args;
use corelane_host::limits;
use corelane_lab::scale::datagrams::{Placement, Scale, ScalePlan, ScaleRequest, Selection};
use corelane_load::udp::Skew;
use corelane_measure::words::UnknownWord;
use corelane_proto::probe::Stamp;
use corelane_serve::udp::{Answers, Mode, Model};
use std::str::FromStr;
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab scale udp --quick --json scale.json\n  \
    corelane lab scale udp --models all --placements aligned,crossed --duration 100ms --rounds 1\n  \
    corelane lab scale udp --ipv6 --hash 4tuple --duration 100ms --rounds 1";

/// A list without duplicates.
#[derive(Debug, Clone)]
pub struct Choice<T>(pub Vec<T>);

/// Parses `all`, or a comma-separated list.
fn choice<T: FromStr<Err = UnknownWord> + Copy + PartialEq>(
    text: &str,
    all: &[T],
) -> Result<Choice<T>, UnknownWord> {
    if text == "all" {
        return Ok(Choice(all.to_vec()));
    }
    let mut words = Vec::new();
    for word in text.split(',') {
        let word = word.trim().parse()?;
        if !words.contains(&word) {
            words.push(word);
        }
    }
    Ok(Choice(words))
}

/// UDP: 1 to N active buckets, frames counted at five points
#[derive(Debug, Args)]
#[command(mut_arg("hash", |hash| hash
    .default_value("2tuple")
    .help("Fields to hash; clients differ in addresses under 2tuple, and in ports too under 4tuple")))]
#[command(after_help = EXAMPLES)]
pub struct ScaleUdpArguments {
    /// Buckets of the server; 1 to N of them are active [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
    /// Models to compare: single, shared, farm, reuseport, incoming_cpu, exact
    #[arg(long, value_name = "all|LIST", default_value = "exact,reuseport", value_parser = |text: &str| choice(text, &Model::ALL))]
    pub models: Choice<Model>,
    /// CPU of each bucket's client: its worker's (aligned), another (crossed) or both, for every model
    /// [default: aligned, and exact crossed too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub placements: Option<Vec<Placement>>,
    /// Server modes for every model: echo, sink or both [default: echo, and exact as a sink too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub modes: Option<Vec<Mode>>,
    /// Duration of one trial
    #[arg(short, long, value_name = "TIME", default_value = "1s", default_value_if("quick", "true", "500ms"), value_parser = duration)]
    pub duration: Duration,
    /// Payload of each datagram, 16 to 65507 bytes; to 65487 with --ipv6
    #[arg(long, value_name = "SIZE", default_value = "510", value_parser = size)]
    pub size: u64,
    /// Client sockets per bucket, each with its own address
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub flows: u32,
    /// Unanswered datagrams per socket in echo mode; the sink is flooded
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    /// Also test every model with aligned clients under skew, all buckets active: elephant:SHARE (one flow has that
    /// share of all traffic) or zipf:EXPONENT
    #[arg(long, value_name = "SKEW", default_value = "none")]
    pub skew: Skew,
    /// Observe the CPU and queue on which answers leave, and also test these answer methods: per_send, received,
    /// caller, connected
    #[arg(long, value_name = "all|LIST", value_parser = |text: &str| choice(text, &Answers::ALL))]
    pub answers: Option<Choice<Answers>>,
    /// Also measure the cost of passing hash, hash type and bucket of each datagram to the application
    #[arg(long)]
    pub metadata: bool,
    #[command(flatten)]
    pub scale: ScaleArguments<(), DatagramIoArguments>,
}

/// `corelane lab scale udp`.
pub fn run(arguments: &ScaleUdpArguments) -> Outcome {
    Stamp::new(arguments.size as usize).map_err(|error| usage("--size", error))?;
    let (request, scale) = (request(arguments)?, &arguments.scale);
    scale.bed.enter();
    let buckets = request.settings.steering.table.buckets();
    // With `--answers`, one transmit queue per bucket, to observe which one answers leave on; otherwise the kernel's
    // default.
    let queues = (!request.selection.answers.is_empty()).then_some(buckets as u32);
    let bed = scale.bed.build(buckets, arguments.size as u32, queues)?;
    let facts = shell::facts(snapshot(&bed));
    let mut experiment = Scale {
        plan: ScalePlan::new(request, &bed, PORT),
        bed,
        program: shell::program()?,
        facts,
        descriptor_limit: limits::open_descriptors()?,
    };
    scale.run(&mut experiment, arguments.duration)
}

fn request(arguments: &ScaleUdpArguments) -> anyhow::Result<ScaleRequest> {
    let (scale, io) = (&arguments.scale, &arguments.scale.engine);
    let cpus = scale.cpus(arguments.buckets)?;
    Ok(ScaleRequest {
        selection: Selection {
            models: arguments.models.0.clone(),
            modes: arguments.modes.clone(),
            skew: arguments.skew,
            answers: (arguments.answers.as_ref()).map_or_else(Vec::new, |ways| ways.0.clone()),
            metadata: arguments.metadata,
            common: scale.selection(arguments.placements.as_ref()),
        },
        settings: scale.settings(cpus, io.engine.engine, arguments.duration)?,
        payload_bytes: arguments.size as usize,
        flows: arguments.flows as usize,
        window: arguments.window,
        batch: usize::from(io.batch),
        gso: io.gso,
        gro: io.gro,
    })
}
