//! `corelane lab scale`: an experiment per protocol.

use super::{scale_http, scale_tcp, scale_udp};
use crate::outcome::Outcome;
use crate::verbs::verbs;
use clap::Args;

/// Measure how throughput scales with CPUs, and what limits it
#[derive(Debug, Args)]
pub struct ScalingArguments {
    #[command(subcommand)]
    what: ScaleWhat,
}

verbs! {
    ScaleWhat:
    Udp(scale_udp::ScaleUdpArguments),
    Http(scale_http::ScaleHttpArguments),
    Tcp(scale_tcp::ScaleTcpArguments),
}

/// Runs the selected experiment.
pub fn run(arguments: &ScalingArguments) -> Outcome {
    arguments.what.run()
}
