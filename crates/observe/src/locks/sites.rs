//! From call chains to names: which function wanted the lock, and who called it.

use std::collections::{BTreeMap, HashMap};

use super::pairs::{Closed, Sum};
use super::report::{LockCaller, LockKind, LockReport, LockSite, SpinCoverage};
use crate::perf::frames;
use crate::symbols::{KernelSymbols, Symbol};

/// Why the columns of holding times are empty.
const HOLDING_UNKNOWN: &str = "lock:contention_begin and lock:contention_end tell of waiting only; how long a lock is held \
                               is known to a kernel built with CONFIG_LOCK_STAT";

/// The queue of spin locks without and with paravirtualisation (`kernel/locking/qspinlock.c`).
const NATIVE_QUEUE: &str = "native_queued_spin_lock_slowpath";
const PARAVIRTUAL_QUEUE: &str = "__pv_queued_spin_lock_slowpath";

/// What was watched.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub cpus: Vec<u32>,
    pub processes: Vec<u32>,
    pub elapsed_ns: u64,
    pub lost_records: u64,
}

/// Sums the waits up by the functions that wanted the locks.
pub(super) fn report(
    waits: Closed,
    chains: &[Box<[u64]>],
    kernel: &KernelSymbols,
    watched: Watched,
) -> LockReport {
    let chains: Vec<Site> = chains.iter().map(|chain| Site::of(chain, kernel)).collect();
    let mut merged: HashMap<(Symbol, LockKind), Merged> = HashMap::new();
    for (place, sum) in waits.sums {
        let site = &chains[place.chain];
        let entry = merged
            .entry((site.function.clone(), LockKind::from_flags(place.flags)))
            .or_default();
        if let Some(caller) = &site.caller {
            *entry.callers.entry(caller.clone()).or_default() += sum.waits;
        }
        entry.sum.merge(sum);
    }
    let mut sites: Vec<LockSite> = merged
        .into_iter()
        .map(|((function, kind), merged)| merged.into_site(function, kind))
        .collect();
    sites.sort_by(|left, right| {
        let by_name = || (&left.function, left.kind).cmp(&(&right.function, right.kind));
        right.wait_total_ns.cmp(&left.wait_total_ns).then_with(by_name)
    });
    let spin_coverage = spin_coverage(&chains);
    LockReport {
        cpus: watched.cpus,
        processes: watched.processes,
        elapsed_ns: watched.elapsed_ns,
        waits: sites.iter().map(|site| site.count).sum(),
        wait_total_ns: sites.iter().map(|site| site.wait_total_ns).sum(),
        sites,
        elsewhere_waits: waits.elsewhere.waits,
        elsewhere_wait_total_ns: waits.elsewhere.wait_total_ns,
        lost_records: watched.lost_records,
        ends_without_begin: waits.ends_without_begin,
        begins_without_end: waits.begins_without_end,
        spin_coverage,
        unknown: ["max_ns", "total_ns", "avg_ns"]
            .map(|field| (field.to_owned(), HOLDING_UNKNOWN.to_owned()))
            .into(),
        notes: notes(kernel, spin_coverage),
    }
}

