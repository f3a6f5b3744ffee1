//! `corelane plan`: finds client addresses, or source ports of one address, that map to each bucket. `flows.rs` plans
//! whole experiments, `keys.rs` the ports that reach the owners of keys.

mod flows;
mod keys;

use crate::log::log_line;
use crate::machine::MachineDevice;
use crate::outcome::{Outcome, usage};
use crate::progress::Steps;
use crate::shared::{JsonArgument, check_clients, print};
use crate::steering::{self, HashRule, HashRuleArguments};
use crate::terminal::width;
use crate::values::{Endpoint, PROTOCOLS, count_to, endpoint, one_of, port_range};
use clap::Args;
use corelane_host::ethtool::FlowType;
use corelane_host::inventory::{self, NoSteering};
use corelane_load::pool::Pool;
use corelane_report::table::Rows;
use corelane_rss::plan::{self as rss_plan, Shape};
use corelane_rss::{HashFields, Protocol, Transform};
use keys::{Ends, KeyArguments};
use serde::Serialize;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct PlanArguments {
    /// Server, as ADDRESS or ADDRESS:PORT; may be repeated with --flows
    #[arg(long, value_parser = endpoint, required = true)]
    pub server: Vec<Endpoint>,
    /// Pool of client addresses to choose from: prefixes, ranges, lists
    #[arg(
        long,
        value_name = "POOL",
        conflicts_with = "client",
        required_unless_present_any = ["client", "cache_key"]
    )]
    pub clients: Option<Pool>,
    /// Client address; plans its source ports
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<IpAddr>,
    /// Source ports to choose from
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-65535", value_parser = port_range)]
    pub ports: (u16, u16),
    /// Fields that the server hashes [default: 2tuple for --clients, 4tuple for --client and --flows]
    #[arg(long, value_name = "2tuple|4tuple")]
    pub hash: Option<HashFields>,
    #[command(flatten)]
    pub rule: HashRuleArguments,
    /// Saved `corelane host --json`: plan for the key, fields and table of its device [default of --dev: its only
    /// device with RSS]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["steering", "key", "table_size", "buckets", "hash"])]
    pub host: Option<PathBuf>,
    /// Plan for the key, fields and table of this device, in --host or on this machine
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["steering", "key", "table_size", "buckets", "hash"])]
    pub dev: Option<String>,
    /// Protocol of the flows; devices hash different fields for each [default: tcp]
    #[arg(long, value_parser = one_of(PROTOCOLS))]
    pub proto: Option<Protocol>,
    /// List every source found, not only the first of each bucket
    #[arg(long, conflicts_with = "flows")]
    pub all: bool,
    /// Plan this total number of flows, with addresses and ports, instead of listing sources
    #[arg(long, value_name = "N", value_parser = count_to(flows::MOST_FLOWS))]
    pub flows: Option<u64>,
    /// Distribution of the flows over the buckets: balanced, skewed:EXPONENT (Zipf), or one:BUCKET
    #[arg(long, value_name = "SHAPE", default_value = "balanced", requires = "flows")]
    pub shape: Shape,
    /// Write the flows of each bucket, and its sources as a pool, to files in this directory
    #[arg(long, value_name = "DIR", requires = "flows")]
    pub lists: Option<PathBuf>,
    #[command(flatten)]
    pub keys: KeyArguments,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// Addresses hashed between two displays of progress.
const BETWEEN_SHOWN: u64 = 1 << 16;

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/plan/1")]
struct PlanDocument {
    server: String,
    hash_fields: HashFields,
    key: String,
    table_size: usize,
    transform: Transform,
    buckets: Vec<BucketPlan>,
}

