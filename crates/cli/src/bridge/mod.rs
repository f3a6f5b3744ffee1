//! `corelane bridge`: forwards frames between links, filtered by address tables.

mod buckets;
mod explain;
mod file;
mod planned;
mod stages;

use crate::links::{faults, invalid, refused_link};
use crate::outcome::{Outcome, usage};
use crate::serve::buckets::by_cause;
use crate::serve::foreground::{self, Foreground, Lines, Refused};
use crate::serve::live_table::LiveTable;
use crate::shared::ServerRunArguments;
use crate::table::with_flag;
use crate::terminal::width;
use crate::values::duration;
use buckets::BucketArguments;
use clap::Args;
use corelane_link::too_long;
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_serve::bridge::{
    Bridge, BridgeError, BridgePlan, Bridged, LONGEST_BURST, LinkBridged, ListFileError, OnMatch, Sides,
    TablePlan, Verdict,
};
use corelane_stage::counted;
use planned::Settings;
use signal_hook::consts::SIGHUP;
use std::path::PathBuf;
use std::time::Duration;

/// Shown under `--help`.
pub const EXAMPLES: &str = "Examples:\n  corelane bridge --link ring:left --link ring:right --duration 200ms --json\n  \
    sudo corelane bridge --link xdp:eth0 --link xdp:eth1 --table blocked.txt --stats\n  \
    corelane bridge --explain pcap:capture.pcapng --buckets 8\n  \
    sudo corelane bridge --link xdp:eth0 --link tap:t0 --table allowed.txt --on-match pass --otherwise drop\n\n\
    Links: xdp:DEVICE, packet:DEVICE, tap:DEVICE, pcap:FILE, pcap:out=FILE, ring:NAME, with options\n\
    such as ,queues=2,stride=2048; ,capture=seen.pcapng records the frames, ,drop=1%,delay=5ms injects\n\
    faults on receive (docs/BRIDGE.md). SIGHUP rereads tables and --config; SIGINT stops and reports.";

#[derive(Debug, Args)]
#[command(mut_arg("duration", |duration| duration.help("Stop after this time [default: on SIGINT, or when all files are read]")))]
pub struct BridgeArguments {
    /// TOML file with these settings as keys, and a section for each table, for the dispatch and for each stage
    /// (docs/bridge.schema.json); SIGHUP rereads it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["link", "table", "set", "sides", "on_match", "otherwise", "not_ip",
        "skip_bad", "reload_every", "no_reload", "workers", "cpus", "dispatch", "hash", "key", "table_size", "buckets", "steering",
        "burst"])]
    pub config: Option<PathBuf>,
    /// A link; give two or more
    #[arg(long, value_name = "LINK", required_unless_present_any = ["config", "explain"])]
    pub link: Vec<String>,
    /// Forward nothing: report which frames of a capture change CPU, and why, by the fields that are hashed; with buckets,
    /// reassembly and decapsulation as given, or as in --config
    #[arg(long, value_name = "pcap:FILE", conflicts_with_all = ["link", "table", "set", "sides", "on_match",
        "otherwise", "not_ip", "skip_bad", "reload_every", "no_reload", "workers", "cpus", "dispatch", "burst", "stats", "duration",
        "dry_run", "metrics"])]
    pub explain: Option<String>,
    /// A table: a list of addresses and prefixes, an ipset or nftables dump, or a snapshot; searched in the order given
    #[arg(long, value_name = "FILE")]
    pub table: Vec<PathBuf>,
    /// Set or map of a dump that has several: one for all tables, or one per table
    #[arg(long, value_name = "NAME", requires = "table")]
    pub set: Vec<String>,
    /// Addresses of a frame to look up: one value for all tables, or one per table [default: both]
    #[arg(long = "match", value_name = "src|dst|both", requires = "table")]
    pub sides: Vec<Sides>,
    /// Action for frames that match: one value for all tables, or one per table [default: drop]
    #[arg(long, value_name = "drop|pass|count", requires = "table")]
    pub on_match: Vec<OnMatch>,
    /// Action for frames that no table decided
    #[arg(long, value_name = "pass|drop", default_value = "pass")]
    pub otherwise: Verdict,
    /// Action for frames without a readable IP header, such as ARP
    #[arg(long, value_name = "pass|drop", default_value = "pass")]
    pub not_ip: Verdict,
    /// Skip and count invalid lines of tables instead of rejecting the file
    #[arg(long, requires = "table")]
    pub skip_bad: bool,
    /// Interval at which files are checked for changes
    #[arg(long, value_name = "TIME", default_value = "500ms", requires = "table", value_parser = duration)]
    pub reload_every: Duration,
    /// Reload files on SIGHUP only
    #[arg(long, requires = "table", conflicts_with = "reload_every")]
    pub no_reload: bool,
    /// Workers, one per CPU, each with one queue of every link [default: the queues of the link with the fewest]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// CPUs to use, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    #[command(flatten)]
    pub buckets: BucketArguments,
    #[command(flatten)]
    pub stages: stages::StageArguments,
    /// Frames received from a link per call [default: 1024, with --coalesce 4096]
    #[arg(long = "batch", alias = "burst", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LONGEST_BURST as i64))]
    pub burst: Option<u32>,
    /// Print rates every second, and what was dispatched to buckets every ten
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub run: ServerRunArguments,
}

