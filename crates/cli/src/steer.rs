//! `corelane steer`: the socket group of a server that runs already is given the exact hash. A process and a port enter; the
//! group's order, who serves each socket and on which CPU, and what was done, leave.

use crate::outcome::{Done, Outcome, usage};
use crate::steering;
use clap::Args;
use corelane_report::table::{Column, Table};
use corelane_rss::steer;
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering};
use corelane_worker::adopt::{Adopted, Owner, Sought};
use corelane_worker::group::Transport;
use serde::Serialize;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples (nginx with listen … reuseport, worker_processes 2, worker_cpu_affinity auto):\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80 --dry-run\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80\n  \
    corelane steer --pid $(cat /run/nginx.pid) --port 80 --undo";

#[derive(Debug, Args)]
pub struct SteerArguments {
    /// The server's process, or the one that started its workers
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// The port that it serves
    #[arg(long, value_name = "PORT")]
    port: u16,
    /// Its TCP sockets, where it has both
    #[arg(long, conflicts_with = "udp")]
    tcp: bool,
    /// Its UDP sockets, where it has both
    #[arg(long)]
    udp: bool,
    /// The address, where it serves several on the port
    #[arg(long, value_name = "ADDRESS:PORT")]
    address: Option<SocketAddr>,
    /// Give the group back to the kernel's own hash
    #[arg(long, conflicts_with_all = ["steering", "key", "table_size", "hash"])]
    undo: bool,
    /// A steering document: the bucket of a CPU goes to the worker pinned there
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "table_size", "hash"])]
    steering: Option<PathBuf>,
    /// The RSS key: 40 to 64 bytes in hexadecimal, colons allowed [default: the verification suite's]
    #[arg(long, value_name = "HEX")]
    key: Option<Key>,
    /// Entries of the indirection table, which names the sockets in turn
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    table_size: usize,
    /// What is hashed
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    hash: HashFields,
    /// Steer although workers and buckets are not seen to match
    #[arg(long)]
    force: bool,
    /// Show what would be done
    #[arg(long)]
    dry_run: bool,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct SteerDocument {
    schema: &'static str,
    transport: String,
    address: SocketAddr,
    members: Vec<MemberRow>,
    order_is_certain: bool,
    /// Why workers and buckets do not match; none if they do.
    mismatches: Vec<String>,
    notes: Vec<String>,
    action: &'static str,
    /// Of the program, where one is or would be attached.
    instructions: Option<usize>,
    /// What clients plan by.
    steering: Option<Steering>,
}

/// A socket of the group.
#[derive(Serialize)]
struct MemberRow {
    /// Its place in the group.
    member: usize,
    /// The bucket that it serves from now on.
    bucket: Option<Bucket>,
    /// Entries of the table that name the bucket.
    entries: usize,
    inode: u64,
    workers: Vec<WorkerRow>,
}

/// Who waits on it.
#[derive(Serialize)]
struct WorkerRow {
    process: u32,
    thread: Option<u32>,
    command: String,
    cpus: Vec<u32>,
}

/// Finds, checks, shows, and attaches or detaches.
pub fn run(arguments: &SteerArguments) -> Outcome {
    let group = find(arguments)?;
    if arguments.undo {
        return undo(arguments, &group);
    }
    let steering = match &arguments.steering {
        Some(path) => steering::from_file(path)?,
        None => own_steering(arguments, &group)?,
    };
    let (places, mut mismatches) = places(&steering, &group, arguments.steering.is_some());
    if !group.order_is_certain {
        mismatches.push(
            "the order of the group is not certain: sockets were not made in the order in which they listen"
                .to_owned(),
        );
    }
    let program = steer::program(&by_member(&steering, &places)?, group.families)?;
    let refused = !mismatches.is_empty() && !arguments.force;
    let action = match () {
        () if arguments.dry_run => "none",
        () if refused => "refused",
        () => {
            group.attach(&program)?;
            "attached"
        }
    };
    let document = SteerDocument {
        schema: "corelane/steer/1",
        transport: group.transport.to_string(),
        address: group.address,
        members: rows(&group, Some((&steering, &places))),
        order_is_certain: group.order_is_certain,
        mismatches,
        notes: notes(&group),
        action,
        instructions: Some(program.instructions().len()),
        steering: Some(steering),
    };
    show(arguments, &document)?;
    if refused && !arguments.dry_run {
        anyhow::bail!(
            "workers and buckets are not seen to match: {} (--force steers all the same)",
            document.mismatches.join("; ")
        );
    }
    Ok(Done)
}

