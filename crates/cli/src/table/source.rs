//! Loads a table from a list or a snapshot.

use crate::outcome::usage;
use crate::values::{Choices, one_of};
use clap::Args;
use corelane_table::{
    AddressMap, BadLines, ListError, ListFormat, ListOptions, ListSummary, LoadError, Loaded, Placement,
    Seed, SnapshotMemory, Value, open_file,
};
use serde::Serialize;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, Args)]
pub struct SourceArguments {
    /// List or snapshot; - reads a list from standard input
    pub file: PathBuf,
    /// Format of the list
    #[arg(long, default_value = "detect", value_parser = one_of(FORMATS))]
    pub format: ListFormat,
    /// Set or map of a dump that has several; `FAMILY TABLE NAME` if tables of nftables have one each
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// Default value of entries without a value, 0 to 4095
    #[arg(long, value_name = "N", default_value = "0")]
    pub value: Value,
    /// Skip and count invalid lines instead of rejecting the list
    #[arg(long)]
    pub skip_bad: bool,
}

const FORMATS: &Choices<ListFormat> = &[
    (
        "detect",
        ListFormat::Detect,
        "Detect the format by the first word",
    ),
    (
        "plain",
        ListFormat::Plain,
        "One address, prefix or range per line, with an optional value; # starts a comment",
    ),
    ("ipset", ListFormat::Ipset, "Output of `ipset save`"),
    ("nftables", ListFormat::Nftables, "Output of `nft list set`"),
];

/// A loaded table and its origin.
pub struct Source {
    pub map: AddressMap,
    pub document: SourceDocument,
}

/// The origin of a table, for JSON documents.
#[derive(Clone, Serialize)]
pub struct SourceDocument {
    /// `list` or `snapshot`.
    pub kind: &'static str,
    /// `plain`, `ipset` or `nftables`; `None` for a snapshot.
    pub format: Option<&'static str>,
    /// Number of addresses, prefixes and ranges in the list; `None` for a snapshot.
    pub elements: Option<u64>,
    /// Number of invalid lines or elements skipped; `None` for a snapshot.
    pub skipped: Option<u64>,
    /// The first skipped line or element.
    pub first_skipped: Option<String>,
    /// Seconds to read the file and build the table.
    pub load_s: f64,
}

/// Reads the file.
pub fn load(arguments: &SourceArguments) -> anyhow::Result<Source> {
    let options = ListOptions {
        format: arguments.format,
        value: arguments.value,
        set: arguments.set.clone(),
        bad_lines: match arguments.skip_bad {
            true => BadLines::Skip,
            false => BadLines::Refuse,
        },
    };
    let name = arguments.file.display().to_string();
    let started = Instant::now();
    let read = if arguments.file == Path::new("-") {
        standard_input(&options)
    } else {
        let file = open_file(&arguments.file).map_err(|error| usage(&name, error))?;
        AddressMap::load(&file, &options, Seed::default(), SnapshotMemory::Mapped)
    };
    let (map, loaded) = read.map_err(|error| usage(&name, with_flag(&error)))?;
    let list = match &loaded {
        Loaded::Snapshot => None,
        Loaded::List(summary) => Some(summary),
    };
    let document = SourceDocument {
        kind: if list.is_some() { "list" } else { "snapshot" },
        format: list.map(format),
        elements: list.map(|list| list.elements),
        skipped: list.map(|list| list.skipped),
        first_skipped: list.and_then(|list| Some(list.first_skipped.as_ref()?.to_string())),
        load_s: started.elapsed().as_secs_f64(),
    };
    Ok(Source { map, document })
}

fn standard_input(options: &ListOptions) -> Result<(AddressMap, Loaded), LoadError> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    let (map, summary) = AddressMap::from_list(&text, options, Seed::default(), Placement::default())?;
    Ok((map, Loaded::List(summary)))
}

/// The error text, with the flag that accepts the file.
pub fn with_flag(error: &LoadError) -> String {
    match error {
        LoadError::List(ListError::Line(_)) => format!("{error} (--skip-bad)"),
        LoadError::List(ListError::SeveralSets { .. }) => format!("{error} (--set)"),
        _ => error.to_string(),
    }
}

/// The name of the format in which a list was read.
fn format(summary: &ListSummary) -> &'static str {
    let named = FORMATS.iter().find(|(_, format, _)| *format == summary.format);
    named.map_or("plain", |(name, ..)| name)
}
