//! What `corelane lab scale http` and `tcp` share: buckets, connections, controls and subjects as arguments, and the run.

use crate::lab::bed::{BedArgument, PORT, bed_for_connections, snapshot};
use crate::lab::shell::{self, ShellArguments};
use crate::outcome::{Outcome, usage};
use crate::steering::{self, Asking};
use crate::values::count;
use anyhow::Context;
use clap::Args;
use corelane_host::{bed, limits};
use corelane_lab::scale::Placement;
use corelane_lab::streams::{
    Protocol, Server, Streams, StreamsPlan, StreamsRequest, SubjectRequest, Traffic,
};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_worker::engine::EngineKind;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct StreamsArguments {
    /// Buckets of the server [default: one a CPU; more, sharing CPUs, where the connections need the descriptor tables]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
    /// Numbers of buckets that are loaded, such as 1,2,4 [default: 1 to all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub active: Option<Vec<usize>>,
    /// Ways in which our server's sockets are chosen: exact, reuseport
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "exact,reuseport"
    )]
    pub models: Vec<Server>,
    /// Where each bucket's client runs, on its worker's CPU or on another: aligned, crossed or both, for every model
    /// [default: aligned, and exact crossed too]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub placements: Option<Vec<Placement>>,
    /// Connections in all, such as 1k,10k,100k,1M
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64", value_parser = count)]
    pub connections: Vec<u64>,
    /// Another server in place of ours: a command as a shell takes it
    #[arg(long, value_name = "COMMAND")]
    pub subject: Option<String>,
    /// The RSS key [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    /// Entries of the indirection table
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    pub table_size: usize,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// CPUs of the clients, in turn, a bucket each [default: each bucket's own]
    #[arg(long, value_name = "LIST", conflicts_with = "placements")]
    pub client_cpus: Option<String>,
    /// Allow more buckets than CPUs
    #[arg(long)]
    pub share_cpus: bool,
    /// Where the experiment runs
    #[arg(long, value_enum, default_value = "auto")]
    pub bed: BedArgument,
    /// System interface: epoll or io_uring [default: what a probe finds best]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    #[command(flatten)]
    pub shell: ShellArguments,
}

/// What one of the two asks for beside that.
pub struct Asked {
    pub protocol: Protocol,
    pub traffics: Vec<Traffic>,
    pub object_bytes: Vec<u64>,
    pub write_bytes: Vec<u64>,
    /// Requests, or bytes, a second.
    pub rate: Option<f64>,
    /// Of one trial.
    pub duration: Duration,
    /// What to ask a subject for.
    pub path: Option<String>,
}

/// Runs the experiment.
pub fn run(arguments: &StreamsArguments, asked: Asked) -> Outcome {
    let descriptor_limit = limits::open_descriptors()?;
    let request = request(arguments, asked, descriptor_limit)?;
    // While there is one thread: namespaces without privilege need a user namespace around them.
    if arguments.bed != BedArgument::Loopback {
        // A refusal is no error here: the bed says what it could not have, and why.
        let _ = bed::enter_user_namespace();
    }
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    let (bed_plan, bed) = bed_for_connections(arguments.bed, most)?;
    let snapshot = snapshot(&bed);
    let plan = StreamsPlan::new(request, bed_plan, &bed, PORT, descriptor_limit);
    if plan.steps.is_empty() && !arguments.shell.run.dry_run {
        return Err(usage("--connections", plan.left_out.join("; ")));
    }
    let trial_seconds = plan.request.duration_s + 0.5;
    let mut experiment = Streams {
        plan,
        bed: (&bed).into(),
        program: std::env::current_exe().context("finding the program's own file")?,
        facts: shell::facts(&snapshot),
    };
    // Each trial builds its own.
    drop(bed);
    shell::run(
        &arguments.shell,
        &mut experiment,
        (&snapshot, trial_seconds),
        Into::into,
    )
}

fn request(
    arguments: &StreamsArguments,
    asked: Asked,
    descriptor_limit: usize,
) -> anyhow::Result<StreamsRequest> {
    let cpus = cpus(arguments, descriptor_limit)?;
    let table = IndirectionTable::round_robin(arguments.table_size, cpus.len())
        .map_err(|error| usage("--table-size and --buckets", error))?;
    if let Some(active) = arguments
        .active
        .iter()
        .flatten()
        .find(|active| !(1..=cpus.len()).contains(*active))
    {
        return Err(usage(
            "--active",
            format!("{active} of {} buckets cannot be loaded", cpus.len()),
        ));
    }
    if asked.rate.is_some_and(|rate| rate <= 0.0) {
        return Err(usage("--rate", "a rate is more than 0"));
    }
    if arguments.connections.contains(&0) {
        return Err(usage("--connections", "give at least 1"));
    }
    let client_cpus = arguments.client_cpus.as_deref();
    let client_cpus = client_cpus.map(|list| steering::place(Some(list), None, Asking::Workers));
    Ok(StreamsRequest {
        protocol: asked.protocol,
        steering: Steering {
            key: arguments.key.clone().unwrap_or(Key::VERIFICATION),
            hash_fields: HashFields::FourTuple,
            table,
            cpus,
            generation: 0,
        },
        servers: arguments.models.clone(),
        subject: arguments.subject.clone().map(|command| SubjectRequest {
            command,
            path: asked.path,
        }),
        placements: arguments.placements.clone(),
        traffics: asked.traffics,
        object_bytes: asked.object_bytes,
        write_bytes: asked.write_bytes,
        connections: arguments.connections.clone(),
        active: arguments.active.clone(),
        client_cpus: client_cpus.transpose()?,
        rate: asked.rate,
        duration_s: asked.duration.as_secs_f64(),
        rounds: arguments.shell.rounds,
        engine: arguments.engine,
        seed: arguments.shell.seed,
        max_steal: arguments.shell.max_steal,
    })
}

/// The CPU of each bucket: as many buckets as asked for; else one a CPU, or as many as the descriptor tables have to be.
fn cpus(arguments: &StreamsArguments, descriptor_limit: usize) -> anyhow::Result<Vec<u32>> {
    let asking = Asking::Buckets {
        share: arguments.share_cpus,
    };
    let list = arguments.cpus.as_deref();
    let cpus = steering::place(list, arguments.buckets, asking)?;
    let most = arguments.connections.iter().copied().max().unwrap_or(1);
    if arguments.buckets.is_some() || arguments.subject.is_some() {
        return Ok(cpus);
    }
    let buckets = StreamsPlan::buckets_for(most, cpus.len(), descriptor_limit);
    Ok(cpus.iter().copied().cycle().take(buckets).collect())
}
