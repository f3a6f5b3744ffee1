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

/// Sums the waits up by the functions that wanted the locks.
pub(super) fn report(
    waits: Closed,
    kernel: &KernelSymbols,
    cpus: Vec<u32>,
    elapsed_ns: u64,
    lost_records: u64,
) -> LockReport {
    let chains: Vec<Site> = waits.chains.iter().map(|chain| Site::of(chain, kernel)).collect();
    let mut merged: HashMap<(Symbol, LockKind), Merged> = HashMap::new();
    for ((chain, flags), sum) in waits.sums {
        let site = &chains[chain];
        let entry = merged
            .entry((site.function.clone(), LockKind::from_flags(flags)))
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
        cpus,
        elapsed_ns,
        waits: sites.iter().map(|site| site.count).sum(),
        wait_total_ns: sites.iter().map(|site| site.wait_total_ns).sum(),
        sites,
        lost_records,
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
