//! `corelane lab`: experiments in a private test bed, one file each.

mod bed;
mod classify;
mod engines;
mod nic;
mod progress;
mod rebalance;
mod scale;
mod scale_http;
mod scale_streams;
mod scale_tcp;
mod scale_udp;
mod shell;
mod simulate;

pub use shell::facts;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum LabWhat {
    /// Measure how throughput scales with CPUs, and what limits it
    Scale {
        #[command(subcommand)]
        what: ScaleWhat,
    },
    /// Simulate how evenly RSS spreads flows over buckets, and the gain of rebalancing; sends no packets
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArguments),
    /// Measure the gain and loss of rebalancing a running server under skewed load, compared with static RSS
    #[command(after_help = rebalance::EXAMPLES)]
    Rebalance(rebalance::RebalanceArguments),
    /// Compare hash implementations and datagram I/O methods on this machine, each with its reference
    #[command(after_help = engines::EXAMPLES)]
    Engines(engines::EnginesArguments),
    /// Check the computed queue of every frame against emulated NICs with hardware RSS
    #[command(after_help = nic::EXAMPLES)]
    Nic(nic::NicArguments),
    /// Measure the rate of classifying frames by address, by batch, prefetch, stride, lock and table
    #[command(after_help = classify::EXAMPLES)]
    Classify(classify::ClassifyArguments),
}

#[derive(Debug, Subcommand)]
pub enum ScaleWhat {
    /// UDP: 1 to N active buckets, frames counted at five points
    #[command(
        after_help = "Examples:\n  corelane lab scale udp --quick --json scale.json\n  \
        corelane lab scale udp --models all --placements aligned,crossed --duration 100ms --rounds 1\n  \
        corelane lab scale udp --ipv6 --hash 4tuple --duration 100ms --rounds 1"
    )]
    Udp(scale_udp::ScaleUdpArguments),
    /// HTTP: 1 to N active buckets, small and large objects, up to millions of connections, our server or another
    #[command(after_help = scale_http::EXAMPLES)]
    Http(scale_http::ScaleHttpArguments),
    /// TCP: 1 to N active buckets, bytes to, from and through the server, small and large writes, any number of
    /// connections
    #[command(after_help = scale_tcp::EXAMPLES)]
    Tcp(scale_tcp::ScaleTcpArguments),
}

/// Runs the selected experiment.
pub fn run(what: &LabWhat) -> Outcome {
    match what {
        LabWhat::Scale { what } => match what {
            ScaleWhat::Udp(arguments) => scale_udp::run(arguments),
            ScaleWhat::Http(arguments) => scale_http::run(arguments),
            ScaleWhat::Tcp(arguments) => scale_tcp::run(arguments),
        },
        LabWhat::Simulate(arguments) => simulate::run(arguments),
        LabWhat::Rebalance(arguments) => rebalance::run(arguments),
        LabWhat::Engines(arguments) => engines::run(arguments),
        LabWhat::Nic(arguments) => nic::run(arguments),
        LabWhat::Classify(arguments) => classify::run(arguments),
    }
}