/// `corelane bridge`.
pub fn run(arguments: &BridgeArguments) -> Outcome {
    if let Some(capture) = &arguments.explain {
        let explained = explain::by(arguments.settings()?);
        let explained = explained.map_err(|error| arguments.at_fault(error))?;
        if let Some(file) = &arguments.config {
            explain::note_unused(file)?;
        }
        return explain::run(capture, explained, arguments.run.json);
    }
    let plan = arguments.plan()?;
    plan.check().map_err(|error| arguments.refused(error))?;
    foreground::serve(arguments, plan, &arguments.run, LiveTable::default())
}

impl Refused for BridgeError {
    fn refused(self) -> anyhow::Error {
        match self {
            Self::Spec(error) => usage("--link", error),
            Self::Link(error) => refused_link("--link", &error),
            Self::List(ListFileError { file, source }) => {
                usage("--table", format!("{}: {}", file.display(), with_flag(&source)))
            }
            Self::Setting(setting, what) => usage(&format!("--{setting}"), what),
            error => error.into(),
        }
    }
}

impl Foreground for BridgeArguments {
    type Server = Bridge;

    /// With a file, names its line.
    fn refused(&self, error: BridgeError) -> anyhow::Error {
        self.at_fault(error.refused())
    }

    fn ready(&self, bridged: &Bridged) -> String {
        let links: Vec<&str> = bridged.links.iter().map(|link| link.link.as_str()).collect();
        let mut text = format!("bridging {}, {} workers\n", links.join(" and "), bridged.workers);
        for table in &bridged.tables {
            let [entries, skipped] = [table.entries, table.skipped_lines].map(quantity::count);
            let (memory, took) = (
                quantity::bytes(table.memory_bytes),
                quantity::duration(table.load_s * 1e9),
            );
            text.push_str(&format!(
                "{}: {entries} entries in {memory}, read in {took}, {skipped} lines skipped\n",
                table.file.display()
            ));
        }
        text
    }

