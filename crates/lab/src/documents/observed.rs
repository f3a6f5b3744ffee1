//! What was observed while a step was measured: where the CPUs' time went, which kernel locks were waited for, and what
//! each CPU's receive path did.
//!
//! In: what `observe` saw, in its own types, which are the document's. Out: the tables that the posts read: pmcstat's
//! functions, FreeBSD's lock statistics, the workstreams of `netstat -Q`. Times are nanoseconds in the document and
//! microseconds in the lock table, as in the post.

use corelane_measure::metric::Show;
use corelane_measure::quantity::{self, MISSING};
use corelane_observe::locks::{LockReport, SpinCoverage};
use corelane_observe::profile::{FunctionShare, FunctionTable, Profile};
use corelane_observe::softnet::SoftnetReport;
use corelane_report::table::{Cell, Column, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A caller with less of the samples, in percent, would read 0.0 at the one decimal of pmcstat.
const LEAST_CALLER_SHOWN: f64 = 0.05;

/// What one trial's observation saw. Each part is `None` where it was not asked for, or could not be had: then
/// [`Observed::unknown`] has the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observed {
    /// The round of the trial.
    pub round: usize,
    /// Where the CPUs' time went.
    pub profile: Option<Profile>,
    /// Which kernel locks were waited for.
    pub locks: Option<LockReport>,
    /// What the receive paths did.
    pub softnet: Option<SoftnetReport>,
    /// Why a part that was asked for is null: `profile`, `locks` or `softnet` to the reason, which says what to allow.
    pub unknown: BTreeMap<String, String>,
}

/// Echo beside sink: which waits more for kernel locks, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockComparison {
    /// The placement of both steps, as documents write it: `aligned` or `crossed`.
    pub placement: crate::scale::Placement,
    /// Active buckets of both.
    pub buckets_active: usize,
    /// The comparison.
    pub sentence: String,
}

/// The line over a table, as pmcstat writes it.
pub(crate) fn functions_headline(profile: &Profile, table: &FunctionTable) -> String {
    format!(
        "[{}] Samples: {}, {} unresolved",
        profile.event.name(),
        table.samples,
        table.unresolved_samples
    )
}

