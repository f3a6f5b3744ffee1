//! `corelane key`: audits and generates RSS keys.

mod audit;
mod generate;
mod traffic;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum KeyWhat {
    /// Audit which inputs a key's hash distinguishes, and how it distributes flows
    #[command(after_help = audit::EXAMPLES)]
    Audit(Box<audit::AuditArguments>),
    /// Generate random keys that pass the audit, optionally symmetric
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
