//! `corelane steer`: attaches the exact hash to the socket group of a running server. Input: a process and a port.
//! Output: the group's order, the worker and CPU of each socket, and the action taken.

mod live;

use crate::metrics::MetricsArgument;
use crate::names::address;
use crate::outcome::Outcome;
use crate::rebalanced::rebalanced;
use crate::serve::live_table::LiveTable;
use crate::shared::{JsonArgument, print};
use crate::standard::write_out;
use crate::steering;
use crate::terminal::width;
use crate::values::{duration, key, moves, process};
use clap::Args;
use corelane_measure::quantity::or_missing;
use corelane_report::table::Rows;
use corelane_rss::balance::Policy;
use corelane_rss::steer;
use corelane_rss::{Bucket, HashFields, Key, Steering};
use corelane_worker::adopt::{Adopted, Member, Owner, SampledLoads, Sought};
use corelane_worker::group::Transport;
use corelane_worker::rebalancing::Rebalanced;
use corelane_worker::steered::at_places;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples (nginx with listen … reuseport, worker_processes 2, worker_cpu_affinity auto):\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80 --dry-run\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80 --undo\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80 --rebalance --write-steering steering.json --duration 2s";

#[derive(Debug, Args)]
#[command(mut_arg("metrics", |metrics| metrics.requires("rebalance").help(
    "With --rebalance: serve metrics for Prometheus: ADDRESS:PORT, :PORT on loopback, or unix:PATH; see docs/METRICS.md"
)))]
pub struct SteerArguments {
    /// Process ID of the server, or of the parent of its workers
    #[arg(long, value_name = "PID", value_parser = process)]
    pid: u32,
    /// Port of the server
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// Select the TCP sockets, if the server has both
    #[arg(long, conflicts_with = "udp")]
    tcp: bool,
    /// Select the UDP sockets, if the server has both
    #[arg(long)]
    udp: bool,
    /// Listen address, if the server has several on the port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    address: Option<SocketAddr>,
    /// Detach the program: restore the kernel's default hash
    #[arg(long, conflicts_with_all = ["steering", "key", "table_size", "hash"])]
    undo: bool,
    /// Steering document: each bucket goes to the worker pinned to the bucket's CPU
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "hash"])]
    steering: Option<PathBuf>,
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed, or intel, mlx, i40e, ena [default: the verification
    /// suite's]
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<Key>,
    /// Entries of the indirection table, which maps to the sockets round robin
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    table_size: usize,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    hash: HashFields,
    /// Attach even if workers and buckets do not match; replace files that corelane did not write
    #[arg(long)]
    force: bool,
    /// Stay, and move entries of the table from loaded to idle workers, at most N per second [default: 10]: sampled
    /// packets are the load (needs CAP_NET_RAW); open connections stay, new ones follow
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10", value_parser = moves)]
    #[arg(conflicts_with_all = ["undo", "dry_run"])]
    rebalance: Option<Policy>,
    /// Rebalance for this time; the last table stays [default: until SIGINT]
    #[arg(short, long, value_name = "TIME", value_parser = duration, requires = "rebalance")]
    duration: Option<Duration>,
    /// Write the steering document, for clients, to FILE, and again when rebalancing changes its table
    #[arg(long, value_name = "FILE", requires = "rebalance")]
    write_steering: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgument,
    /// Show the result without attaching
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: JsonArgument,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/steer/1")]
struct SteerDocument {
    transport: String,
    address: SocketAddr,
    members: Vec<MemberRow>,
    order_is_certain: bool,
    /// Why workers and buckets do not match; empty if they do.
    mismatches: Vec<String>,
    notes: Vec<String>,
    action: &'static str,
    /// Length of the program that is or would be attached.
    instructions: Option<usize>,
    /// The steering document for clients.
    steering: Option<Steering>,
    /// What rebalancing moved, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    rebalanced: Option<Rebalanced>,
}

/// A socket of the group.
#[derive(Serialize)]
struct MemberRow {
    /// Index in the group.
    member: usize,
    /// The bucket that the socket serves after steering.
    bucket: Option<Bucket>,
    /// Table entries that map to the bucket.
    entries: usize,
    inode: u32,
    /// Threads that wait on the socket.
    workers: Vec<Owner>,
}

/// Finds the group, checks it, attaches or detaches, and prints the result.
pub fn run(arguments: &SteerArguments) -> Outcome {
    let group = Adopted::find(sought(arguments))?;
    if arguments.undo {
        if !arguments.dry_run {
            group.detach()?;
        }
        let action = if arguments.dry_run { "none" } else { "detached" };
        return print(arguments.json, &document(&group, None, action), text);
    }
    let steering = match &arguments.steering {
        Some(path) => steering::from_file(path)?,
        None => own_steering(arguments, &group)?,
    };
    let (places, mismatches) = places(&steering, &group, arguments.steering.is_some());
    let program = steer::program(&at_places(&steering, &places)?, group.families)?;
    let refused = !mismatches.is_empty() && !arguments.force;
    let means = match arguments.rebalance.filter(|_| !refused) {
        Some(policy) => Some((policy, means(arguments, &group, &steering)?)),
        None => None,
    };
    let action = match () {
        () if arguments.dry_run => "none",
        () if refused => "refused",
        () => {
            group.attach(&program)?;
            "attached"
        }
    };
    let of_steering = |steering| SteerDocument {
        mismatches: mismatches.clone(),
        notes: notes(&group),
        instructions: Some(program.instructions().len()),
        ..document(&group, Some((steering, &places)), action)
    };
    let document = of_steering(steering.clone());
    if let Some((policy, means)) = means {
        if !arguments.json.on_stdout() {
            write_out(&text(&document));
        }
        let until = (policy, arguments.duration);
        let of_server = (sought(arguments), &group);
        let ended = live::rebalance(of_server, (steering, &places), until, means)?;
        let document = SteerDocument {
            rebalanced: Some(ended.done),
            ..of_steering(ended.steering)
        };
        print(arguments.json, &document, |document| {
            rebalanced(document.rebalanced.as_ref())
        })?;
        return ended.lost.map_or(Ok(()), Err);
    }
    print(arguments.json, &document, text)?;
    if refused && !arguments.dry_run {
        anyhow::bail!(
            "workers and buckets do not match: {} (--force attaches anyway)",
            document.mismatches.join("; ")
        );
    }
    Ok(())
}

/// What rebalancing needs, before a program is attached.
fn means(arguments: &SteerArguments, group: &Adopted, steering: &Steering) -> anyhow::Result<live::Means> {
    let file = arguments.write_steering.clone();
    let table = LiveTable::new(None, arguments.steering.as_deref(), file)?;
    table.check()?;
    Ok(live::Means {
        sampled: SampledLoads::new(group, arguments.pid, steering)?,
        table,
        metrics: arguments.metrics.listen()?,
    })
}

const UNCERTAIN: &str =
    "the order of the group is uncertain: sockets were not created in the order of their listen calls";

fn document(group: &Adopted, steered: Option<(Steering, &[u16])>, action: &'static str) -> SteerDocument {
    SteerDocument {
        transport: group.transport.to_string(),
        address: group.address,
        members: rows(group, steered.as_ref()),
        order_is_certain: group.order_is_certain,
        mismatches: Vec::new(),
        notes: Vec::new(),
        action,
        instructions: None,
        steering: steered.map(|(steering, _)| steering),
        rebalanced: None,
    }
}

fn sought(arguments: &SteerArguments) -> Sought {
    Sought {
        process: arguments.pid,
        port: arguments.port,
        transport: match (arguments.tcp, arguments.udp) {
            (true, _) => Some(Transport::Tcp),
            (_, true) => Some(Transport::Udp),
            _ => None,
        },
        address: arguments.address,
    }
}

/// The CPU that a socket's one worker is pinned to.
fn pinned(owners: &[Owner]) -> Option<u32> {
    let [Owner { cpus, .. }] = owners else { return None };
    <[u32; 1]>::try_from(&cpus[..]).ok().map(|[cpu]| cpu)
}

/// A steering with one bucket per socket, in group order, on the CPUs of the workers.
fn own_steering(arguments: &SteerArguments, group: &Adopted) -> anyhow::Result<Steering> {
    let first_cpu = |owners: &[Owner]| owners.first().and_then(|owner| owner.cpus.first().copied());
    let members = group.members.iter();
    let cpus = members
        .map(|member| first_cpu(&member.owners).unwrap_or(0))
        .collect();
    steering::round_robin(arguments.key.as_ref(), arguments.table_size, arguments.hash, cpus)
}

/// The group index of each bucket's socket, and the mismatches found.
fn places(steering: &Steering, group: &Adopted, given: bool) -> (Vec<u16>, Vec<String>) {
    let (buckets, members) = (steering.table.buckets(), group.members.len());
    let uncertain = (!group.order_is_certain).then(|| UNCERTAIN.to_owned());
    let mut mismatches: Vec<String> = uncertain.into_iter().collect();
    for (place, member) in group.members.iter().enumerate() {
        match &member.owners[..] {
            [] => mismatches.push(format!("no process waits on socket {place}")),
            [_] => {}
            several => mismatches.push(format!("{} processes wait on socket {place}", several.len())),
        }
    }
    if !given {
        return ((0..buckets as u16).collect(), mismatches);
    }
    if buckets != members {
        mismatches.push(format!(
            "the document has {buckets} buckets, the group {members} sockets"
        ));
    }
    let mut places = Vec::new();
    for bucket in 0..buckets {
        let cpu = steering.cpus[bucket];
        let on_cpu = (0..members).filter(|place| pinned(&group.members[*place].owners) == Some(cpu));
        let free: Vec<u16> = on_cpu
            .map(|place| place as u16)
            .filter(|place| !places.contains(place))
            .collect();
        match free.first() {
            Some(place) => places.push(*place),
            None => {
                mismatches.push(format!(
                    "bucket {bucket} is CPU {cpu}'s, and no worker is pinned there alone"
                ));
                places.push((bucket % members) as u16);
            }
        }
    }
    (places, mismatches)
}

fn notes(group: &Adopted) -> Vec<String> {
    let members = group.members.iter().enumerate();
    let unpinned = members.filter(|(_, member)| pinned(&member.owners).is_none());
    let note = |(place, _)| {
        format!("the worker of socket {place} is not pinned to one CPU: its bucket has a worker, but no CPU")
    };
    unpinned.map(note).collect()
}

fn rows(group: &Adopted, steered: Option<&(Steering, &[u16])>) -> Vec<MemberRow> {
    let row = |(place, member): (usize, &Member)| {
        let bucket = steered.and_then(|(_, places)| {
            places
                .iter()
                .position(|of_bucket| usize::from(*of_bucket) == place)
        });
        let bucket = bucket.map(|bucket| Bucket::new(bucket as u16));
        let entries = steered.map_or(&[][..], |(steering, _)| steering.table.entries());
        MemberRow {
            member: place,
            bucket,
            entries: entries.iter().filter(|entry| Some(**entry) == bucket).count(),
            inode: member.inode,
            workers: member.owners.clone(),
        }
    };
    group.members.iter().enumerate().map(row).collect()
}

fn text(document: &SteerDocument) -> String {
    let each = |row: &MemberRow, words: fn(&Owner) -> String| {
        row.workers.iter().map(words).collect::<Vec<_>>().join(", ")
    };
    let worker = |worker: &Owner| {
        let thread = worker.thread.filter(|thread| *thread != worker.process);
        let thread = thread.map_or(String::new(), |thread| format!(" thread {thread}"));
        format!("{} {}{thread}", worker.command, worker.process)
    };
    let cpus = |worker: &Owner| corelane_host::cpus::list::format(&worker.cpus);
    let table = Rows::of(&document.members)
        .right("member", |row| row.member.to_string())
        .right("inode", |row| row.inode.to_string())
        .shrinking("worker", |row| each(row, worker))
        .shrinking("CPUs", |row| each(row, cpus))
        .right("bucket", |row| {
            or_missing(row.bucket, |bucket| bucket.to_string())
        })
        .right("entries", |row| row.entries.to_string())
        .table();
    let (transport, address, sockets) = (&document.transport, document.address, document.members.len());
    let mut text = format!("{transport} {address}, {sockets} sockets in one group\n");
    text.push_str(&table.render(width().tables));
    for mismatch in &document.mismatches {
        text.push_str(&format!("mismatch: {mismatch}\n"));
    }
    for note in &document.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    let kernels = "unknown (kernel default or BPF)";
    let exact = match (&document.steering, document.instructions) {
        (Some(steering), Some(instructions)) => {
            let (fields, entries) = (steering.hash_fields, steering.table.size());
            format!("the exact {fields} hash, table of {entries} entries, by {instructions} instructions")
        }
        _ => "the kernel's default hash".to_owned(),
    };
    text + &match document.action {
        "attached" => format!("before: {kernels}\nafter:  {exact}\n"),
        "detached" => "before: a program\nafter:  the kernel's default hash\n".to_owned(),
        action => format!("now:    {kernels}\nwould be: {exact} (action: {action})\n"),
    }
}
