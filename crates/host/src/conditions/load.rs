//! Conditions that others on this machine, or on the machine beneath it, cause: load now, and stolen time so far.

use super::{Condition, Severity};
use crate::counters::CpuTimes;
use crate::tree::Tree;

/// A load average from which on more than half a CPU was busy over the last minute. Trials of the minute before count
/// too, which is why load that has ended explains rather than spoils.
const LOADED: f64 = 0.5;

pub(super) fn conditions(tree: &Tree) -> Vec<Condition> {
    match CpuTimes::read_in(tree) {
        Ok(times) => vec![load(tree, &times), steal(&times)],
        Err(error) => vec![
            Condition::unknown("load from others", &error, "/proc/stat", LOAD_WHY),
            Condition::unknown("steal", &error, "/proc/stat", STEAL_WHY),
        ],
    }
}

/// Why other load matters; said by the conditions of an interval too.
pub(super) const LOAD_WHY: &str = "other programs take CPU time and cache from what is measured";
/// Why stolen time matters; said by the conditions of an interval too.
pub(super) const STEAL_WHY: &str =
    "the hypervisor took this time from the machine while something wanted to run";

fn load(tree: &Tree, times: &CpuTimes) -> Condition {
    const NAME: &str = "load from others";
    const SOURCE: &str = "/proc/loadavg, /proc/stat procs_running";
    let average = tree
        .text("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let (Some(average), Some(running)) = (average, times.running_now) else {
        return Condition::unknown(
            NAME,
            "no load average or no count of running threads",
            SOURCE,
            LOAD_WHY,
        );
    };
    // One of those that run is the reader itself.
    let others = running.saturating_sub(1);
    let condition = Condition::known(
        NAME,
        format!("load average {average:.2} over one minute, {others} other threads running now"),
        SOURCE,
        LOAD_WHY,
    );
    match (average >= LOADED, others > 0) {
        (true, true) => condition.rated(Severity::Spoils, "end what else runs; top names it"),
        (true, false) => condition.rated(Severity::Explains, "wait until what ran before has ended"),
        _ => condition,
    }
}

fn steal(times: &CpuTimes) -> Condition {
    const NAME: &str = "steal";
    const SOURCE: &str = "/proc/stat, since the machine started";
    match times.total().steal_share() {
        Some(share) => {
            let value = format!("{:.2} % of CPU time since the machine started", share * 100.0);
            let condition = Condition::known(NAME, value, SOURCE, STEAL_WHY);
            match stolen(share) {
                Severity::Fine => condition,
                severity => condition.rated(severity, STEAL_MEND),
            }
        }
        None => Condition::unknown(NAME, "no CPU time is accounted for", SOURCE, STEAL_WHY),
    }
}

/// What mends stolen time.
pub(super) const STEAL_MEND: &str = "a machine with CPUs of its own, or a quieter hour";

/// A hundredth of the time stolen is the size of effects that are looked for; a thousandth is worth knowing.
pub(super) fn stolen(share: f64) -> Severity {
    if share >= 0.01 {
        Severity::Spoils
    } else if share >= 0.001 {
        Severity::Explains
    } else {
        Severity::Fine
    }
}
