//! Conditions of an interval, such as a trial: what others took of the CPUs while it ran.

use std::time::Duration;

use super::load::{LOAD_WHY, STEAL_MEND, STEAL_WHY, stolen};
use super::{Condition, Severity};
use crate::counters::CpuTimes;

/// Judges the time between two readings of the CPUs. `own` is the CPU time that the measured processes used in between
/// ([`ProcessCpu`](crate::counters::ProcessCpu) of each, summed).
///
/// Interrupt work is nobody's and is not held against others: most of it is the experiment's own frames. Readings less
/// than a second apart are coarse, since the kernel counts ticks of 10 ms.
pub fn during(earlier: &CpuTimes, later: &CpuTimes, own: Duration) -> Vec<Condition> {
    const SOURCE: &str = "/proc/stat, before and after";
    let time = later.since(earlier).total();
    let cpus = later.cpus.len() as f64;
    let own_ns = u64::try_from(own.as_nanos()).unwrap_or(u64::MAX);
    let (Some(steal_share), true) = (time.steal_share(), time.total_ns() > 0) else {
        const BECAUSE: &str = "no CPU time passed between the two readings";
        return vec![
            Condition::unknown("load from others during", BECAUSE, SOURCE, LOAD_WHY),
            Condition::unknown("steal during", BECAUSE, SOURCE, STEAL_WHY),
        ];
    };
    let programs_ns = time.user_ns + time.nice_ns + time.system_ns;
    let others = programs_ns.saturating_sub(own_ns) as f64 / time.total_ns() as f64 * cpus;
    let load = Condition::known(
        "load from others during",
        format!("{others:.2} CPUs"),
        SOURCE,
        LOAD_WHY,
    );
    let steal = Condition::known(
        "steal during",
        format!("{:.2} % of CPU time", steal_share * 100.0),
        SOURCE,
        STEAL_WHY,
    );
    vec![
        match crowded(others) {
            Severity::Fine => load,
            severity => load.rated(severity, "end what else runs; top names it"),
        },
        match stolen(steal_share) {
            Severity::Fine => steal,
            severity => steal.rated(severity, STEAL_MEND),
        },
    ]
}

/// A tenth of a CPU is more than daemons of an idle machine take together; a fiftieth is worth knowing.
fn crowded(others: f64) -> Severity {
    if others >= 0.1 {
        Severity::Spoils
    } else if others >= 0.02 {
        Severity::Explains
    } else {
        Severity::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(user: u64, idle: u64, softirq: u64, steal: u64) -> CpuTimes {
        let text = format!("cpu0 {user} 0 0 {idle} 0 0 {softirq} {steal}\ncpu1 0 0 0 {idle} 0 0 0 0\n");
        CpuTimes::parse(&text, 100).unwrap()
    }

    fn severities(later: &CpuTimes, own: Duration) -> Vec<Severity> {
        during(&reading(0, 0, 0, 0), later, own)
            .iter()
            .map(|condition| condition.severity)
            .collect()
    }

    #[test]
    fn ones_own_time_and_interrupts_are_not_held_against_others() {
        let later = reading(500, 1000, 500, 0);
        assert_eq!(
            severities(&later, Duration::from_secs(5)),
            [Severity::Fine, Severity::Fine]
        );
    }

    #[test]
    fn time_of_others_and_stolen_time_spoil() {
        let later = reading(500, 1000, 0, 100);
        let conditions = during(&reading(0, 0, 0, 0), &later, Duration::from_secs(1));
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
        let reading = reading(1, 1, 1, 1);
        for condition in during(&reading, &reading, Duration::ZERO) {
            assert_eq!(condition.value, None);
            assert!(condition.unknown_because.is_some());
        }
    }
}
