//! `corelane hash`: computes hashes, table entry and bucket of a flow.

use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use crate::steering::{HashRule, HashRuleArguments};
use crate::terminal::width;
use crate::values::{Endpoint, endpoint, mixing};
use clap::Args;
use corelane_report::table::Rows;
use corelane_rss::{HashFields, Transform, Tuple};
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
    pub rule: HashRuleArguments,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/hash/1")]
struct HashDocument<'a> {
    source: String,
    destination: String,
    key: String,
    table_size: usize,
    buckets: usize,
    transform: Transform,
    hash_2tuple: &'a str,
    entry_2tuple: usize,
    bucket_2tuple: usize,
    /// `null` if a port is missing.
    hash_4tuple: Option<&'a str>,
    entry_4tuple: Option<usize>,
    bucket_4tuple: Option<usize>,
}

/// Prints both hashes of a flow, with table entry and bucket.
pub fn run(arguments: &HashArguments) -> Outcome {
    // Both hashes are printed, so the fields of the rule do not matter.
    let HashRule {
        steering: rule,
        transform,
    } = arguments.rule.rule(None, HashFields::TwoTuple)?;
    let (source, destination) = (arguments.source, arguments.destination);
    let tuple = Tuple::new(source.socket_address(), destination.socket_address())
        .map_err(|error| usage("SOURCE and DESTINATION", error))?;
    let has_ports = source.port.is_some() && destination.port.is_some();
    let toeplitz = corelane_rss::Toeplitz::new(&rule.key);
    let hashed = |fields| {
        let hash = toeplitz.hash(&transform.of_tuple(&tuple), fields);
        let bucket = rule.table.bucket(hash).index();
        (format!("0x{hash:08x}"), rule.table.entry(hash), bucket)
    };
    let two = hashed(HashFields::TwoTuple);
    let four = has_ports.then(|| hashed(HashFields::FourTuple));
    let four_of = four.as_ref();
    let document = HashDocument {
        source: show(source.socket_address(), source.port),
        destination: show(destination.socket_address(), destination.port),
        key: rule.key.to_string(),
        table_size: rule.table.size(),
        buckets: rule.table.buckets(),
        transform,
        hash_2tuple: &two.0,
        entry_2tuple: two.1,
        bucket_2tuple: two.2,
        hash_4tuple: four_of.map(|(hash, ..)| hash.as_str()),
        entry_4tuple: four_of.map(|(_, entry, _)| *entry),
        bucket_4tuple: four_of.map(|(.., bucket)| *bucket),
    };
    let rows = [("2tuple", Some(&two)), ("4tuple", four_of)];
    let rows: Vec<_> = rows
        .into_iter()
        .filter_map(|(fields, hashed)| Some((fields, hashed?)))
        .collect();
    print(arguments.json, &document, |document| text(document, &rows))
}

fn text(document: &HashDocument<'_>, rows: &[(&str, &(String, usize, usize))]) -> String {
    let table = Rows::of(rows)
        .left("fields", |(fields, _)| *fields)
        .left("hash", |(_, (hash, ..))| hash)
        .right("entry", |(_, (_, entry, _))| entry.to_string())
        .right("bucket", |(_, (.., bucket))| bucket.to_string())
        .table();
    format!(
        "{} -> {}\n{}table of {} entries over {} buckets, key {}{}\n",
        document.source,
        document.destination,
        table.render(width().tables),
        document.table_size,
        document.buckets,
        document.key,
        mixing(document.transform)
    )
}

fn show(address: std::net::SocketAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.ip().to_string(), |_| address.to_string())
}
