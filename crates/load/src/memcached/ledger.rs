//! What a worker knows about its keys: which versions a read may find, and between which bounds a counter is.
//!
//! Every write of a key has a number; deletions have one too, which no value bears. Several writes may be in flight at a time, on
//! several connections, and the server performs them in any order. A version can no longer be found by a read that begins after a
//! write was acknowledged, if that write began when no write was in flight and the version is older. A write that is never answered stays in
//! flight: the server may perform it at any time.

/// What is known about the value of a key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// The last version that was begun.
    pub(super) newest: u32,
    /// The oldest version that a read which begins now may find. 0: what was there before the run, too.
    pub(super) oldest: u32,
    /// The first version of the writes in flight, and of those that were begun meanwhile.
    first: u32,
    /// Writes and changes of the expiration in flight, in the high 31 bits; whether a write of that group was performed, in the
    /// lowest.
    flying: u32,
    /// The second, counted from the start of the worker, from which the value must have expired; 0: unknown.
    expires: u32,
}

const ONE: u32 = 2;
const PERFORMED: u32 = 1;

/// A value that expires at this second does not.
pub(super) const NEVER: u32 = u32::MAX;

impl Known {
    /// A write begins; returns its version.
    pub(super) fn write(&mut self) -> u32 {
        self.change();
        self.newest += 1;
        self.newest
    }

    /// A write, or a change of the expiration, begins.
    pub(super) fn change(&mut self) {
        if self.flying < ONE {
            (self.first, self.flying) = (self.newest + 1, 0);
        }
        // So many that are never answered count as one that is not.
        self.flying = self.flying.saturating_add(ONE).min(u32::MAX - ONE);
    }

    /// A write was answered; `performed` if the server says so. The value expires at `expires` at the latest.
    pub(super) fn written(&mut self, performed: bool, expires: u32) {
        if performed {
            self.flying |= PERFORMED;
            self.lives_until(expires);
        }
        self.changed();
    }

    /// A write, or a change of the expiration, was answered.
    pub(super) fn changed(&mut self) {
        self.flying -= ONE;
        if self.flying == PERFORMED {
            self.oldest = self.first;
        }
    }

    /// The value lives until this second, or until a later one that it was given before.
    pub(super) fn lives_until(&mut self, expires: u32) {
        self.expires = self.expires.max(expires);
    }

    /// Whether a value cannot be there any more at this second.
    pub(super) fn has_expired(&self, second: u32) -> bool {
        !self.is_changing() && self.expires > 0 && self.expires < second
    }

    /// Whether no write was in flight when this one began, which is in flight.
    pub(super) fn began_alone(&self, version: u32) -> bool {
        self.first == version
    }

    /// Whether a write or a change of the expiration is in flight.
    pub(super) fn is_changing(&self) -> bool {
        self.flying >= ONE
    }
}

/// Which way a counter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// What a counter that goes down is at first: the largest number that soon has a digit less, which memcached fills with a blank.
const HIGHEST: u64 = 1_000_000_000_000;

impl Direction {
    /// What a counter is at first.
    pub(super) fn first(self) -> String {
        match self {
            Self::Up => 0,
            Self::Down => HIGHEST,
        }
        .to_string()
    }

    /// How far a counter with this number has gone; `None` if it cannot have.
    pub(super) fn gone(self, number: u64) -> Option<u64> {
        match self {
            Self::Up => Some(number),
            Self::Down => HIGHEST.checked_sub(number),
        }
    }
}

/// What is known about how far a counter has gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    /// What it is at most; [`u64::MAX`] before its first answer.
    most: u64,
    /// What it is at least, if it is there.
    pub(super) least: u64,
    /// Increments in flight.
    flying: u32,
    /// How often it was begun to be set to 0.
    starts: u32,
    /// Of those, which are in flight.
    starting: u32,
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            most: u64::MAX,
            least: 0,
            flying: 0,
            starts: 0,
            starting: 0,
        }
    }
}

impl Counter {
    /// An increment begins; returns how often the counter was set to 0 before. While it is being set, the increment may come
    /// first, so that its number says nothing about later ones: that counts as once less.
    pub(super) fn increment(&mut self) -> u32 {
        self.flying = self.flying.saturating_add(1);
        self.most = self.most.saturating_add(1);
        self.starts - u32::from(self.starting > 0)
    }

