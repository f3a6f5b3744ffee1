//! `corelane bridge`: frames from one link go out of the others, unless a table says no.

use crate::faults;
use crate::outcome::{CannotRun, Done, Outcome, usage};
use crate::serve::foreground::{self, Foreground, Lines};
use crate::shared::OutputArguments;
use crate::steering::{self, Asking};
use crate::values::duration;
use clap::Args;
use corelane_link::LinkError;
use corelane_measure::quantity;
use corelane_report::table::{Column, Table};
use corelane_serve::bridge::{
    BURST, Bridge, BridgeError, BridgePlan, Bridged, Metrics, MetricsAddress, OnMatch, Sides, TablePlan,
    Verdict,
};
use corelane_serve::read_word;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane bridge --link ring:left --link ring:right --duration 200ms --json\n  \
    sudo corelane bridge --link xdp:eth0 --link xdp:eth1 --table blocked.txt --stats\n  \
    sudo corelane bridge --link xdp:eth0 --link tap:t0 --table allowed.txt --on-match pass --otherwise drop\n\n\
    Links: xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:FILE, pcap:out=FILE, ring:NAME, with options\n\
    such as ,queues=2,stride=2048; ,capture=seen.pcapng writes down what passes, ,drop=1%,delay=5ms harms\n\
    what comes from the link (docs/BRIDGE.md). SIGHUP reads all tables again; SIGINT ends and reports.";

#[derive(Debug, Args)]
pub struct BridgeArguments {
    /// A link: two or more
    #[arg(long, value_name = "LINK", required = true)]
    pub link: Vec<String>,
    /// A table: a list of addresses and prefixes, an ipset or nftables dump, or a snapshot; asked in the order given
    #[arg(long, value_name = "FILE")]
    pub table: Vec<PathBuf>,
    /// Which addresses of a frame a table is asked for: one for all tables, or one for each [default: both]
    #[arg(long = "match", value_name = "src|dst|both", value_parser = read_word::<Sides>)]
    pub sides: Vec<Sides>,
    /// What becomes of frames that match: one for all tables, or one for each [default: drop]
    #[arg(long, value_name = "drop|pass|count", value_parser = read_word::<OnMatch>)]
    pub on_match: Vec<OnMatch>,
    /// What becomes of frames that no table decided
    #[arg(long, value_name = "pass|drop", default_value = "pass", value_parser = read_word::<Verdict>)]
    pub otherwise: Verdict,
    /// What becomes of frames without a readable IP header, such as ARP
    #[arg(long, value_name = "pass|drop", default_value = "pass", value_parser = read_word::<Verdict>)]
    pub not_ip: Verdict,
    /// Skip wrong lines of tables and count them, instead of refusing the file
    #[arg(long)]
    pub skip_bad: bool,
    /// How often files are looked at for changes
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    pub reload_every: Duration,
    /// Read files again on SIGHUP only
    #[arg(long, conflicts_with = "reload_every")]
    pub no_reload: bool,
    /// Workers, one a CPU and a queue of every link [default: as many as the link with the fewest queues has]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// Frames taken from a link at once
    #[arg(long, value_name = "N", default_value_t = BURST as u32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub burst: u32,
    /// Tell every second what passes
    #[arg(long)]
    pub stats: bool,
    /// Tell Prometheus, at unix:PATH or a loopback address and port
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<MetricsAddress>,
    /// End after so long [default: on SIGINT, or when all files are read]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `corelane bridge`.
pub fn run(arguments: &BridgeArguments) -> Outcome {
    let plan = plan(arguments)?;
    let shown = Shown {
        stats: arguments.stats,
        metrics_at: arguments.metrics.clone(),
        metrics: None,
        hangup: Arc::default(),
    };
    foreground::serve(shown, plan, &arguments.output, arguments.duration, None)
}

/// What is shown of the bridge, and what is asked of it.
struct Shown {
    stats: bool,
    metrics_at: Option<MetricsAddress>,
    metrics: Option<Metrics>,
    /// Whether files are to be read again.
    hangup: Arc<AtomicBool>,
}

impl Foreground for Shown {
    type Server = Bridge;

