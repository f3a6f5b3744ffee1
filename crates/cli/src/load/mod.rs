//! `corelane load`: generators in the foreground, a file each.

mod foreground;
mod http;
mod live;
mod packets;
mod sources;
mod tcp;
mod udp;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum LoadWhat {
    /// UDP datagrams, each one accounted for
    #[command(
        after_help = "Examples:\n  corelane load udp 127.0.0.1:8080 --rate 10k --duration 1s\n  \
        corelane load udp 127.0.0.1:8080 --window 32 --sockets 8 --duration 1s"
    )]
    Udp(Box<udp::LoadUdpArguments>),
    /// HTTP requests over any number of connections, each one's fate told
    #[command(after_help = http::EXAMPLES)]
    Http(Box<http::LoadHttpArguments>),
    /// Frames on any link, made or replayed, each of which a receiver can account for
    #[command(after_help = packets::EXAMPLES)]
    Packets(Box<packets::LoadPacketsArguments>),
    /// Bytes over any number of connections: written, read or both; who stands still is named
    #[command(after_help = tcp::EXAMPLES)]
    Tcp(Box<tcp::LoadTcpArguments>),
}

/// Runs the generator that was asked for.
pub fn run(what: &LoadWhat) -> Outcome {
    match what {
        LoadWhat::Udp(arguments) => udp::run(arguments),
        LoadWhat::Http(arguments) => http::run(arguments),
        LoadWhat::Packets(arguments) => packets::run(arguments),
        LoadWhat::Tcp(arguments) => tcp::run(arguments),
    }
}
