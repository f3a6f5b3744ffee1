//! Samples a running generator, for the live view, for the report's times over the run, and for the lines of a timeline.
//!
//! In: the generator and the time, at every pass of the loop that waits for its end. Out: a [`Snapshot`] several times per
//! second, and with each whole second of the clock the [`Second`] that it closes. A sample is requested when it is due,
//! and taken when every worker has answered, so that counts and durations are of one moment.

use crate::Generator;
use crate::live::Snapshot;
use crate::timeline::{CpuSpent, Second};
use corelane_host::HostError;
use corelane_host::counters::{CpuTimes, ProcessCpu, drops};
use corelane_measure::counters::Counters;
use corelane_measure::drops::Cause;
use corelane_worker::Time;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two samples: short enough to show changes, long enough to read.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(250);

/// Samples per line.
const SAMPLES_A_LINE: u64 = 4;

/// A worker that waits for packets answers at the latest after its longest turn, 100 ms; a busy one within microseconds.
const PATIENCE: Duration = Duration::from_millis(120);

/// How often a requested sample is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// Samples one generator.
#[derive(Debug)]
pub struct Sampler {
    begun: Time,
    /// The clock's time at `begun`.
    begun_unix: Duration,
    /// The sample that is due next, in steps of [`BETWEEN_SAMPLES`] since 1970.
    due: u64,
    requested: Option<Time>,
    /// The state at the end of the last line; `None` if no lines are wanted.
    last: Option<Reading>,
}

/// One sample.
#[derive(Debug)]
pub struct Observation {
    /// The live data.
    pub snapshot: Snapshot,
    /// The line that it closes.
    pub second: Option<Second>,
}

/// Totals at one moment.
#[derive(Debug)]
struct Reading {
    at: Time,
    snapshot: Snapshot,
    cpu: Result<CpuSpent, String>,
    drops: Result<BTreeMap<Cause, u64>, String>,
}

impl Sampler {
    /// A sampler of a generator that has just started; with `lines`, samples of whole seconds have a line.
    #[must_use]
    pub fn new(lines: bool) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Self::begin(lines, Time::now(), unix.unwrap_or_default())
    }

    fn begin(lines: bool, begun: Time, begun_unix: Duration) -> Self {
        Self {
            begun,
            begun_unix,
            due: step(begun_unix) + 1,
            requested: None,
            last: lines.then(|| Reading::take(begun, Snapshot::default())),
        }
    }

    /// How long to wait until the next call of [`Self::look`], at most `longest`.
    #[must_use]
    pub fn pause(&self, longest: Duration) -> Duration {
        match self.requested {
            Some(_) => LOOK.min(longest),
            None => self.due_at().since(Time::now()).min(longest),
        }
    }

    /// Requests a sample if one is due, or takes the one that was requested.
    pub fn look<G: Generator>(&mut self, load: &mut G) -> Option<Observation> {
        self.look_at(Time::now(), load)
    }

    fn look_at<G: Generator>(&mut self, now: Time, load: &mut G) -> Option<Observation> {
        let Some(requested) = self.requested else {
            if now >= self.due_at() {
                load.live_workers()
                    .iter()
                    .for_each(|live| live.snapshot.request());
                self.requested = Some(now);
            }
            return None;
        };
        if load.live_workers().iter().any(|live| live.snapshot.is_awaited())
            && now.since(requested) < PATIENCE
        {
            return None;
        }
        let closes_line = self.due.is_multiple_of(SAMPLES_A_LINE);
        let passed = step(self.begun_unix + now.since(self.begun));
        // After a standstill the line closes late, and the next one at the next whole second.
        let closes_line = closes_line || passed / SAMPLES_A_LINE > self.due / SAMPLES_A_LINE;
        (self.due, self.requested) = (passed + 1, None);
        let snapshot = load.snapshot();
        let second = closes_line.then(|| self.close(now, snapshot.clone())).flatten();
        Some(Observation { snapshot, second })
    }

    /// The last line, of a generator that has ended.
    pub fn end<G: Generator>(&mut self, load: &mut G) -> Option<Second> {
        let snapshot = load.snapshot();
        self.close(Time::now(), snapshot)
    }

    /// When the next sample is due.
    fn due_at(&self) -> Time {
        let due = Duration::from_millis(self.due * BETWEEN_SAMPLES.as_millis() as u64);
        self.begun + due.saturating_sub(self.begun_unix)
    }

    fn close(&mut self, now: Time, snapshot: Snapshot) -> Option<Second> {
        let before = self.last.take()?;
        // Workers that have not answered have the time of an earlier sample.
        let at = if snapshot.at > before.at { snapshot.at } else { now };
        let reading = Reading::take(at, snapshot);
        let since_start = at.since(self.begun);
        let second = Second {
            unix_s: (self.begun_unix + since_start).as_secs_f64(),
            at_s: since_start.as_secs_f64(),
            interval_s: at.since(before.at).as_secs_f64(),
            ..reading.since(&before)
        };
        self.last = Some(reading);
        Some(second.with_rates())
    }
}

