//! `corelane table show`: shows a list or a snapshot.

use super::source::{Source, SourceArguments, SourceDocument, load};
use crate::outcome::Outcome;
use crate::shared::{JsonArgument, print};
use crate::standard::write_lines;
use clap::Args;
use corelane_measure::quantity;
use corelane_table::{IpPrefix, Value};
use serde::Serialize;

/// Shown under `--help`.
const EXAMPLE: &str = "Examples:\n  printf '192.0.2.1\\n2001:db8::/32\\n' | corelane table show -\n  \
    printf '192.0.2.0/25\\n192.0.2.128/25\\n' | corelane table show - --entries";

/// Show statistics or all entries of a list or a snapshot
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct ShowArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// Print every entry as a sorted plain list, which `table build` can read
    #[arg(long, conflicts_with = "json")]
    pub entries: bool,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// Statistics of a table.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/table/1")]
pub struct TableFacts {
    source: SourceDocument,
    entries: u64,
    ipv4_addresses: u64,
    ipv4_prefixes: u64,
    ipv6_addresses: u64,
    ipv6_prefixes: u64,
    /// Number of distinct values.
    values: u64,
    memory_bytes: u64,
    bytes_per_entry: Option<f64>,
}

/// Prints the statistics, or with `--entries` all entries.
pub fn run(arguments: &ShowArguments) -> Outcome {
    let source = load(&arguments.source)?;
    if arguments.entries {
        return list(&source);
    }
    print(arguments.json, &TableFacts::of(&source), TableFacts::text)
}

/// Prints all entries, IPv4 first, ascending. The value is omitted if it is the default of a set.
fn list(source: &Source) -> Outcome {
    let mut entries: Vec<(IpPrefix, Value)> = source.map.iter().collect();
    entries.sort_unstable();
    write_lines(entries.into_iter().map(|(prefix, value)| match value {
        Value::MEMBER => prefix.to_string(),
        value => format!("{prefix} {value}"),
    }));
    Ok(())
}

impl TableFacts {
    /// Computes the statistics of a table.
    pub fn of(source: &Source) -> TableFacts {
        let counts = source.map.count();
        let (entries, memory_bytes) = (source.map.len() as u64, source.map.memory_bytes() as u64);
        TableFacts {
            source: source.document.clone(),
            entries,
            ipv4_addresses: counts.ipv4_addresses,
            ipv4_prefixes: counts.ipv4_prefixes,
            ipv6_addresses: counts.ipv6_addresses,
            ipv6_prefixes: counts.ipv6_prefixes,
            values: counts.values,
            memory_bytes,
            bytes_per_entry: (entries > 0).then(|| memory_bytes as f64 / entries as f64),
        }
    }

    /// The statistics as text lines.
    pub fn text(&self) -> String {
        let source = &self.source;
        let kind = source.format.map_or(source.kind.to_owned(), |format| {
            let elements = quantity::count(source.elements.unwrap_or(0));
            format!("{format} {} of {elements} elements", source.kind)
        });
        let took = quantity::duration(source.load_s * 1e9);
        let skipped = source
            .skipped
            .filter(|skipped| *skipped > 0)
            .zip(source.first_skipped.as_ref());
        let skipped = skipped.map(|(skipped, first)| format!("{}, first: {first}", quantity::count(skipped)));
        let family = |addresses: u64, prefixes: u64| {
            let words = [addresses, prefixes].map(quantity::count);
            (addresses + prefixes > 0).then(|| format!("{} addresses, {} prefixes", words[0], words[1]))
        };
        let each = quantity::or_missing(self.bytes_per_entry, |bytes| {
            format!("{} bytes per entry", quantity::fixed(bytes, 1))
        });
        let lines = [
            ("source", Some(format!("{kind}, read in {took}"))),
            ("skipped", skipped),
            ("entries", Some(quantity::count(self.entries))),
            ("IPv4", family(self.ipv4_addresses, self.ipv4_prefixes)),
            ("IPv6", family(self.ipv6_addresses, self.ipv6_prefixes)),
            ("values", Some(quantity::count(self.values))),
            (
                "memory",
                Some(format!("{}, {each}", quantity::bytes(self.memory_bytes))),
            ),
        ];
        let line = |(name, value): (&str, Option<String>)| Some(format!("{name:<10} {}\n", value?));
        lines.into_iter().filter_map(line).collect()
    }
}
