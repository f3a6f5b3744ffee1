//! `corelane hash`: computes hashes, table entry and bucket of a flow.

use crate::outcome::{Outcome, usage};
use crate::shared::{RuleArguments, print};
use crate::steering;
use crate::values::{Endpoint, endpoint};
use clap::Args;
use corelane_report::table::{Column, Table};
use corelane_report::text::WIDTH;
use corelane_rss::{HashFields, Tuple};
use serde::Serialize;

#[derive(Debug, Args)]
pub struct HashArguments {
    /// Source, as ADDRESS:PORT or [ADDRESS]:PORT; without a port, only the 2-tuple hash is computed
    #[arg(value_parser = endpoint)]
    pub source: Endpoint,
    /// Destination, in the same format
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
    /// `null` if a port is missing.
    hash_4tuple: Option<String>,
    entry_4tuple: Option<usize>,
    bucket_4tuple: Option<usize>,
}

/// Prints both hashes of a flow, with table entry and bucket.
pub fn run(arguments: &HashArguments) -> Outcome {
    let rule = steering::without_cpus(None, &arguments.rule, HashFields::TwoTuple)?;
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
    print(arguments.json, &document, text)
}

fn text(document: &HashDocument) -> String {
    let two = Some((
        document.hash_2tuple.as_str(),
        document.entry_2tuple,
        document.bucket_2tuple,
    ));
    let four = document.hash_4tuple.as_deref().zip(document.entry_4tuple);
    let four = four
        .zip(document.bucket_4tuple)
        .map(|((hash, entry), bucket)| (hash, entry, bucket));
    let mut table = Table::new(vec![
        Column::left("fields"),
        Column::left("hash"),
        Column::right("entry"),
        Column::right("bucket"),
    ]);
    for (fields, hashed) in [("2tuple", two), ("4tuple", four)] {
        if let Some((hash, entry, bucket)) = hashed {
            table.row([fields, hash, &entry.to_string(), &bucket.to_string()]);
        }
    }
    format!(
        "{} -> {}\n{}table of {} entries over {} buckets, key {}\n",
        document.source,
        document.destination,
        table.render(WIDTH),
        document.table_size,
        document.buckets,
        document.key
    )
}

fn show(address: std::net::SocketAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.ip().to_string(), |_| address.to_string())
}
