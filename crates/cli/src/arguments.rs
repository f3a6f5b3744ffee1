//! The command line: verbs and their help. Contains no logic.

use crate::values::size;
use clap::{ColorChoice, Parser, Subcommand};

/// Put every packet on the right CPU, prove it, and push it until it breaks.
#[derive(Debug, Parser)]
#[command(name = "corelane", bin_name = "corelane", version, max_term_width = 100)]
#[command(
    after_help = "`corelane help VERB` explains a verb, with examples. `--color always` or `never` and the variable NO_COLOR set its \
        colour.\n\n\
        Exit codes: 0 done, 1 failed, 2 usage, 3 a --fail-if condition holds, 77 cannot run here."
)]
pub struct Corelane {
    /// Largest file that is read as a whole, such as a saved document [default: 1GiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, hide = true)]
    pub max_input: Option<u64>,
    /// When to colour help and errors
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto, global = true, hide = true)]
    pub color: ColorChoice,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compute the Toeplitz hashes, table entry and bucket of a flow
    #[command(after_help = "Example:\n  corelane hash 66.9.149.187:2794 161.142.100.80:1766")]
    Hash(crate::hash::HashArguments),
    /// Find client addresses or ports that map to each bucket
    #[command(
        after_help = "Examples:\n  corelane plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 4\n  \
        corelane plan --server 10.11.2.1:8080 --client 10.11.2.3 --hash 4tuple --buckets 4\n  \
        corelane plan --server 10.11.2.1:80 --clients 10.12.0.0/16 --buckets 4 --flows 1k --shape one:2"
    )]
    Plan(crate::plan::PlanArguments),
    /// Check that frames arrived on the queue that their hash selects
    #[command(after_help = crate::verify::EXAMPLES)]
    Verify(crate::verify::VerifyArguments),
    /// Trace the packets of a flow, and its replies, on this machine: hash, queue, interrupt, CPU, socket
    #[command(after_help = crate::explain::EXAMPLES)]
    Explain(crate::explain::ExplainArguments),
    /// Show devices, queues, hashes, interrupts and CPUs of this machine, and conditions that would spoil a measurement
    #[command(after_help = crate::host::EXAMPLES)]
    Host(crate::host::HostArguments),
    /// Infer what a device hashes from samples: key, fields, dialect and table
    #[command(after_help = crate::infer::EXAMPLES)]
    Infer(crate::infer::InferArguments),
    /// Audit an RSS key, or generate keys that pass the audit
    Key {
        #[command(subcommand)]
        what: crate::key::KeyWhat,
    },
    /// Attach the exact hash to the sockets of a running server, or detach it
    #[command(after_help = crate::steer::EXAMPLES)]
    Steer(crate::steer::SteerArguments),
    /// Run a server with one pinned worker per bucket
    Serve {
        #[command(subcommand)]
        what: crate::serve::ServeWhat,
    },
    /// Generate traffic, and report what was sent, answered, lost and late
    Load {
        #[command(subcommand)]
        what: crate::load::LoadWhat,
    },
    /// Forward frames between links, filtered by address tables
    #[command(after_help = crate::bridge::EXAMPLES)]
    Bridge(crate::bridge::BridgeArguments),
    /// Run experiments
    Lab {
        #[command(subcommand)]
        what: crate::lab::LabWhat,
    },
    /// Build, show and query address tables for block lists and allow lists
    Table {
        #[command(subcommand)]
        what: crate::table::TableWhat,
    },
    /// Show, compare or merge saved reports
    Report {
        #[command(subcommand)]
        what: crate::report::ReportWhat,
    },
}
