//! What was observed while a step was measured: where the CPUs' time went, which kernel locks were waited for, and what
//! each CPU's receive path did.
//!
//! In: what an observer saw, as plain rows. Out: the same as documents, and as the tables that the posts read: pmcstat's
//! functions, FreeBSD's lock statistics, the workstreams of `netstat -Q`. Times are nanoseconds in the document and
//! microseconds in the lock table, as in the post.

use corelane_measure::metric::Show;
use corelane_measure::quantity::{self, MISSING};
use corelane_report::table::{Cell, Column, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A caller with less of the samples, in percent, would read 0.0 at the one decimal of pmcstat.
const LEAST_CALLER_SHOWN: f64 = 0.05;

/// The [`ObservedLocks::spin_coverage`] of a kernel that tells of all waits.
const EVERY_WAIT: &str = "every";

/// What one trial's observation saw. Each part is `None` where it was not asked for, or could not be had: then
/// [`Observed::unknown`] has the reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observed {
    /// The round of the trial.
    pub round: usize,
    /// Where the CPUs' time went.
    pub profile: Option<ObservedProfile>,
    /// Which kernel locks were waited for.
    pub locks: Option<ObservedLocks>,
    /// What the receive paths did.
    pub softnet: Option<ObservedSoftnet>,
    /// Why a part that was asked for is null: `profile`, `locks` or `softnet` to the reason, which says what to allow.
    pub unknown: BTreeMap<String, String>,
}

/// Samples of the step's CPUs. Each one is in exactly one of: workers, clients, softirq, elsewhere, idle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedProfile {
    /// What made the samples: `cycles` or `cpu-clock`.
    pub event: String,
    /// Samples a second and CPU, as asked for.
    pub frequency_hz: u32,
    /// How long samples were taken, in nanoseconds.
    pub elapsed_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples that found no room; in none of the tables.
    pub lost_samples: u64,
    /// Samples of the idle task.
    pub idle_samples: u64,
    /// Samples of other processes and of kernel threads, outside softirq.
    pub elsewhere_samples: u64,
    /// The server's threads, outside softirq.
    pub workers: ProfileTable,
    /// The generator's threads, outside softirq.
    pub clients: ProfileTable,
    /// Softirqs, whatever they interrupted: the receive path.
    pub softirq: ProfileTable,
    /// What a reader should know besides.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The functions of one set of samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileTable {
    /// The samples that shares are of.
    pub samples: u64,
    /// Samples whose function has no name.
    pub unresolved_samples: u64,
    /// Functions in all; the rows are the most frequent of them.
    pub functions: usize,
    /// The most frequent first.
    pub rows: Vec<ProfileRow>,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    /// Samples in the function itself, in percent of the table's.
    pub samples_percent: f64,
    /// `kernel`, a kernel module, or a program's or library's file.
    pub image: String,
    /// The function.
    pub function: String,
    /// Who called it, the most frequent first; unknown callers are left out.
    pub callers: Vec<ProfileCaller>,
}

/// One caller of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileCaller {
    /// The calling function.
    pub function: String,
    /// Samples when called from here, in percent of the table's.
    pub samples_percent: f64,
}

