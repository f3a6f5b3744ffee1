//! `corelane hash`: the calculator.

use crate::outcome::{Done, Outcome, usage};
use crate::shared::RuleArguments;
use crate::steering;
use crate::values::{Endpoint, endpoint};
use clap::Args;
use corelane_report::table::{Column, Table};
use corelane_rss::{HashFields, Tuple};
use serde::Serialize;
use std::io::Write;

#[derive(Debug, Args)]
pub struct HashArguments {
    /// Source, as ADDRESS:PORT or [ADDRESS]:PORT; without a port only the 2-tuple hash is told
    #[arg(value_parser = endpoint)]
    pub source: Endpoint,
    /// Destination, written as the source is
    #[arg(value_parser = endpoint)]
    pub destination: Endpoint,
    #[command(flatten)]
    pub rule: RuleArguments,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct HashDocument {
    schema: &'static str,
    source: String,
    destination: String,
    key: String,
    table_size: usize,
    buckets: usize,
    hash_2tuple: String,
    entry_2tuple: usize,
    bucket_2tuple: usize,
    /// `null` where a port is missing.
    hash_4tuple: Option<String>,
    entry_4tuple: Option<usize>,
    bucket_4tuple: Option<usize>,
}

/// Prints both hashes of a flow and where they lead.
pub fn run(arguments: &HashArguments) -> Outcome {
    let rule = steering::without_cpus(&arguments.rule, HashFields::TwoTuple)?;
    let (source, destination) = (arguments.source, arguments.destination);
    let tuple = Tuple::new(source.socket_address(), destination.socket_address())
        .map_err(|error| usage("SOURCE and DESTINATION", error))?;
    let has_ports = source.port.is_some() && destination.port.is_some();
    let toeplitz = corelane_rss::Toeplitz::new(&rule.key);
    let hash = |fields| toeplitz.hash(&tuple, fields);
    let (two, four) = (
        hash(HashFields::TwoTuple),
        has_ports.then(|| hash(HashFields::FourTuple)),
    );
    let document = HashDocument {
        schema: "corelane/hash/1",
        source: show(source.socket_address(), source.port),
        destination: show(destination.socket_address(), destination.port),
        key: rule.key.to_string(),
        table_size: rule.table.size(),
        buckets: rule.table.buckets(),
        hash_2tuple: format!("0x{two:08x}"),
        entry_2tuple: rule.table.entry(two),
        bucket_2tuple: rule.table.bucket(two).index(),
        hash_4tuple: four.map(|hash| format!("0x{hash:08x}")),
        entry_4tuple: four.map(|hash| rule.table.entry(hash)),
        bucket_4tuple: four.map(|hash| rule.table.bucket(hash).index()),
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&document)?)?;
        return Ok(Done);
    }
    writeln!(out, "{} -> {}", document.source, document.destination)?;
    let columns = [
        ("fields", false),
        ("hash", false),
        ("entry", true),
        ("bucket", true),
    ];
    let columns = columns.map(|(name, right)| {
        if right {
            Column::right(name)
        } else {
            Column::left(name)
        }
    });
    let mut table = Table::new(columns.to_vec());
    table.row([
        "2tuple",
        &document.hash_2tuple,
        &document.entry_2tuple.to_string(),
        &document.bucket_2tuple.to_string(),
    ]);
    if let (Some(hash), Some(entry), Some(bucket)) = (
        &document.hash_4tuple,
        document.entry_4tuple,
        document.bucket_4tuple,
    ) {
        table.row(["4tuple", hash, &entry.to_string(), &bucket.to_string()]);
    }
    write!(out, "{}", table.render(100))?;
    writeln!(
        out,
        "table of {} entries over {} buckets, key {}",
        rule.table.size(),
        rule.table.buckets(),
        rule.key
    )?;
    Ok(Done)
}

fn show(address: std::net::SocketAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.ip().to_string(), |_| address.to_string())
}
