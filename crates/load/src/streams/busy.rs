//! Whether the requests of a schedule wait for a connection, or for the generator.
//!
//! In: looks at the schedule that found no connection free for a due request, and when one became free. Out: for a request
//! by its due time, whether it waited for a connection.

use corelane_worker::Time;

/// The time in which no connection was free for the requests that are due; it begins with the first look that found none,
/// and ends when nothing waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    /// [`Time::NEVER`] if nothing waits.
    since: Time,
    /// When a connection last became free; [`Time::NEVER`] while none is.
    until: Time,
}

impl Busy {
    /// Nothing waits.
    pub(crate) const NOT: Self = Self {
        since: Time::NEVER,
        until: Time::from_nanoseconds(0),
    };

    /// A look at the schedule found no free connection.
    pub(crate) fn found(&mut self, now: Time) {
        (self.since, self.until) = (self.since.min(now), Time::NEVER);
    }

    /// A connection is free.
    pub(crate) fn freed(&mut self, now: Time) {
        self.until = self.until.min(now);
    }

    /// Whether no connection is free.
    pub(crate) fn lasts(self) -> bool {
        self.until == Time::NEVER
    }

    /// Until when requests waited for a connection; `None` if nothing waits.
    pub(crate) fn waited_until(self) -> Option<Time> {
        (self.since < Time::NEVER).then_some(self.until)
    }

    /// Whether a request that was due at this time waited for a connection, and no longer for the generator's look before.
    pub(crate) fn delayed(self, due: Time) -> bool {
        due <= self.until && self.since.since(due) <= self.until.since(self.since.max(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::from_nanoseconds(milliseconds * 1_000_000)
    }

    #[test]
    fn what_is_due_while_no_connection_is_free_waits_for_one() {
        let mut busy = Busy::NOT;
        assert!(!busy.lasts() && !busy.delayed(at(10)) && busy.waited_until().is_none());
        busy.freed(at(5));
        assert!(!busy.delayed(at(5)), "nothing waited");
        busy.found(at(10));
        assert!(busy.lasts() && busy.delayed(at(10)) && busy.delayed(at(99)));
        busy.freed(at(50));
        busy.freed(at(70));
        assert_eq!(busy.waited_until(), Some(at(50)));
        assert!(busy.delayed(at(9)) && busy.delayed(at(50)) && !busy.delayed(at(51)));
        // The next look finds none again, for what became due meanwhile.
        busy.found(at(51));
        busy.freed(at(90));
        assert!(busy.delayed(at(20)) && busy.delayed(at(90)) && !busy.delayed(at(91)));
    }

    #[test]
    fn what_waited_longer_for_the_generator_is_its_own() {
        let mut busy = Busy::NOT;
        // The generator comes back after 100 ms: the few connections that were free are not enough for what became due.
        busy.found(at(100));
        busy.freed(at(102));
        let delayed: Vec<u64> = (0..=102).filter(|due| busy.delayed(at(*due))).collect();
        assert_eq!(delayed, [98, 99, 100, 101, 102]);
    }
}
