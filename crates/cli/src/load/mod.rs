//! `corelane load`: the foreground generators, one file each.

mod foreground;
mod http;
mod live;
mod packets;
mod sources;
mod streams;
mod tcp;
mod trust;
mod udp;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum LoadWhat {
    /// UDP datagrams; reports loss, duplicates, reordering and round-trip times
    #[command(
        after_help = "Examples:\n  corelane load udp 127.0.0.1:8080 --rate 10k --duration 1s\n  \
        corelane load udp 127.0.0.1:8080 --window 32 --flows 8 --duration 2s --timeline run.jsonl\n  \
        corelane load udp 127.0.0.1:8080 --steering steering.json --align-by reply --duration 1s"
    )]
    Udp(Box<udp::LoadUdpArguments>),
    /// HTTP requests over any number of connections; records the outcome of each request
    #[command(after_help = http::EXAMPLES)]
    Http(Box<http::LoadHttpArguments>),
    /// Generated or replayed frames on any link, numbered so that a receiver can detect loss
    #[command(after_help = packets::EXAMPLES)]
    Packets(Box<packets::LoadPacketsArguments>),
    /// Bytes written to, read from or both over any number of TCP connections; reports stalled connections
    #[command(after_help = tcp::EXAMPLES)]
    Tcp(Box<tcp::LoadTcpArguments>),
}

/// Runs the selected generator.
pub fn run(what: &LoadWhat) -> Outcome {
    match what {
        LoadWhat::Udp(arguments) => udp::run(arguments),
        LoadWhat::Http(arguments) => http::run(arguments),
        LoadWhat::Packets(arguments) => packets::run(arguments),
        LoadWhat::Tcp(arguments) => tcp::run(arguments),
    }
}