/// The tables with the words that name them: workers, softirq, and clients.
pub(crate) fn function_tables(profile: &Profile) -> [(&'static str, &FunctionTable); 3] {
    [
        ("workers", &profile.workers),
        ("softirq", &profile.softirq),
        ("clients", &profile.clients),
    ]
}

/// The first `rows` functions in the columns of pmcstat.
pub(crate) fn functions(functions: &FunctionTable, rows: usize) -> Table {
    let mut table = Table::new(vec![
        Column::right("%SAMP"),
        Column::left("IMAGE").may_shrink(),
        Column::left("FUNCTION").may_shrink(),
        Column::left("CALLERS").may_shrink(),
    ]);
    for row in functions.rows.iter().take(rows) {
        table.row([
            Cell::number(Some(row.samples_percent), Show::Fixed(1)),
            Cell::from(&row.image),
            Cell::from(&row.function),
            Cell::from(callers(row)),
        ]);
    }
    table
}

/// The callers as pmcstat writes them: a lone one without its share.
pub(crate) fn callers(function: &FunctionShare) -> String {
    if let [only] = function.callers.as_slice() {
        return only.function.clone();
    }
    let shown = function
        .callers
        .iter()
        .filter(|caller| caller.samples_percent >= LEAST_CALLER_SHOWN);
    let parts: Vec<String> = shown
        .map(|caller| {
            format!(
                "{}:{}",
                caller.function,
                quantity::fixed(caller.samples_percent, 1)
            )
        })
        .collect();
    parts.join(" ")
}

/// One line over the table: how much was waited, and how much of it for sockets' receive locks.
pub(crate) fn locks_headline(locks: &LockReport) -> String {
    let cpus = locks.cpus.len();
    let receive = match locks.receive_lock_waits {
        0 if locks.spin_coverage == SpinCoverage::Every => {
            "nobody waited for a socket's receive lock".to_owned()
        }
        0 => {
            "nobody waited for a socket's receive lock, as far as this kernel tells of such waits".to_owned()
        }
        waits => format!(
            "a socket's receive lock was waited for {} times ({} % of that time)",
            quantity::count(waits),
            quantity::fixed(locks.receive_lock_percent, 2)
        ),
    };
    format!(
        "{} waits, {} % of the time of {cpus} CPU{}; {receive}",
        quantity::count(locks.waits),
        quantity::fixed(locks.wait_percent, 2),
        if cpus == 1 { "" } else { "s" },
    )
}

/// The first `rows` places, and sockets' receive locks wherever they rank, in the columns of FreeBSD's lock statistics.
pub(crate) fn locks(locks: &LockReport, rows: usize) -> Table {
    let times = ["max", "wait_max", "total", "wait_total"].map(|name| Column::right(name).unit("us"));
    let mut columns = times.to_vec();
    columns.push(Column::right("count"));
    columns.extend(["avg", "wait_avg"].map(|name| Column::right(name).unit("us")));
    columns.push(Column::left("name").may_shrink());
    let mut table = Table::new(columns);
    let ranked = locks.rows.iter().enumerate();
    for (_, row) in ranked.filter(|(rank, row)| *rank < rows || row.receive_lock) {
        table.row([
            microseconds(row.max_ns),
            microseconds(Some(row.wait_max_ns)),
            microseconds(row.total_ns),
            microseconds(Some(row.wait_total_ns)),
            plain(Some(row.count)),
            microseconds(row.avg_ns),
            microseconds(Some(row.wait_avg_ns)),
            Cell::from(&row.name),
        ]);
    }
    table
}

/// The columns of `netstat -Q`'s workstreams, and three of Linux's own behind them. `Disp'd`, `HDisp'd` and `Queued`
/// are not counted by Linux.
pub(crate) fn receive_paths(softnet: &SoftnetReport) -> Table {
    let mut columns = vec![Column::right("WSID"), Column::right("CPU"), Column::left("Name")];
    columns.extend(
        [
            "Len",
            "WMark",
            "Disp'd",
            "HDisp'd",
            "QDrops",
            "Queued",
            "Handled",
            "Squeezed",
            "RPS",
            "FlowLimit",
        ]
        .map(Column::right),
    );
    let mut table = Table::new(columns);
    for row in &softnet.rows {
        table.row([
            plain(Some(row.cpu)),
            plain(Some(row.cpu)),
            Cell::from("backlog"),
            plain(row.backlog),
            plain(row.backlog_high_water),
            Cell::from(MISSING),
            Cell::from(MISSING),
            plain(Some(row.dropped)),
            Cell::from(MISSING),
            plain(Some(row.processed)),
            plain(Some(row.squeezed)),
            plain(Some(row.received_rps)),
            plain(Some(row.flow_limit)),
        ]);
    }
    table
}

/// Nanoseconds as the microseconds of the lock table, with one decimal.
fn microseconds(nanoseconds: Option<u64>) -> Cell {
    Cell::shown(nanoseconds.map(|time| time as f64), |time| {
        quantity::fixed(time / 1e3, 1)
    })
}

/// A number as it is, without separators, as the posts' tools print it.
fn plain(number: Option<impl Into<u64>>) -> Cell {
    Cell::shown(number.map(|number| number.into() as f64), |number| {
        format!("{number:.0}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_observe::locks::LockSite;
    use corelane_observe::profile::CallerShare;

    #[test]
    fn the_profile_is_the_table_of_pmcstat() {
        let caller = |function: &str, samples_percent| CallerShare {
            function: function.to_owned(),
            samples_percent,
        };
        let row = |samples_percent, function: &str, callers| FunctionShare {
            samples_percent,
            image: "kernel".to_owned(),
            function: function.to_owned(),
            callers,
        };
        let table = FunctionTable {
            rows: vec![
                row(
                    8.1,
                    "fget_unlocked",
                    vec![
                        caller("kern_sendit", 4.2),
                        caller("kern_recvit", 3.9),
                        caller("fdrop", 0.01),
                    ],
                ),
                row(3.6, "__mtx_unlock_flags", vec![caller("ixgbe_mq_start", 3.6)]),
            ],
            ..FunctionTable::default()
        };
        let expected = "\
%SAMP  IMAGE   FUNCTION            CALLERS
  8.1  kernel  fget_unlocked       kern_sendit:4.2 kern_recvit:3.9
  3.6  kernel  __mtx_unlock_flags  ixgbe_mq_start
";
        assert_eq!(functions(&table, 10).render(100), expected);
    }

    #[test]
    fn holding_times_that_are_not_known_show_as_missing() {
        let locks = LockReport {
            rows: vec![LockSite {
                wait_max_ns: 12_340,
                wait_total_ns: 1_500_000,
                count: 300,
                wait_avg_ns: 5_000,
                name: "__udp_enqueue_schedule_skb (spin lock)".to_owned(),
                ..LockSite::default()
            }],
            ..LockReport::default()
        };
        let expected = "\
max  wait_max  total  wait_total  count  avg  wait_avg  name
 us        us     us          us          us        us
  -      12.3      -      1500.0    300    -       5.0  __udp_enqueue_schedule_skb (spin lock)
";
        assert_eq!(super::locks(&locks, 10).render(100), expected);
    }

    #[test]
    fn the_receive_lock_is_shown_wherever_it_ranks() {
        let row = |name: &str, receive_lock| LockSite {
            name: name.to_owned(),
            receive_lock,
            ..LockSite::default()
        };
        let locks = LockReport {
            rows: vec![
                row("first", false),
                row("second", false),
                row("__skb_recv_udp", true),
            ],
            ..LockReport::default()
        };
        let text = super::locks(&locks, 1).render(100);
        assert!(
            text.contains("first") && text.contains("__skb_recv_udp"),
            "{text}"
        );
        assert!(!text.contains("second"), "{text}");
    }

    #[test]
    fn a_quiet_receive_lock_is_said_to_be_quiet() {
        let locks = LockReport {
            cpus: vec![0, 1],
            spin_coverage: SpinCoverage::Every,
            ..LockReport::default()
        };
        assert_eq!(
            locks_headline(&locks),
            "0 waits, 0.00 % of the time of 2 CPUs; nobody waited for a socket's receive lock"
        );
    }
}
