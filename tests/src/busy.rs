//! Tests beside other work: waiting without a limit that a busy machine exceeds, and repeating what other work disturbed.

use corelane_host::counters::{CpuTimes, Softnet, UdpStatistics};
use corelane_measure::counters::Counters;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A time within which a correct program has done anything that a test waits for, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a disturbed test is repeated.
const ATTEMPTS: usize = 6;

/// The share of the CPUs' time above which the work of other programs may decide a measurement.
const MOST_OTHERS_SHARE: f64 = 0.1;

/// The share of the CPUs' time above which what the hypervisor took may decide a measurement.
const MOST_STEAL_SHARE: f64 = 0.02;

/// A pause of the machine that may decide a measurement.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Waits until something holds, [`PATIENCE`] at most.
///
/// # Panics
/// When it does not hold by then.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "not within {} s: {what}",
            PATIENCE.as_secs()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Repeats `attempt` if it fails while the kernel drops what was sent: the floods of other tests fill a CPU's queue of
/// received frames, whoever's frame is next, and beside other work a server reads too late.
///
/// # Panics
/// When `attempt` panics although nothing was dropped, or each time.
pub fn undisturbed(attempt: impl Fn()) {
    let failed = repeated(attempt, || {
        let before = dropped();
        move || (dropped() != before).then(|| "the kernel dropped frames or datagrams".to_owned())
    });
    if let Err(panic) = failed {
        resume_unwind(panic);
    }
}

/// Runs a test of what the machine reaches in a time: a rate, a level, a share of samples. Such tests run one at a time,
/// in a test program of their own. `attempt` is repeated if it fails while other programs, or other guests of a
/// hypervisor, use the CPUs. If they always do, the result is unknown, and a line of output that begins with
/// `undecided: ` says so.
///
/// # Panics
/// When `attempt` panics on a quiet machine.
pub fn measured(attempt: impl Fn()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = repeated(attempt, || {
        let (began, lost, pauses) = (Work::read(), dropped(), Pauses::watch());
        move || match began.of_others() {
            None if dropped() != lost => Some("the kernel dropped frames or datagrams".to_owned()),
            None => pauses.longest(),
            others => others,
        }
    });
    if failed.is_err() {
        let thread = thread::current();
        println!(
            "undecided: {}: the machine was busy in all {ATTEMPTS} attempts (above)",
            thread.name().unwrap_or_default()
        );
    }
}

/// Repeats `attempt` as long as it fails and a `disturbance` is found, a new one for each attempt. The error is the
/// panic of the last disturbed attempt.
fn repeated<D: FnOnce() -> Option<String>>(
    attempt: impl Fn(),
    disturbance: impl Fn() -> D,
) -> Result<(), Box<dyn Any + Send>> {
    let mut last: Result<(), Box<dyn Any + Send>> = Ok(());
    for _ in 0..ATTEMPTS {
        let found = disturbance();
        let Err(panic) = catch_unwind(AssertUnwindSafe(&attempt)) else {
            return Ok(());
        };
        let Some(disturbance) = found() else {
            resume_unwind(panic);
        };
        println!("disturbed: {disturbance}");
        last = Err(panic);
    }
    last
}

/// Frames and datagrams that the kernel has dropped because a queue was full, as far as this network namespace shows it.
fn dropped() -> u64 {
    let frames = Softnet::read().map_or(0, |softnet| softnet.total().dropped);
    let datagrams = UdpStatistics::read().map_or(0, |udp| udp.ipv4.rcvbuf_errors + udp.ipv6.rcvbuf_errors);
    frames + datagrams
}

/// Watches for pauses of the whole machine, which no count of the kernel shows, with a thread that sleeps until this is
/// dropped.
struct Pauses {
    watched: Arc<()>,
    thread: JoinHandle<Duration>,
}

impl Pauses {
    fn watch() -> Self {
        let watched = Arc::new(());
        let in_use = Arc::downgrade(&watched);
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while in_use.strong_count() > 0 {
                let began = Instant::now();
                thread::sleep(Duration::from_millis(10));
                longest = longest.max(began.elapsed());
            }
            longest
        });
        Self { watched, thread }
    }

    /// The longest pause since, if it was long.
    fn longest(self) -> Option<String> {
        drop(self.watched);
        let longest = self.thread.join().unwrap_or_default();
        let is_long = longest > LONGEST_PAUSE;
        is_long.then(|| format!("a thread slept {} ms instead of 10", longest.as_millis()))
    }
}

