//! `corelane serve`: servers in the foreground, a file each.

pub mod buckets;
mod device;
pub mod foreground;
mod http;
mod packets;
mod tcp;
mod udp;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ServeWhat {
    /// UDP echo, or sink
    #[command(after_help = "Example:\n  corelane serve udp 127.0.0.1:8080 --duration 1s")]
    Udp(udp::ServeUdpArguments),
    /// HTTP/1.1: objects made on demand, so that the client decides the load
    #[command(
        after_help = "Examples:\n  corelane serve http 127.0.0.1:8080 --duration 1s\n  \
        curl http://127.0.0.1:8080/           the objects that there are\n  \
        curl http://127.0.0.1:8080/size/64KiB"
    )]
    Http(http::ServeHttpArguments),
    /// What came of generated packets: loss, order, duplicates, latency
    #[command(after_help = packets::EXAMPLES)]
    Packets(packets::ServePacketsArguments),
    /// TCP sink, source or echo
    #[command(
        after_help = "Examples:\n  corelane serve tcp 127.0.0.1:8080 --duration 1s\n  \
        corelane serve tcp 127.0.0.1:8080 --mode source --duration 1s"
    )]
    Tcp(tcp::ServeTcpArguments),
}

/// Runs the server that was asked for.
pub fn run(what: &ServeWhat) -> Outcome {
    match what {
        ServeWhat::Udp(arguments) => udp::run(arguments),
        ServeWhat::Http(arguments) => http::run(arguments),
        ServeWhat::Packets(arguments) => packets::run(arguments),
        ServeWhat::Tcp(arguments) => tcp::run(arguments),
    }
}
