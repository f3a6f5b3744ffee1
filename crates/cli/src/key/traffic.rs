//! Flows to audit a key with: a capture, a list, or flows drawn from a pool enter; how they fall on the buckets leaves.

use crate::capture;
use crate::documents::entries;
use crate::outcome::usage;
use clap::Args;
use corelane_load::pool::Pool;
use corelane_measure::quantity;
use corelane_packet::Dissection;
use corelane_rss::audit::{self, Imbalance};
use corelane_rss::{HashFields, Steering, Tuple};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Which flows.
#[derive(Debug, Args)]
pub struct TrafficArguments {
    /// The flows of a capture, each once
    #[arg(long, value_name = "FILE", conflicts_with = "flow_list")]
    pcap: Option<PathBuf>,
    /// A list of flows, SOURCE DESTINATION a line, as ADDRESS:PORT
    #[arg(long, value_name = "FILE")]
    flow_list: Option<PathBuf>,
    /// Otherwise as many flows are drawn
    #[arg(long, value_name = "N", default_value = "100k", value_parser = flow_count)]
    flows: u64,
    /// Addresses that drawn flows come from
    #[arg(long, value_name = "POOL", default_value = "10.0.0.0/8")]
    clients: Pool,
    /// Where drawn flows go, as ADDRESS:PORT
    #[arg(long, value_name = "SERVER", default_value = "10.11.2.1:8080")]
    server: SocketAddr,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// More flows would only tell the same more slowly.
const MOST_FLOWS: u64 = 10_000_000;

/// Addresses of a pool that are drawn from: the first so many.
const MOST_CLIENTS: usize = 1 << 20;

/// What the flows are, in words, and how they fall on the buckets of the rule.
pub fn imbalance(arguments: &TrafficArguments, rule: &Steering) -> anyhow::Result<(String, Imbalance)> {
    let (what, flows) = if let Some(path) = &arguments.pcap {
        (format!("flows of {}", path.display()), of_capture(path)?)
    } else if let Some(path) = &arguments.flow_list {
        (
            format!("flows of {}", path.display()),
            entries("--flow-list", path, flow)?.into_iter().collect(),
        )
    } else {
        let what = format!("drawn from {} to {}", arguments.clients, arguments.server);
        (what, drawn(arguments, rule.hash_fields)?)
    };
    let steerer = rule.steerer();
    // What is hashed alike is one flow to the hash: every client once where ports are not hashed.
    let inputs: HashSet<Vec<u8>> = flows
        .iter()
        .map(|flow| flow.input(rule.hash_fields).as_bytes().to_vec())
        .collect();
    let distinct = inputs.len();
    let toeplitz = corelane_rss::Toeplitz::new(&rule.key);
    let imbalance = audit::imbalance(
        steerer.table(),
        inputs.iter().map(|input| toeplitz.hash_input(input)),
    );
    Ok((format!("{} {what}", quantity::count(distinct as u64)), imbalance))
}

fn of_capture(path: &Path) -> anyhow::Result<HashSet<Tuple>> {
    let mut flows = HashSet::new();
    capture::each_frame(path, |frame, _| {
        if let Ok(dissection) = Dissection::of(frame) {
            flows.insert(dissection.tuple());
        }
        Ok(())
    })?;
    Ok(flows)
}

/// A flow as `10.11.2.3:4000 10.11.2.1:8080`, an arrow between them allowed.
fn flow(line: &str) -> Result<Tuple, String> {
    let mut ends = line
        .split_whitespace()
        .filter(|word| *word != "->")
        .map(str::parse::<SocketAddr>);
    match (ends.next(), ends.next()) {
        (Some(Ok(source)), Some(Ok(destination))) => {
            Tuple::new(source, destination).map_err(|error| error.to_string())
        }
        _ => Err(format!(
            "{line:?} is no flow: write 10.11.2.3:4000 10.11.2.1:8080"
        )),
    }
}

fn drawn(arguments: &TrafficArguments, fields: HashFields) -> anyhow::Result<HashSet<Tuple>> {
    let clients: Vec<IpAddr> = arguments
        .clients
        .addresses_like(arguments.server.ip())
        .take(MOST_CLIENTS)
        .collect();
    if clients.is_empty() {
        return Err(usage("--clients", "no address of the server's family"));
    }
    let ports: u64 = match fields {
        HashFields::FourTuple => 64_512,
        HashFields::TwoTuple => 1,
    };
    let possible = clients.len() as u64 * ports;
    let wanted = arguments.flows.min(possible);
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let mut flows = HashSet::new();
    let draw = |number: u64| {
        let client = clients[(number / ports) as usize];
        let source = SocketAddr::new(client, 1024 + (number % ports) as u16);
        Tuple::new(source, arguments.server).map_err(|error| usage("--clients and --server", error))
    };
    // Where most are wanted, all are taken in turn instead: drawing the last of them would take forever.
    if wanted * 2 > possible {
        return (0..wanted).map(draw).collect();
    }
    while (flows.len() as u64) < wanted {
        flows.insert(draw(random.u64(0..possible))?);
    }
    Ok(flows)
}

fn flow_count(text: &str) -> Result<u64, String> {
    match quantity::parse_count(text).map_err(|error| error.to_string())? {
        count @ 1..=MOST_FLOWS => Ok(count),
        _ => Err(format!("give 1 to {MOST_FLOWS}")),
    }
}
