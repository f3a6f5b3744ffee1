//! Distributes flows over buckets for an audit; the flows come from a capture, a list, or a random draw from a pool.

use crate::capture::{self, Unused};
use crate::documents::entries;
use crate::names::address_in_packets;
use crate::outcome::usage;
use crate::shared::check_clients;
use crate::values::count_to;
use clap::Args;
use corelane_load::pool::Pool;
use corelane_measure::quantity;
use corelane_packet::{Dissection, HashTypes, Refusal};
use corelane_rss::audit::{self, Imbalance};
use corelane_rss::{HashFields, Steering, Transform, Tuple};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Source of flows.
#[derive(Debug, Args)]
pub struct TrafficArguments {
    /// Use the flows of a capture, each once
    #[arg(long, value_name = "FILE", conflicts_with = "flow_list")]
    pcap: Option<PathBuf>,
    /// Use a list of flows, one SOURCE DESTINATION per line, as ADDRESS:PORT
    #[arg(long, value_name = "FILE")]
    flow_list: Option<PathBuf>,
    /// Number of flows to draw, without --pcap and --flow-list
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count_to(MOST_FLOWS))]
    flows: u64,
    /// Source addresses of drawn flows
    #[arg(long, value_name = "POOL", default_value = "10.0.0.0/8")]
    clients: Pool,
    /// Destination of drawn flows, as ADDRESS:PORT
    #[arg(long, value_name = "SERVER", default_value = "10.11.2.1:8080", value_parser = address_in_packets)]
    server: SocketAddr,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// More flows would take longer without changing the result.
const MOST_FLOWS: u64 = 10_000_000;

/// Only the first addresses of a pool are used.
const MOST_CLIENTS: usize = 1 << 20;

/// A description of the flows, what of their file was not used, and their distribution over the buckets of the rule.
pub fn imbalance(
    arguments: &TrafficArguments,
    rule: &Steering,
    transform: Transform,
) -> anyhow::Result<(String, Unused, Imbalance)> {
    let mut unused = Unused::default();
    let (what, flows) = if let Some(path) = &arguments.pcap {
        let flows;
        (flows, unused) = of_capture(path, rule.hash_fields)?;
        (format!("flows of {}", path.display()), flows)
    } else if let Some(path) = &arguments.flow_list {
        (
            format!("flows of {}", path.display()),
            entries("--flow-list", path, flow)?,
        )
    } else {
        let what = format!("drawn from {} to {}", arguments.clients, arguments.server);
        (what, drawn(arguments, rule.hash_fields)?)
    };
    let hashed: Vec<Tuple> = flows.iter().map(|flow| transform.of_tuple(flow)).collect();
    let imbalance = audit::imbalance(rule, &hashed);
    let traffic = format!("{} {what}", quantity::count(imbalance.flows));
    Ok((traffic, unused, imbalance))
}

/// The flows of a capture, each once, and what of it was not used.
fn of_capture(path: &Path, fields: HashFields) -> anyhow::Result<(Vec<Tuple>, Unused)> {
    let (mut flows, mut cut_short) = (HashSet::new(), 0);
    let unread = capture::each_frame(path, None, |frame, _| {
        match Dissection::of_hashed(frame.data, HashTypes::of_fields(fields)) {
            Ok(dissection) => drop(flows.insert(dissection.tuple())),
            Err(Refusal::Truncated { .. }) => cut_short += 1,
            Err(_) => {}
        }
    })?;
    Ok((flows.into_iter().collect(), Unused { cut_short, unread }))
}

/// Parses a flow such as `10.11.2.3:4000 10.11.2.1:8080`, optionally with `->` in between.
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

fn drawn(arguments: &TrafficArguments, fields: HashFields) -> anyhow::Result<Vec<Tuple>> {
    check_clients(&arguments.clients, arguments.server.ip())?;
    let clients: Vec<IpAddr> = arguments
        .clients
        .addresses_like(arguments.server.ip())
        .take(MOST_CLIENTS)
        .collect();
    let ports: u64 = match fields {
        HashFields::FourTuple => 64_512,
        HashFields::TwoTuple => 1,
    };
    let possible = clients.len() as u64 * ports;
    let wanted = arguments.flows.min(possible);
    let flow = |number: u64| {
        let client = clients[(number / ports) as usize];
        let source = SocketAddr::new(client, 1024 + (number % ports) as u16);
        Tuple::new(source, arguments.server).map_err(|error| usage("--clients and --server", error))
    };
    // If most flows are wanted, enumerate them: random draws of the last ones would take too long.
    if wanted * 2 > possible {
        return (0..wanted).map(flow).collect();
    }
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let mut numbers = HashSet::new();
    while (numbers.len() as u64) < wanted {
        numbers.insert(random.u64(0..possible));
    }
    numbers.into_iter().map(flow).collect()
}
