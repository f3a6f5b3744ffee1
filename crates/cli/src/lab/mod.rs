//! `corelane lab`: experiments in a private test bed, one file each.

mod bed;
mod cache;
mod classify;
mod engines;
mod nic;
mod path;
mod progress;
mod rebalance;
mod scale;
mod scale_http;
mod scale_memcached;
mod scale_streams;
mod scale_tcp;
mod scale_udp;
mod scaling;
mod shell;
mod simulate;

pub use shell::facts;

use crate::verbs::verbs;

verbs! {
    LabWhat:
    /// Measure how throughput scales with CPUs, and what limits it
    #[command(subcommand)]
    Scale(scaling::ScaleWhat),
    Simulate(simulate::SimulateArguments),
    Rebalance(rebalance::RebalanceArguments),
    Engines(engines::EnginesArguments),
    Nic(nic::NicArguments),
    Classify(classify::ClassifyArguments),
    Path(path::PathArguments),
    Cache(cache::CacheArguments),
}
