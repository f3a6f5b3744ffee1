//! Conditions caused by other programs or by the hypervisor: current load, and stolen time so far.

use super::condition::{About, Condition, Severity};
use crate::counters::CpuTimes;
use crate::tree::Tree;

/// A load average at or above this means that more than half a CPU was busy over the last minute. It includes earlier
/// trials, so load that has ended explains rather than spoils.
const LOADED: f64 = 0.5;

/// The fix for current load.
pub(super) const END_OTHERS: &str = "stop other programs; top lists them";

pub(super) fn conditions(tree: &Tree) -> [Condition; 2] {
    let (load, fix) = load(tree);
    let times = CpuTimes::read_in(tree).map_err(|error| error.to_string());
    let steal = times.and_then(|times| {
        let share = times
            .total()
            .steal_share()
            .ok_or("no CPU time is accounted for")?;
        let value = format!("{:.2} % of CPU time since the machine started", share * 100.0);
        Ok((value, stolen(share)))
    });
    [
        about_load("load from others", "/proc/loadavg, /proc/stat procs_running", fix).found(load),
        about_steal("steal", "/proc/stat, since the machine started").found(steal),
    ]
}

fn load(tree: &Tree) -> (Result<(String, Severity), String>, &'static str) {
    let text = tree.text("/proc/loadavg").unwrap_or_default();
    let average = text.split_whitespace().next();
    let stat = tree.text("/proc/stat").unwrap_or_default();
    let running = stat.lines().find_map(|line| line.strip_prefix("procs_running "));
    let numbers = average.zip(running);
    let numbers = numbers.and_then(|(average, running)| {
        Some((average.parse::<f64>().ok()?, running.trim().parse::<u64>().ok()?))
    });
    let Some((average, running)) = numbers else {
        let because = "no load average or no count of running threads";
        return (Err(because.to_owned()), "");
    };
    // One of the running threads is the reader itself.
    let others = running.saturating_sub(1);
    let value = format!("load average {average:.2} over one minute, {others} other threads running now");
    let (severity, fix) = match (average >= LOADED, others > 0) {
        (true, true) => (Severity::Spoils, END_OTHERS),
        (true, false) => (Severity::Explains, "wait until the load average has dropped"),
        _ => (Severity::Fine, ""),
    };
    (Ok((value, severity)), fix)
}

/// The common parts for load at one moment and during an interval.
pub(super) fn about_load<'a>(name: &'a str, source: &'a str, fix: &'a str) -> About<'a> {
    About {
        name,
        source,
        why: "other programs use CPU time and cache that the measurement needs",
        fix,
    }
}

/// The common parts for time stolen so far and during an interval.
pub(super) fn about_steal<'a>(name: &'a str, source: &'a str) -> About<'a> {
    About {
        name,
        source,
        why: "the hypervisor withheld this CPU time while threads were ready to run",
        fix: "use a machine with dedicated CPUs, or measure when the host is less busy",
    }
}

/// One percent of stolen time is as large as the effects being measured; 0.1 % is worth reporting.
pub(super) fn stolen(share: f64) -> Severity {
    Severity::from_bounds(share, 0.01, 0.001)
}