fn find(arguments: &SteerArguments) -> anyhow::Result<Adopted> {
    let transport = match (arguments.tcp, arguments.udp) {
        (true, _) => Some(Transport::Tcp),
        (_, true) => Some(Transport::Udp),
        _ => None,
    };
    Ok(Adopted::find(Sought {
        process: arguments.pid,
        port: arguments.port,
        transport,
        address: arguments.address,
    })?)
}

fn undo(arguments: &SteerArguments, group: &Adopted) -> Outcome {
    if !arguments.dry_run {
        group.detach()?;
    }
    let document = SteerDocument {
        schema: "corelane/steer/1",
        transport: group.transport.to_string(),
        address: group.address,
        members: rows(group, None),
        order_is_certain: group.order_is_certain,
        mismatches: Vec::new(),
        notes: Vec::new(),
        action: if arguments.dry_run { "none" } else { "detached" },
        instructions: None,
        steering: None,
    };
    show(arguments, &document)?;
    Ok(Done)
}

/// The CPU that a socket's one worker is pinned to.
fn pinned(owners: &[Owner]) -> Option<u32> {
    match owners {
        [Owner { cpus, .. }] => match cpus[..] {
            [cpu] => Some(cpu),
            _ => None,
        },
        _ => None,
    }
}

/// A steering of as many buckets as there are sockets, in their order, on the CPUs of their workers.
fn own_steering(arguments: &SteerArguments, group: &Adopted) -> anyhow::Result<Steering> {
    let table = IndirectionTable::round_robin(arguments.table_size, group.members.len())
        .map_err(|error| usage("--table-size", error))?;
    let first_cpu = |owners: &[Owner]| owners.first().and_then(|owner| owner.cpus.first().copied());
    let cpus = group
        .members
        .iter()
        .map(|member| first_cpu(&member.owners).unwrap_or(0));
    Ok(Steering {
        key: arguments.key.clone().unwrap_or(Key::VERIFICATION),
        hash_fields: arguments.hash,
        table,
        cpus: cpus.collect(),
        generation: 0,
    })
}

/// The place in the group of each bucket's socket, and why that is not what it should be.
fn places(steering: &Steering, group: &Adopted, given: bool) -> (Vec<usize>, Vec<String>) {
    let (buckets, members) = (steering.table.buckets(), group.members.len());
    let mut mismatches = Vec::new();
    for (place, member) in group.members.iter().enumerate() {
        match &member.owners[..] {
            [] => mismatches.push(format!("nobody is seen to wait on socket {place}")),
            [_] => {}
            several => mismatches.push(format!("{} processes wait on socket {place}", several.len())),
        }
    }
    if !given {
        return ((0..buckets).collect(), mismatches);
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
        let free: Vec<usize> = on_cpu.filter(|place| !places.contains(place)).collect();
        match free.first() {
            Some(place) => places.push(*place),
            None => {
                mismatches.push(format!(
                    "bucket {bucket} is CPU {cpu}'s, and no worker is pinned there alone"
                ));
                places.push(bucket % members);
            }
        }
    }
    (places, mismatches)
}

