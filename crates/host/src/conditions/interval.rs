//! Conditions of an interval, such as a trial: the CPU time that other programs used meanwhile.

use std::time::Duration;

use super::load::{END_OTHERS, about_load, about_steal, stolen};
use super::{Condition, Severity};
use crate::counters::CpuTimes;

/// Evaluates what the CPUs `spent` between two readings. `own` is the CPU time that the measured processes used in
/// between ([`ProcessCpu`](crate::counters::ProcessCpu) of each, summed).
///
/// See [`CpuTimes::others_share`] for what counts. Readings less than a second apart are coarse, because the kernel counts
/// ticks of 10 ms.
pub fn during(spent: &CpuTimes, own: Duration) -> Vec<Condition> {
    const SOURCE: &str = "/proc/stat, before and after";
    let share = spent.others_share(spent.cpus.keys(), own);
    let others = share.unwrap_or_default() * spent.cpus.len() as f64;
    // The daemons of an idle machine together use less than a tenth of a CPU; a fiftieth is worth reporting.
    let crowded = Severity::from_bounds(others, 0.1, 0.02);
    let steal_share = (spent.total().steal_share()).ok_or("no CPU time passed between the two readings");
    let load = steal_share.map(|_| (format!("{others:.2} CPUs"), crowded));
    let steal = steal_share.map(|share| (format!("{:.2} % of CPU time", share * 100.0), stolen(share)));
    vec![
        about_load("load from others during", SOURCE, END_OTHERS).found(load),
        about_steal("steal during", SOURCE).found(steal),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(user: u64, idle: u64, softirq: u64, steal: u64) -> CpuTimes {
        let text = format!("cpu0 {user} 0 0 {idle} 0 0 {softirq} {steal}\ncpu1 0 0 0 {idle} 0 0 0 0\n");
        CpuTimes::parse(&text, 100).unwrap()
    }

    fn severities(spent: &CpuTimes, own: Duration) -> Vec<Severity> {
        during(spent, own)
            .iter()
            .map(|condition| condition.severity)
            .collect()
    }

    #[test]
    fn ones_own_time_and_interrupts_are_not_held_against_others() {
        let spent = reading(500, 1000, 500, 0);
        assert_eq!(
            severities(&spent, Duration::from_secs(5)),
            [Severity::Fine, Severity::Fine]
        );
    }

    #[test]
    fn time_of_others_and_stolen_time_spoil() {
        let spent = reading(500, 1000, 0, 100);
        let conditions = during(&spent, Duration::from_secs(1));
        let values: Vec<_> = conditions
            .iter()
            .map(|condition| (condition.value.as_deref().unwrap(), condition.severity))
            .collect();
        assert_eq!(
            values,
            [
                ("0.31 CPUs", Severity::Spoils),
                ("3.85 % of CPU time", Severity::Spoils)
            ]
        );
    }

    #[test]
    fn no_time_is_unknown() {
        for condition in during(&reading(0, 0, 0, 0), Duration::ZERO) {
            assert_eq!(condition.value, None);
            assert!(condition.unknown_because.is_some());
        }
    }
}
