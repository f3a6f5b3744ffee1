//! Shared by `corelane lab scale http` and `tcp`: arguments for buckets, connections, controls and subjects, and the
//! run.

use super::scale::ScaleArguments;
use crate::lab::bed::{PORT, snapshot};
use crate::lab::shell;
use crate::outcome::{Outcome, usage};
use crate::shared::{ENGINE_OF_STREAMS, EngineArgument};
use crate::steering;
use crate::values::{MOST_CONNECTIONS, count_to};
use clap::Args;
use corelane_host::limits;
use corelane_lab::scale::datagrams::Placement;
use corelane_lab::scale::streams::{
    Protocol, Selection, Server, Streams, StreamsPlan, StreamsRequest, SubjectRequest,
};
use corelane_measure::quantity;
use corelane_rss::IndirectionTable;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(mut_arg("engine", |engine| engine.help(ENGINE_OF_STREAMS)))]
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
    #[command(flatten)]
    pub scale: ScaleArguments<ClientArguments, EngineArgument>,
}

/// CPUs of the clients.
#[derive(Debug, Args)]
pub struct ClientArguments {
    /// CPUs of the clients, assigned to buckets in turn [default: each bucket's own]
    #[arg(long, value_name = "LIST", conflicts_with = "placements")]
    pub client_cpus: Option<String>,
}

/// Runs the experiment; `complete` sets what differs between `http` and `tcp`.
pub fn run(
    arguments: &StreamsArguments,
    protocol: Protocol,
    duration: Duration,
    complete: impl FnOnce(&mut StreamsRequest),
) -> Outcome {
    let (mut request, scale) = (request(arguments, protocol, duration)?, &arguments.scale);
    complete(&mut request);
    scale.bed.enter();
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    let (bed_plan, bed) = scale.bed.build_for_connections(most)?;
    let facts = shell::facts(snapshot(&bed));
    let plan = StreamsPlan::new(request, bed_plan, &bed, PORT);
    if plan.steps.is_empty() && !scale.shell.run.dry_run {
        return Err(usage("--connections", plan.left_out.join("; ")));
    }
    let mut experiment = Streams {
        plan,
        bed: (&bed).into(),
        program: shell::program()?,
        facts,
    };
    // Each trial builds its own bed.
    drop(bed);
    scale.run(&mut experiment, duration)
}

fn request(
    arguments: &StreamsArguments,
    protocol: Protocol,
    duration: Duration,
) -> anyhow::Result<StreamsRequest> {
    let (scale, descriptor_limit) = (&arguments.scale, limits::open_descriptors()?);
    let cpus = cpus(arguments, descriptor_limit)?;
    let buckets = cpus.len();
    let settings = scale.settings(cpus, scale.engine.engine, duration)?;
    let active = arguments.active.iter().flatten();
    if let Some(active) = active.copied().find(|active| !(1..=buckets).contains(active)) {
        let what = format!("{active} of {buckets} buckets cannot be loaded");
        return Err(usage("--active", what));
    }
    let client_cpus = scale.clients.client_cpus.as_deref();
    let client_cpus = client_cpus.map(|list| steering::worker_cpus(Some(list), None));
    let subject = arguments.subject.clone();
    Ok(StreamsRequest {
        protocol,
        selection: Selection {
            servers: arguments.models.clone(),
            connections: arguments.connections.clone(),
            active: arguments.active.clone(),
            descriptor_limit,
            common: scale.selection(arguments.placements.as_ref()),
            ..Selection::default()
        },
        settings,
        subject: subject.map(|command| SubjectRequest { command, path: None }),
        client_cpus: client_cpus.transpose()?,
        rate: None,
    })
}

/// The CPU of each bucket. By default there is one bucket per CPU, or as many as descriptor tables are needed.
fn cpus(arguments: &StreamsArguments, descriptor_limit: usize) -> anyhow::Result<Vec<u32>> {
    let cpus = arguments.scale.cpus(arguments.buckets)?;
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    if arguments.buckets.is_some() || arguments.subject.is_some() {
        return Ok(cpus);
    }
    let buckets = StreamsPlan::buckets_for(most, cpus.len(), descriptor_limit);
    let entries = arguments.scale.table_size;
    if buckets > entries {
        let (most, tables) = (quantity::count(most), quantity::count(buckets as u64));
        let largest = IndirectionTable::LARGEST;
        let what = format!(
            "{most} need {tables} descriptor tables of {descriptor_limit} (ulimit -n), each with a bucket of its own, and the \
             table has {entries} entries: give fewer connections, a higher ulimit -n, or --table-size up to {largest}"
        );
        return Err(usage("--connections", what));
    }
    Ok(cpus.iter().copied().cycle().take(buckets).collect())
}
