//! `corelane table build`: builds a snapshot from a list.

use super::show::TableFacts;
use super::source::{SourceArguments, load};
use crate::documents::{check_output, replace};
use crate::outcome::Outcome;
use crate::shared::{JsonArgument, print};
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Shown under `--help`.
const EXAMPLE: &str = "Examples:\n  \
    printf '192.0.2.1\\n198.51.100.0/24 7\\n' | corelane table build - --output blocklist.table\n  \
    nft list set inet filter blocked | corelane table build - --output blocklist.table";

/// Build a snapshot, which loads instantly, from a list: plain text, `ipset save` or `nft list set`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct BuildArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// Snapshot to write; replaced atomically, open readers keep the old one
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    #[command(flatten)]
    pub json: JsonArgument,
}

/// Reads the list, writes the snapshot and prints its statistics.
pub fn run(arguments: &BuildArguments) -> Outcome {
    check_output("--output", &arguments.output)?;
    let source = load(&arguments.source)?;
    let written = replace(&arguments.output, |file| {
        source.map.save(file)?;
        Ok(file.sync_all()?)
    });
    written.with_context(|| format!("--output {}", arguments.output.display()))?;
    let facts = TableFacts::of(&source);
    print(arguments.json, &facts, |facts| {
        format!("{}written    {}\n", facts.text(), arguments.output.display())
    })
}