/// What a call chain tells.
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
        let queue =
            addresses[..wanting]
                .iter()
                .find_map(|address| match kernel.find(*address).function.as_str() {
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
    callers: BTreeMap<String, u64>,
}

impl Merged {
    fn into_site(self, function: Symbol, kind: LockKind) -> LockSite {
        let mut callers: Vec<LockCaller> = self
            .callers
            .into_iter()
            .map(|(function, count)| LockCaller { function, count })
            .collect();
        callers.sort_by_key(|caller| std::cmp::Reverse(caller.count));
        LockSite {
            function: function.function,
            image: function.image,
            kind,
            locks: self.sum.locks.len() as u64,
            callers,
            max_ns: None,
            wait_max_ns: self.sum.wait_max_ns,
            total_ns: None,
            wait_total_ns: self.sum.wait_total_ns,
            count: self.sum.waits,
            count_in_softirq: self.sum.waits_in_softirq,
            avg_ns: None,
            wait_avg_ns: self.sum.wait_total_ns / self.sum.waits.max(1),
        }
    }
}

fn spin_coverage(chains: &[Site]) -> SpinCoverage {
    let queues = || chains.iter().filter_map(|chain| chain.queue);
    if queues().any(|queue| queue == SpinCoverage::FromSecondWaiter) {
        SpinCoverage::FromSecondWaiter
    } else if queues().any(|queue| queue == SpinCoverage::Every) {
        SpinCoverage::Every
    } else {
        SpinCoverage::NoneSeen
    }
}

fn notes(kernel: &KernelSymbols, coverage: SpinCoverage) -> Vec<String> {
    let of_spinning = match coverage {
        SpinCoverage::Every => None,
        SpinCoverage::FromSecondWaiter => Some(
            "this kernel tells of waits for a spin lock from the second simultaneous waiter on; the first one's are in no \
             sum",
        ),
        SpinCoverage::NoneSeen => Some(
            "no wait for a spin lock was seen: there was none, or never two waiters at once, or this kernel takes spin \
             locks without the queue that tells of waits (a virtual machine without paravirtual spin locks)",
        ),
    };
    let hidden = kernel.hidden_because().map(str::to_owned);
    of_spinning.map(str::to_owned).into_iter().chain(hidden).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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

    fn sum(waits: u64, wait_total_ns: u64, locks: &[u64]) -> Sum {
        Sum {
            waits,
            waits_in_softirq: waits,
            wait_total_ns,
            wait_max_ns: 2_500,
            locks: HashSet::from_iter(locks.iter().copied()),
        }
    }

    fn sample_report() -> LockReport {
        let chains: [Box<[u64]>; 3] = [
            [KERNEL, 0x21010, 0x20010, 0x1010, 0x2010].into(),
            [KERNEL, 0x21020, 0x20010, 0x1020, 0x2010].into(),
            [KERNEL, 0x10010, 0x3010, 0x4010].into(),
        ];
        let place = |chain, flags| Place { chain, flags };
        let waits = Closed {
            sums: HashMap::from([
                (place(0, 1), sum(3, 6_000, &[1])),
                (place(1, 1), sum(1, 2_500, &[1])),
                (place(2, 33), sum(1, 100, &[2])),
                (place(2, 32), sum(1, 900, &[2])),
            ]),
            elsewhere: sum(4, 70_000, &[3]),
            ends_without_begin: 1,
            begins_without_end: 2,
        };
        let watched = Watched {
            cpus: vec![0, 1],
            processes: vec![7],
            elapsed_ns: 1_000_000,
            lost_records: 0,
        };
        report(waits, &chains, &KernelSymbols::parse(SYMBOLS), watched)
    }

    #[test]
    fn waits_are_summed_by_the_function_outside_the_locking_code() {
        let expected = "\
max  wait_max  total  wait_total  count  avg  wait_avg  name
 us        us     us          us          us        us
  -       2.5      -         8.5      4    -       2.1  __udp_enqueue_schedule_skb (spin lock) < udp_queue_rcv_one_skb
  -       2.5      -         1.0      2    -       0.5  pipe_write (mutex) < vfs_write
";
        let report = sample_report();
        assert_eq!(report.table(9).render(130), expected);
        assert_eq!((report.waits, report.wait_total_ns), (6, 9_500));
        assert_eq!(
            (report.elsewhere_waits, report.elsewhere_wait_total_ns),
            (4, 70_000)
        );
        assert_eq!(report.sites[0].locks, 1);
        assert!((report.receive_lock_percent() - 0.425).abs() < 1e-9);
    }

    #[test]
    fn a_kernel_that_queues_every_waiter_is_recognised_by_its_queue() {
        let report = sample_report();
        assert_eq!(report.spin_coverage, SpinCoverage::Every);
        assert!(report.notes.is_empty(), "{:?}", report.notes);
        let none: [Box<[u64]>; 1] = [[KERNEL, 0x10010, 0x3010].into()];
        let watched = Watched {
            cpus: vec![0],
            processes: Vec::new(),
            elapsed_ns: 1,
            lost_records: 0,
        };
        let report = super::report(Closed::default(), &none, &KernelSymbols::parse(SYMBOLS), watched);
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
