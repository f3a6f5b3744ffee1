//! `corelane table build`: builds a snapshot from a list.

use super::show::TableFacts;
use super::source::{SourceArguments, load};
use crate::outcome::Outcome;
use crate::shared::print;
use anyhow::Context;
use clap::Args;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Shown under `--help`.
pub const EXAMPLE: &str = "Examples:\n  \
    printf '192.0.2.1\\n198.51.100.0/24 7\\n' | corelane table build - --output blocklist.table\n  \
    nft list set inet filter blocked | corelane table build - --output blocklist.table";

#[derive(Debug, Args)]
pub struct BuildArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// Snapshot to write; replaced atomically, open readers keep the old one
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// Reads the list, writes the snapshot and prints its statistics.
pub fn run(arguments: &BuildArguments) -> Outcome {
    let source = load(&arguments.source)?;
    write(&source.map, &arguments.output)
        .with_context(|| format!("--output {}", arguments.output.display()))?;
    let facts = TableFacts::of(&source);
    print(arguments.json, &facts, |facts| {
        format!("{}written    {}\n", facts.text(), arguments.output.display())
    })
}

/// Writes to a temporary file and renames it: a mapped snapshot must never change.
fn write(map: &corelane_table::AddressMap, path: &Path) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&beside)?;
    let written = map
        .save(&file)
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(file.sync_all()?));
    if let Err(error) = written {
        // The file is incomplete. An error of its removal is ignored: the original error matters.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    Ok(fs::rename(&beside, path)?)
}
