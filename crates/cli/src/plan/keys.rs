//! `corelane plan --cache-key KEY`: the source ports from which requests for a key reach the worker that owns it. Input: keys, a
//! server that says who owns them, or the seed and the steering. Output: the owner and the ports of each key.

use crate::outcome::{Outcome, cannot_run, usage};
use crate::shared::{JsonArgument, print};
use crate::terminal::width;
use clap::Args;
use corelane_load::memcached::{Owners, Said};
use corelane_report::table::Rows;
use corelane_rss::{HashFields, Steering, Transform, plan};
use serde::Serialize;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Time to wait for the server.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/plan-keys/1")]
struct KeyPlanDocument {
    server: String,
    client: IpAddr,
    /// Of the hash of keys.
    seed: u64,
    partitions: usize,
    hash_fields: HashFields,
    /// Of the hash of packets.
    steering_key: String,
    table_size: usize,
    keys: Vec<KeyPlan>,
}

#[derive(Serialize)]
struct KeyPlan {
    key: String,
    /// In hexadecimal.
    hash: String,
    owner: usize,
    ports: Vec<u16>,
}

/// Keys, and how their hash is known.
#[derive(Debug, Args)]
pub struct KeyArguments {
    /// Key of a `serve memcached`: print the worker that owns it, and source ports that reach that worker; may be repeated. The
    /// server is asked how (stats corelane), unless --seed is given
    #[arg(long, value_name = "KEY", value_parser = key, conflicts_with_all = ["clients", "flows", "host", "dev", "transform"])]
    pub cache_key: Vec<String>,
    /// Seed of that server's hash of keys: the server is not asked, the rule is that of --steering or of the flags
    #[arg(long, value_name = "N", requires = "cache_key")]
    pub seed: Option<u64>,
}

/// The ends of the flows that are planned.
pub struct Ends {
    pub server: SocketAddr,
    /// The client, if it is given.
    pub client: Option<IpAddr>,
    pub ports: (u16, u16),
    /// Ports per key, at most.
    pub limit: Option<usize>,
}

/// Plans and prints. `steering` is that of the server, if it is not asked.
pub fn run(keys: &KeyArguments, ends: &Ends, steering: Option<Steering>, json: JsonArgument) -> Outcome {
    let server = ends.server;
    let (owners, client) = match (keys.seed, steering) {
        (Some(seed), Some(steering)) => (given(seed, steering), None),
        _ => {
            let said = Said::by(server, PATIENCE).map_err(cannot_run)?;
            (said.owners().map_err(cannot_run)?, Some(said.client))
        }
    };
    let Some(client) = ends.client.or(client) else {
        return Err(usage(
            "--client",
            "--seed needs the address that requests come from",
        ));
    };
    let (first, last) = ends.ports;
    let (steering, plain) = (&owners.steering, Transform::Plain);
    let ports = plan::ports(steering, client, server, first..=last, ends.limit, plain);
    let ports = ports.map_err(|error| usage("--client", error))?.buckets;
    let planned = |key: &String| {
        let owner = owners.owner(key.as_bytes());
        let found = ports.get(owner).filter(|ports| !ports.is_empty());
        let unreached = || {
            let what = format!(
                "no port of {client} from {first} to {last} reaches worker {owner}, which owns {key}"
            );
            usage("--ports", what)
        };
        Ok(KeyPlan {
            key: key.clone(),
            hash: format!("{:016x}", owners.hash(key.as_bytes())),
            owner,
            ports: found.ok_or_else(unreached)?.clone(),
        })
    };
    let planned: anyhow::Result<_> = keys.cache_key.iter().map(planned).collect();
    let document = KeyPlanDocument {
        server: server.to_string(),
        client,
        seed: owners.seed,
        partitions: owners.partitions,
        hash_fields: steering.hash_fields,
        steering_key: steering.key.to_string(),
        table_size: steering.table.size(),
        keys: planned?,
    };
    print(json, &document, text)
}

/// The owners by flags.
fn given(seed: u64, steering: Steering) -> Owners {
    Owners {
        seed,
        partitions: steering.cpus.len(),
        steering,
    }
}

/// A key of the protocol.
fn key(text: &str) -> Result<String, String> {
    let is_key = text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    match is_key && (1..=250).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("a key has 1 to 250 bytes, without blanks and control characters".to_owned()),
    }
}

fn text(document: &KeyPlanDocument) -> String {
    let words = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
    let table = Rows::of(&document.keys)
        .left("key", |plan| plan.key.clone())
        .left("hash", |plan| plan.hash.clone())
        .right("owner", |plan| plan.owner.to_string())
        .shrinking("ports", |plan| words(&plan.ports))
        .table();
    format!(
        "from {} to {}, {} workers, {} hashing, table of {} entries\n{}",
        document.client,
        document.server,
        document.partitions,
        document.hash_fields,
        document.table_size,
        table.render(width().tables)
    )
}
