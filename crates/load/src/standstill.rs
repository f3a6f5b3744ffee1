//! Detects that a worker stood still: it was due to run, but neither ran nor waited for its CPU, because its process was
//! stopped or its machine suspended. Latencies and rates of such a run are the generator's own.
//!
//! In: the beginning and end of each turn, and when it was due. Out: the time lost.

use corelane_host::counters::ThreadClock;
use corelane_measure::quantity;
use corelane_worker::Time;
use std::time::Duration;

/// Longest normal delay of a turn: its own work, interrupts that the kernel does not charge to the thread, and pauses of a
/// virtual machine, which count as stolen time.
const NORMAL_DELAY: Duration = Duration::from_millis(100);

/// Interval between readings of the thread's clock, which cost a microsecond.
const READ_EVERY: Duration = Duration::from_millis(10);

/// Share of a run that may be lost before the generator counts as its limit, as for schedule lag: its 99th percentile.
const MOST_LOST: f64 = 0.01;

/// The time that a worker lost.
pub(crate) struct Standstill {
    /// `None` until the first turn, which sets the thread.
    clock: Option<ThreadClock>,
    /// CPU time plus time spent waiting for the CPU at `read_at`.
    spent: Duration,
    read_at: Time,
    /// When the last turn ended.
    turned: Time,
    lost: Duration,
}

impl Standstill {
    /// A worker that has not run yet.
    pub(crate) fn new() -> Self {
        Self {
            clock: None,
            spent: Duration::ZERO,
            read_at: Time::NEVER,
            turned: Time::NEVER,
            lost: Duration::ZERO,
        }
    }

    /// Measurement begins on the calling thread.
    pub(crate) fn begin(&mut self, now: Time) {
        let clock = self.clock.insert(ThreadClock::of_this_thread());
        self.spent = spent(clock).unwrap_or_default();
        (self.read_at, self.turned) = (now, now);
    }

    /// A turn that began at `began`, and was to end at `due` at the latest, ended at `now`.
    pub(crate) fn turned(&mut self, began: Time, due: Time, now: Time) {
        // A turn begins as soon as the one before has ended.
        let delay = began.since(self.turned) + now.since(due.max(began));
        self.turned = now;
        if delay <= NORMAL_DELAY && now.since(self.read_at) < READ_EVERY {
            return;
        }
        let Some(spent) = self.clock.as_ref().and_then(spent) else {
            return;
        };
        self.lost += lost(delay, spent.saturating_sub(self.spent));
        (self.spent, self.read_at) = (spent, now);
    }

    /// The time lost so far.
    pub(crate) fn lost(&self) -> Duration {
        self.lost
    }
}

/// The part of a turn's delay in which the thread neither ran nor waited for its CPU, if longer than a normal delay.
fn lost(delay: Duration, spent: Duration) -> Duration {
    let lost = delay.saturating_sub(spent);
    if lost > NORMAL_DELAY { lost } else { Duration::ZERO }
}

fn spent(clock: &ThreadClock) -> Option<Duration> {
    let time = clock.read().ok()?;
    Some(Duration::from_nanos(time.cpu_ns + time.waited_ns))
}

/// The worst worker as a reason why the generator was the limit; `workers` are CPU, time lost, and length of the run.
pub(crate) fn limit(workers: impl Iterator<Item = (u32, Duration, Duration)>) -> Option<String> {
    let (cpu, lost, running) = workers.max_by_key(|(_, lost, _)| *lost)?;
    let [lost_text, of] = [lost, running].map(|time| quantity::duration(time.as_nanos() as f64));
    (lost.as_secs_f64() > running.as_secs_f64() * MOST_LOST).then(|| {
        format!(
            "the worker on CPU {cpu} stood still for {lost_text} of {of}: it was stopped, and not because its CPU was busy"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_turn_that_ends_long_after_it_was_due_was_lost_unless_the_thread_had_work() {
        let start = Time::from_nanoseconds(0);
        let mut standstill = Standstill::new();
        standstill.begin(start);
        // Waits that end in time, or that an event ended.
        standstill.turned(start, start + 200 * MS, start + 200 * MS);
        standstill.turned(start + 200 * MS, start + 400 * MS, start + 210 * MS);
        assert_eq!(standstill.lost(), Duration::ZERO);
        standstill.turned(start + 210 * MS, start + 410 * MS, start + 1_910 * MS);
        let lost = standstill.lost();
        assert!(lost > 1_000 * MS && lost <= 1_500 * MS, "{lost:?}");
        // A turn without a wait.
        standstill.turned(start + 1_910 * MS, start, start + 2_910 * MS);
        let lost_again = standstill.lost();
        assert!(lost_again > lost + 500 * MS);
        // A stop between two turns: the second is due after it.
        standstill.turned(start + 3_910 * MS, start + 3_930 * MS, start + 3_920 * MS);
        assert!(standstill.lost() > lost_again + 500 * MS);
        for (delay, spent, expected) in [
            (1_500, 0, 1_500),
            (1_500, 300, 1_200),
            (1_500, 1_490, 0),
            (90, 0, 0),
        ] {
            assert_eq!(super::lost(delay * MS, spent * MS), expected * MS);
        }
    }

    #[test]
    fn one_percent_of_a_run_may_be_lost() {
        let of = |lost: u32| limit([(3, lost * MS, 4_000 * MS), (1, MS, 4_000 * MS)].into_iter());
        assert_eq!(of(40), None);
        let text = of(1_500).unwrap();
        assert!(
            text.starts_with("the worker on CPU 3 stood still for 1.5"),
            "{text}"
        );
        assert_eq!(limit(std::iter::empty()), None);
    }
}
