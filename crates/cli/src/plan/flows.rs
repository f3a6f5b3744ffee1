//! `corelane plan --flows N`: plans the flows of whole experiments. Input: pools, servers, a steering and a shape.
//! Output: the flows of every bucket, as a document and as plain lists.

use super::{PlanArguments, check_ports};
use crate::documents::{write_whole, wrong_file};
use crate::outcome::{Outcome, usage};
use crate::standard::write_out;
use crate::terminal::width;
use anyhow::Context;
use corelane_measure::quantity::count;
use corelane_report::table::Rows;
use corelane_rss::plan::{self, Ends, FlowPlan, FlowsError, Shape};
use corelane_rss::{Bucket, HashFields, Steering};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Maximum number of pool addresses used: an IPv6 prefix is too large to enumerate.
const MOST_CLIENTS: usize = 1 << 20;

/// Maximum number of flows per plan: as many as a machine can have connections.
pub const MOST_FLOWS: u64 = 100_000_000;

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/flow-plan/1")]
struct FlowPlanDocument<'a> {
    shape: String,
    servers: Vec<String>,
    hash_fields: HashFields,
    steering: &'a Steering,
    flows: usize,
    buckets: Vec<BucketFlows>,
}

#[derive(Serialize)]
struct BucketFlows {
    bucket: Bucket,
    wanted: usize,
    /// The pool of addresses, in the format of `load --sources`.
    sources: String,
    /// Source and destination of each flow.
    flows: Vec<[SocketAddr; 2]>,
}

/// Plans `total` flows and prints them. Returns a usage error if pools and ports do not suffice.
pub fn run(arguments: &PlanArguments, rule: &Steering, total: u64) -> Outcome {
    let clients = clients(arguments);
    check_ports(&arguments.server, rule.hash_fields)?;
    let servers: Vec<_> = arguments
        .server
        .iter()
        .map(|server| server.socket_address())
        .collect();
    let ends = Ends {
        clients: &clients,
        servers: &servers,
        ports: arguments.ports.0..=arguments.ports.1,
    };
    if let Some(folder) = &arguments.lists {
        fs::create_dir_all(folder).map_err(|error| wrong_file("--lists", folder, error))?;
    }
    let wanted = arguments.shape.wanted(&rule.table, total as usize);
    if let Shape::One { bucket } = arguments.shape
        && !rule.table.entries().contains(&bucket)
    {
        let what = format!("the table does not contain bucket {bucket}");
        return Err(usage("--shape", what));
    }
    let planned = plan::flows(rule, &ends, &wanted).map_err(name_flag)?;
    refuse_short(&planned)?;
    let document = document(arguments, rule, &ends, &planned, &wanted);
    let folder = arguments.lists.as_deref();
    let written = folder.map_or(Ok(()), |folder| write_lists(folder, &document));
    if arguments.json.is_wanted() {
        // On one line, unlike other documents, because there are many flows.
        arguments
            .json
            .write(&(serde_json::to_string(&document)? + "\n"))?;
    }
    if !arguments.json.on_stdout() {
        let folder = folder.filter(|_| written.is_ok());
        write_out(&text(&document, folder));
    }
    written
}

fn clients(arguments: &PlanArguments) -> Vec<IpAddr> {
    let pool = arguments.clients.iter().flat_map(|pool| pool.addresses());
    pool.chain(arguments.client).take(MOST_CLIENTS).collect()
}

fn name_flag(error: FlowsError) -> anyhow::Error {
    let flag = match error {
        FlowsError::NoPorts { .. } => "--ports",
        FlowsError::Unnamed { .. } => "--shape",
        FlowsError::NoEnds | FlowsError::TooMany { .. } | FlowsError::Families => "--clients and --server",
        FlowsError::Remainder(_) => "--table-size",
    };
    usage(flag, error)
}

fn refuse_short(planned: &FlowPlan) -> anyhow::Result<()> {
    if planned.short.is_empty() {
        return Ok(());
    }
    let short = planned.short.iter();
    let missing = short.map(|(bucket, missing)| format!("{} on bucket {bucket}", count(*missing as u64)));
    let missing = missing.collect::<Vec<_>>().join(", ");
    let what = format!("flows are missing: {missing}; give more addresses, servers or ports");
    Err(usage("--clients", what))
}

fn document<'a>(
    arguments: &PlanArguments,
    rule: &'a Steering,
    ends: &Ends<'_>,
    planned: &FlowPlan,
    wanted: &[usize],
) -> FlowPlanDocument<'a> {
    let each = planned.buckets.iter().zip(wanted).enumerate();
    let buckets = each.map(|(bucket, (flows, wanted))| {
        let tuples = flows.iter().map(|flow| ends.tuple(flow));
        let flows: Vec<_> = tuples
            .map(|tuple| [tuple.source(), tuple.destination()])
            .collect();
        let addresses: BTreeSet<IpAddr> = flows.iter().map(|[source, _]| source.ip()).collect();
        let addresses: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
        BucketFlows {
            bucket: Bucket::new(bucket as u16),
            wanted: *wanted,
            sources: addresses.join(","),
            flows,
        }
    });
    FlowPlanDocument {
        shape: arguments.shape.to_string(),
        servers: ends.servers.iter().map(ToString::to_string).collect(),
        hash_fields: rule.hash_fields,
        steering: rule,
        flows: wanted.iter().sum(),
        buckets: buckets.collect(),
    }
}

/// Writes two files per bucket: its flows, one per line, and its source addresses as a pool.
fn write_lists(folder: &Path, document: &FlowPlanDocument<'_>) -> anyhow::Result<()> {
    let context = || format!("--lists {}", folder.display());
    for bucket in &document.buckets {
        let mut lines = String::new();
        for [source, destination] in &bucket.flows {
            writeln!(lines, "{source} {destination}")?;
        }
        let number = bucket.bucket;
        write_whole(&folder.join(format!("bucket-{number}.flows")), &lines).with_context(context)?;
        let sources = format!("{}\n", bucket.sources);
        write_whole(&folder.join(format!("bucket-{number}.sources")), &sources).with_context(context)?;
    }
    Ok(())
}

fn text(document: &FlowPlanDocument<'_>, lists: Option<&Path>) -> String {
    let first = |bucket: &BucketFlows| {
        let first = bucket.flows.iter().take(2);
        let first: Vec<String> = first.map(|[source, to]| format!("{source} -> {to}")).collect();
        first.join(", ")
    };
    let addresses = |bucket: &BucketFlows| {
        let sources = bucket.sources.split(',');
        sources.filter(|source| !source.is_empty()).count()
    };
    let table = Rows::of(&document.buckets)
        .right("bucket", |bucket| bucket.bucket.to_string())
        .count("flows", |bucket| bucket.flows.len() as u64)
        .count("addresses", |bucket| addresses(bucket) as u64)
        .shrinking("first", first)
        .table();
    let where_all = match lists {
        Some(folder) => format!("written to {}/bucket-*.flows and .sources", folder.display()),
        None => "--json or --lists DIR writes all of them".to_owned(),
    };
    format!(
        "{} flows to {}, {}, {} hashing, table of {} entries\n{}{where_all}\n",
        count(document.flows as u64),
        document.servers.join(", "),
        document.shape,
        document.hash_fields,
        document.steering.table.size(),
        table.render(width().tables)
    )
}
