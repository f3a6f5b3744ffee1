//! The command line: verbs, their help, and the module that runs each.

use crate::values::size;
use crate::verbs::verbs;
use crate::{
    bridge, explain, hash, host, infer, key, lab, load, plan, report, rss, serve, steer, table, verify,
};
use clap::{ColorChoice, Parser};

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

verbs! {
    Command:
    /// Compute the Toeplitz hashes, table entry and bucket of a flow
    #[command(after_help = "Example:\n  corelane hash 66.9.149.187:2794 161.142.100.80:1766")]
    Hash(hash::HashArguments),
    /// Find client addresses or ports that map to each bucket
    #[command(
        after_help = "Examples:\n  corelane plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 4\n  \
        corelane plan --server 10.11.2.1:8080 --client 10.11.2.3 --hash 4tuple --buckets 4\n  \
        corelane plan --server 10.11.2.1:80 --clients 10.12.0.0/16 --buckets 4 --flows 1k --shape one:2"
    )]
    Plan(plan::PlanArguments),
    /// Check that frames arrived on the queue that their hash selects
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArguments),
    /// Trace the packets of a flow, and its replies, on this machine: hash, queue, interrupt, CPU, socket
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArguments),
    /// Show devices, queues, hashes, interrupts and CPUs of this machine, and conditions that would spoil a measurement
    #[command(after_help = host::EXAMPLES)]
    Host(host::HostArguments),
    /// Infer what a device hashes from samples: key, fields, dialect and table
    #[command(after_help = infer::EXAMPLES)]
    Infer(infer::InferArguments),
    /// Audit an RSS key, or generate keys that pass the audit
    #[command(subcommand)]
    Key(key::KeyWhat),
    /// Attach the exact hash to the sockets of a running server, or detach it
    #[command(after_help = steer::EXAMPLES)]
    Steer(steer::SteerArguments),
    /// Steer the frames of a device to CPUs by the exact hash, as a device with RSS does
    #[command(after_help = rss::EXAMPLES)]
    Rss(rss::RssArguments),
    /// Run a server with one pinned worker per bucket
    #[command(subcommand)]
    Serve(serve::ServeWhat),
    /// Generate traffic, and report what was sent, answered, lost and late
    #[command(subcommand)]
    Load(load::LoadWhat),
    /// Forward frames between links, filtered by address tables
    #[command(after_help = bridge::EXAMPLES)]
    Bridge(bridge::BridgeArguments),
    /// Run experiments
    #[command(subcommand)]
    Lab(lab::LabWhat),
    /// Build, show and query address tables for block lists and allow lists
    #[command(subcommand)]
    Table(table::TableWhat),
    /// Show, compare, merge or join saved reports
    #[command(subcommand)]
    Report(report::ReportWhat),
}