/// The sources of one bucket: addresses of a pool, or ports of one address.
#[derive(Serialize)]
struct BucketPlan {
    bucket: usize,
    #[serde(flatten)]
    sources: Sources,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Sources {
    Addresses(Vec<IpAddr>),
    Ports(Vec<u16>),
}

/// Plans and prints. Returns a usage error if the pool cannot reach every bucket.
pub fn run(arguments: &PlanArguments) -> Outcome {
    if !arguments.keys.cache_key.is_empty() {
        return of_keys(arguments);
    }
    let rule = rule(arguments)?;
    if let Some(total) = arguments.flows {
        if rule.transform != Transform::Plain {
            let what = "flows are planned for plain hashes only: plan --clients or --client without --flows";
            return Err(usage("--transform", what));
        }
        return flows::run(arguments, &rule.steering, total);
    }
    let [server] = arguments.server[..] else {
        let what = "give one server, or --flows N to plan for several";
        return Err(usage("--server", what));
    };
    let limit = if arguments.all { None } else { Some(1) };
    let buckets = match (arguments.client, &arguments.clients) {
        (Some(client), _) => ports(arguments, &rule, server, client, limit)?,
        (None, Some(pool)) => addresses(&rule, server, pool, limit)?,
        (None, None) => return Err(usage("--clients", "give a pool, or one address with --client")),
    };
    let document = PlanDocument {
        server: server.socket_address().to_string(),
        hash_fields: rule.steering.hash_fields,
        key: rule.steering.key.to_string(),
        table_size: rule.steering.table.size(),
        transform: rule.transform,
        buckets,
    };
    print(arguments.json, &document, text)
}

/// Plans for the owners of keys.
fn of_keys(arguments: &PlanArguments) -> Outcome {
    let [server] = arguments.server[..] else {
        return Err(usage("--server", "give one server with --cache-key"));
    };
    if server.port.is_none() {
        let what = "--cache-key needs the server's port: write ADDRESS:PORT";
        return Err(usage("--server", what));
    }
    let (rule, flags) = (&arguments.rule, &arguments.rule.flags);
    let by_flags = flags.key.is_some() || flags.table_size.is_some() || flags.buckets.is_some();
    if arguments.keys.seed.is_none() && (by_flags || rule.steering.is_some() || arguments.hash.is_some()) {
        let what = "the server says how its packets are steered: leave steering, key, table, buckets and hash out, or give --seed";
        return Err(usage("--cache-key", what));
    }
    let given = arguments
        .keys
        .seed
        .map(|_| rule.rule(arguments.hash, HashFields::FourTuple));
    let ends = Ends {
        server: server.socket_address(),
        client: arguments.client,
        ports: arguments.ports,
        limit: if arguments.all { None } else { Some(1) },
    };
    let steering = given.transpose()?.map(|rule| rule.steering);
    keys::run(&arguments.keys, &ends, steering, arguments.json)
}

/// The steering to plan for: from a document, a device, or the flags.
fn rule(arguments: &PlanArguments) -> anyhow::Result<HashRule> {
    if arguments.host.is_some() || arguments.dev.is_some() {
        return of_device(arguments);
    }
    if arguments.proto.is_some() {
        let what = "selects the hash fields of a device: give --dev or --host";
        return Err(usage("--proto", what));
    }
    let default = match arguments.client.is_some() || arguments.flows.is_some() {
        true => HashFields::FourTuple,
        false => HashFields::TwoTuple,
    };
    arguments.rule.rule(arguments.hash, default)
}

/// The steering of a device. If a queue has no single CPU, queue numbers replace all CPUs, with a note on standard
/// error: the plan depends on queues only.
fn of_device(arguments: &PlanArguments) -> anyhow::Result<HashRule> {
    let machine = MachineDevice::of_flags(arguments.host.as_deref(), arguments.dev.as_deref())?;
    let protocol = arguments.proto.unwrap_or(Protocol::Tcp);
    // The flag is required.
    let flow_type = FlowType::of(protocol, arguments.server[0].address);
    let transform = machine.transform();
    let read = match transform {
        Transform::Plain => inventory::steering(&machine.inventory, &machine.name, flow_type),
        _ => inventory::rule(&machine.inventory, &machine.name, flow_type),
    };
    let steering = match read {
        Ok(steering) => steering,
        Err(missing @ NoSteering::Queue(_)) => {
            log_line(&format!("{missing}; using queue numbers as CPUs in the plan"));
            inventory::rule(&machine.inventory, &machine.name, flow_type)?
        }
        Err(error) => return Err(steering::refused_device(&error)),
    };
    Ok(HashRule {
        steering,
        transform: arguments.rule.transform.or(transform),
    })
}

fn addresses(
    rule: &HashRule,
    server: Endpoint,
    pool: &Pool,
    limit: Option<usize>,
) -> anyhow::Result<Vec<BucketPlan>> {
    if rule.steering.hash_fields == HashFields::FourTuple {
        let what = "with 4tuple hashing an address does not determine the bucket: plan ports of one address with --client";
        return Err(usage("--hash", what));
    }
    check_clients(pool, server.address)?;
    if pool
        .addresses_like(server.address)
        .all(|address| address == server.address)
    {
        let what = format!("{} is the server itself: give other addresses", server.address);
        return Err(usage("--clients", what));
    }
    let (all, mut tried, mut steps) = (pool.size() as u64, 0, Steps::begin(pool.size() as u64));
    let shown = pool.addresses().inspect(|address| {
        tried += 1;
        if tried % BETWEEN_SHOWN == 0 {
            steps.done(tried, all, &format!("hashed up to {address}"));
        }
    });
    let plan = rss_plan::addresses(
        &rule.steering.steerer(),
        server.socket_address(),
        shown,
        0,
        limit,
        rule.transform,
    );
    drop(steps);
    by_bucket(plan.buckets, Sources::Addresses, || {
        ("--clients", format!("no address of {pool} maps to bucket"))
    })
}

fn ports(
    arguments: &PlanArguments,
    rule: &HashRule,
    server: Endpoint,
    client: IpAddr,
    limit: Option<usize>,
) -> anyhow::Result<Vec<BucketPlan>> {
    check_ports(&[server], rule.steering.hash_fields)?;
    let (first, last) = arguments.ports;
    let plan = rss_plan::ports(
        &rule.steering,
        client,
        server.socket_address(),
        first..=last,
        limit,
        rule.transform,
    )
    .map_err(|error| usage("--client", error))?;
    by_bucket(plan.buckets, Sources::Ports, || {
        let what = format!("no port of {client} from {first} to {last} maps to bucket");
        ("--ports", what)
    })
}

/// Returns a usage error if a server lacks the port that is hashed.
fn check_ports(servers: &[Endpoint], fields: HashFields) -> Outcome {
    if fields == HashFields::FourTuple && servers.iter().any(|server| server.port.is_none()) {
        let what = "4tuple hashing needs the server's port: write ADDRESS:PORT";
        return Err(usage("--server", what));
    }
    Ok(())
}

/// The sources of each bucket; a usage error if a bucket has none.
fn by_bucket<T>(
    found: Vec<Vec<T>>,
    sources: impl Fn(Vec<T>) -> Sources,
    unreached: impl FnOnce() -> (&'static str, String),
) -> anyhow::Result<Vec<BucketPlan>> {
    let empty = (0..).zip(&found).filter(|(_, sources)| sources.is_empty());
    let empty: Vec<String> = empty.map(|(bucket, _): (usize, _)| bucket.to_string()).collect();
    if !empty.is_empty() {
        let (flag, what) = unreached();
        return Err(usage(flag, format!("{what} {}: widen it", empty.join(", "))));
    }
    let plan = |(bucket, found)| BucketPlan {
        bucket,
        sources: sources(found),
    };
    Ok(found.into_iter().enumerate().map(plan).collect())
}

fn text(document: &PlanDocument) -> String {
    let words = |sources: &Sources| -> Vec<String> {
        match sources {
            Sources::Addresses(addresses) => addresses.iter().map(IpAddr::to_string).collect(),
            Sources::Ports(ports) => ports.iter().map(u16::to_string).collect(),
        }
    };
    let table = Rows::of(&document.buckets)
        .right("bucket", |plan| plan.bucket.to_string())
        .right("found", |plan| words(&plan.sources).len().to_string())
        .left("sources", |plan| words(&plan.sources).join(" "))
        .table();
    format!(
        "to {}, {} hashing, table of {} entries\n{}",
        document.server,
        document.hash_fields,
        document.table_size,
        table.render(width().tables)
    )
}
