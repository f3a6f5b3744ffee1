//! The time of a worker: nanoseconds of the monotonic clock, or of the simulator's virtual clock.

use nix::time::{ClockId, clock_gettime};
use std::ops::{Add, Sub};
use std::time::Duration;

/// A time in nanoseconds of `CLOCK_MONOTONIC`, or of the virtual clock of a simulated engine.
///
/// Unlike `std::time::Instant` it can be written into a payload, stored in eight bytes and set by a simulator.
/// Arithmetic saturates: a deadline past [`Time::NEVER`] is [`Time::NEVER`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// Later than any time of a clock: as a deadline it means no limit.
    pub const NEVER: Time = Time(u64::MAX);

    /// The current time of the monotonic clock.
    #[must_use]
    pub fn now() -> Self {
        let read = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has CLOCK_MONOTONIC");
        Self::from_nanoseconds(read.tv_sec() as u64 * 1_000_000_000 + read.tv_nsec() as u64)
    }

    /// The time that many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn nanoseconds(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanoseconds_of(duration)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(nanoseconds_of(duration)))
    }
}

fn nanoseconds_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_run_backwards() {
        let first = Time::now();
        assert!(Time::now() >= first);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let moment = Time::from_nanoseconds(5);
        assert_eq!(moment + Duration::MAX, Time::NEVER);
        assert_eq!(moment - Duration::from_secs(1), Time::from_nanoseconds(0));
        assert_eq!(moment.since(Time::NEVER), Duration::ZERO);
        assert_eq!(Time::from_nanoseconds(12).since(moment), Duration::from_nanos(7));
    }
}
