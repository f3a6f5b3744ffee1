//! When each phase begins: known in advance if phases end by time, decided during the run if they end by counts.
//!
//! One thread decides, every worker reads; a time not known yet is [`Time::NEVER`].

use super::plan::{PlannedPhase, Until};
use corelane_worker::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The start times of the phases, and the end of the last one.
#[derive(Debug)]
pub(crate) struct PhaseTimes(Vec<AtomicU64>);

impl PhaseTimes {
    /// Times for this many phases, all unknown.
    pub(crate) fn new(phases: usize) -> Self {
        Self(
            (0..=phases)
                .map(|_| AtomicU64::new(Time::NEVER.nanoseconds()))
                .collect(),
        )
    }

    /// When a phase begins; for the index after the last phase, when the run ends.
    pub(crate) fn began(&self, phase: usize) -> Time {
        self.0.get(phase).map_or(Time::NEVER, |time| {
            Time::from_nanoseconds(time.load(Ordering::Relaxed))
        })
    }

    /// The end of the last phase.
    pub(crate) fn end(&self) -> Time {
        self.began(self.0.len() - 1)
    }

    /// Starts a phase; also fixes the start of later phases as far as durations are known.
    pub(crate) fn begin(&self, phase: usize, at: Time, phases: &[PlannedPhase]) {
        let mut at = at;
        for (place, time) in self.0.iter().enumerate().skip(phase) {
            time.store(at.nanoseconds(), Ordering::Relaxed);
            let duration = phases.get(place).and_then(|phase| phase.until.duration_s);
            at = duration.map_or(Time::NEVER, |seconds| at + Duration::from_secs_f64(seconds));
        }
    }
}

impl PlannedPhase {
    /// One phase with all clients active until one of these limits is reached.
    #[must_use]
    pub fn hold(until: Until) -> Self {
        Self {
            name: "hold".to_owned(),
            from: 1.0,
            to: 1.0,
            until,
        }
    }

    /// Fraction of each pool that is active at this time after the start of the phase, 0 to 1.
    pub(crate) fn level(&self, elapsed: Duration) -> f64 {
        let level = match self.until.duration_s {
            Some(duration) if duration > 0.0 => {
                let part = (elapsed.as_secs_f64() / duration).min(1.0);
                self.from + (self.to - self.from) * part
            }
            _ => self.to,
        };
        level.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(duration_s: Option<f64>) -> PlannedPhase {
        PlannedPhase {
            name: "ramp".to_owned(),
            from: 0.0,
            to: 1.0,
            until: Until {
                duration_s,
                ..Until::default()
            },
        }
    }

    #[test]
    fn phases_follow_each_other_as_far_as_their_durations_are_known() {
        let phases = [phase(Some(1.0)), phase(None), phase(Some(2.0))];
        let times = PhaseTimes::new(3);
        let at = |seconds| Time::from_nanoseconds(0) + Duration::from_secs(seconds);
        times.begin(0, at(10), &phases);
        assert_eq!(
            [times.began(1), times.began(2), times.end()],
            [at(11), Time::NEVER, Time::NEVER]
        );
        times.begin(2, at(20), &phases);
        assert_eq!([times.began(2), times.end()], [at(20), at(22)]);
    }

    #[test]
    fn a_ramp_is_half_way_after_half_its_time() {
        let ramp = phase(Some(4.0));
        let level = |seconds| ramp.level(Duration::from_secs(seconds));
        assert_eq!([level(0), level(2), level(4), level(9)], [0.0, 0.5, 1.0, 1.0]);
        assert_eq!(phase(None).level(Duration::ZERO), 1.0);
    }
}
