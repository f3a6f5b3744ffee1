//! From call chains to names: the function that requested the lock, and its caller.

use std::collections::HashMap;

use super::pairs::{Sum, Sums};
use super::report::{LockReport, LockSite, SpinCoverage, kind_of_lock};
use crate::perf::{frames, lost_note};
use crate::symbols::{KernelSymbols, Symbol, most_first};

/// Why the columns of hold times are empty.
const HOLDING_UNKNOWN: &str = "lock:contention_begin and lock:contention_end report waiting only; how long a lock is held \
                               is known to a kernel built with CONFIG_LOCK_STAT";

/// The queue of spin locks without and with paravirtualisation (`kernel/locking/qspinlock.c`).
const NATIVE_QUEUE: &str = "native_queued_spin_lock_slowpath";
const PARAVIRTUAL_QUEUE: &str = "__pv_queued_spin_lock_slowpath";

/// Functions that take the lock of a UDP socket's receive queue, or of the queue its reader takes from
/// (`net/ipv4/udp.c`): the first is the receive path's, the next five the reader's. Then those that take the lock of a TCP
/// socket: two of the receive path (`net/ipv4/tcp_ipv4.c`, `net/ipv6/tcp_ipv6.c`), and those of system calls
/// (`net/core/sock.c`).
const RECEIVE_LOCK_FUNCTIONS: &[&str] = &[
    "__udp_enqueue_schedule_skb",
    "__skb_recv_udp",
    "udp_rmem_release",
    "udp_skb_destructor",
    "first_packet_length",
    "__first_packet_length",
    "tcp_v4_rcv",
    "tcp_v6_rcv",
    "lock_sock_nested",
    "__lock_sock",
    "release_sock",
];

/// Sums the waits by the functions that requested the locks. `watched` has the CPUs, the duration and the lost records.
pub(super) fn report(
    mut waits: Sums,
    chains: &[Box<[u64]>],
    kernel: &KernelSymbols,
    watched: LockReport,
) -> LockReport {
    let chains: Vec<Site> = chains.iter().map(|chain| Site::of(chain, kernel)).collect();
    let mut merged: HashMap<(Symbol, &str), Merged> = HashMap::new();
    let elsewhere = waits.remove(&None).unwrap_or_default();
    for (place, sum) in waits.into_iter().filter_map(|(place, sum)| Some((place?, sum))) {
        let site = &chains[place.chain];
        let key = (site.function.clone(), kind_of_lock(place.flags));
        let entry = merged.entry(key).or_default();
        if let Some(caller) = &site.caller {
            *entry.callers.entry(caller.clone()).or_default() += sum.waits;
        }
        entry.sum.merge(sum);
    }
    let merged = most_first(merged, |merged| merged.sum.wait_total_ns).into_iter();
    let rows: Vec<LockSite> = merged
        .map(|((function, kind), merged)| merged.into_site(&function.function, kind))
        .collect();
    let wait_total_ns = rows.iter().map(|site| site.wait_total_ns).sum();
    let receive_locks = || rows.iter().filter(|site| site.receive_lock);
    let receive_lock_ns = receive_locks().map(|site| site.wait_total_ns).sum();
    let percent = |waited_ns| percent_of_time(waited_ns, watched.elapsed_ns, &watched.cpus);
    let spin_coverage = spin_coverage(&chains);
    let lost = lost_note(watched.lost_records, "records of waits");
    let holding = ["max_ns", "total_ns", "avg_ns"];
    LockReport {
        waits: rows.iter().map(|site| site.count).sum(),
        wait_total_ns,
        wait_percent: percent(wait_total_ns),
        receive_lock_waits: receive_locks().map(|site| site.count).sum(),
        receive_lock_percent: percent(receive_lock_ns),
        spin_coverage,
        elsewhere_waits: elsewhere.waits,
        rows,
        unknown: holding
            .map(|field| (field.to_owned(), HOLDING_UNKNOWN.to_owned()))
            .into(),
        notes: notes(kernel, spin_coverage).into_iter().chain(lost).collect(),
        ..watched
    }
}

/// `waited_ns` as a share of the CPUs' time, in percent; 0 for an empty watch.
pub(super) fn percent_of_time(waited_ns: u64, elapsed_ns: u64, cpus: &[u32]) -> f64 {
    let time = elapsed_ns as f64 * cpus.len() as f64;
    if time > 0.0 {
        100.0 * waited_ns as f64 / time
    } else {
        0.0
    }
}

/// The data derived from a call chain.
#[derive(Debug)]
struct Site {
    function: Symbol,
    caller: Option<String>,
    queue: Option<SpinCoverage>,
}

impl Site {
    fn of(chain: &[u64], kernel: &KernelSymbols) -> Self {
        let addresses: Vec<u64> = frames(chain).map(|frame| frame.address).collect();
        let wanting = addresses
            .iter()
            .position(|address| !kernel.is_lock_function(*address))
            .unwrap_or(0);
        let name = |index: usize| addresses.get(index).map(|address| kernel.find(*address));
        let mut inner = addresses[..wanting].iter();
        let queue = inner.find_map(|address| match kernel.name(*address)? {
            PARAVIRTUAL_QUEUE => Some(SpinCoverage::Every),
            NATIVE_QUEUE => Some(SpinCoverage::FromSecondWaiter),
            _ => None,
        });
        Self {
            function: name(wanting).unwrap_or_else(|| kernel.find(0)),
            caller: name(wanting + 1)
                .filter(Symbol::is_resolved)
                .map(|symbol| symbol.function),
            queue,
        }
    }
}

#[derive(Debug, Default)]
struct Merged {
    sum: Sum,
    callers: HashMap<String, u64>,
}

