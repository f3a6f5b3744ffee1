//! `corelane lab`: experiments in a test bed of their own, a file each.

mod bed;
mod classify;
mod engines;
mod nic;
mod progress;
mod rebalance;
mod scale_http;
mod scale_streams;
mod scale_tcp;
mod scale_udp;
mod shell;
mod simulate;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum LabWhat {
    /// Does it grow with the CPUs, and if not, why?
    Scale {
        #[command(subcommand)]
        what: ScaleWhat,
    },
    /// Over how many buckets RSS spreads flows evenly, and what rebalancing gains; no packet is sent
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArguments),
    /// What rebalancing gains while a server serves, and that nothing is lost: a skewed load against static RSS
    #[command(after_help = rebalance::EXAMPLES)]
    Rebalance(rebalance::RebalanceArguments),
    /// Which way to hash and which way to move datagrams is best here, each against its reference
    #[command(after_help = engines::EXAMPLES)]
    Engines(engines::EnginesArguments),
    /// Does a NIC that really does RSS do as computed? Proved on emulated ones, frame by frame
    #[command(after_help = nic::EXAMPLES)]
    Nic(nic::NicArguments),
    /// How fast frames are classified by their addresses, and which choices decide it: batch, prefetch, stride, lock, table
    #[command(after_help = classify::EXAMPLES)]
    Classify(classify::ClassifyArguments),
}

#[derive(Debug, Subcommand)]
pub enum ScaleWhat {
    /// UDP: 1 to N buckets active, frames counted at five places
    #[command(
        after_help = "Examples:\n  corelane lab scale udp --duration 200ms --rounds 1 --json scale.json\n  \
        corelane lab scale udp --models all --placements aligned,crossed --duration 100ms --rounds 1"
    )]
    Udp(scale_udp::ScaleUdpArguments),
    /// HTTP: 1 to N buckets active, small and large objects, up to millions of connections, our server or any other
    #[command(after_help = scale_http::EXAMPLES)]
    Http(scale_http::ScaleHttpArguments),
    /// TCP: 1 to N buckets active, bytes to, from and through the server, in small and large writes over any number of connections
    #[command(after_help = scale_tcp::EXAMPLES)]
    Tcp(scale_tcp::ScaleTcpArguments),
}

/// Runs the experiment that was asked for.
pub fn run(what: &LabWhat) -> Outcome {
    match what {
        LabWhat::Scale {
            what: ScaleWhat::Udp(arguments),
        } => scale_udp::run(arguments),
        LabWhat::Scale {
            what: ScaleWhat::Http(arguments),
        } => scale_http::run(arguments),
        LabWhat::Scale {
            what: ScaleWhat::Tcp(arguments),
        } => scale_tcp::run(arguments),
        LabWhat::Simulate(arguments) => simulate::run(arguments),
        LabWhat::Rebalance(arguments) => rebalance::run(arguments),
        LabWhat::Engines(arguments) => engines::run(arguments),
        LabWhat::Nic(arguments) => nic::run(arguments),
        LabWhat::Classify(arguments) => classify::run(arguments),
    }
}
