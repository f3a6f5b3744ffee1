//! What was waited for, as data: the columns of `sysctl debug.lock.prof.stats`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The waits for kernel locks on the watched CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockReport {
    /// The CPUs that were watched.
    pub cpus: Vec<u32>,
    /// How long they were watched, in nanoseconds.
    pub elapsed_ns: u64,
    /// Waits that began and ended while watched, of the watched processes and of softirqs.
    pub waits: u64,
    /// The total wait, in nanoseconds. Waits of several CPUs overlap: at most `elapsed_ns` per CPU for locks that spin,
    /// more for those that sleep.
    pub wait_total_ns: u64,
    /// The same as a share of the watched CPUs' time, in percent. More than 100 where many threads slept at once.
    pub wait_percent: f64,
    /// Those for the receive lock of a UDP socket, the post's `so_rcv`.
    pub receive_lock_waits: u64,
    /// How long these took, in percent of the watched CPUs' time.
    pub receive_lock_percent: f64,
    /// Which waits for spin locks this kernel reports.
    pub spin_coverage: SpinCoverage,
    /// Waits of other processes on these CPUs; not included in the rows.
    pub elsewhere_waits: u64,
    /// Records lost because a ring was full: their waits are missing.
    pub lost_records: u64,
    /// The waits by place, the longest total first. A caller may keep only the first rows.
    pub rows: Vec<LockSite>,
    /// Why a column is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
    /// Further notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The waits of one function for one kind of lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockSite {
    /// The longest time a lock was held from here, in nanoseconds. Not known to the tracepoints.
    pub max_ns: Option<u64>,
    /// The longest wait, in nanoseconds.
    pub wait_max_ns: u64,
    /// How long locks were held from here, in nanoseconds. Not known to the tracepoints.
    pub total_ns: Option<u64>,
    /// All waits together, in nanoseconds.
    pub wait_total_ns: u64,
    /// Acquisitions that had to wait. FreeBSD's column of this name also counts those that did not.
    pub count: u64,
    /// Those that waited in softirq: on the receive path, as a rule.
    pub count_in_softirq: u64,
    /// The mean time a lock was held from here, in nanoseconds. Not known to the tracepoints.
    pub avg_ns: Option<u64>,
    /// The mean wait, in nanoseconds.
    pub wait_avg_ns: u64,
    /// Whether it is the receive lock of a UDP socket.
    pub receive_lock: bool,
    /// The function that wanted the lock (the first one outside the kernel's locking code), the kind of lock, and the most
    /// frequent caller: `__udp_enqueue_schedule_skb (spin lock) < udp_queue_rcv_one_skb`.
    pub name: String,
}

/// Which waits for spin locks are reported. It follows from the code that was seen waiting, since the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpinCoverage {
    /// All: a kernel with paravirtual spin locks queues every waiter, and says so.
    Every,
    /// From the second simultaneous waiter on: the first spins on the lock word itself, before the tracepoint.
    FromSecondWaiter,
    /// No wait for a spin lock was seen. Either there was none, or none with two waiters, or this is a virtual machine
    /// whose kernel takes spin locks without a queue, and so without the tracepoint.
    #[default]
    NoneSeen,
}

/// The kind of a lock, from the flags of `contention_begin` (`LCB_F_*` in the kernel's `trace/events/lock.h`).
pub(super) fn kind_of_lock(flags: u64) -> &'static str {
    const SPIN: u64 = 1;
    const READ_OR_WRITE: u64 = 2 | 4;
    const REAL_TIME: u64 = 8;
    const PER_CPU: u64 = 16;
    const MUTEX: u64 = 32;
    match flags {
        // A mutex spins for a while before it sleeps.
        _ if flags & MUTEX != 0 => "mutex",
        _ if flags & PER_CPU != 0 => "per-CPU read-write semaphore",
        _ if flags & REAL_TIME != 0 => "real-time mutex",
        _ if flags & SPIN != 0 && flags & READ_OR_WRITE != 0 => "read-write spin lock",
        _ if flags & SPIN != 0 => "spin lock",
        _ if flags & READ_OR_WRITE != 0 => "read-write semaphore",
        _ => "lock of another kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_tracepoint_tell_the_kind_of_lock() {
        let kinds = [0, 1, 3, 5, 2, 4, 8, 18, 32, 33].map(kind_of_lock);
        let expected = [
            "lock of another kind",
            "spin lock",
            "read-write spin lock",
            "read-write spin lock",
            "read-write semaphore",
            "read-write semaphore",
            "real-time mutex",
            "per-CPU read-write semaphore",
            "mutex",
            "mutex",
        ];
        assert_eq!(kinds, expected);
    }
}
