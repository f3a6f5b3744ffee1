//! `corelane load tcp`: the generator of byte streams in the foreground.

use crate::load::foreground::ForegroundArguments;
use crate::load::live::{Growing, Shown, Unit, View};
use crate::load::sources::{self, SourceArguments};
use crate::outcome::{Done, Outcome, usage};
use crate::values::{count, duration, size, write_size};
use clap::{Args, ValueEnum};
use corelane_load::tcp::{Direction, TcpLoad, TcpLoadError, TcpLoaded, TcpPlan};
use corelane_measure::quantity;
use corelane_report::table::{Column, Table};
use corelane_worker::engine::EngineKind;
use std::net::SocketAddr;
use std::time::Duration;

/// Shown by `--help`.
pub const EXAMPLES: &str = "Examples, with `corelane serve tcp 127.0.0.1:9000` running:\n  \
    corelane load tcp 127.0.0.1:9000 --connections 64 --duration 1s\n  \
    corelane load tcp 127.0.0.1:9000 --preset smash --duration 10m";

/// Connections of the post's run: 4 threads by 12,288 ("Hacking on the Intel 10GE driver (ixgbe) for fun and ..
/// not-crashing").
const SMASH_CONNECTIONS: u64 = 4 * 12_288;

/// How long the preset runs: the post's test failed after 90 seconds.
const SMASH_DURATION: Duration = Duration::from_secs(300);

/// Without `--connections` and `--preset`.
const DEFAULT_CONNECTIONS: u64 = 64;

/// Without `--duration` and `--preset`.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Stalled connections listed in the human form; `--json` has more.
const STALLS_SHOWN: usize = 8;

/// Runs worth a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 49,152 connections that all write, for five minutes: what made a driver fail after 90 seconds
    Smash,
}

#[derive(Debug, Args)]
pub struct LoadTcpArguments {
    /// Where to connect, as ADDRESS:PORT
    pub target: SocketAddr,
    /// Connections in all [default: 64]
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub connections: Option<u64>,
    /// Which way bytes go: write, read or both
    #[arg(long, value_name = "DIRECTION", default_value = "write")]
    pub direction: Direction,
    /// Bytes of each write, at most 1 MiB; the next one follows when the kernel took them all
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = write_size)]
    pub size: u32,
    /// Bytes a second that each connection writes [default: as many as it can]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub rate: Option<u64>,
    /// A run with a name: its connections and duration, unless given
    #[arg(long, value_enum)]
    pub preset: Option<Preset>,
    /// Move bytes for so long [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Then wait at most so long until everything has arrived and the server has ended each connection [default: not]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub drain: Option<Duration>,
    /// Name connections that make no progress for so long
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub stall: Duration,
    /// For opening a connection
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub connect_timeout: Duration,
    #[command(flatten)]
    pub sources: SourceArguments,
    /// System interface: epoll or io_uring [default: what a probe finds best]
    #[arg(long, value_name = "epoll|io_uring")]
    pub engine: Option<EngineKind>,
    #[command(flatten)]
    pub foreground: ForegroundArguments,
}

/// `corelane load tcp`.
pub fn run(arguments: &LoadTcpArguments) -> Outcome {
    let plan = plan(arguments)?;
    let foreground = &arguments.foreground;
    let Some((loaded, _)) = foreground.run::<TcpLoad>(plan)? else {
        return Ok(Done);
    };
    foreground.output().report(&loaded, summary)?;
    match &loaded.limited_by {
        Some(why) if loaded.total.opened == 0 => anyhow::bail!("{why}"),
        _ => Ok(Done),
    }
}

impl Shown for TcpLoad {
    fn refused(error: TcpLoadError) -> anyhow::Error {
        error.into()
    }

    fn view(&mut self) -> Option<View> {
        let (progress, left) = (self.progress(), self.left());
        let counted = |name, count, unit| Growing { name, count, unit };
        let stage = match (progress.opening, left) {
            (true, _) => "connecting".to_owned(),
            (false, Some(left)) if left.is_zero() => "ending".to_owned(),
            _ => self.plan().direction.to_string(),
        };
        let growing = if progress.opening {
            vec![counted("opened", progress.open, Unit::Events)]
        } else {
            vec![
                counted("sent", progress.sent_bytes, Unit::Bytes),
                counted("received", progress.received_bytes, Unit::Bytes),
            ]
        };
        let connections = quantity::count(self.plan().connections() as u64);
        Some(View {
            stage,
            left: left.filter(|left| !left.is_zero()),
            growing,
            facts: vec![
                format!(
                    "{} of {connections} connections open",
                    quantity::count(progress.open)
                ),
                format!("{} stand still", quantity::count(progress.stalled)),
            ],
            measured: "opening",
            seen: self.seen(),
        })
    }
}

