//! `corelane lab scale tcp`: the scaling experiment for TCP byte streams.

use super::scale_streams::{self, StreamsArguments};
use crate::outcome::{Outcome, usage};
use crate::values::{byte_rate, duration, write_size};
use clap::Args;
use corelane_lab::scale::streams::{Protocol, Traffic};
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab scale tcp --modes sink --duration 200ms --rounds 1 --json tcp.json\n  \
    corelane lab scale tcp --modes echo --connections 2k --size 1KiB --models exact --duration 200ms --rounds 1\n\n\
    Many connections: --connections 100k --rate 1GB --modes sink --duration 30s --rounds 1 --models exact --placements aligned\n\
    Another server: --modes sink --subject 'socat -u TCP-LISTEN:$CORELANE_PORT,fork,reuseaddr OPEN:/dev/null'\n\n\
    The subject receives its listen address and CPUs in $CORELANE_ADDRESS, $CORELANE_PORT, $CORELANE_CPUS (number) and\n\
    $CORELANE_CPU_LIST; an IPv6 address is in brackets. It must implement the mode, and close a connection when the\n\
    client has closed its side.";

/// TCP: 1 to N active buckets, bytes to, from and through the server, small and large writes, any number of
/// connections
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScaleTcpArguments {
    /// Server modes: sink (clients write), source (clients read), echo
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "sink,source,echo"
    )]
    pub modes: Vec<Traffic>,
    /// Write sizes of the sender (the client, or a source), at most 1 MiB; the next write starts when the kernel has
    /// accepted the previous one
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64KiB,128", value_parser = write_size)]
    pub size: Vec<u32>,
    /// Write rate of the clients in bytes per second over all connections; not with source [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = byte_rate)]
    pub rate: Option<u64>,
    /// Duration of one trial, starting when every connection is open; extended until the last byte has arrived
    #[arg(short, long, value_name = "TIME", default_value = "500ms", default_value_if("quick", "true", "200ms"), value_parser = duration)]
    pub duration: Duration,
    #[command(flatten)]
    pub streams: StreamsArguments,
}

/// `corelane lab scale tcp`.
pub fn run(arguments: &ScaleTcpArguments) -> Outcome {
    if arguments.rate.is_some() && arguments.modes.contains(&Traffic::Source) {
        let what = "a source sends as fast as it is read: give --modes sink, echo or both";
        return Err(usage("--rate", what));
    }
    let (streams, duration) = (&arguments.streams, arguments.duration);
    scale_streams::run(streams, Protocol::Tcp, duration, |request| {
        request.selection.traffics.clone_from(&arguments.modes);
        request.selection.write_bytes = arguments.size.iter().copied().map(u64::from).collect();
        request.rate = arguments.rate.map(|bytes| bytes as f64);
    })
}
