//! `corelane table`: builds, shows and queries address tables, one file per verb.

mod build;
mod lookup;
mod show;
mod source;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum TableWhat {
    /// Build a snapshot, which loads instantly, from a list: plain text, `ipset save` or `nft list set`
    #[command(after_help = build::EXAMPLE)]
    Build(build::BuildArguments),
    /// Show statistics or all entries of a list or a snapshot
    #[command(after_help = show::EXAMPLE)]
    Show(show::ShowArguments),
    /// Look up addresses by longest prefix match
    #[command(after_help = lookup::EXAMPLE)]
    Lookup(lookup::LookupArguments),
}

/// Runs the selected verb.
pub fn run(what: &TableWhat) -> Outcome {
    match what {
        TableWhat::Build(arguments) => build::run(arguments),
        TableWhat::Show(arguments) => show::run(arguments),
        TableWhat::Lookup(arguments) => lookup::run(arguments),
    }
}