    /// An increment that began when the counter was at least `least`, and had been set to 0 so often, was answered by this
    /// number; returns whether that can be.
    pub(super) fn incremented(&mut self, number: u64, least: u64, starts: u32) -> bool {
        self.flying -= 1;
        // Others in flight may not have been performed yet.
        let most = number.saturating_add(self.flying.into());
        let is_possible = number <= self.most && (number > least || starts != self.starts);
        if self.most == u64::MAX || !is_possible {
            self.most = most;
        }
        if starts == self.starts && self.starting == 0 {
            self.least = self.least.max(number);
        }
        is_possible
    }

    /// An increment was answered: there is no counter.
    pub(super) fn not_found(&mut self) {
        self.flying -= 1;
    }

    /// The counter is to be set to 0.
    pub(super) fn start(&mut self) {
        self.starts += 1;
        self.starting = self.starting.saturating_add(1);
        self.least = 0;
    }

    /// That was answered.
    pub(super) fn started(&mut self) {
        self.starting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_write_ends_the_versions_before_it() {
        let mut known = Known::default();
        assert_eq!(known.write(), 1);
        assert_eq!((known.oldest, known.is_changing()), (0, true));
        known.written(true, NEVER);
        assert_eq!((known.oldest, known.newest, known.is_changing()), (1, 1, false));
        known.write();
        known.written(false, NEVER);
        assert_eq!(
            (known.oldest, known.newest),
            (1, 2),
            "not performed: the older one is there"
        );
    }

    #[test]
    fn writes_in_flight_at_the_same_time_may_be_performed_in_any_order() {
        let mut known = Known::default();
        known.write();
        known.written(true, NEVER);
        let versions = [known.write(), known.write()];
        known.written(true, NEVER);
        assert_eq!(known.oldest, 1, "the other may still come, or have come before");
        known.written(true, NEVER);
        assert_eq!((versions, known.oldest), ([2, 3], 2));
        known.write();
        known.written(true, NEVER);
        assert_eq!(known.oldest, 4);
    }

    #[test]
    fn a_write_that_is_never_answered_may_be_performed_at_any_time() {
        let mut known = Known::default();
        known.write();
        for _ in 0..3 {
            known.write();
            known.written(true, 5);
        }
        assert_eq!((known.oldest, known.newest), (0, 4));
        assert!(!known.has_expired(100));
    }

    #[test]
    fn a_value_has_expired_only_after_the_latest_time_it_was_given() {
        let mut known = Known::default();
        assert!(!known.has_expired(1_000), "nothing is known");
        known.write();
        known.written(true, 7);
        known.lives_until(5);
        assert!(!known.has_expired(7) && known.has_expired(8));
        known.change();
        assert!(!known.has_expired(8), "it may get another expiration");
        known.changed();
        assert!(known.has_expired(8) && known.oldest == 1);
        known.lives_until(NEVER);
        assert!(!known.has_expired(u32::MAX));
    }

    #[test]
    fn a_counter_grows_by_what_was_added_and_may_begin_again() {
        let mut counter = Counter::default();
        counter.increment();
        assert!(counter.incremented(57, 0, 0), "of a run before");
        counter.increment();
        counter.increment();
        assert!(counter.incremented(59, 57, 0), "overtook the other");
        assert!(counter.incremented(58, 57, 0));
        counter.increment();
        assert!(!counter.incremented(61, 59, 0), "more than was added");
        counter.increment();
        assert!(!counter.incremented(59, 61, 0), "not more than before");
        counter.increment();
        counter.not_found();
        counter.start();
        let starts = counter.increment();
        assert!(counter.incremented(1, 0, starts), "set to 0 in between");
        counter.started();
        assert_eq!(counter.least, 0);
        let starts = counter.increment();
        assert!(counter.incremented(2, 0, starts) && counter.least == 2);
    }

    #[test]
    fn an_increment_that_may_have_come_before_the_start_is_no_bound_for_later_ones() {
        let mut counter = Counter::default();
        counter.start();
        counter.start();
        let starts = counter.increment();
        counter.started();
        counter.started();
        assert!(counter.incremented(2, 0, starts), "after the first start");
        assert_eq!(counter.least, 0, "the second start came later");
    }
}