impl Merged {
    fn into_site(self, function: &str, kind: &str) -> LockSite {
        // Of callers that are as frequent, the first by name.
        let callers = most_first(self.callers, |count| *count);
        let caller = callers.first().map(|(caller, _)| format!(" < {caller}"));
        LockSite {
            wait_max_ns: self.sum.wait_max_ns,
            wait_total_ns: self.sum.wait_total_ns,
            count: self.sum.waits,
            count_in_softirq: self.sum.waits_in_softirq,
            wait_avg_ns: self.sum.wait_total_ns / self.sum.waits.max(1),
            receive_lock: RECEIVE_LOCK_FUNCTIONS.contains(&function),
            name: format!("{function} ({kind}){}", caller.unwrap_or_default()),
            ..LockSite::default()
        }
    }
}

fn spin_coverage(chains: &[Site]) -> SpinCoverage {
    let mut seen = [SpinCoverage::FromSecondWaiter, SpinCoverage::Every].into_iter();
    let coverage = seen.find(|kind| chains.iter().any(|chain| chain.queue == Some(*kind)));
    coverage.unwrap_or_default()
}

fn notes(kernel: &KernelSymbols, coverage: SpinCoverage) -> Vec<String> {
    let of_spinning = match coverage {
        SpinCoverage::Every => None,
        SpinCoverage::FromSecondWaiter => Some(
            "this kernel reports waits for a spin lock from the second simultaneous waiter on; the first one's are in no \
             sum",
        ),
        SpinCoverage::NoneSeen => Some(
            "no wait for a spin lock was seen: there was none, or never two waiters at once, or this kernel takes spin \
             locks without the queue that reports waits (a virtual machine without paravirtual spin locks)",
        ),
    };
    let hidden = kernel.hidden_because().map(str::to_owned);
    of_spinning.map(str::to_owned).into_iter().chain(hidden).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pairs::Place;
    use super::*;

    const SYMBOLS: &str = "\
0000000000001000 T __udp_enqueue_schedule_skb
0000000000002000 T udp_queue_rcv_one_skb
0000000000003000 T pipe_write
0000000000004000 T vfs_write
0000000000010000 T __sched_text_start
0000000000010000 T __mutex_lock
0000000000011000 T __sched_text_end
0000000000020000 T __lock_text_start
0000000000020000 T _raw_spin_lock
0000000000021000 T __pv_queued_spin_lock_slowpath
0000000000022000 T __lock_text_end
";

    /// `PERF_CONTEXT_KERNEL`, as the kernel writes it before its addresses.
    const KERNEL: u64 = (-128_i64).cast_unsigned();

    fn sum(waits: u64, wait_total_ns: u64) -> Sum {
        Sum {
            waits,
            waits_in_softirq: waits,
            wait_total_ns,
            wait_max_ns: 2_500,
        }
    }

    fn sample_report() -> LockReport {
        let chains: [Box<[u64]>; 3] = [
            [KERNEL, 0x21010, 0x20010, 0x1010, 0x2010].into(),
            [KERNEL, 0x21020, 0x20010, 0x1020, 0x2010].into(),
            [KERNEL, 0x10010, 0x3010, 0x4010].into(),
        ];
        let place = |chain, flags| Some(Place { chain, flags });
        let waits = Sums::from([
            (place(0, 1), sum(3, 6_000)),
            (place(1, 1), sum(1, 2_500)),
            (place(2, 33), sum(1, 100)),
            (place(2, 32), sum(1, 900)),
            (None, sum(4, 70_000)),
        ]);
        let watched = LockReport {
            cpus: vec![0, 1],
            elapsed_ns: 1_000_000,
            ..LockReport::default()
        };
        report(waits, &chains, &KernelSymbols::parse(SYMBOLS), watched)
    }

    #[test]
    fn waits_are_summed_by_the_function_outside_the_locking_code() {
        let report = sample_report();
        let site = |wait_total_ns, count, wait_avg_ns, receive_lock, name: &str| LockSite {
            wait_max_ns: 2_500,
            wait_total_ns,
            count,
            count_in_softirq: count,
            wait_avg_ns,
            receive_lock,
            name: name.to_owned(),
            ..LockSite::default()
        };
        let expected = [
            site(
                8_500,
                4,
                2_125,
                true,
                "__udp_enqueue_schedule_skb (spin lock) < udp_queue_rcv_one_skb",
            ),
            site(1_000, 2, 500, false, "pipe_write (mutex) < vfs_write"),
        ];
        assert_eq!(report.rows, expected);
        assert_eq!((report.waits, report.wait_total_ns), (6, 9_500));
        assert_eq!((report.elsewhere_waits, report.receive_lock_waits), (4, 4));
        assert!((report.wait_percent - 0.475).abs() < 1e-9);
        assert!((report.receive_lock_percent - 0.425).abs() < 1e-9);
    }

    #[test]
    fn a_kernel_that_queues_every_waiter_is_recognised_by_its_queue() {
        let report = sample_report();
        assert_eq!(report.spin_coverage, SpinCoverage::Every);
        assert!(report.notes.is_empty(), "{:?}", report.notes);
        let none: [Box<[u64]>; 1] = [[KERNEL, 0x10010, 0x3010].into()];
        let watched = LockReport {
            cpus: vec![0],
            elapsed_ns: 1,
            ..LockReport::default()
        };
        let report = super::report(Sums::default(), &none, &KernelSymbols::parse(SYMBOLS), watched);
        assert_eq!(report.spin_coverage, SpinCoverage::NoneSeen);
        assert!(report.notes[0].contains("no wait for a spin lock was seen"));
    }

    #[test]
    fn the_report_is_read_back_from_json() {
        let report = sample_report();
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<LockReport>(&text).unwrap(), report);
        assert!(text.contains("\"total_ns\":null"), "{text}");
    }
}
