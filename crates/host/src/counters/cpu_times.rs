//! The CPU time of each CPU by category.

use std::collections::BTreeMap;
use std::time::Duration;

use corelane_measure::counters;
use corelane_measure::counters::Counters;
use nix::unistd::{SysconfVar, sysconf};

use super::kernel::kernel_counters;
use crate::HostError;
use crate::tree::Tree;

pub(crate) const STAT: &str = "/proc/stat";
const NANOSECONDS_A_SECOND: u64 = 1_000_000_000;

kernel_counters! {
    /// The time of one or more CPUs, in nanoseconds. The kernel counts ticks of `USER_HZ`, a hundredth of a second on
    /// every common architecture, so short intervals are coarse.
    pub struct CpuTime {
        /// User time, guests of a hypervisor included.
        user_ns: "user",
        /// User time at lowered priority.
        nice_ns: "nice",
        /// Kernel time on behalf of programs.
        system_ns: "system",
        /// Idle time.
        idle_ns: "idle",
        /// Idle time with disk I/O pending.
        iowait_ns: "iowait",
        /// Time in interrupt handlers.
        irq_ns: "irq",
        /// Time in softirqs, mainly the network receive path.
        softirq_ns: "softirq",
        /// Time that the hypervisor gave to other guests.
        steal_ns: "steal",
    }
}

impl CpuTime {
    /// The total time, idle and stolen time included.
    pub fn total_ns(&self) -> u64 {
        self.idle_ns + self.iowait_ns + self.steal_ns + self.busy_ns()
    }

    /// The time that was not idle.
    pub fn busy_ns(&self) -> u64 {
        self.user_ns + self.nice_ns + self.system_ns + self.irq_ns + self.softirq_ns
    }

    /// The idle share, 0 to 1; `None` if no time passed.
    pub fn idle_share(&self) -> Option<f64> {
        self.share(self.idle_ns + self.iowait_ns)
    }

    /// The softirq share, 0 to 1; `None` if no time passed.
    pub fn softirq_share(&self) -> Option<f64> {
        self.share(self.softirq_ns)
    }

    /// The stolen share, 0 to 1; `None` if no time passed.
    pub fn steal_share(&self) -> Option<f64> {
        self.share(self.steal_ns)
    }

    fn share(&self, part_ns: u64) -> Option<f64> {
        let total = self.total_ns();
        (total > 0).then(|| part_ns as f64 / total as f64)
    }
}

counters! {
    /// The times of all CPUs online.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CpuTimes {
        /// By id.
        pub cpus: BTreeMap<u32, CpuTime>,
    }
}

impl CpuTimes {
    /// Reads the times of this machine since it started.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] if `/proc` is not mounted, [`HostError::Failed`] if the file is not as documented.
    pub fn read() -> Result<Self, HostError> {
        Self::read_in(&Tree::machine())
    }

    pub(crate) fn read_in(tree: &Tree) -> Result<Self, HostError> {
        Self::parse(&tree.text(STAT)?, ticks_a_second())
    }

    /// Parses the text of `/proc/stat` (`proc_stat(5)`), whose numbers are ticks.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] for a CPU line with fewer than eight numbers.
    pub fn parse(text: &str, ticks_a_second: u64) -> Result<Self, HostError> {
        let mut times = Self::default();
        let tick_ns = NANOSECONDS_A_SECOND / ticks_a_second.max(1);
        for line in text.lines() {
            let numbered = line.strip_prefix("cpu");
            if let Some(numbered) = numbered.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
                let (cpu, time) = cpu_line(numbered, tick_ns)
                    .ok_or_else(|| HostError::format(STAT, "a CPU and eight numbers", line))?;
                times.cpus.insert(cpu, time);
            }
        }
        Ok(times)
    }

    /// The share of the time of some CPUs that programs used beyond `own`; these are the times of an interval
    /// ([`since`](Counters::since)). `None` if no time passed.
    ///
    /// An estimate that is rather too low. Interrupt time is not counted for programs, because most of it serves the
    /// experiment's own frames, although `own` contains some. A tick's error is subtracted as well: the errors of CPUs
    /// are independent, so their sum grows with the square root of the number of CPUs.
    pub fn others_share<'a>(&self, cpus: impl IntoIterator<Item = &'a u32>, own: Duration) -> Option<f64> {
        let times: Vec<&CpuTime> = cpus.into_iter().filter_map(|cpu| self.cpus.get(cpu)).collect();
        let time = CpuTime::sum(times.iter().copied());
        let programs_ns = (time.user_ns + time.nice_ns + time.system_ns) as f64;
        let tick_ns = NANOSECONDS_A_SECOND as f64 / ticks_a_second() as f64;
        let error_ns = (times.len() as f64).sqrt() * tick_ns;
        let total_ns = time.total_ns();
        (total_ns > 0).then(|| (programs_ns - error_ns - own.as_nanos() as f64).max(0.0) / total_ns as f64)
    }

    /// The sum over all CPUs.
    pub fn total(&self) -> CpuTime {
        Counters::sum(self.cpus.values())
    }
}