/// Waits for kernel locks on the step's CPUs: of server, generator and softirqs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ObservedLocks {
    /// The CPUs watched.
    pub cpus: Vec<u32>,
    /// How long they were watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// Waits that began and ended meanwhile.
    pub waits: u64,
    /// How long they took together, in nanoseconds.
    pub wait_total_ns: u64,
    /// The same in percent of the CPUs' time.
    pub wait_percent: f64,
    /// Those for the receive lock of a UDP socket, the post's `so_rcv`.
    pub receive_lock_waits: u64,
    /// How long these took, in percent of the CPUs' time.
    pub receive_lock_percent: f64,
    /// Which waits for spin locks the kernel tells of: `every`, `from-second-waiter` or `none-seen`.
    pub spin_coverage: String,
    /// Waits of other processes on these CPUs: in no row.
    pub elsewhere_waits: u64,
    /// Records that found no room: waits are missing.
    pub lost_records: u64,
    /// The longest wait in total first.
    pub rows: Vec<LockRow>,
    /// Why a column is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
    /// What a reader should know besides.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The waits of one function for one kind of lock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LockRow {
    /// The longest time that the lock was held, in nanoseconds.
    pub max_ns: Option<u64>,
    /// The longest wait, in nanoseconds.
    pub wait_max_ns: u64,
    /// How long the lock was held in all, in nanoseconds.
    pub total_ns: Option<u64>,
    /// All waits together, in nanoseconds.
    pub wait_total_ns: u64,
    /// Acquisitions that had to wait.
    pub count: u64,
    /// Those of them in softirq.
    pub count_in_softirq: u64,
    /// The mean time that the lock was held, in nanoseconds.
    pub avg_ns: Option<u64>,
    /// The mean wait, in nanoseconds.
    pub wait_avg_ns: u64,
    /// Whether it is the receive lock of a UDP socket.
    pub receive_lock: bool,
    /// The function that wanted the lock, the kind of lock, and who called.
    pub name: String,
}

/// What the step's CPUs' receive paths did, all network namespaces together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedSoftnet {
    /// From the first reading to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// How many readings the high-water marks are the highest of.
    pub readings: u64,
    /// One row a CPU.
    pub rows: Vec<SoftnetRow>,
    /// Why a column is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

/// One CPU's receive path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetRow {
    /// The CPU.
    pub cpu: u32,
    /// Frames that entered the protocols.
    pub processed: u64,
    /// Frames that the backlog refused.
    pub dropped: u64,
    /// Times that work was left for lack of budget or time.
    pub squeezed: u64,
    /// Times that another CPU woke this one to take frames.
    pub received_rps: u64,
    /// Frames refused because of their flow's share of the backlog; `dropped` has them too.
    pub flow_limit: u64,
    /// Frames waiting in the backlog at the last reading.
    pub backlog: Option<u64>,
    /// The most frames that a reading found waiting there.
    pub backlog_high_water: Option<u64>,
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

impl ObservedProfile {
    /// The line over a table, as pmcstat writes it.
    #[must_use]
    pub fn headline(&self, table: &ProfileTable) -> String {
        format!(
            "[{}] Samples: {}, {} unresolved",
            self.event, table.samples, table.unresolved_samples
        )
    }

    /// The tables with the words that name them: workers, softirq, and clients.
    #[must_use]
    pub fn tables(&self) -> [(&'static str, &ProfileTable); 3] {
        [
            ("workers", &self.workers),
            ("softirq", &self.softirq),
            ("clients", &self.clients),
        ]
    }
}

impl ProfileTable {
    /// The first `rows` functions in the columns of pmcstat.
    #[must_use]
    pub fn table(&self, rows: usize) -> Table {
        let mut table = Table::new(vec![
            Column::right("%SAMP"),
            Column::left("IMAGE").may_shrink(),
            Column::left("FUNCTION").may_shrink(),
            Column::left("CALLERS").may_shrink(),
        ]);
        for row in self.rows.iter().take(rows) {
            table.row([
                Cell::number(Some(row.samples_percent), Show::Fixed(1)),
                Cell::from(&row.image),
                Cell::from(&row.function),
                Cell::from(row.callers_text()),
            ]);
        }
        table
    }
}

impl ProfileRow {
    /// The callers as pmcstat writes them: a lone one without its share.
    #[must_use]
    pub fn callers_text(&self) -> String {
        if let [only] = self.callers.as_slice() {
            return only.function.clone();
        }
        let shown = self
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
}

impl ObservedLocks {
    /// One line over the table: how much was waited, and how much of it for sockets' receive locks.
    #[must_use]
    pub fn headline(&self) -> String {
        let cpus = self.cpus.len();
        let receive = match self.receive_lock_waits {
            0 if self.spin_coverage == EVERY_WAIT => "nobody waited for a socket's receive lock".to_owned(),
            0 => "nobody waited for a socket's receive lock, as far as this kernel tells of such waits"
                .to_owned(),
            waits => format!(
                "a socket's receive lock was waited for {} times ({} % of that time)",
                quantity::count(waits),
                quantity::fixed(self.receive_lock_percent, 2)
            ),
        };
        format!(
            "{} waits, {} % of the time of {cpus} CPU{}; {receive}",
            quantity::count(self.waits),
            quantity::fixed(self.wait_percent, 2),
            if cpus == 1 { "" } else { "s" },
        )
    }

