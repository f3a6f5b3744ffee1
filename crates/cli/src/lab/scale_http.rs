//! `corelane lab scale http`: the scaling experiment for HTTP requests.

use super::scale_streams::{self, StreamsArguments};
use crate::outcome::{Outcome, usage};
use crate::values::{duration, rate, size};
use clap::Args;
use corelane_lab::scale::streams::{Protocol, Traffic};
use std::time::Duration;

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane lab scale http --duration 500ms --rounds 1 --json http.json\n  \
    corelane lab scale http --connections 2k --size 128 --models exact --duration 500ms --rounds 1\n\n\
    A million: --connections 1M --rate 50k --duration 60s --rounds 1 --models exact --placements aligned\n\
    Another server: --subject 'nginx -c FILE' --path /index.html\n\n\
    The subject receives its listen address and CPUs in $CORELANE_ADDRESS, $CORELANE_PORT, $CORELANE_CPUS (number) and\n\
    $CORELANE_CPU_LIST; an IPv6 address is in brackets. It is restarted for each trial, and killed\n\
    with all its child processes.";

/// HTTP: 1 to N active buckets, small and large objects, up to millions of connections, our server or another
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScaleHttpArguments {
    /// Sizes of the requested object
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "128,64KiB", value_parser = size)]
    pub size: Vec<u64>,
    /// Requests per second on a fixed schedule [default: closed loop]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,
    /// Duration of one trial, starting when every connection is open
    #[arg(short, long, value_name = "TIME", default_value = "1s", default_value_if("quick", "true", "500ms"), value_parser = duration)]
    pub duration: Duration,
    /// Path to request from the subject; {size} is replaced by the object size in bytes
    #[arg(long, value_name = "PATH", default_value = "/", requires = "subject")]
    pub path: String,
    #[command(flatten)]
    pub streams: StreamsArguments,
}

/// `corelane lab scale http`.
pub fn run(arguments: &ScaleHttpArguments) -> Outcome {
    if !arguments.path.starts_with('/') {
        let what = format!("'{}' does not start with /", arguments.path);
        return Err(usage("--path", what));
    }
    let (streams, duration) = (&arguments.streams, arguments.duration);
    scale_streams::run(streams, Protocol::Http, duration, |request| {
        request.selection.traffics = vec![Traffic::Requests];
        request.selection.object_bytes.clone_from(&arguments.size);
        request.rate = arguments.rate;
        if let Some(subject) = &mut request.subject {
            subject.path = Some(arguments.path.clone());
        }
    })
}
