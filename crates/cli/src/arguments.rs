//! What a user may type: verbs, flags and their help. Nothing here decides anything.

use clap::{Parser, Subcommand};

/// Put every packet on the right CPU, prove it, and push it until it breaks.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 a gate was not met, 77 cannot run here.")]
pub struct Corelane {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Where a flow goes: its Toeplitz hashes, table entry and bucket
    #[command(after_help = "Example:\n  corelane hash 66.9.149.187:2794 161.142.100.80:1766")]
    Hash(crate::hash::HashArguments),
    /// Which client addresses or ports land on which bucket
    #[command(
        after_help = "Examples:\n  corelane plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 4\n  \
        corelane plan --server 10.11.2.1:8080 --client 10.11.2.3 --hash 4tuple --buckets 4\n  \
        corelane plan --server 10.11.2.1:80 --clients 10.12.0.0/16 --buckets 4 --flows 1k --shape one:2"
    )]
    Plan(crate::plan::PlanArguments),
    /// Did frames come by the queue that their hash names?
    #[command(after_help = crate::verify::EXAMPLES)]
    Verify(crate::verify::VerifyArguments),
    /// Where the packets of a flow go on this machine: hash, queue, interrupt, CPU, socket; and the answers
    #[command(after_help = crate::explain::EXAMPLES)]
    Explain(crate::explain::ExplainArguments),
    /// What this machine is to frames: devices, queues, hashes, interrupts, CPUs; and what would spoil a measurement
    #[command(after_help = crate::host::EXAMPLES)]
    Host(crate::host::HostArguments),
    /// What does a device really hash: key, fields, dialect and table, from samples
    #[command(after_help = crate::infer::EXAMPLES)]
    Infer(crate::infer::InferArguments),
    /// Is an RSS key any good, and where to get one that is
    Key {
        #[command(subcommand)]
        what: crate::key::KeyWhat,
    },
    /// Give the sockets of a server that runs already the exact hash, and take it back
    #[command(after_help = crate::steer::EXAMPLES)]
    Steer(crate::steer::SteerArguments),
    /// A server with one pinned worker a bucket
    Serve {
        #[command(subcommand)]
        what: crate::serve::ServeWhat,
    },
    /// A traffic generator that reports what it could not send
    Load {
        #[command(subcommand)]
        what: crate::load::LoadWhat,
    },
    /// Frames from one link go out of the others, unless a table of addresses says no
    #[command(after_help = crate::bridge::EXAMPLES)]
    Bridge(crate::bridge::BridgeArguments),
    /// Experiments
    Lab {
        #[command(subcommand)]
        what: crate::lab::LabWhat,
    },
    /// Tables of addresses for block lists and allow lists: made of lists, shown, asked
    Table {
        #[command(subcommand)]
        what: crate::table::TableWhat,
    },
    /// Saved reports, shown again or compared
    Report {
        #[command(subcommand)]
        what: crate::report::ReportWhat,
    },
}
