//! What was waited for, as data, and as the table of `sysctl debug.lock.prof.stats`.

use std::collections::BTreeMap;
use std::fmt;

use corelane_measure::quantity::MISSING;
use corelane_report::table::{Column, Table};
use serde::{Deserialize, Serialize};

/// The waits for kernel locks on the watched CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockReport {
    /// The CPUs that were watched.
    pub cpus: Vec<u32>,
    /// The processes whose waits are told, beside those of softirqs. Empty for everybody's.
    pub processes: Vec<u32>,
    /// How long they were watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// Waits that began and ended while watched, of the processes and of softirqs.
    pub waits: u64,
    /// How long they took together, in nanoseconds. Waits of several CPUs overlap: at most `elapsed_ns` a CPU for locks
    /// that spin, more for those that sleep.
    pub wait_total_ns: u64,
    /// Where the waiting was, the longest in total first.
    pub sites: Vec<LockSite>,
    /// Waits of other processes on these CPUs: in none of the sites.
    pub elsewhere_waits: u64,
    /// How long those took together, in nanoseconds.
    pub elsewhere_wait_total_ns: u64,
    /// Records that found no room; the waits they told of are missing.
    pub lost_records: u64,
    /// Waits that had begun before the watch, or whose begin was lost: in no sum.
    pub ends_without_begin: u64,
    /// Waits that had not ended with the watch, or whose end was lost: in no sum.
    pub begins_without_end: u64,
    /// Which waits for spin locks this kernel tells of.
    pub spin_coverage: SpinCoverage,
    /// Why a field is null: field name to reason.
    pub unknown: BTreeMap<String, String>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// The waits of one function for one kind of lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockSite {
    /// The function that wanted the lock: the first one outside the kernel's locking code.
    pub function: String,
    /// `kernel` or the module it is in.
    pub image: String,
    /// What kind of lock it is.
    pub kind: LockKind,
    /// Different locks waited for here, up to 4,096.
    pub locks: u64,
    /// Who called the function, the most frequent first.
    pub callers: Vec<LockCaller>,
    /// The longest time a lock was held from here, in nanoseconds. Not known to the tracepoints.
    pub max_ns: Option<u64>,
    /// The longest wait, in nanoseconds.
    pub wait_max_ns: u64,
    /// How long locks were held from here, in nanoseconds. Not known to the tracepoints.
    pub total_ns: Option<u64>,
    /// All waits together, in nanoseconds.
    pub wait_total_ns: u64,
    /// Acquisitions that had to wait. FreeBSD's column of this name counts those that had not to, too.
    pub count: u64,
    /// Those that waited in softirq: on the receive path, as a rule.
    pub count_in_softirq: u64,
    /// The mean time a lock was held from here, in nanoseconds. Not known to the tracepoints.
    pub avg_ns: Option<u64>,
    /// The mean wait, in nanoseconds.
    pub wait_avg_ns: u64,
}

/// A function that called one that waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockCaller {
    /// The calling function.
    pub function: String,
    /// The waits on its behalf.
    pub count: u64,
}

/// The kinds of locks that the tracepoints tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// Spins until it is free.
    Spin,
    /// Spins; many readers or one writer.
    ReadWriteSpin,
    /// Sleeps until it is free, after spinning for a while.
    Mutex,
    /// Sleeps; many readers or one writer.
    ReadWriteSemaphore,
    /// Sleeps; readers count on their own CPU.
    PerCpuReadWriteSemaphore,
    /// A mutex that lends its waiter's priority to its holder.
    RealTimeMutex,
    /// A semaphore, or a kind of lock newer than this program.
    Other,
}

/// Which waits for spin locks are told. It follows from the code that was seen waiting, since the kernel does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpinCoverage {
    /// All: a kernel with paravirtual spin locks queues every waiter, and says so.
    Every,
    /// From the second simultaneous waiter on: the first spins on the lock word itself, before the tracepoint.
    FromSecondWaiter,
    /// No wait for a spin lock was seen. Either there was none, or none with two waiters, or this is a virtual machine
    /// whose kernel takes spin locks without a queue, and so without the tracepoint.
    NoneSeen,
}

