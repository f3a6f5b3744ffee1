//! What the answers of other workers, and what clients leave unfinished or do not take, may occupy over all clients of a worker.
//!
//! How large an answer is shows when it arrives; until then as much is reckoned as the largest of the last ones had. A client
//! that no worker owes an answer may always ask for one, whatever others occupy, so that no client stops another one.

/// Bytes of answers that are owed, and those that are kept for clients.
const BYTES: usize = 64 << 20;

/// Bytes reckoned per answer at least, as a share of the largest item: whatever arrives after small answers is at most so many
/// times the budget.
const SHARE: usize = 32;

/// The reckoned size falls by this share per smaller answer: large ones among small ones are not forgotten soon.
const FORGET: usize = 64;

/// The budget of one worker.
#[derive(Debug)]
pub(super) struct Budget {
    /// Answers that are owed.
    owed: usize,
    /// Bytes reckoned for each, now and at least.
    expected: usize,
    least: usize,
    /// Bytes of answers that clients have not taken, and of unfinished requests.
    held: u64,
}

impl Budget {
    /// With items of at most so many bytes.
    pub(super) fn new(largest_item: usize) -> Self {
        let least = (largest_item / SHARE).max(1);
        Self {
            owed: 0,
            expected: 2 * least,
            least,
            held: 0,
        }
    }

    /// Whether one more answer has room.
    pub(super) fn admits(&self) -> bool {
        self.held as usize + (self.owed + 1) * self.expected <= BYTES
    }

    /// Whether clients hold all of it.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.held as usize > BYTES
    }

    /// Whether clients hold so much that none may hold more, though it was asked for before.
    pub(super) fn is_exceeded(&self) -> bool {
        self.held as usize > 2 * BYTES
    }

    /// One more answer is owed.
    pub(super) fn owe(&mut self) {
        self.owed += 1;
    }

    /// An answer of so many bytes has arrived.
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.owed -= 1;
        self.expected = (self.expected - self.expected / FORGET)
            .max(bytes)
            .max(self.least);
    }

    /// A client that held so many bytes `before` holds these `now`.
    pub(super) fn hold(&mut self, before: u64, now: u64) {
        self.held = self.held - before + now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(budget: &mut Budget) -> usize {
        let owed = budget.owed;
        while budget.admits() {
            budget.owe();
        }
        let room = budget.owed - owed;
        budget.owed = owed;
        room
    }

    #[test]
    fn the_room_depends_on_the_last_answers_and_on_what_is_held() {
        let mut budget = Budget::new(1 << 20);
        assert_eq!(room(&mut budget), BYTES / (64 << 10));
        for _ in 0..1_000 {
            budget.owe();
            budget.arrived(10);
        }
        assert_eq!(room(&mut budget), BYTES / (32 << 10));
        budget.owe();
        budget.arrived(1 << 20);
        assert_eq!(room(&mut budget), BYTES >> 20);
        budget.hold(0, BYTES as u64 / 2);
        assert_eq!(room(&mut budget), BYTES >> 21);
        budget.hold(BYTES as u64 / 2, BYTES as u64);
        assert!(!budget.admits() && !budget.is_spent());
        budget.hold(BYTES as u64, 0);
        for _ in 0..FORGET {
            budget.owe();
            budget.arrived(10);
        }
        assert!((BYTES >> 20..BYTES >> 18).contains(&room(&mut budget)));
    }
}
