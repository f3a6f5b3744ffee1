//! `corelane serve`: the foreground servers, one file each.

pub mod buckets;
mod device;
pub mod foreground;
mod http;
pub mod live_table;
mod packets;
mod tcp;
mod tls;
mod udp;

use crate::outcome::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum ServeWhat {
    /// UDP echo, or sink
    #[command(
        after_help = "Examples:\n  corelane serve udp 127.0.0.1:8080 --duration 1s\n  \
        corelane serve udp '[::]:8080' --duration 1s           every address of both families\n  \
        corelane serve udp '[::]:8080' --ipv6-only --duration 1s\n  \
        corelane serve udp 127.0.0.1:8080 --buckets 2 --share-cpus --rebalance --write-steering steering.json --duration 1s"
    )]
    Udp(udp::ServeUdpArguments),
    /// HTTP/1.1: generates objects on demand, so that the client controls the load
    #[command(
        after_help = "Examples:\n  corelane serve http 127.0.0.1:8080 --duration 1s\n  \
        curl http://127.0.0.1:8080/           list of objects\n  \
        curl http://127.0.0.1:8080/size/64KiB"
    )]
    Http(http::ServeHttpArguments),
    /// Receiver of generated packets: loss, reordering, duplicates, latency
    #[command(after_help = packets::EXAMPLES)]
    Packets(packets::ServePacketsArguments),
    /// TCP sink, source or echo
    #[command(
        after_help = "Examples:\n  corelane serve tcp 127.0.0.1:8080 --duration 1s\n  \
        corelane serve tcp 127.0.0.1:8080 --mode source --duration 1s"
    )]
    Tcp(tcp::ServeTcpArguments),
}

/// Runs the selected server.
pub fn run(what: &ServeWhat) -> Outcome {
    match what {
        ServeWhat::Udp(arguments) => udp::run(arguments),
        ServeWhat::Http(arguments) => http::run(arguments),
        ServeWhat::Packets(arguments) => packets::run(arguments),
        ServeWhat::Tcp(arguments) => tcp::run(arguments),
    }
}