    fn line(&self, now: &Bridged, before: &Bridged) -> String {
        let seconds = (now.duration_s - before.duration_s).max(1e-9);
        let rates: [fn(&Bridged) -> u64; 4] = [
            |bridged| bridged.received,
            |bridged| bridged.passed,
            |bridged| bridged.dropped.values().sum(),
            |bridged| bridged.links.iter().flat_map(|link| link.not_sent.values()).sum(),
        ];
        let [received, passed, dropped, not_sent] =
            rates.map(|of| quantity::rate((of(now) - of(before)) as f64 / seconds));
        let mut line = format!(
            "received {received:>11}  passed {passed:>11}  dropped {dropped:>11}  not sent {not_sent:>11}"
        );
        if now.dispatch.is_some() {
            line.push_str(&format!("  waiting {:>6}", now.waiting()));
        }
        let down = now.links.iter().filter(|link| !link.up).count();
        if down > 0 {
            line.push_str(&format!("  links down {down}"));
        }
        let reads = |bridged: &Bridged| -> u64 { bridged.tables.iter().map(|table| table.loads).sum() };
        if reads(now) > reads(before) {
            line.push_str("  tables read");
        }
        if now.plans_taken > before.plans_taken {
            line.push_str("  plan taken");
        }
        if now.plans_refused > before.plans_refused {
            let why = now.last_plan_refusal.as_deref().unwrap_or_default();
            line.push_str(&format!("\n  plan refused: {why}"));
        }
        let mut pairs = now.tables.iter().zip(&before.tables);
        if let Some((table, _)) = pairs.find(|(now, before)| now.refused > before.refused) {
            let why = table.last_refusal.as_deref().unwrap_or_default();
            line.push_str(&format!("\n  refused: {why}"));
        }
        let is_due = before.received == 0 || tens(now) > tens(before);
        let dispatched = now.dispatch.as_ref().filter(|_| now.dispatch != before.dispatch);
        if let Some(dispatched) = dispatched.filter(|_| is_due) {
            line.push_str(&format!("\n\n{}\n", buckets::tables(dispatched)));
        }
        line
    }

    const REMARKS: bool = true;

    /// A plan that was refused is not what its author thinks that runs. Frames that a device merged, or that their sender left to it to cut, fit no other device.
    fn remark(&self, bridged: &Bridged) -> Option<String> {
        if let Some(why) = &bridged.last_plan_refusal {
            return Some(format!("the plan stays as it was: {why}"));
        }
        let oversized = |link: &LinkBridged| link.not_sent.get("oversized").copied().unwrap_or(0);
        let link = bridged.links.iter().find(|link| oversized(link) > 0)?;
        let others = bridged.links.iter().filter(|other| other.link != link.link);
        let devices = others.filter_map(|other| {
            let (kind, name) = other.link.split_once(':')?;
            name.split(',')
                .next()
                .filter(|_| kind != "pcap" && kind != "ring")
        });
        Some(too_long(&link.link, oversized(link), devices))
    }

    fn lines(&self, json: bool) -> Lines {
        match (self.stats, json) {
            (false, _) => Lines::Hidden,
            (true, false) => Lines::Output,
            (true, true) => Lines::Error,
        }
    }

    fn summary(bridged: &Bridged) -> String {
        let counts = [bridged.received, bridged.passed, bridged.dropped.values().sum()];
        let [received, passed, dropped] = counts.map(quantity::count);
        let links = Rows::of(&bridged.links)
            .shrinking("link", |link| &link.link)
            .count("received", |link| link.tally.received)
            .count("sent", |link| link.tally.sent)
            .count("lost", |link| link.lost)
            .count("returned", |link| link.returned)
            .count("ring full", |link| link.tally.receive_dropped)
            .count("not sent", |link| link.not_sent.values().sum())
            .table();
        let tables = Rows::of(&bridged.tables)
            .shrinking("table", |table| table.file.display().to_string())
            .right("match", |table| table.sides.to_string())
            .right("then", |table| table.on_match.to_string())
            .count("entries", |table| table.entries)
            .count("asked", |table| table.asked)
            .count("matched", |table| table.matched)
            .count("read", |table| table.loads)
            .count("refused", |table| table.refused)
            .table();
        let mut text = format!("received {received}, passed {passed}, dropped {dropped}\n");
        text.push_str(&links.render(width().tables));
        if !bridged.tables.is_empty() {
            text.push_str(&tables.render(width().tables));
        }
        counted(&bridged.stages).for_each(|line| text.push_str(&(line + "\n")));
        if let Some(wait) = &bridged.batch_wait {
            let times = [wait.p50_ns, wait.p99_ns, wait.max_ns];
            let [p50, p99, max] = times.map(|time| quantity::duration(time as f64));
            text.push_str(&format!("wait in a batch: median {p50}, p99 {p99}, max {max}\n"));
        }
        text.push_str(&remarks(bridged));
        if let Some(dispatched) = &bridged.dispatch {
            text.push_str(&format!("\n{}", buckets::tables(dispatched)));
        }
        text
    }

