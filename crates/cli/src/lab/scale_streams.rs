//! Shared by `corelane lab scale http` and `tcp`: arguments for buckets, connections, controls and subjects, and the
//! run.

use crate::lab::bed::{BedArguments, PORT, snapshot};
use crate::lab::observe::ObserveArguments;
use crate::lab::shell::{self, QuickArguments, ShellArguments};
use crate::outcome::{Outcome, usage};
use crate::shared::{MemoryArguments, check_memory};
use crate::steering;
use crate::timeline::TimelineArgument;
use crate::values::{MOST_CONNECTIONS, count_to};
use clap::Args;
use corelane_host::limits;
use corelane_lab::scale::datagrams::Placement;
use corelane_lab::scale::streams::{Protocol, Server, Streams, StreamsPlan, StreamsRequest, SubjectRequest};
use corelane_rss::{HashFields, Key};
use corelane_worker::engine::EngineKind;

#[derive(Debug, Args)]
pub struct StreamsArguments {
    /// Buckets of the server [default: one per CPU; more, sharing CPUs, if the connections need more descriptor tables]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
    /// Numbers of loaded buckets, such as 1,2,4 [default: 1 to all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub active: Option<Vec<usize>>,
    /// Socket selection models of our server: exact, reuseport
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "exact,reuseport"
    )]
    pub models: Vec<Server>,
    /// CPU of each bucket's client: its worker's (aligned), another (crossed) or both, for every model
    /// [default: aligned, and exact crossed too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub placements: Option<Vec<Placement>>,
    /// Total number of connections, such as 1k,10k,100k,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64", value_parser = count_to(MOST_CONNECTIONS))]
    pub connections: Vec<u64>,
    /// Test another server instead of ours: a shell command
    #[arg(long, value_name = "COMMAND")]
    pub subject: Option<String>,
    /// The RSS key [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    pub hash: HashFields,
    /// Entries of the indirection table
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// CPUs of the clients, assigned to buckets in turn [default: each bucket's own]
    #[arg(long, value_name = "LIST", conflicts_with = "placements")]
    pub client_cpus: Option<String>,
    /// Allow more buckets than CPUs
    #[arg(long)]
    pub share_cpus: bool,
    #[command(flatten)]
    pub length: QuickArguments,
    #[command(flatten)]
    pub bed: BedArguments,
    /// System interface: epoll or io_uring [default: io_uring for http if the kernel fully supports it, otherwise
    /// epoll]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    #[command(flatten)]
    pub observe: ObserveArguments,
    #[command(flatten)]
    pub placing: MemoryArguments,
    #[command(flatten)]
    pub timeline: TimelineArgument,
    #[command(flatten)]
    pub shell: ShellArguments,
}

/// Runs the experiment; `complete` sets what differs between `http` and `tcp`.
pub fn run(
    arguments: &StreamsArguments,
    protocol: Protocol,
    complete: impl FnOnce(StreamsRequest) -> StreamsRequest,
) -> Outcome {
    let descriptor_limit = limits::open_descriptors()?;
    let request = complete(request(arguments, protocol, descriptor_limit)?);
    arguments.bed.enter();
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    let (bed_plan, bed) = arguments.bed.build_for_connections(most)?;
    let snapshot = snapshot(&bed);
    let plan = StreamsPlan::new(request, bed_plan, &bed, PORT, descriptor_limit);
    if plan.steps.is_empty() && !arguments.shell.run.dry_run {
        return Err(usage("--connections", plan.left_out.join("; ")));
    }
    let trial_seconds = plan.request.duration_s + 0.5;
    let mut experiment = Streams {
        plan,
        bed: (&bed).into(),
        program: shell::program()?,
        facts: shell::facts(&snapshot),
    };
    // Each trial builds its own bed.
    drop(bed);
    arguments.shell.run(
        &mut experiment,
        (&snapshot, trial_seconds),
        Some(&arguments.timeline),
    )
}

fn request(
    arguments: &StreamsArguments,
    protocol: Protocol,
    descriptor_limit: usize,
) -> anyhow::Result<StreamsRequest> {
    let cpus = cpus(arguments, descriptor_limit)?;
    let buckets = cpus.len();
    check_memory(&arguments.placing)?;
    let active = arguments.active.iter().flatten();
    if let Some(active) = active.copied().find(|active| !(1..=buckets).contains(active)) {
        return Err(usage(
            "--active",
            format!("{active} of {buckets} buckets cannot be loaded"),
        ));
    }
    let client_cpus = arguments.client_cpus.as_deref();
    let client_cpus = client_cpus.map(|list| steering::worker_cpus(Some(list), None));
    Ok(StreamsRequest {
        protocol,
        steering: steering::round_robin(arguments.key.as_ref(), arguments.table_size, arguments.hash, cpus)?,
        servers: arguments.models.clone(),
        subject: arguments
            .subject
            .clone()
            .map(|command| SubjectRequest { command, path: None }),
        placements: arguments.placements.clone(),
        traffics: Vec::new(),
        object_bytes: Vec::new(),
        write_bytes: Vec::new(),
        connections: arguments.connections.clone(),
        quick: arguments.length.quick,
        active: arguments.active.clone(),
        client_cpus: client_cpus.transpose()?,
        rate: None,
        duration_s: 0.0,
        rounds: arguments.shell.turns.rounds,
        engine: arguments.engine,
        seed: arguments.shell.turns.seed,
        max_steal: arguments.shell.max_steal,
        observe: arguments.observe.requested(),
        memory: arguments.placing.memory,
        buffer_memory: arguments.placing.buffer_memory,
    })
}

/// The CPU of each bucket. By default there is one bucket per CPU, or as many as descriptor tables are needed.
fn cpus(arguments: &StreamsArguments, descriptor_limit: usize) -> anyhow::Result<Vec<u32>> {
    let list = arguments.cpus.as_deref();
    let cpus = steering::bucket_cpus(list, arguments.buckets, arguments.share_cpus)?;
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    if arguments.buckets.is_some() || arguments.subject.is_some() {
        return Ok(cpus);
    }
    let buckets = StreamsPlan::buckets_for(most, cpus.len(), descriptor_limit);
    Ok(cpus.iter().copied().cycle().take(buckets).collect())
}
