//! `corelane key generate`: generates random keys that pass the audit.

use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use crate::values::{Choices, one_of};
use clap::Args;
use corelane_rss::audit::{self, Family};
use corelane_rss::{HashFields, IndirectionTable, Key, Transform};
use serde::Serialize;
use std::fs::File;
use std::io::Read;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane key generate\n  corelane key generate --count 3 --bytes 52\n  \
    corelane key generate --symmetric ipv6 --hash 2tuple --json";

/// Generate random keys that pass the audit, optionally symmetric
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GenerateArguments {
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Key length in bytes, 40 to 64; devices use 40 or 52
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u8).range(40..=64))]
    bytes: u8,
    /// Fields to hash
    #[arg(long, value_name = "2tuple|4tuple", default_value = "4tuple")]
    hash: HashFields,
    /// Entries of the table that the audit uses, up to 4096
    #[arg(long, value_name = "ENTRIES", default_value_t = 128)]
    table_size: usize,
    /// Hash both directions of a flow to the same value; for 4-tuples this leaves 16 random bits
    #[arg(long, value_name = "FAMILIES", value_parser = one_of(FAMILIES))]
    symmetric: Option<&'static [Family]>,
    #[command(flatten)]
    json: JsonArgument,
}

/// Address families for which a key is symmetric.
const FAMILIES: &Choices<&[Family]> = &[
    ("ipv4", &[Family::V4], "IPv4 only"),
    ("ipv6", &[Family::V6], "IPv6 only"),
    ("both", &Family::ALL, "Both"),
];

/// What `--json` prints.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "corelane/key-generate/1")]
struct GenerateDocument {
    keys: Vec<Key>,
    hash_fields: HashFields,
    table_size: usize,
    symmetric_ipv4: bool,
    symmetric_ipv6: bool,
    /// Number of drawn keys that failed the audit.
    refused: u64,
}

/// Draws per key. This many consecutive failures mean that no key can meet the request.
const MOST_DRAWS: u32 = 10_000;

/// Draws keys until the requested number passes the audit.
pub fn run(arguments: &GenerateArguments) -> Outcome {
    let table = IndirectionTable::round_robin(arguments.table_size, arguments.table_size)
        .map_err(|error| usage("--table-size", error))?;
    let mut random = File::open("/dev/urandom")?;
    let families = arguments.symmetric.unwrap_or_default();
    let mut document = GenerateDocument {
        keys: Vec::new(),
        hash_fields: arguments.hash,
        table_size: arguments.table_size,
        symmetric_ipv4: families.contains(&Family::V4),
        symmetric_ipv6: families.contains(&Family::V6),
        refused: 0,
    };
    for _ in 0..arguments.count {
        let key = draw(arguments, families, &table, &mut random, &mut document.refused)?;
        document.keys.push(key);
    }
    print(arguments.json, &document, |document| {
        document.keys.iter().map(|key| format!("{key}\n")).collect()
    })
}

fn draw(
    arguments: &GenerateArguments,
    families: &[Family],
    table: &IndirectionTable,
    random: &mut File,
    refused: &mut u64,
) -> anyhow::Result<Key> {
    for _ in 0..MOST_DRAWS {
        let mut bytes = [0; Key::MAXIMUM];
        random.read_exact(&mut bytes)?;
        let mut fill = |wanted: &mut [u8]| wanted.copy_from_slice(&bytes[..wanted.len()]);
        let start = Key::random_symmetric(families, arguments.hash, &mut fill);
        bytes[..Key::MINIMUM].copy_from_slice(start.as_bytes());
        let key = Key::from_bytes(&bytes[..usize::from(arguments.bytes)])?;
        let audit = audit::audit(
            &key,
            arguments.hash,
            table,
            !families.is_empty(),
            Transform::Plain,
        );
        if audit.passes() {
            return Ok(key);
        }
        *refused += 1;
    }
    anyhow::bail!("none of {MOST_DRAWS} drawn keys passes the audit: give a smaller --table-size")
}