    /// Reloads all tables, and the file.
    fn signal(&self) -> Option<i32> {
        Some(SIGHUP)
    }

    fn signalled(&self, bridge: &mut Bridge) -> Outcome {
        match &self.config {
            None => bridge.reload(),
            Some(_) => bridge.replan(self.plan().map_err(|error| format!("{error:#}"))),
        }
        Ok(())
    }
}

impl BridgeArguments {
    /// The plan of the file, or of the flags.
    fn plan(&self) -> anyhow::Result<BridgePlan> {
        self.settings()?.plan().map_err(|error| self.at_fault(error))
    }

    /// An error that names a flag; with a file, the same with its line.
    fn at_fault(&self, error: anyhow::Error) -> anyhow::Error {
        match &self.config {
            Some(path) => file::refused(path, &error),
            None => error,
        }
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        if let Some(path) = &self.config {
            return file::settings(path);
        }
        Ok(Settings {
            links: self.link.clone(),
            tables: self.tables()?,
            otherwise: self.otherwise,
            not_ip: self.not_ip,
            skip_bad: self.skip_bad,
            reload_every: (!self.no_reload).then_some(self.reload_every),
            workers: self.workers,
            cpus: self.cpus.clone(),
            burst: self.burst.map(|frames| frames as usize),
            buckets: self.buckets.clone(),
            stages: self.stages.plan()?,
        })
    }

    fn tables(&self) -> anyhow::Result<Vec<TablePlan>> {
        let tables = self.table.len();
        let named: Vec<_> = self.set.iter().cloned().map(Some).collect();
        let sets = one_each("--set", &named, tables)?;
        let sides = one_each("--match", &self.sides, tables)?;
        let on_match = one_each("--on-match", &self.on_match, tables)?;
        let files = self.table.iter().zip(sides).zip(sets.into_iter().zip(on_match));
        let table = |((file, sides), (set, on_match)): ((&PathBuf, _), _)| TablePlan {
            file: file.clone(),
            set,
            sides,
            on_match,
        };
        Ok(files.map(table).collect())
    }
}

/// How often it was time for the tables of the dispatch, which would hide the rates if each second had them.
fn tens(bridged: &Bridged) -> u64 {
    bridged.duration_s as u64 / 10
}

/// One value per table: the values given, one value given for all, or the default.
fn one_each<T: Clone + Default>(flag: &str, given: &[T], tables: usize) -> anyhow::Result<Vec<T>> {
    match given {
        [] => Ok(vec![T::default(); tables]),
        [one] => Ok(vec![one.clone(); tables]),
        given if given.len() == tables => Ok(given.to_vec()),
        given => {
            let given = given.len();
            let what = format!("{given} are given for {tables} tables: give one for all, or one per table");
            Err(usage(flag, what))
        }
    }
}

/// Lines for drops by cause, unsent frames, faults, link losses and rejected tables.
fn remarks(bridged: &Bridged) -> String {
    let occurred = |(_, count): &(&String, &u64)| **count > 0;
    let mut text = by_cause("dropped", bridged.dropped.iter().filter(occurred));
    for link in &bridged.links {
        let what = format!("not sent to {}", link.link);
        text.push_str(&by_cause(&what, link.not_sent.iter().filter(occurred)));
        text.push_str(&faults(&link.link, link.faults.as_ref()));
        text.push_str(&invalid(&link.link, link.tally.receive_invalid));
        if let Some(why) = &link.last_loss {
            text.push_str(&format!("{} was lost: {why}\n", link.link));
        }
    }
    if let Some(why) = &bridged.last_plan_refusal {
        text.push_str(&format!("plan refused: {why}\n"));
    }
    for table in &bridged.tables {
        if let Some(why) = &table.last_refusal {
            text.push_str(&format!("refused: {why}\n"));
        }
        for (rule, count) in table.rules.iter().filter(|(rule, _)| **rule != 0) {
            let (file, count) = (table.file.display(), quantity::count(*count));
            text.push_str(&format!("{file}, rule {rule}: {count}\n"));
        }
    }
    text
}