fn plan(arguments: &LoadTcpArguments) -> anyhow::Result<TcpPlan> {
    let (connections, duration) = match arguments.preset {
        Some(Preset::Smash) => (SMASH_CONNECTIONS, SMASH_DURATION),
        None => (DEFAULT_CONNECTIONS, DEFAULT_DURATION),
    };
    let connections = arguments.connections.unwrap_or(connections);
    if connections == 0 {
        return Err(usage("--connections", "give at least 1"));
    }
    if arguments.rate == Some(0) {
        return Err(usage("--rate", "a rate is more than 0"));
    }
    let connections = usize::try_from(connections).unwrap_or(usize::MAX);
    let sources = arguments.sources.request(arguments.target, connections);
    let workers = sources
        .tcp(&arguments.foreground.workers()?)
        .map_err(|error| sources::refuse(&error))?;
    Ok(TcpPlan {
        target: arguments.target,
        direction: arguments.direction,
        write_bytes: arguments.size,
        write_bytes_per_second: arguments.rate,
        drain_s: arguments.drain.map(|drain| drain.as_secs_f64()),
        duration_s: arguments.duration.unwrap_or(duration).as_secs_f64(),
        stall_s: arguments.stall.as_secs_f64(),
        connect_timeout_s: arguments.connect_timeout.as_secs_f64(),
        engine: arguments.engine,
        memory: arguments.foreground.placing.memory,
        workers,
    })
}

fn summary(loaded: &TcpLoaded) -> String {
    let total = &loaded.total;
    let mut text = format!(
        "{}: {}, {} of {} connections opened in {}, {}, engine {}\n",
        loaded.plan.target,
        loaded.plan.direction,
        quantity::count(total.opened),
        quantity::count(total.asked),
        quantity::duration(loaded.opening_s * 1e9),
        quantity::duration(loaded.running_s * 1e9),
        loaded.engine,
    );
    if let Some(reason) = &loaded.engine_reason {
        text.push_str(&format!("({reason})\n"));
    }
    text.push_str(&format!(
        "sent {} ({} Gbit/s), received {} ({} Gbit/s), {} Gbit a CPU second\n",
        quantity::bytes(total.sent_bytes),
        quantity::fixed(loaded.sent_gbit_per_second, 3),
        quantity::bytes(total.received_bytes),
        quantity::fixed(loaded.received_gbit_per_second, 3),
        quantity::or_missing(loaded.gbit_per_cpu_second, |gbit| quantity::fixed(gbit, 2)),
    ));
    text.push_str(&format!(
        "stalls {} ({} at the end), segments sent again {}, out of order {}\n",
        quantity::count(total.stalls),
        quantity::count(total.stalled_at_end),
        quantity::count(total.retransmitted),
        quantity::count(total.out_of_order),
    ));
    if total.undrained > 0 {
        let undrained = quantity::count(total.undrained);
        text.push_str(&format!("not ended by the server in time: {undrained}\n"));
    }
    for (what, failures) in [("not opened", &total.not_opened), ("broken", &total.broken)] {
        for (failure, count) in failures.occurred() {
            let name = failure.name().replace('_', " ");
            text.push_str(&format!("{what}: {} {name}\n", quantity::count(count)));
        }
    }
    if let Some(rates) = &loaded.rates {
        let show = |rate: f64| quantity::bytes(rate as u64);
        text.push_str(&format!(
            "bytes a second a connection: slowest {}, median {}, fastest {}\n",
            show(rates.min),
            show(rates.median),
            show(rates.max)
        ));
    }
    text.push_str(&stalls(loaded));
    if let Some(limit) = &loaded.limited_by {
        text.push_str(&format!("limited by the generator: {limit}\n"));
    }
    text
}

fn stalls(loaded: &TcpLoaded) -> String {
    if loaded.stalled.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::left("stood still"),
        Column::right("since"),
        Column::right("for"),
        Column::right("bytes"),
    ]);
    for stall in loaded.stalled.iter().take(STALLS_SHOWN) {
        table.row([
            quantity::or_missing(stall.local, |local| local.to_string()),
            quantity::duration(stall.since_s * 1e9),
            format!(
                "{}{}",
                quantity::duration(stall.for_s * 1e9),
                if stall.ended { "" } else { ", to the end" }
            ),
            quantity::bytes(stall.bytes),
        ]);
    }
    table.render(100)
}