impl LockReport {
    /// The first `rows` places in the columns of the post "Receive side scaling: testing UDP throughput": `max wait_max
    /// total wait_total count avg wait_avg name`. Times are microseconds, as there, but with a decimal. What is null
    /// shows as missing.
    #[must_use]
    pub fn table(&self, rows: usize) -> Table {
        let times = ["max", "wait_max", "total", "wait_total"].map(|name| Column::right(name).unit("us"));
        let mut columns = times.to_vec();
        columns.push(Column::right("count"));
        columns.extend(["avg", "wait_avg"].map(|name| Column::right(name).unit("us")));
        columns.push(Column::left("name").may_shrink());
        let mut table = Table::new(columns);
        for site in self.sites.iter().take(rows) {
            table.row([
                microseconds(site.max_ns),
                microseconds(Some(site.wait_max_ns)),
                microseconds(site.total_ns),
                microseconds(Some(site.wait_total_ns)),
                site.count.to_string(),
                microseconds(site.avg_ns),
                microseconds(Some(site.wait_avg_ns)),
                site.name(),
            ]);
        }
        table
    }

    /// The share of the watched CPUs' time that waits took, in percent. More than 100 where many threads slept at once.
    #[must_use]
    pub fn wait_percent(&self) -> f64 {
        self.percent_of_time(self.wait_total_ns)
    }

    /// `nanoseconds` as a share of the watched CPUs' time, in percent; 0 for an empty watch.
    pub(super) fn percent_of_time(&self, nanoseconds: u64) -> f64 {
        let time = self.elapsed_ns as f64 * self.cpus.len() as f64;
        if time > 0.0 {
            100.0 * nanoseconds as f64 / time
        } else {
            0.0
        }
    }
}

impl LockSite {
    /// What the name column says: function, kind of lock, and the most frequent caller.
    #[must_use]
    pub fn name(&self) -> String {
        match self.callers.first() {
            Some(caller) => format!("{} ({}) < {}", self.function, self.kind, caller.function),
            None => format!("{} ({})", self.function, self.kind),
        }
    }
}

impl LockKind {
    /// From the flags of `contention_begin` (`LCB_F_*` in the kernel's `trace/events/lock.h`).
    pub(super) fn from_flags(flags: u64) -> Self {
        const SPIN: u64 = 1;
        const READ_OR_WRITE: u64 = 2 | 4;
        const REAL_TIME: u64 = 8;
        const PER_CPU: u64 = 16;
        const MUTEX: u64 = 32;
        match flags {
            _ if flags & MUTEX != 0 => LockKind::Mutex,
            _ if flags & PER_CPU != 0 => LockKind::PerCpuReadWriteSemaphore,
            _ if flags & REAL_TIME != 0 => LockKind::RealTimeMutex,
            _ if flags & SPIN != 0 && flags & READ_OR_WRITE != 0 => LockKind::ReadWriteSpin,
            _ if flags & SPIN != 0 => LockKind::Spin,
            _ if flags & READ_OR_WRITE != 0 => LockKind::ReadWriteSemaphore,
            _ => LockKind::Other,
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            LockKind::Spin => "spin lock",
            LockKind::ReadWriteSpin => "read-write spin lock",
            LockKind::Mutex => "mutex",
            LockKind::ReadWriteSemaphore => "read-write semaphore",
            LockKind::PerCpuReadWriteSemaphore => "per-CPU read-write semaphore",
            LockKind::RealTimeMutex => "real-time mutex",
            LockKind::Other => "lock of another kind",
        })
    }
}

fn microseconds(nanoseconds: Option<u64>) -> String {
    nanoseconds.map_or_else(
        || MISSING.to_owned(),
        |nanoseconds| format!("{:.1}", nanoseconds as f64 / 1e3),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_tracepoint_tell_the_kind_of_lock() {
        let kinds = [0, 1, 3, 5, 2, 4, 8, 18, 32, 33].map(LockKind::from_flags);
        let expected = [
            LockKind::Other,
            LockKind::Spin,
            LockKind::ReadWriteSpin,
            LockKind::ReadWriteSpin,
            LockKind::ReadWriteSemaphore,
            LockKind::ReadWriteSemaphore,
            LockKind::RealTimeMutex,
            LockKind::PerCpuReadWriteSemaphore,
            LockKind::Mutex,
            LockKind::Mutex,
        ];
        assert_eq!(kinds, expected);
    }
}