/// The unit of `/proc/stat` and `/proc/PID/stat`: `sysconf(_SC_CLK_TCK)`, 100 where the system does not say.
pub(crate) fn ticks_a_second() -> u64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(100)
}

fn cpu_line(numbered: &str, tick_ns: u64) -> Option<(u32, CpuTime)> {
    let mut words = numbered.split_whitespace();
    let cpu = words.next()?.parse().ok()?;
    let nanoseconds = words.map(|word| word.parse::<u64>().ok()?.checked_mul(tick_ns));
    Some((cpu, CpuTime::in_order(nanoseconds)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
cpu  13125 0 2225 125146 470 0 25 9 0 0
cpu0 6349 0 876 63260 20 1 7 2 0 0
cpu3 10 20 30 40 50 60 70 80 5 0
intr 168072 0 0
procs_running 3
procs_blocked 0
";

    #[test]
    fn ticks_become_nanoseconds_of_each_cpu() {
        let times = CpuTimes::parse(TEXT, 100).unwrap();
        assert_eq!(times.cpus.len(), 2);
        let time = times.cpus[&3];
        assert_eq!((time.user_ns, time.steal_ns), (100_000_000, 800_000_000));
        assert_eq!(time.total_ns(), 3_600_000_000);
        assert_eq!(time.busy_ns(), 1_900_000_000);
        assert_eq!(times.total().user_ns, 63_590_000_000);
    }

    #[test]
    fn shares_of_an_interval_add_up() {
        let earlier = CpuTimes::parse("cpu0 100 0 100 100 0 0 100 0\n", 100).unwrap();
        let later = CpuTimes::parse("cpu0 110 0 120 150 5 0 110 5\n", 100).unwrap();
        let time = later.since(&earlier).cpus[&0];
        assert_eq!(time.busy_ns() * 10, time.total_ns() * 4);
        assert_eq!(time.idle_share(), Some(0.55));
        assert_eq!(time.softirq_share(), Some(0.1));
        assert_eq!(time.steal_share(), Some(0.05));
    }

    #[test]
    fn others_have_what_programs_used_beyond_ones_own_time_and_the_error_of_ticks() {
        let tick = 1_000 / ticks_a_second();
        let text = "cpu0 500 0 0 500 0 0 1000 0\ncpu1 0 100 0 1900 0 0 0 0\ncpu2 2000 0 0 0 0 0 0 0\n";
        let times = CpuTimes::parse(text, 1_000).unwrap();
        let share = |cpus: &[u32], own| times.others_share(cpus, Duration::from_millis(own));
        let expected = (500 - tick) as f64 / 2_000.0;
        assert_eq!((share(&[0], 0), share(&[0], 600)), (Some(expected), Some(0.0)));
        let of_two = share(&[0, 1], 100).unwrap();
        assert!(
            (of_two - (500.0 - 2_f64.sqrt() * tick as f64) / 4_000.0).abs() < 1e-9,
            "{of_two}"
        );
        assert_eq!(share(&[7], 0), None);
    }

    #[test]
    fn no_time_has_no_shares() {
        assert_eq!(CpuTime::default().idle_share(), None);
    }

    #[test]
    fn a_short_line_is_an_error() {
        assert!(CpuTimes::parse("cpu0 1 2 3\n", 100).is_err());
        assert!(CpuTimes::parse("cpu0 1 2 3 4 5 6 7 18446744073709551615\n", 100).is_err());
    }

    #[test]
    fn this_machine_accounts_for_every_cpu_this_process_may_use() {
        let times = CpuTimes::read().unwrap();
        for cpu in crate::cpus::allowed().unwrap().cpus {
            assert!(times.cpus[&cpu].total_ns() > 0);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(cpu[0-9 ]{0,60}\n){0,4}", ticks: u64) {
            let _ = CpuTimes::parse(&text, ticks);
        }
    }
}
