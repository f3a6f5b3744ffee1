//! `corelane load tcp`: the byte stream generator in the foreground.

use crate::load::foreground::{DEFAULT_DURATION, ForegroundArguments, gates};
use crate::load::live::{ForegroundLoad, Growing, View};
use crate::load::sources::{self, SourceArguments};
use crate::load::trust::{TrustArguments, with_tls};
use crate::names::{AddressesArgument, Server, server};
use crate::outcome::{Outcome, usage};
use crate::shared::EngineArgument;
use crate::values::{MOST_CONNECTIONS, byte_rate, count_to, duration, write_size};
use clap::{Args, ValueEnum};
use corelane_host::inventory::devices_towards;
use corelane_load::sources::Transport;
use corelane_load::tcp::{Bytes, TcpLoad, TcpPlan, TransferDirection};
use corelane_load::{Generator, LiveStreams, StreamLoad, StreamLoadError};
use corelane_measure::quantity;
use corelane_rss::Protocol;
use corelane_worker::tls::TrustError;
use std::time::Duration;

/// Shown by `--help`.
const EXAMPLES: &str = "Examples, with `corelane serve tcp 127.0.0.1:9000` running:\n  \
    corelane load tcp 127.0.0.1:9000 --connections 64 --duration 1s\n  \
    corelane load tcp 127.0.0.1:9000 --preset smash --duration 2s\n  \
    corelane load tcp 127.0.0.1:9000 --steering steering.json --align bucket --align-by reply --duration 1s";

/// Connections in the blog post's run: 4 threads with 12,288 each ("Hacking on the Intel 10GE driver (ixgbe) for fun
/// and .. not-crashing").
const SMASH_CONNECTIONS: u64 = 4 * 12_288;

/// Duration of the preset. The post's test failed after 90 seconds.
const SMASH_DURATION: Duration = Duration::from_secs(300);

/// Used without `--connections` and `--preset`.
const DEFAULT_CONNECTIONS: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 49,152 writing connections for five minutes, a load under which a driver failed after 90 seconds
    Smash,
}

/// Bytes written to, read from or both over any number of TCP connections; reports stalled connections
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_args(with_tls))]
#[command(mut_arg("fail_if", |gate| gate.help(gates("'stalls > 0' or 'failed > 1%'"))))]
pub struct LoadTcpArguments {
    /// Server to connect to, as ADDRESS:PORT, NAME:PORT, :PORT or unix:PATH
    #[arg(value_parser = server)]
    pub target: Server,
    #[command(flatten)]
    pub addresses: AddressesArgument,
    /// Total number of connections [default: 64]
    #[arg(short, long, value_name = "N", value_parser = count_to(MOST_CONNECTIONS))]
    pub connections: Option<u64>,
    /// Direction of transfer: write, read or both
    #[arg(long, value_name = "DIRECTION", default_value = "write")]
    pub direction: TransferDirection,
    /// Bytes per write, at most 1 MiB; the next write starts when the kernel has accepted all of them
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = write_size)]
    pub size: u32,
    /// Write rate of each connection, such as 100kB/s or 1Mbit/s [default: unlimited]
    #[arg(long = "rate-per-connection", alias = "rate", value_name = "RATE", value_parser = byte_rate)]
    pub rate: Option<u64>,
    /// Named preset for connections and duration; explicit flags override it
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Transfer bytes for this time [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Then wait at most this time until all data has arrived and the server has closed each connection [default: no
    /// wait]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub drain: Option<Duration>,
    /// Report connections that make no progress for this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub stall: Duration,
    /// Timeout for opening a connection
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub connect_timeout: Duration,
    /// Use TLS
    #[arg(long)]
    pub tls: bool,
    #[command(flatten)]
    pub trust: TrustArguments,
    #[command(flatten)]
    pub sources: SourceArguments,
    #[command(flatten)]
    pub engine: EngineArgument,
    #[command(flatten)]
    pub foreground: ForegroundArguments,
}

/// `corelane load tcp`.
pub fn run(arguments: &LoadTcpArguments) -> Outcome {
    arguments.foreground.run::<TcpLoad>(plan(arguments)?, Vec::new())
}

impl ForegroundLoad for TcpLoad {
    fn refused(error: StreamLoadError) -> anyhow::Error {
        match &error {
            StreamLoadError::Tls(TrustError::Name(_)) => usage("TARGET", error),
            _ => StreamLoad::<Bytes>::refused(error),
        }
    }

    fn devices(plan: &TcpPlan) -> Vec<String> {
        devices_towards(plan.targets().filter_map(|target| Some(target.address()?.ip())))
    }

    fn view(&self) -> Option<View> {
        let (opening, left) = (self.streams.is_opening(), self.left());
        let stage = match (opening, left) {
            (true, _) => "connecting".to_owned(),
            (false, Some(left)) if left.is_zero() => "ending".to_owned(),
            _ => self.plan.transfer.direction.to_string(),
        };
        let growing = if opening {
            vec![Growing::of(self, &LiveStreams::OPENED)]
        } else {
            vec![
                Growing::of(self, &LiveStreams::SENT_BYTES),
                Growing::of(self, &LiveStreams::RECEIVED_BYTES),
            ]
        };
        let [open, stalled] = [LiveStreams::OPEN, LiveStreams::STALLED].map(|level| self.total(&level));
        let [open, connections, stalled] =
            [open, self.plan.connections() as u64, stalled].map(quantity::count);
        Some(View {
            stage,
            left: left.filter(|left| !left.is_zero()),
            growing,
            facts: vec![
                format!("{open} of {connections} connections open"),
                format!("{stalled} stalled"),
            ],
        })
    }
}

fn plan(arguments: &LoadTcpArguments) -> anyhow::Result<TcpPlan> {
    let (connections, duration) = match arguments.preset {
        Some(Preset::Smash) => (SMASH_CONNECTIONS, SMASH_DURATION),
        None => (DEFAULT_CONNECTIONS, DEFAULT_DURATION),
    };
    let connections = arguments.connections.unwrap_or(connections);
    let most = (connections, arguments.foreground.result.dry_run);
    let (target, others) = (arguments.addresses).remotes(&arguments.target, arguments.tls, most)?;
    let sources = arguments.sources.request(target.clone(), connections as usize)?;
    let address = target.address().map(|address| address.ip());
    let request = arguments.foreground.workers(address, Protocol::Tcp)?;
    let workers = sources
        .plan_all(&others, &request, Transport::Tcp)
        .map_err(|error| sources::refuse(&error))?;
    Ok(TcpPlan {
        target,
        others,
        tls: arguments.trust.in_server(&arguments.target, arguments.tls),
        transfer: Bytes {
            direction: arguments.direction,
            write_bytes: arguments.size,
            write_bytes_per_second: arguments.rate,
            drain_s: arguments.drain.map(|drain| drain.as_secs_f64()),
            stall_s: arguments.stall.as_secs_f64(),
        },
        duration_s: arguments.duration.unwrap_or(duration).as_secs_f64(),
        connect_timeout_s: arguments.connect_timeout.as_secs_f64(),
        engine: arguments.engine.engine,
        memory: arguments.foreground.placing.memory,
        buffer_memory: arguments.foreground.placing.buffer_memory,
        steering: request.steering.of_plan(sources.align),
        workers,
    })
}
