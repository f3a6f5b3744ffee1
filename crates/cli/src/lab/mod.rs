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
mod scaling;
mod shell;
mod simulate;

pub use shell::facts;

use crate::outcome::Outcome;
use clap::Subcommand;

/// A verb per experiment, with the arguments and `run` of its module; their help is with the arguments.
macro_rules! experiments {
    ($verbs:ident: $($verb:ident($module:ident::$arguments:ident),)+) => {
        #[derive(Debug, Subcommand)]
        pub enum $verbs {
            $($verb($module::$arguments),)+
        }

        impl $verbs {
            /// Runs the selected experiment.
            pub fn run(&self) -> Outcome {
                match self {
                    $(Self::$verb(arguments) => $module::run(arguments),)+
                }
            }
        }
    };
}
use experiments;

experiments! {
    LabWhat:
    Scale(scaling::ScalingArguments),
    Simulate(simulate::SimulateArguments),
    Rebalance(rebalance::RebalanceArguments),
    Engines(engines::EnginesArguments),
    Nic(nic::NicArguments),
    Classify(classify::ClassifyArguments),
}