    fn prepare(&mut self) -> Outcome {
        signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&self.hangup))?;
        if let Some(address) = &self.metrics_at {
            let refused = |error| usage("--metrics", format!("{address}: {error}"));
            self.metrics = Some(Metrics::listen(address).map_err(refused)?);
        }
        Ok(Done)
    }

    fn refused(error: BridgeError) -> anyhow::Error {
        refused(error)
    }

    fn ready(&self, bridged: &Bridged) -> anyhow::Result<String> {
        ready(bridged, self.metrics.as_ref())
    }

    fn line(&self, bridged: &Bridged, last: &Bridged) -> String {
        line(last, bridged)
    }

    fn lines(&self, json: bool) -> Lines {
        match (self.stats, json) {
            (false, _) => Lines::Hidden,
            (true, false) => Lines::Output,
            (true, true) => Lines::Error,
        }
    }

    fn summary(bridged: &Bridged) -> String {
        render(bridged)
    }

    fn look(&mut self, bridge: &mut Bridge) -> Outcome {
        if self.hangup.swap(false, Ordering::Relaxed) {
            bridge.reload();
        }
        if let Some(metrics) = &self.metrics {
            metrics.answer(|| bridge.bridged());
        }
        Ok(Done)
    }
}

fn plan(arguments: &BridgeArguments) -> anyhow::Result<BridgePlan> {
    if arguments.link.len() < 2 {
        return Err(usage("--link", "a bridge needs two links or more"));
    }
    let tables = arguments.table.len();
    let sides = one_each("--match", &arguments.sides, tables)?;
    let on_match = one_each("--on-match", &arguments.on_match, tables)?;
    let asking = arguments.workers.is_some() || arguments.cpus.is_some();
    let cpus = match asking {
        true => steering::place(arguments.cpus.as_deref(), arguments.workers, Asking::Workers)?,
        false => steering::usable_cpus()?,
    };
    let files = arguments.table.iter().zip(sides.into_iter().zip(on_match));
    Ok(BridgePlan {
        tables: files
            .map(|(file, (sides, on_match))| TablePlan {
                file: file.clone(),
                sides,
                on_match,
            })
            .collect(),
        otherwise: arguments.otherwise,
        not_ip: arguments.not_ip,
        workers: arguments.workers,
        burst: arguments.burst as usize,
        skip_bad: arguments.skip_bad,
        reload_every: (!arguments.no_reload).then_some(arguments.reload_every),
        ..BridgePlan::new(arguments.link.clone(), cpus)
    })
}

/// One value for each table: those given, the one given for all, or the default.
fn one_each<T: Copy + Default>(flag: &str, given: &[T], tables: usize) -> anyhow::Result<Vec<T>> {
    match given {
        [] => Ok(vec![T::default(); tables]),
        [one] => Ok(vec![*one; tables]),
        given if given.len() == tables => Ok(given.to_vec()),
        given => Err(usage(
            flag,
            format!(
                "{} are given for {tables} tables: give one for all, or one for each",
                given.len()
            ),
        )),
    }
}

fn refused(error: BridgeError) -> anyhow::Error {
    match error {
        BridgeError::Spec(error) => usage("--link", error),
        BridgeError::Link(error @ (LinkError::NotPermitted { .. } | LinkError::Unsupported { .. })) => {
            CannotRun(format!("--link: {error}")).into()
        }
        BridgeError::Link(error) => usage("--link", error),
        BridgeError::List(error) => usage("--table", error),
        BridgeError::Plan(what) => usage("--workers", what),
        error => error.into(),
    }
}

fn ready(bridged: &Bridged, metrics: Option<&Metrics>) -> anyhow::Result<String> {
    let links: Vec<&str> = bridged.links.iter().map(|link| link.link.as_str()).collect();
    let mut text = format!("bridging {}, {} workers\n", links.join(" and "), bridged.workers);
    for table in &bridged.tables {
        text.push_str(&format!(
            "{}: {} entries in {}, read in {}, {} lines skipped\n",
            table.file.display(),
            quantity::count(table.entries),
            quantity::bytes(table.memory_bytes),
            quantity::duration(table.load_s * 1e9),
            quantity::count(table.skipped_lines),
        ));
    }
    if let Some(metrics) = metrics {
        text.push_str(&format!("counts at {}\n", metrics.address()));
    }
    Ok(text)
}

