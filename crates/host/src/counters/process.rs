//! CPU time and context switches of one process, by process id.

use corelane_measure::counters::Counters;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::cpu_times::ticks_a_second;
use super::kernel::kernel_counters;
use crate::HostError;
use crate::tree::{Tree, field};

kernel_counters! {
    /// How often a thread was switched out.
    pub struct Switches {
        /// Voluntarily, to wait for something.
        voluntary: "voluntary_ctxt_switches",
        /// Involuntarily, preempted by the scheduler.
        involuntary: "nonvoluntary_ctxt_switches",
    }
}

impl Switches {
    /// Reads the sum of the switches of every living thread of `process`. The count of an ended thread is lost.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] if there is no such process, or it ended while it was read.
    pub fn read(process: u32) -> Result<Self, HostError> {
        let tree = Tree::machine();
        let directory = format!("/proc/{process}/task");
        let mut sum = Self::default();
        for thread in tree.numbers(&directory, "")? {
            // A thread may end between listing and reading while the process continues.
            if let Ok(status) = tree.text(&format!("{directory}/{thread}/status")) {
                sum.add(&Self::parse(&status)?);
            }
        }
        Ok(sum)
    }

    /// Parses the text of one thread's `status` file (`proc_pid_status(5)`).
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] if either line is missing.
    pub fn parse(status: &str) -> Result<Self, HostError> {
        let number = |name: &str| {
            let missing = || HostError::missing("/proc/PID/task/TID/status", name);
            let number = field(status, name).and_then(|number| number.parse().ok());
            number.ok_or_else(missing)
        };
        Ok(Self {
            voluntary: number("voluntary_ctxt_switches")?,
            involuntary: number("nonvoluntary_ctxt_switches")?,
        })
    }
}

kernel_counters! {
    /// The CPU time of a process: all its threads, ended ones included.
    ///
    /// Interrupts that a CPU serves while the process runs on it are charged to the process, unless the kernel accounts
    /// for them separately (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub struct ProcessCpu {
        /// User time. The resolution is one tick (10 ms).
        user_ns: "utime",
        /// Kernel time. The resolution is one tick (10 ms).
        system_ns: "stime",
        /// Total time, exact to the nanosecond.
        total_ns: "sum_exec_runtime",
    }
}

impl ProcessCpu {
    /// Reads the CPU time of `process`: the sum from its CPU clock (`clock_getcpuclockid(3)`), the parts from
    /// `/proc/PID/stat`.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] or [`HostError::Read`] if there is no such process.
    pub fn read(process: u32) -> Result<Self, HostError> {
        let text = Tree::machine().text(&format!("/proc/{process}/stat"))?;
        Ok(Self {
            total_ns: total_ns(process)?,
            ..Self::parse(&text, ticks_a_second())?
        })
    }

    /// Parses the text of `/proc/PID/stat` (`proc_pid_stat(5)`): `utime` and `stime` are the 14th and 15th field, in
    /// ticks. The total is the sum of the two and as coarse as they are.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] if the fields are missing.
    pub fn parse(text: &str, ticks_a_second: u64) -> Result<Self, HostError> {
        let malformed = || HostError::format("/proc/PID/stat", "the times in fields 14 and 15", text);
        let [user_ns, system_ns, ..] = times(text, ticks_a_second).ok_or_else(malformed)?;
        Ok(Self {
            user_ns,
            system_ns,
            total_ns: user_ns.saturating_add(system_ns),
        })
    }
}

/// The CPU clock of a process (`clock_getcpuclockid(3)`).
pub(super) fn total_ns(process: u32) -> Result<u64, HostError> {
    let time = ClockId::pid_cpu_clock_id(Pid::from_raw(process.cast_signed()))
        .and_then(clock_gettime)
        .map_err(HostError::process(process, "CPU time"))?;
    Ok(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

/// The fields of `/proc/PID/stat` from the third on. The second is the program's name in parentheses, which may itself
/// contain blanks and parentheses.
pub(crate) fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    let (_, after_name) = stat.rsplit_once(')').unwrap_or_default();
    after_name.split_whitespace()
}

/// User and system time of a process, and of its descendants that ended and were waited for, in nanoseconds: the fields 14
/// to 17 of `/proc/PID/stat` in ticks.
pub(crate) fn times(stat: &str, ticks_a_second: u64) -> Option<[u64; 4]> {
    let tick_ns = 1_000_000_000 / ticks_a_second.max(1);
    let ticks = after_name(stat).skip(11).map(|field| field.parse::<u64>().ok());
    let times: Option<Vec<u64>> = ticks.take(4).map(|ticks| ticks?.checked_mul(tick_ns)).collect();
    times?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn switches_of_a_thread_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let switches = Switches::parse(status).unwrap();
        assert_eq!((switches.voluntary, switches.involuntary), (150, 545));
        assert!(Switches::parse("voluntary_ctxt_switches:\t1\n").is_err());
    }

    #[test]
    fn waiting_counts_as_a_voluntary_switch_of_the_process() {
        // A process with one thread: the count of a thread that ends is lost, as threads of this test program do.
        let pipes = || Stdio::piped();
        let mut cat = Command::new("cat")
            .stdin(pipes())
            .stdout(pipes())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let before = Switches::read(cat.id()).unwrap();
        let mut echoed = [0; 2];
        // It need not wait for a line that was there before it read.
        corelane_tests::until("the process waited for a line", || {
            input.write_all(b"a\n").unwrap();
            output.read_exact(&mut echoed).unwrap();
            Switches::read(cat.id()).unwrap().since(&before).voluntary >= 1
        });
        drop(input);
        assert!(cat.wait().unwrap().success());
    }

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let text = "77 (a) b) c) S 1 77 77 0 -1 4194560 1 2 3 4 250 13 0 0 20 0 1 0 100 0 0";
        let times = ProcessCpu::parse(text, 100).unwrap();
        assert_eq!((times.user_ns, times.system_ns), (2_500_000_000, 130_000_000));
        assert!(ProcessCpu::parse("77 (a) S 1", 100).is_err());
    }

    #[test]
    fn the_clock_of_this_process_advances_by_what_it_burns() {
        let process = std::process::id();
        let before = ProcessCpu::read(process).unwrap();
        let mut after = before;
        while after.since(&before).total_ns < 2_000_000 {
            after = ProcessCpu::read(process).unwrap();
        }
        assert!(after.total_ns > before.total_ns);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(ProcessCpu::read(u32::MAX).is_err());
        assert!(Switches::read(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-z() ]{0,80}", ticks: u64) {
            let _ = (ProcessCpu::parse(&text, ticks), Switches::parse(&text));
        }
    }
}
