//! Sampling: one in an interval of what comes, such that a sample costs little at any rate and is large enough at a low one.
//!
//! In: the times at which samples were taken. Out: the interval, which follows the rate.

use crate::Time;
use std::time::Duration;

/// Samples per second of one worker: less than one part in a thousand of its time, and enough for an average over a second.
const OF_WORKER: PerSecond = PerSecond {
    fewest: 2_500,
    most: 10_000,
};

/// Samples per second of all workers of a group together.
const OF_GROUP: PerSecond = PerSecond {
    fewest: 5_000,
    most: 20_000,
};

/// Samples between two adaptations, as far as they come within the time that the fewest take.
const SAMPLES: u32 = 64;

/// The longest interval.
const MOST_ONE_IN: u32 = 1 << 12;

/// Samples per second below which the interval is halved, and above which it is doubled.
#[derive(Debug, Clone, Copy)]
struct PerSecond {
    fewest: u32,
    most: u32,
}

/// An interval of sampling: one in how many is sampled.
#[derive(Debug, Clone)]
pub struct Interval {
    one_in: u32,
    /// The shortest interval after the first samples.
    least: u32,
    per_s: PerSecond,
    /// Samples since the last adaptation, and when that was.
    taken: u32,
    since: Time,
}

impl Interval {
    /// The interval of samples of all workers of a group, `one_in` at first.
    #[must_use]
    pub fn of_group(one_in: u32, now: Time) -> Self {
        Self {
            one_in,
            least: 1,
            per_s: OF_GROUP,
            taken: 0,
            since: now,
        }
    }

    /// One in how many is sampled.
    #[must_use]
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// Counts samples taken since the last call; returns whether the interval changed.
    pub fn adapt(&mut self, now: Time, samples: u32) -> bool {
        self.taken = self.taken.saturating_add(samples);
        let (passed, before) = (now.since(self.since), self.one_in);
        let lasting = |per_s: u32, samples: u32| Duration::from_secs(1) * samples / per_s;
        // Slowly taken samples shorten the interval only if it can be shorter.
        let is_slow = before > self.least && passed > lasting(self.per_s.fewest, SAMPLES);
        if self.taken < SAMPLES && !is_slow {
            return false;
        }
        let wanted = if passed > lasting(self.per_s.fewest, self.taken) {
            before / 2
        } else if passed < lasting(self.per_s.most, self.taken) {
            before * 2
        } else {
            before
        };
        self.one_in = wanted.clamp(self.least, MOST_ONE_IN);
        (self.taken, self.since) = (0, now);
        self.one_in != before
    }
}

/// Selects what one worker samples, at random, so that flows in rotation are all sampled.
#[derive(Debug)]
pub struct Sampler {
    interval: Interval,
    /// How many until the next sample.
    left: u32,
    random: fastrand::Rng,
}

impl Sampler {
    /// Selects the first 64, so that short runs have samples too, and then one in `least` or more.
    #[must_use]
    pub fn new(least: u32) -> Self {
        Self {
            interval: Interval {
                one_in: 1,
                least,
                per_s: OF_WORKER,
                taken: 0,
                since: Time::default(),
            },
            left: 1,
            random: fastrand::Rng::new(),
        }
    }

    /// Whether the next one is a sample; [`take`](Self::take) it then.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// Takes a sample; returns for how many it stands.
    pub fn take(&mut self, now: Time) -> u32 {
        let one_in = self.interval.one_in;
        self.interval.adapt(now, 1);
        self.left = self.random.u32(1..2 * self.interval.one_in);
        one_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a second of `rate` adds up to, and the number of samples.
    fn second(sampler: &mut Sampler, second: u64, rate: u64) -> [u64; 2] {
        let (mut load, mut samples) = (0, 0);
        for event in 0..rate {
            let at = Duration::from_nanos(second * 1_000_000_000 + event * 1_000_000_000 / rate);
            if sampler.is_due() {
                load += u64::from(sampler.take(Time::default() + at));
                samples += 1;
            }
        }
        [load, samples]
    }

    #[test]
    fn samples_are_at_most_ten_thousand_a_second_and_count_for_all_datagrams() {
        for rate in [1_000_u64, 100_000, 2_000_000] {
            let mut sampler = Sampler::new(1);
            sampler.random = fastrand::Rng::with_seed(7);
            second(&mut sampler, 1, rate);
            let [load, samples] = second(&mut sampler, 2, rate);
            let error = load.abs_diff(rate) as f64 / rate as f64;
            assert!(error < 0.05, "{rate}/s: {load} counted from {samples} samples");
            assert!(samples <= rate.min(11_000), "{rate}/s: {samples}");
            assert!(samples >= rate.min(2_500), "{rate}/s: {samples}");
        }
    }

    #[test]
    fn the_first_64_are_samples_at_any_rate_and_then_at_most_one_in_the_least_interval() {
        for rate in [10_000, 100_000] {
            let mut sampler = Sampler::new(251);
            assert_eq!(second(&mut sampler, 1, 64), [64, 64]);
            let [load, samples] = second(&mut sampler, 2, rate);
            assert!(samples <= rate / 100, "{rate}/s: {samples}");
            assert_eq!(load, samples * 251);
        }
    }

    #[test]
    fn batches_of_samples_change_the_interval_by_their_rate() {
        let mut now = Time::default();
        let mut interval = Interval::of_group(16, now);
        let mut adapted = |samples: u32| {
            now = now + Duration::from_millis(30);
            (interval.adapt(now, samples), interval.one_in())
        };
        // None, 10,000 and 100,000 per second.
        assert_eq!(
            [0, 300, 3_000].map(&mut adapted),
            [(true, 8), (false, 8), (true, 16)]
        );
        assert_eq!([0; 5].map(adapted).map(|(_, one_in)| one_in), [8, 4, 2, 1, 1]);
    }
}