fn notes(group: &Adopted) -> Vec<String> {
    let unpinned = group
        .members
        .iter()
        .enumerate()
        .filter(|(_, member)| pinned(&member.owners).is_none());
    unpinned
        .map(|(place, _)| {
            format!(
                "the worker of socket {place} is not pinned to one CPU: its bucket has a worker, but no CPU"
            )
        })
        .collect()
}

/// The steering with the places of sockets for buckets, which is what a program returns.
fn by_member(steering: &Steering, places: &[usize]) -> anyhow::Result<Steering> {
    let entries = steering.table.entries().iter();
    let table = entries
        .map(|bucket| Bucket::new(places[bucket.index()] as u16))
        .collect();
    Ok(Steering {
        table: IndirectionTable::from_entries(table)?,
        ..steering.clone()
    })
}

fn rows(group: &Adopted, steered: Option<(&Steering, &[usize])>) -> Vec<MemberRow> {
    let row = |(place, member): (usize, &corelane_worker::adopt::Member)| {
        let bucket = steered.and_then(|(_, places)| places.iter().position(|of_bucket| *of_bucket == place));
        let bucket = bucket.map(|bucket| Bucket::new(bucket as u16));
        let named = |bucket: &Bucket| {
            let entries = steered.map_or(&[][..], |(steering, _)| steering.table.entries());
            entries.iter().filter(|entry| *entry == bucket).count()
        };
        MemberRow {
            member: place,
            bucket,
            entries: bucket.as_ref().map_or(0, named),
            inode: member.inode,
            workers: member.owners.iter().map(worker).collect(),
        }
    };
    group.members.iter().enumerate().map(row).collect()
}

fn worker(owner: &Owner) -> WorkerRow {
    WorkerRow {
        process: owner.process,
        thread: owner.thread,
        command: owner.command.clone(),
        cpus: owner.cpus.clone(),
    }
}

fn show(arguments: &SteerArguments, document: &SteerDocument) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        return writeln!(out, "{}", serde_json::to_string_pretty(document)?);
    }
    writeln!(
        out,
        "{} {}, {} sockets in one group",
        document.transport,
        document.address,
        document.members.len()
    )?;
    let mut table = Table::new(vec![
        Column::right("member"),
        Column::right("inode"),
        Column::left("worker").may_shrink(),
        Column::left("CPUs").may_shrink(),
        Column::right("bucket"),
        Column::right("entries"),
    ]);
    for row in &document.members {
        let workers = row.workers.iter().map(|worker| {
            let thread = worker.thread.filter(|thread| *thread != worker.process);
            let thread = thread.map_or(String::new(), |thread| format!(" thread {thread}"));
            format!("{} {}{thread}", worker.command, worker.process)
        });
        let cpus = row
            .workers
            .iter()
            .map(|worker| corelane_host::cpus::list::format(&worker.cpus));
        table.row([
            row.member.to_string(),
            row.inode.to_string(),
            workers.collect::<Vec<_>>().join(", "),
            cpus.collect::<Vec<_>>().join(", "),
            row.bucket.map_or("-".to_owned(), |bucket| bucket.to_string()),
            row.entries.to_string(),
        ]);
    }
    write!(out, "{}", table.render(100))?;
    for mismatch in &document.mismatches {
        writeln!(out, "mismatch: {mismatch}")?;
    }
    for note in &document.notes {
        writeln!(out, "note: {note}")?;
    }
    let kernels = "the kernel's own hash, or a program: which one, the kernel does not tell";
    let exact = || match (&document.steering, document.instructions) {
        (Some(steering), Some(instructions)) => format!(
            "the exact {} hash, table of {} entries, by {instructions} instructions",
            steering.hash_fields,
            steering.table.size()
        ),
        _ => "the kernel's own hash".to_owned(),
    };
    match document.action {
        "attached" => writeln!(out, "before: {kernels}\nafter:  {}", exact()),
        "detached" => writeln!(out, "before: a program\nafter:  the kernel's own hash"),
        action => writeln!(out, "now:    {kernels}\nwould be: {} (action: {action})", exact()),
    }
}
