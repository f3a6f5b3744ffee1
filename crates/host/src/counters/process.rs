//! What one process cost: CPU time and context switches, of this machine's processes by number.

use std::collections::BTreeMap;
use std::io;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::counters;
use super::cpu_times::ticks_a_second;
use crate::HostError;
use crate::tree::Tree;

counters! {
    /// How often a thread gave up its CPU.
    pub struct Switches {
        /// Because it waited for something.
        voluntary: "voluntary_ctxt_switches",
        /// Because the scheduler gave the CPU to another.
        involuntary: "nonvoluntary_ctxt_switches",
    }
}

/// The context switches of the living threads of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSwitches {
    /// Thread id to its switches. A thread that ended takes its count with it.
    pub threads: BTreeMap<u32, Switches>,
}

impl ContextSwitches {
    /// Reads the switches of every living thread of `process`.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] when there is no such process, or it ended while it was read.
    pub fn read(process: u32) -> Result<Self, HostError> {
        let tree = Tree::machine();
        let directory = format!("/proc/{process}/task");
        let mut threads = BTreeMap::new();
        for name in tree.names(&directory)? {
            // A thread may end between the listing and the reading; the process goes on.
            if let (Ok(thread), Ok(status)) = (name.parse(), tree.text(&format!("{directory}/{name}/status")))
            {
                threads.insert(thread, Self::parse(&status)?);
            }
        }
        Ok(Self { threads })
    }

    /// Reads the text of one thread's `status` file (`proc_pid_status(5)`).
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] when either line is not there.
    pub fn parse(status: &str) -> Result<Switches, HostError> {
        let line = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
        };
        for name in ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"] {
            if line(name).is_none() {
                return Err(HostError::Missing {
                    place: "/proc/PID/task/TID/status",
                    what: name.to_owned(),
                });
            }
        }
        Ok(Switches::by_name(line))
    }

    /// What happened after `earlier` to the threads that live now; threads new since count whole.
    pub fn since(&self, earlier: &Self) -> Self {
        let threads = self
            .threads
            .iter()
            .map(|(thread, now)| match earlier.threads.get(thread) {
                Some(then) => (*thread, now.since(then)),
                None => (*thread, *now),
            })
            .collect();
        Self { threads }
    }

    /// All threads together.
    pub fn total(&self) -> Switches {
        self.threads
            .values()
            .fold(Switches::default(), |sum, thread| sum.plus(thread))
    }
}

counters! {
    /// The CPU time of a process, all its threads, those that ended included.
    ///
    /// Interrupts that a CPU served while the process ran on it are charged to it where the kernel does not account for
    /// them apart (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub struct ProcessCpu {
        /// In its program. As exact as a tick (10 ms).
        user_ns: "utime",
        /// In the kernel on its behalf. As exact as a tick (10 ms).
        system_ns: "stime",
        /// Both together, exact to the nanosecond.
        total_ns: "sum_exec_runtime",
    }
}

impl ProcessCpu {
    /// Reads the CPU time of `process`: the sum from its CPU clock (`clock_getcpuclockid(3)`), the parts from
    /// `/proc/PID/stat`.
    ///
    /// # Errors
    ///
    /// [`HostError::Process`] or [`HostError::Read`] when there is no such process.
    pub fn read(process: u32) -> Result<Self, HostError> {
        let text = Tree::machine().text(&format!("/proc/{process}/stat"))?;
        let parts = Self::parse(&text, ticks_a_second())?;
        let failed = |cause: io::Error| HostError::Process {
            process,
            what: "CPU time",
            cause,
        };
        let number = i32::try_from(process).map_err(|error| failed(io::Error::other(error)))?;
        let time = ClockId::pid_cpu_clock_id(Pid::from_raw(number))
            .and_then(clock_gettime)
            .map_err(|errno| failed(errno.into()))?;
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec()).unwrap_or(0);
        Ok(Self {
            total_ns: seconds * 1_000_000_000 + nanoseconds,
            ..parts
        })
    }

    /// Reads the text of `/proc/PID/stat` (`proc_pid_stat(5)`): `utime` and `stime` are the 14th and 15th field, in ticks.
    /// The second field is the program's name in parentheses and may hold blanks and parentheses itself. The sum is that
    /// of the two parts, as coarse as they are.
    ///
    /// # Errors
    ///
    /// [`HostError::Format`] when the fields are not there.
    pub fn parse(text: &str, ticks_a_second: u64) -> Result<Self, HostError> {
        let malformed = || HostError::format("/proc/PID/stat", "the times in fields 14 and 15", text);
        let (_, after_name) = text.rsplit_once(')').ok_or_else(malformed)?;
        let tick_ns = 1_000_000_000 / ticks_a_second.max(1);
        let mut fields = after_name.split_whitespace().skip(11).map(|field| {
            let ticks: u64 = field.parse().ok()?;
            ticks.checked_mul(tick_ns)
        });
        let mut next = || fields.next().flatten().ok_or_else(malformed);
        let (user_ns, system_ns) = (next()?, next()?);
        Ok(Self {
            user_ns,
            system_ns,
            total_ns: user_ns.saturating_add(system_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn switches_of_a_thread_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let switches = ContextSwitches::parse(status).unwrap();
        assert_eq!((switches.voluntary, switches.involuntary), (150, 545));
        assert!(ContextSwitches::parse("voluntary_ctxt_switches:\t1\n").is_err());
    }

    #[test]
    fn a_new_thread_counts_whole_and_an_ended_one_not_at_all() {
        let of = |entries: &[(u32, u64)]| ContextSwitches {
            threads: entries
                .iter()
                .map(|(thread, voluntary)| {
                    let switches = Switches {
                        voluntary: *voluntary,
                        involuntary: 0,
                    };
                    (*thread, switches)
                })
                .collect(),
        };
        let between = of(&[(2, 30), (3, 5)]).since(&of(&[(1, 100), (2, 10)]));
        assert_eq!(between, of(&[(2, 20), (3, 5)]));
        assert_eq!(between.total().voluntary, 25);
    }

    #[test]
    fn waiting_counts_as_a_voluntary_switch_of_this_process() {
        let process = std::process::id();
        let before = ContextSwitches::read(process).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (started, start) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            started.send(()).unwrap();
            receiver.recv().unwrap();
            ContextSwitches::read(process).unwrap()
        });
        start.recv().unwrap();
        sender.send(()).unwrap();
        let after = waiting.join().unwrap();
        assert!(after.since(&before).total().voluntary >= 1);
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
        assert!(ContextSwitches::read(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "[0-9a-z() ]{0,80}", ticks: u64) {
            let _ = (ProcessCpu::parse(&text, ticks), ContextSwitches::parse(&text));
        }
    }
}
