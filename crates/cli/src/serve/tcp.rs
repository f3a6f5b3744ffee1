//! `corelane serve tcp`: a sink, source or echo server in the foreground.

use super::buckets::{self, BucketArguments};
use super::foreground::{self, Foreground};
use super::tls::{CertificateArguments, handshakes};
use crate::outcome::Outcome;
use crate::ready;
use crate::rebalanced::rebalanced;
use crate::terminal::width;
use crate::values::{duration, write_size};
use clap::Args;
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_rss::Steering;
use corelane_serve::metrics::{ACCEPTED, RECEIVED, SENT};
use corelane_serve::tcp::metrics::{OUT_OF_ORDER, RETRANSMITTED, STALLS};
use corelane_serve::tcp::{BucketTcp, TcpMode, TcpPlan, TcpServed, TcpServer};
use std::time::Duration;

/// TCP sink, source or echo
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  corelane serve tcp 127.0.0.1:8080 --duration 1s\n  \
    corelane serve tcp 127.0.0.1:8080 --mode source --duration 1s"
)]
pub struct ServeTcpArguments {
    #[command(flatten)]
    pub buckets: BucketArguments,
    /// Server mode: sink, source or echo
    #[arg(long, value_name = "MODE", default_value = "sink")]
    pub mode: TcpMode,
    /// Bytes per write of a source, at most 1 MiB; the next write starts when the kernel has accepted all of them
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = write_size)]
    pub size: u32,
    /// Time without progress after which a connection counts as stalled
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub stall: Duration,
    /// Idle timeout of a connection [default: none]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub idle_timeout: Option<Duration>,
    #[command(flatten)]
    pub tls: CertificateArguments,
}

/// `corelane serve tcp`.
pub fn run(arguments: &ServeTcpArguments) -> Outcome {
    let (listening, table) = arguments.buckets.listening()?;
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    let plan = TcpPlan {
        listening,
        mode: arguments.mode,
        write_bytes: arguments.size,
        stall_ms: milliseconds(arguments.stall),
        idle_ms: arguments.idle_timeout.map(milliseconds),
        tls: arguments.tls.certificate(),
        write_certificate: arguments.tls.write_certificate.clone(),
    };
    foreground::serve(arguments, plan, &arguments.buckets.serving.run, table)
}

impl Foreground for ServeTcpArguments {
    type Server = TcpServer;

    fn ready(&self, served: &TcpServed) -> String {
        ready::of_streams(served)
    }

    fn steering(served: &TcpServed) -> Option<&Steering> {
        Some(&served.steering)
    }

    fn line(&self, served: &TcpServed, last: &TcpServed) -> String {
        let second = |count: fn(&BucketTcp) -> u64| {
            let bytes = served.sum(count).saturating_sub(last.sum(count));
            format!("{} Gb/s", quantity::fixed(bytes as f64 * 8.0 / 1e9, 3))
        };
        format!(
            "received {:>12}  sent {:>12}  open {:>9}  stalled {:>9}",
            second(|bucket| bucket.connections.bytes_received),
            second(|bucket| bucket.connections.bytes_sent),
            quantity::count(served.sum(|bucket| bucket.connections.open)),
            quantity::count(served.sum(|bucket| bucket.stalled)),
        )
    }

    fn summary(served: &TcpServed) -> String {
        let table = Rows::of(&served.buckets)
            .right("bucket", |bucket| bucket.connections.bucket.to_string())
            .right("cpu", |bucket| bucket.connections.cpu.to_string())
            .metrics(&[&ACCEPTED, &RECEIVED, &SENT], |bucket| &bucket.connections)
            .metrics(&[&OUT_OF_ORDER, &RETRANSMITTED, &STALLS], |bucket| bucket)
            .table();
        let handshakes = handshakes(served.buckets.iter().map(|bucket| bucket.handshakes));
        let errors = buckets::by_cause("error", &served.errors());
        table.render(width().tables) + &handshakes + &errors + &rebalanced(served.rebalanced.as_ref())
    }
}