/// The step of a time since 1970.
fn step(unix: Duration) -> u64 {
    (unix.as_millis() / BETWEEN_SAMPLES.as_millis()) as u64
}

impl Reading {
    fn take(at: Time, snapshot: Snapshot) -> Self {
        let words = |error: HostError| error.to_string();
        Self {
            at,
            snapshot,
            cpu: cpu().map_err(words),
            drops: drops().map_err(words),
        }
    }

    /// What happened after `earlier`; the times of the line are set by the caller.
    fn since(&self, earlier: &Self) -> Second {
        let (snapshot, before) = (&self.snapshot, &earlier.snapshot);
        let named = |(name, count): (&'static str, u64)| (name.to_owned(), count);
        let mut unknown_because = BTreeMap::new();
        let mut because = |field: &str, why: &str| unknown_because.insert(field.to_owned(), why.to_owned());
        if let Some(why) = snapshot.no_times_because {
            because("durations", why);
        }
        // The machine's time is counted in ticks of 10 ms, the generator's own exactly.
        let others = |spent: CpuSpent| CpuSpent {
            others_s: spent.others_s.max(0.0),
            ..spent
        };
        let cpu = (self.cpu.as_ref()).and_then(|cpu| Ok(others(cpu.since(earlier.cpu.as_ref()?))));
        let drops = (self.drops.as_ref()).and_then(|drops| Ok(drops.since(earlier.drops.as_ref()?)));
        if let Err(why) = &cpu {
            because("cpu", why);
        }
        if let Err(why) = &drops {
            because("drops", why);
        }
        Second {
            stage: snapshot.stage.clone(),
            counts: snapshot
                .counts
                .since(&before.counts)
                .into_iter()
                .map(named)
                .collect(),
            levels: snapshot.levels.clone().into_iter().map(named).collect(),
            errors: occurred(snapshot.errors().since(&before.errors())),
            durations: match snapshot.no_times_because {
                None => Some(snapshot.times.since(&before.times)),
                Some(_) => None,
            },
            cpu: cpu.ok(),
            drops: drops.ok().map(occurred),
            unknown_because,
            ..Second::default()
        }
    }
}

/// The counts that are not zero, by name.
fn occurred<K: Display>(counts: BTreeMap<K, u64>) -> BTreeMap<String, u64> {
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    counts.map(|(name, count)| (name.to_string(), count)).collect()
}

/// CPU time so far: of this process, and of the machine.
fn cpu() -> Result<CpuSpent, HostError> {
    let own = ProcessCpu::read(std::process::id())?;
    let machine = CpuTimes::read()?.total();
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    Ok(CpuSpent {
        own_s: seconds(own.total_ns),
        others_s: seconds(machine.busy_ns()) - seconds(own.total_ns),
        stolen_s: seconds(machine.steal_ns),
        idle_s: seconds(machine.idle_ns + machine.iowait_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{self, LiveWorkers};
    use crate::{Moment, Needs};
    use corelane_measure::histogram::Histogram;
    use corelane_measure::metric::{Metric, Sample, Show};
    use corelane_worker::Counter;
    use std::convert::Infallible;

    static SENT: [Metric<Counter>; 1] = [Metric::more("sent_datagrams_total", "sent", Show::Count)
        .unit("datagrams")
        .read(|sent| Sample::count(sent.get()))];

    /// Sends a datagram per millisecond, each with a round trip of 5 µs.
    struct Fake {
        live: LiveWorkers<Counter>,
        times: Histogram,
    }

    impl Fake {
        fn new() -> Self {
            Self {
                live: live::workers([0].into_iter()),
                times: Histogram::new(),
            }
        }

        fn so_far(&self, at: Time) -> Snapshot {
            Snapshot {
                at,
                times: self.times.clone(),
                ..Snapshot::of(&SENT, &self.live[0].counts)
            }
        }

        fn turn(&mut self, now: Time) {
            self.live[0].counts.add(1);
            self.times.record(5_000);
            self.live[0].snapshot.publish(|| self.so_far(now));
        }
    }

    impl Generator for Fake {
        type Plan = ();
        type Report = ();
        type Error = Infallible;
        type Counts = Counter;
        const KIND: &'static str = "fake";
        const COUNTED: &'static [Metric<Counter>] = &SENT;
        const TIMED: Option<&'static Metric<Histogram>> = None;
        const FAILED: &'static [Metric<u64>] = &[];

        fn needs(_plan: &()) -> Needs {
            Needs::default()
        }

        fn start(_plan: ()) -> Result<Self, Infallible> {
            Ok(Self::new())
        }

        fn wait(&mut self, _timeout: Duration) -> bool {
            false
        }

        fn reached(&self) -> Option<Moment> {
            None
        }

        fn live_workers(&self) -> &LiveWorkers<Counter> {
            &self.live
        }

        fn snapshot(&mut self) -> Snapshot {
            self.live[0].snapshot.last()
        }

        fn stop(&self) {}

        fn finish(self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    #[test]
    fn a_line_closes_with_each_whole_second_and_a_sample_with_each_quarter() {
        let start = Time::from_nanoseconds(77_000_000_000);
        let unix = Duration::from_millis(1_800_000_000_400);
        let (mut sampler, mut load) = (Sampler::begin(true, start, unix), Fake::new());
        let (mut samples, mut seconds) = (0, Vec::new());
        for millisecond in 1..=3_700 {
            let now = start + Duration::from_millis(millisecond);
            load.turn(now);
            if let Some(sampled) = sampler.look_at(now, &mut load) {
                samples += 1;
                seconds.extend(sampled.second);
            }
        }
        // From 0.4 s to 4.1 s of a second: quarters from 0.5 to 4.0.
        assert_eq!((samples, seconds.len()), (15, 4));
        for (line, until) in seconds.iter().zip(1..) {
            let expected = 1_800_000_000.0 + f64::from(until);
            assert!((line.unix_s - expected).abs() < 0.005, "{line:?}");
            let milliseconds = (line.interval_s * 1e3).round() as u64;
            assert_eq!(line.counts["sent"], milliseconds, "{line:?}");
            assert_eq!(
                line.durations.as_ref().map(|times| times.count()),
                Some(milliseconds)
            );
        }
        load.live[0]
            .snapshot
            .close(load.so_far(start + Duration::from_millis(3_700)));
        let last = sampler.end(&mut load).unwrap();
        let sent: u64 = seconds
            .iter()
            .chain([&last])
            .map(|line| line.counts["sent"])
            .sum();
        assert_eq!(sent, 3_700);
    }

    #[test]
    fn a_worker_that_does_not_answer_delays_a_sample_and_does_not_prevent_it() {
        let start = Time::from_nanoseconds(1);
        let (mut sampler, mut load) = (
            Sampler::begin(true, start, Duration::from_millis(900)),
            Fake::new(),
        );
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(sampler.look_at(at(100), &mut load).is_none());
        assert!(sampler.look_at(at(150), &mut load).is_none(), "it is awaited");
        let sampled = sampler.look_at(at(230), &mut load).unwrap();
        let line = sampled.second.unwrap();
        assert!(
            (line.unix_s - 1.13).abs() < 1e-9 && line.counts.is_empty(),
            "{line:?}"
        );
    }
}
