//! `corelane lab scale memcached`: the scaling experiment for caches.

use super::scale::ScaleArguments;
use crate::lab::bed::{PORT, snapshot};
use crate::lab::shell;
use crate::load::ShapeArguments;
use crate::outcome::{Outcome, usage};
use crate::shared::DatagramIoArguments;
use crate::values::{Choices, count_to, duration, one_of, size};
use clap::{Arg, Args};
use corelane_host::limits;
use corelane_lab::scale::datagrams::Placement;
use corelane_lab::scale::memcached::{MemcachedScale, MemcachedScalePlan, MemcachedScaleRequest, Transport};
use corelane_load::memcached::{MOST_KEYS, Memcached, PlannedOwners, Sizes};
use corelane_load::sources::Align;
use corelane_proto::memcached::udp::HEADER_BYTES;
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab scale memcached --quick --json memcached.json\n  \
    corelane lab scale memcached --tcp --flows 16 --window 1 --keys 5k --duration 200ms --rounds 1\n\n\
    Beside another server:\n  --subject 'memcached -l $CORELANE_ADDRESS -p $CORELANE_PORT -U $CORELANE_PORT -t $CORELANE_CPUS -m 256'\n\n\
    The subject receives its listen address and CPUs in $CORELANE_ADDRESS, $CORELANE_PORT, $CORELANE_CPUS (number) and\n\
    $CORELANE_CPU_LIST; an IPv6 address is in brackets. It must listen for TCP, too: so it is known to be ready.";

/// memcached: 1 to N active buckets, requests counted at five points, every value checked
#[derive(Debug, Args)]
#[command(mut_arg("hash", |hash| hash
    .help("Fields to hash; clients differ in addresses under 2tuple, and in ports too under 4tuple")))]
#[command(mut_arg("keys", |keys| keys
    .default_value("20k")
    .help("Number of keys, which every trial stores first")))]
#[command(mut_arg("value_size", |sizes| sizes
    .help("Size of values, likewise, or etc [default: 450, with which a set is a datagram of 510 bytes]")))]
#[command(mut_arg("mix", |mix| mix
    .help("Weights of get, gets, gat, set, add, replace, append, prepend, cas, delete, incr, decr, touch [default: get=50,set=50]")))]
#[command(mut_args(of_datagrams))]
#[command(after_help = EXAMPLES)]
pub struct ScaleMemcachedArguments {
    /// Buckets of the server; 1 to N of them are active [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub buckets: Option<usize>,
    /// CPU of each bucket's client: its worker's (aligned), another (crossed: network and store of a bucket on different
    /// CPUs) or both [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub placements: Option<Vec<Placement>>,
    /// Test another server beside ours, in the same rounds: a shell command
    #[arg(long, value_name = "COMMAND")]
    pub subject: Option<String>,
    /// Connections instead of datagrams
    #[arg(long)]
    pub tcp: bool,
    /// Keys that the clients of a bucket ask our server for
    #[arg(long, default_value = "bucket", value_parser = one_of(ALIGNMENTS))]
    pub align: Align,
    /// Duration of one trial
    #[arg(short, long, value_name = "TIME", default_value = "1s", default_value_if("quick", "true", "500ms"), value_parser = duration)]
    pub duration: Duration,
    #[command(flatten)]
    pub shape: ShapeArguments,
    /// Keys of one request that reads
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_to(MOST_KEYS as u64))]
    pub multi_get: u64,
    /// Send meta commands
    #[arg(long)]
    pub meta: bool,
    /// Client sockets, or connections, per bucket
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub flows: u32,
    /// Unanswered requests per socket, or connection
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    /// Memory of our server for items
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub memory_limit: u64,
    #[command(flatten)]
    pub scale: ScaleArguments<(), DatagramIoArguments>,
}

const ALIGNMENTS: &Choices<Align> = &[
    (
        "bucket",
        Align::Bucket,
        "Any, so that most arrive at a worker that does not own them",
    ),
    (
        "owner",
        Align::Owner,
        "Those that the bucket owns, so that no key is handed over",
    ),
];

/// The flag as one of the clients, which only datagrams have.
fn of_datagrams(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "batch" | "gso" | "gro" => argument.conflicts_with("tcp"),
        _ => argument,
    }
}

/// Bytes of a value whose `set`, with a key of 32 bytes, is a datagram of up to 510 bytes.
const VALUE_BYTES: u32 = 450;

/// `corelane lab scale memcached`.
pub fn run(arguments: &ScaleMemcachedArguments) -> Outcome {
    let (request, scale) = (request(arguments)?, &arguments.scale);
    scale.bed.enter();
    let buckets = request.settings.steering.table.buckets();
    let largest = (HEADER_BYTES + request.protocol.request_bytes()) as u32;
    let bed = match request.transport {
        Transport::Udp => scale.bed.build(buckets, largest, None)?,
        Transport::Tcp => scale.bed.build(buckets, 0, None)?,
    };
    let facts = shell::facts(snapshot(&bed));
    let mut experiment = MemcachedScale {
        plan: MemcachedScalePlan::new(request, &bed, PORT),
        bed,
        program: shell::program()?,
        facts,
        descriptor_limit: limits::open_descriptors()?,
    };
    scale.run(&mut experiment, arguments.duration)
}

fn request(arguments: &ScaleMemcachedArguments) -> anyhow::Result<MemcachedScaleRequest> {
    let scale = &arguments.scale;
    let cpus = scale.cpus(arguments.buckets)?;
    let (io, mut protocol) = (&scale.engine, protocol(arguments)?);
    if arguments.align == Align::Owner {
        protocol
            .owned_alone()
            .map_err(|why| usage("--align owner", why))?;
        protocol.owners = Some(PlannedOwners {
            seed: fastrand::u64(..),
            partitions: cpus.len(),
        });
    }
    Ok(MemcachedScaleRequest {
        selection: scale.selection(arguments.placements.as_ref()),
        settings: scale.settings(cpus, io.engine.engine, arguments.duration)?,
        transport: match arguments.tcp {
            true => Transport::Tcp,
            false => Transport::Udp,
        },
        subject: arguments.subject.clone(),
        protocol,
        flows: arguments.flows as usize,
        window: arguments.window,
        client_io: io.settings(&scale.placing),
        memory_bytes: arguments.memory_limit,
    })
}

fn protocol(arguments: &ScaleMemcachedArguments) -> anyhow::Result<Memcached> {
    let shape = &arguments.shape;
    let mut protocol = Memcached {
        multi_get: arguments.multi_get as usize,
        meta: arguments.meta,
        ..shape.protocol()
    };
    if shape.preset.is_none() {
        if shape.value_size.is_none() {
            protocol.value_size = Sizes::Fixed(VALUE_BYTES);
        }
        if shape.mix.is_none() {
            protocol.mix = "get=50,set=50".parse()?;
        }
    }
    Ok(protocol)
}
