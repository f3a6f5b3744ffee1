//! `corelane lab scale udp`: the scaling experiment for datagrams.

use crate::lab::bed::{BedArgument, PORT, build_bed, snapshot};
use crate::lab::shell::{self, ShellArguments};
use crate::outcome::{Outcome, usage};
use crate::shared::{MemoryArguments, MovingArguments, check_memory, moving};
use crate::steering::{self, Asking};
use crate::values::{duration, size};
use anyhow::Context;
use clap::Args;
use corelane_host::bed;
use corelane_host::limits;
use corelane_lab::scale::{Observe, Placement, Scale, ScaleError, ScalePlan, ScaleRequest};
use corelane_load::sources::SourceError;
use corelane_load::udp::{Skew, UdpLoadError};
use corelane_proto::probe::Stamp;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::udp::{Answers, Mode, Model};
use corelane_serve::{UnknownWord, read_word};
use serde::de::DeserializeOwned;
use std::str::FromStr;
use std::time::Duration;

/// Models to compare: a list, or all there are.
#[derive(Debug, Clone)]
pub struct Models(pub Vec<Model>);

impl FromStr for Models {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        each(text, &Model::ALL).map(Self)
    }
}

/// Ways to answer to try: a list, or all there are.
#[derive(Debug, Clone)]
pub struct AnswerWays(pub Vec<Answers>);

impl FromStr for AnswerWays {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        each(text, &Answers::ALL).map(Self)
    }
}

/// The words of a list, each once, or `all`.
fn each<T: DeserializeOwned + Copy + PartialEq>(text: &str, all: &[T]) -> Result<Vec<T>, UnknownWord> {
    if text == "all" {
        return Ok(all.to_vec());
    }
    let mut words = Vec::new();
    for word in text.split(',') {
        let word = read_word(word.trim())?;
        if !words.contains(&word) {
            words.push(word);
        }
    }
    Ok(words)
}

#[derive(Debug, Args)]
pub struct ScaleUdpArguments {
    /// Buckets of the server; 1 to N of them are active [default: one a CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
    /// Models to compare, of single, shared, farm, reuseport, incoming_cpu and exact
    #[arg(long, value_name = "all|LIST", default_value = "exact,reuseport")]
    pub models: Models,
    /// Where each bucket's client runs, on its worker's CPU or on another: aligned, crossed or both, for every model
    /// [default: aligned, and exact crossed too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub placements: Option<Vec<Placement>>,
    /// What the server does, for every model: echo, sink or both [default: echo, and exact as a sink too]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = read_word::<Mode>)]
    pub modes: Option<Vec<Mode>>,
    /// Length of one trial
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub duration: Duration,
    /// Payload of each datagram, 16 to 65507 bytes
    #[arg(long, value_name = "SIZE", default_value = "510", value_parser = size)]
    pub size: u64,
    /// Client sockets a bucket, each with an address of its own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub flows: u32,
    /// Unanswered datagrams a socket in echo; the sink is flooded
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    /// Try every model with aligned clients under skew too, all buckets active: elephant:SHARE (one flow has that
    /// share of all traffic) or zipf:EXPONENT
    #[arg(long, value_name = "SKEW", default_value = "none")]
    pub skew: Skew,
    /// Watch on which CPU and queue answers leave, and try these ways to answer beside: per_send, received, caller,
    /// connected
    #[arg(long, value_name = "all|LIST")]
    pub answers: Option<AnswerWays>,
    /// Try beside what it costs to give the application hash, hash type and bucket of each datagram
    #[arg(long)]
    pub metadata: bool,
    /// The RSS key [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    /// Entries of the indirection table
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Allow more buckets than CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// Where the experiment runs
    #[arg(long, value_enum, default_value = "auto")]
    pub bed: BedArgument,
    #[command(flatten)]
    pub moving: MovingArguments,
    #[command(flatten)]
    pub observe: ObserveArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub shell: ShellArguments,
}

