//! `corelane serve packets`: receives and accounts for the packets that `corelane load packets` sends.

use super::foreground::{self, Foreground, Refused};
use super::live_table::LiveTable;
use crate::links::{faults, invalid, refused_link};
use crate::outcome::{Outcome, usage};
use crate::shared::ServerRunArguments;
use crate::steering;
use clap::Args;
use corelane_measure::quantity;
use corelane_serve::packets::{ReceiveError, ReceivePlan, Received, Receiver};

/// Shown under `--help`.
const EXAMPLES: &str = "Examples:\n  corelane serve packets ring:right --duration 200ms --json\n  \
    sudo corelane serve packets xdp:eth1\n  sudo corelane serve packets tap:t0,queues=2\n\n\
    Links: xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:FILE, ring:NAME, with options such as ,queues=2;\n\
    ,capture=seen.pcapng records received frames; ,drop=1%,delay=5ms injects faults (docs/BRIDGE.md).";

/// Receiver of generated packets: loss, reordering, duplicates, latency
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("duration", |duration| duration.help("Stop after this time [default: on SIGINT, or at the end of the file]")))]
pub struct ServePacketsArguments {
    /// The link to receive on; xdp consumes frames exclusively, packet receives copies
    pub link: String,
    /// Frames received per call
    #[arg(long = "batch", alias = "burst", value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub burst: u32,
    /// CPUs to use, such as 0-3,6 [default: those allowed for this process, at most one per queue]
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub run: ServerRunArguments,
}

/// `corelane serve packets`.
pub fn run(arguments: &ServePacketsArguments) -> Outcome {
    let plan = ReceivePlan {
        link: arguments.link.clone(),
        burst: arguments.burst as usize,
        cpus: steering::worker_cpus(arguments.cpus.as_deref(), None)?,
    };
    foreground::serve(arguments, plan, &arguments.run, LiveTable::default())
}

impl Refused for ReceiveError {
    fn refused(self) -> anyhow::Error {
        match self {
            Self::Link(error) => refused_link("LINK", &error),
            Self::Spec(_) | Self::NothingSent => usage("LINK", self),
            error => error.into(),
        }
    }
}

impl Foreground for ServePacketsArguments {
    type Server = Receiver;

    fn ready(&self, received: &Received) -> String {
        format!("receiving on {}\n", received.link)
    }

    fn line(&self, received: &Received, last: &Received) -> String {
        let rate = quantity::rate((received.received - last.received) as f64);
        format!(
            "received {rate:>12}  in all {:>13}",
            quantity::count(received.received)
        )
    }

    fn summary(received: &Received) -> String {
        let [frames, marked] = [received.received, received.marked].map(quantity::count);
        let bytes = quantity::bytes(received.received_bytes);
        let took = quantity::duration(received.receiving_s * 1e9);
        let rate = quantity::or_missing(received.frames_per_s, quantity::rate);
        let link = &received.link;
        let mut text =
            format!("{link}: {frames} frames, {bytes}; {marked} from the generator in {took}: {rate}\n");
        let total = &received.total;
        for (what, count) in [
            ("came once", total.received),
            ("lost", total.lost),
            ("duplicates", total.duplicated),
            ("reordered", total.reordered),
            ("too late to classify", total.too_late),
            ("corrupted or foreign", received.changed_or_foreign),
            ("not UDP", received.not_udp),
            ("dropped because a ring was full", received.receive_dropped),
        ] {
            text.push_str(&format!("{what:<31} {:>13}\n", quantity::count(count)));
        }
        text.push_str(&faults(link, received.faults.as_ref()));
        text.push_str(&invalid(link, received.receive_invalid));
        match (&received.latency, &received.latency_unknown) {
            (Some(latency), _) => {
                let times = [latency.p50_ns, latency.p99_ns, latency.max_ns];
                let [p50, p99, max] = times.map(|time| quantity::duration(time as f64));
                text.push_str(&format!("latency: median {p50}, p99 {p99}, max {max}\n"));
            }
            (None, Some(why)) => text.push_str(&format!("latency unknown: {why}\n")),
            (None, None) => {}
        }
        text
    }

    fn verdict(received: &Received) -> Outcome {
        match &received.ended_because {
            Some(why) => Err(anyhow::anyhow!(
                "LINK: {why}; the report covers the frames received before"
            )),
            None => Ok(()),
        }
    }
}
