//! `corelane key`: is a key any good, and where to get one that is.

mod audit;
mod generate;
mod traffic;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum KeyWhat {
    /// What a key's hash can and cannot tell apart, and how flows fall under it
    #[command(after_help = audit::EXAMPLES)]
    Audit(Box<audit::AuditArguments>),
    /// Random keys that pass the audit, symmetric ones if asked
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::GenerateArguments),
}

/// Audits or generates.
pub fn run(what: &KeyWhat) -> Outcome {
    match what {
        KeyWhat::Audit(arguments) => audit::run(arguments),
        KeyWhat::Generate(arguments) => generate::run(arguments),
    }
}