/// What is observed while each trial is measured.
#[derive(Debug, Args)]
pub struct ObserveArguments {
    /// Tell where the CPUs' time went: functions and callers, of workers and of softirq (needs root or CAP_PERFMON)
    #[arg(long)]
    pub profile: bool,
    /// Tell which kernel locks were waited for, echo beside sink (needs root, Linux 5.19)
    #[arg(long)]
    pub locks: bool,
    /// Tell what each CPU's receive path did, with the high-water marks of its backlog
    #[arg(long)]
    pub softnet: bool,
}

/// `corelane lab scale udp`.
pub fn run(arguments: &ScaleUdpArguments) -> Outcome {
    Stamp::new(arguments.size as usize).map_err(|error| usage("--size", error))?;
    let request = request(arguments)?;
    // While there is one thread: namespaces without privilege need a user namespace around them.
    if arguments.bed != BedArgument::Loopback {
        // A refusal is no error here: the bed says what it could not have, and why.
        let _ = bed::enter_user_namespace();
    }
    let buckets = request.steering.table.buckets();
    // A transmit queue a bucket where it is watched which of them answers leave on; one, as the kernel makes it, where not.
    let queues = (!request.answers.is_empty()).then_some(buckets as u32);
    let bed = build_bed(arguments.bed, buckets, arguments.size as u32, queues)?;
    let snapshot = snapshot(&bed);
    let mut experiment = Scale::new(
        ScalePlan::new(request, &bed, PORT),
        bed,
        std::env::current_exe().context("finding the program's own file")?,
        shell::facts(&snapshot),
        limits::open_descriptors()?,
    );
    let trial_seconds = arguments.duration.as_secs_f64() + 0.5;
    shell::run(
        &arguments.shell,
        &mut experiment,
        (&snapshot, trial_seconds),
        name_flag,
    )
}

fn request(arguments: &ScaleUdpArguments) -> anyhow::Result<ScaleRequest> {
    let asking = Asking::Buckets {
        share: arguments.share_cpus,
    };
    let cpus = steering::place(arguments.cpus.as_deref(), arguments.buckets, asking)?;
    let table = IndirectionTable::round_robin(arguments.table_size, cpus.len())
        .map_err(|error| usage("--table-size and --buckets", error))?;
    let moving = moving(&arguments.moving);
    check_memory(&arguments.placing)?;
    Ok(ScaleRequest {
        steering: Steering {
            key: arguments.key.clone().unwrap_or(Key::VERIFICATION),
            hash_fields: HashFields::TwoTuple,
            table,
            cpus,
            generation: 0,
        },
        models: arguments.models.0.clone(),
        placements: arguments.placements.clone(),
        modes: arguments.modes.clone(),
        skew: arguments.skew,
        answers: (arguments.answers.as_ref()).map_or_else(Vec::new, |ways| ways.0.clone()),
        metadata: arguments.metadata,
        duration_s: arguments.duration.as_secs_f64(),
        rounds: arguments.shell.rounds,
        payload_bytes: arguments.size as usize,
        flows: arguments.flows as usize,
        window: arguments.window,
        engine: arguments.moving.engine,
        batch: moving.datagram_batch,
        gso: moving.coalesce,
        gro: moving.gro,
        memory: arguments.placing.memory,
        buffer_memory: arguments.placing.buffer_memory,
        seed: arguments.shell.seed,
        max_steal: arguments.shell.max_steal,
        observe: Observe {
            profile: arguments.observe.profile,
            locks: arguments.observe.locks,
            softnet: arguments.observe.softnet,
        },
    })
}

fn name_flag(error: ScaleError) -> anyhow::Error {
    match error {
        ScaleError::Load(UdpLoadError::Sources(error @ SourceError::Unreached { .. })) => {
            usage("--buckets", error)
        }
        error => error.into(),
    }
}