    /// The first `rows` places, and sockets' receive locks wherever they rank, in the columns of FreeBSD's lock statistics.
    #[must_use]
    pub fn table(&self, rows: usize) -> Table {
        let times = ["max", "wait_max", "total", "wait_total"].map(|name| Column::right(name).unit("us"));
        let mut columns = times.to_vec();
        columns.push(Column::right("count"));
        columns.extend(["avg", "wait_avg"].map(|name| Column::right(name).unit("us")));
        columns.push(Column::left("name").may_shrink());
        let mut table = Table::new(columns);
        let ranked = self.rows.iter().enumerate();
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
}

impl ObservedSoftnet {
    /// The columns of `netstat -Q`'s workstreams, and three of Linux's own behind them. `Disp'd`, `HDisp'd` and `Queued`
    /// are not counted by Linux.
    #[must_use]
    pub fn table(&self) -> Table {
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
        for row in &self.rows {
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

    #[test]
    fn the_profile_is_the_table_of_pmcstat() {
        let caller = |function: &str, samples_percent| ProfileCaller {
            function: function.to_owned(),
            samples_percent,
        };
        let row = |samples_percent, function: &str, callers| ProfileRow {
            samples_percent,
            image: "kernel".to_owned(),
            function: function.to_owned(),
            callers,
        };
        let table = ProfileTable {
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
            ..ProfileTable::default()
        };
        let expected = "\
%SAMP  IMAGE   FUNCTION            CALLERS
  8.1  kernel  fget_unlocked       kern_sendit:4.2 kern_recvit:3.9
  3.6  kernel  __mtx_unlock_flags  ixgbe_mq_start
";
        assert_eq!(table.table(10).render(100), expected);
    }

    #[test]
    fn holding_times_that_are_not_known_show_as_missing() {
        let locks = ObservedLocks {
            rows: vec![LockRow {
                wait_max_ns: 12_340,
                wait_total_ns: 1_500_000,
                count: 300,
                wait_avg_ns: 5_000,
                name: "__udp_enqueue_schedule_skb (spin lock)".to_owned(),
                ..LockRow::default()
            }],
            ..ObservedLocks::default()
        };
        let expected = "\
max  wait_max  total  wait_total  count  avg  wait_avg  name
 us        us     us          us          us        us
  -      12.3      -      1500.0    300    -       5.0  __udp_enqueue_schedule_skb (spin lock)
";
        assert_eq!(locks.table(10).render(100), expected);
    }

    #[test]
    fn the_receive_lock_is_shown_wherever_it_ranks() {
        let row = |name: &str, receive_lock| LockRow {
            name: name.to_owned(),
            receive_lock,
            ..LockRow::default()
        };
        let locks = ObservedLocks {
            rows: vec![
                row("first", false),
                row("second", false),
                row("__skb_recv_udp", true),
            ],
            ..ObservedLocks::default()
        };
        let text = locks.table(1).render(100);
        assert!(
            text.contains("first") && text.contains("__skb_recv_udp"),
            "{text}"
        );
        assert!(!text.contains("second"), "{text}");
    }

    #[test]
    fn a_quiet_receive_lock_is_said_to_be_quiet() {
        let locks = ObservedLocks {
            cpus: vec![0, 1],
            spin_coverage: EVERY_WAIT.to_owned(),
            ..ObservedLocks::default()
        };
        assert_eq!(
            locks.headline(),
            "0 waits, 0.00 % of the time of 2 CPUs; nobody waited for a socket's receive lock"
        );
    }
}