/// What happened in the last second.
fn line(before: &Bridged, now: &Bridged) -> String {
    let seconds = (now.duration_s - before.duration_s).max(1e-9);
    let rate = |of: fn(&Bridged) -> u64| quantity::rate((of(now) - of(before)) as f64 / seconds);
    let not_sent: fn(&Bridged) -> u64 =
        |bridged| bridged.links.iter().flat_map(|link| link.not_sent.values()).sum();
    let down = now.links.iter().filter(|link| !link.up).count();
    let mut line = format!(
        "received {:>11}  passed {:>11}  dropped {:>11}  not sent {:>11}",
        rate(|bridged| bridged.received),
        rate(|bridged| bridged.passed),
        rate(|bridged| bridged.dropped.values().sum()),
        rate(not_sent),
    );
    if down > 0 {
        line.push_str(&format!("  links down {down}"));
    }
    let reads = |bridged: &Bridged| -> u64 { bridged.tables.iter().map(|table| table.loads).sum() };
    if reads(now) > reads(before) {
        line.push_str("  tables read");
    }
    let refused = now
        .tables
        .iter()
        .zip(&before.tables)
        .find(|(now, before)| now.refused > before.refused);
    if let Some((table, _)) = refused {
        line.push_str(&format!(
            "\n  refused: {}",
            table.last_refusal.as_deref().unwrap_or_default()
        ));
    }
    line
}

fn render(bridged: &Bridged) -> String {
    let mut text = format!(
        "received {}, passed {}, dropped {}\n",
        quantity::count(bridged.received),
        quantity::count(bridged.passed),
        quantity::count(bridged.dropped.values().sum()),
    );
    let headers = ["received", "sent", "lost", "returned", "ring full", "not sent"];
    let columns = std::iter::once(Column::left("link").may_shrink());
    let mut links = Table::new(columns.chain(headers.into_iter().map(Column::right)).collect());
    for link in &bridged.links {
        links.row([
            link.link.clone(),
            quantity::count(link.received),
            quantity::count(link.sent),
            quantity::count(link.lost),
            quantity::count(link.returned),
            quantity::count(link.receive_dropped),
            quantity::count(link.not_sent.values().sum()),
        ]);
    }
    text.push_str(&links.render(100));
    if !bridged.tables.is_empty() {
        let headers = ["match", "then", "entries", "asked", "matched", "read", "refused"];
        let columns = std::iter::once(Column::left("table").may_shrink());
        let mut tables = Table::new(columns.chain(headers.into_iter().map(Column::right)).collect());
        for table in &bridged.tables {
            tables.row([
                table.file.display().to_string(),
                table.sides.to_string(),
                table.on_match.to_string(),
                quantity::count(table.entries),
                quantity::count(table.asked),
                quantity::count(table.matched),
                quantity::count(table.loads),
                quantity::count(table.refused),
            ]);
        }
        text.push_str(&tables.render(100));
    }
    text.push_str(&remarks(bridged));
    text
}

/// What is worth a line of its own: why frames did not go on, and what was wrong with links and tables.
fn remarks(bridged: &Bridged) -> String {
    let mut text = String::new();
    for (reason, count) in bridged.dropped.iter().filter(|(_, count)| **count > 0) {
        text.push_str(&format!(
            "dropped, {}: {}\n",
            reason.replace('_', " "),
            quantity::count(*count)
        ));
    }
    for link in &bridged.links {
        for (reason, count) in link.not_sent.iter().filter(|(_, count)| **count > 0) {
            let reason = reason.replace('_', " ");
            text.push_str(&format!(
                "not sent to {}, {reason}: {}\n",
                link.link,
                quantity::count(*count)
            ));
        }
        text.push_str(&faults::line(&link.link, link.faults.as_ref()));
        if let Some(why) = &link.last_loss {
            text.push_str(&format!("{} was lost: {why}\n", link.link));
        }
    }
    for table in &bridged.tables {
        if let Some(why) = &table.last_refusal {
            text.push_str(&format!("refused: {why}\n"));
        }
        for (rule, count) in table.rules.iter().filter(|(rule, _)| **rule != 0) {
            text.push_str(&format!(
                "{}, rule {rule}: {}\n",
                table.file.display(),
                quantity::count(*count)
            ));
        }
    }
    text
}
