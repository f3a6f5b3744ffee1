//! `corelane table`: lists of addresses become tables, a file each.

mod build;
mod lookup;
mod show;
mod source;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum TableWhat {
    /// Make a snapshot of a list: plain text, `ipset save` or `nft list set`; it opens in an instant
    #[command(after_help = build::EXAMPLE)]
    Build(build::BuildArguments),
    /// What is in a list or a snapshot, in numbers or entry by entry
    #[command(after_help = show::EXAMPLE)]
    Show(show::ShowArguments),
    /// What addresses map to, by longest match
    #[command(after_help = lookup::EXAMPLE)]
    Lookup(lookup::LookupArguments),
}

/// Does what was asked for.
pub fn run(what: &TableWhat) -> Outcome {
    match what {
        TableWhat::Build(arguments) => build::run(arguments),
        TableWhat::Show(arguments) => show::run(arguments),
        TableWhat::Lookup(arguments) => lookup::run(arguments),
    }
}
