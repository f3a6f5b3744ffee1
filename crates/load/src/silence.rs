//! The wait for the last answers: it ends when none has come for a time.
//!
//! In: how long each look took, and whether an answer came. Out: how long the next look may take, and whether to give up.

use std::time::Duration;

/// Longest look. A look that takes longer counts as one of this length: who looked was off its CPU or stopped, and with
/// the machine all that could have answered.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// A limited time without an answer.
#[derive(Debug)]
pub(crate) struct Silence {
    limit: Duration,
    left: Duration,
}

impl Silence {
    /// Begins now, and lasts for `limit` at most.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, left: limit }
    }

    /// How long the next look may take; zero if the time has passed.
    pub(crate) fn look(&self) -> Duration {
        self.left.min(LONGEST_LOOK)
    }

    /// Whether the time has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.left.is_zero()
    }

    /// A look took this long.
    pub(crate) fn looked(&mut self, took: Duration) {
        self.left = self.left.saturating_sub(counted(took, LONGEST_LOOK));
    }

    /// An answer came: the time begins again.
    pub(crate) fn broken(&mut self) {
        self.left = self.limit;
    }
}

/// What a look counts that took so long: no more than it was to take, or than the longest look if that is more.
pub(crate) fn counted(took: Duration, planned: Duration) -> Duration {
    took.min(planned.max(LONGEST_LOOK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_machine_counts_as_one_look_and_an_answer_begins_again() {
        let ms = Duration::from_millis;
        let mut silence = Silence::new(ms(200));
        silence.looked(ms(3_600_000));
        assert_eq!((silence.left, silence.is_over()), (ms(180), false));
        (0..8).for_each(|_| silence.looked(ms(20)));
        silence.looked(ms(15));
        assert_eq!((silence.look(), silence.is_over()), (ms(5), false));
        silence.broken();
        assert_eq!(silence.look(), ms(20));
        (0..10).for_each(|_| silence.looked(ms(20)));
        assert!(silence.is_over());
        assert!(Silence::new(Duration::ZERO).is_over());
        assert_eq!(
            [7, 15, 3_600].map(|took| counted(ms(took), ms(15))),
            [7, 15, 20].map(ms)
        );
        assert_eq!(counted(ms(3_600), ms(100)), ms(100));
    }
}