/// The time of the CPUs, and what of it this process and its ended children used.
struct Work {
    cpus: CpuTimes,
    own: Duration,
}

impl Work {
    fn read() -> Self {
        let seconds = |time: TimeVal| {
            Duration::from_secs(time.tv_sec().unsigned_abs())
                + Duration::from_micros(time.tv_usec().unsigned_abs())
        };
        let used = |who| {
            getrusage(who).map_or(Duration::ZERO, |usage| {
                seconds(usage.user_time()) + seconds(usage.system_time())
            })
        };
        Self {
            cpus: CpuTimes::read().unwrap_or_default(),
            own: used(UsageWho::RUSAGE_SELF) + used(UsageWho::RUSAGE_CHILDREN),
        }
    }

    /// What others have used of the CPUs since, if it was much.
    fn of_others(&self) -> Option<String> {
        let now = Self::read();
        others(&now.cpus.since(&self.cpus), now.own.saturating_sub(self.own))
    }
}

/// What programs used of the CPUs beyond `own`, and the hypervisor took, if it was much.
fn others(passed: &CpuTimes, own: Duration) -> Option<String> {
    let others = passed.others_share(passed.cpus.keys(), own).unwrap_or_default();
    let stolen = passed.total().steal_share().unwrap_or_default();
    let is_busy = others > MOST_OTHERS_SHARE || stolen > MOST_STEAL_SHARE;
    is_busy.then(|| {
        format!(
            "other programs used {:.0} % of the CPUs' time, and {:.0} % was stolen",
            others * 100.0,
            stolen * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_failure_is_repeated_only_while_something_disturbs() {
        let tried = Cell::new(0);
        let fail_until = |good: usize| {
            tried.set(0);
            move |tried: &Cell<usize>| {
                tried.set(tried.get() + 1);
                assert!(tried.get() >= good, "failed");
            }
        };
        let disturbed = || || Some("something".to_owned());
        let good = fail_until(3);
        assert!(repeated(|| good(&tried), disturbed).is_ok());
        assert_eq!(tried.get(), 3);
        let bad = fail_until(usize::MAX);
        assert!(repeated(|| bad(&tried), disturbed).is_err());
        assert_eq!(tried.get(), ATTEMPTS);
        let bad = fail_until(usize::MAX);
        let quiet = catch_unwind(AssertUnwindSafe(|| repeated(|| bad(&tried), || || None)));
        assert!(quiet.is_err(), "it fails at once");
        assert_eq!(tried.get(), 1);
    }

    #[test]
    fn a_pause_is_noticed_and_a_watch_that_is_over_ends() {
        // As if the machine had stood still while the thread slept.
        let pauses = |paused| Pauses {
            watched: Arc::new(()),
            thread: thread::spawn(move || paused),
        };
        assert_eq!(pauses(LONGEST_PAUSE).longest(), None);
        let found = pauses(2 * LONGEST_PAUSE).longest();
        assert_eq!(found.unwrap(), "a thread slept 1000 ms instead of 10");
        let Pauses { watched, thread } = Pauses::watch();
        drop(watched);
        thread.join().unwrap();
    }

    #[test]
    fn the_work_of_others_and_stolen_time_are_noticed() {
        // Ticks of user, nice, system, idle, iowait, irq, softirq, stolen; two seconds of two CPUs.
        let passed = |stolen: u32| {
            let line = |cpu: u32| format!("cpu{cpu} 60 0 30 {} 0 5 5 {stolen}\n", 100 - stolen);
            CpuTimes::parse(&(line(0) + &line(1)), 100).unwrap()
        };
        let found = |stolen, own_ms| others(&passed(stolen), Duration::from_millis(own_ms));
        assert_eq!(found(0, 1_700), None);
        assert_eq!(
            found(0, 200).unwrap(),
            "other programs used 40 % of the CPUs' time, and 0 % was stolen"
        );
        assert!(found(6, 1_800).unwrap().ends_with("3 % was stolen"));
    }
}
