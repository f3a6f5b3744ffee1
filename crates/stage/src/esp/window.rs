//! Which sequence numbers of an association were received.

/// The anti-replay window of an association (RFC 4303, section 3.4.3; a ring of words as in RFC 6479).
pub(super) struct Window {
    /// Sequence numbers in the window: from `highest` down.
    size: u64,
    /// The highest number that was received; 0: none, as the first packet has the number 1.
    highest: u64,
    /// The bit of number `n` is bit `n % 64` of word `n / 64`, modulo the number of words: one more than the window fills, so
    /// that those of the window are apart wherever it begins.
    words: Vec<u64>,
}

impl Window {
    pub(super) fn new(size: u16) -> Window {
        Window {
            size: size.into(),
            highest: 0,
            words: vec![0; usize::from(size).div_ceil(64) + 1],
        }
    }

    /// The extended number whose lower half is sent: the lowest in the window or above it (RFC 4303, appendix A2.2). 0, which is
    /// never new, beyond the last number.
    pub(super) fn extended(&self, low: u32) -> u64 {
        let bottom = self.highest.saturating_sub(self.size - 1);
        let number = bottom & !u64::from(u32::MAX) | u64::from(low);
        match number < bottom {
            true => number.checked_add(1 << 32).unwrap_or(0),
            false => number,
        }
    }

    /// Whether the number is neither below the window nor in it and received.
    pub(super) fn is_new(&self, number: u64) -> bool {
        let (word, bit) = self.place(number);
        let is_free = || self.highest - number < self.size && self.words[word] & bit == 0;
        number > 0 && (number > self.highest || is_free())
    }

    /// Receives a number, if it is new.
    pub(super) fn receive(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return false;
        }
        if number > self.highest {
            let (last, count) = (self.highest / 64, self.words.len() as u64);
            let begun = (number / 64 - last).min(count);
            for word in last + 1..=last + begun {
                self.words[(word % count) as usize] = 0;
            }
            self.highest = number;
        }
        let (word, bit) = self.place(number);
        self.words[word] |= bit;
        true
    }

    fn place(&self, number: u64) -> (usize, u64) {
        let word = number / 64 % self.words.len() as u64;
        (word as usize, 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Numbers near each other, with jumps around words, windows and the wrap of the lower half.
    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let near = |around: u64| (0..700u64).prop_map(move |by| around.saturating_sub(350) + by);
        let one = prop_oneof![8 => near(400), 4 => near(1 << 32), 1 => near(5000), 1 => near(u64::MAX - 350)];
        proptest::collection::vec(one, 1..200)
    }

    proptest! {
        #[test]
        fn the_window_is_the_set_of_what_was_received(size in 64u16..300, numbers in numbers()) {
            let (mut window, mut received) = (Window::new(size), BTreeSet::new());
            for number in numbers {
                let highest = received.last().copied().unwrap_or(0);
                let is_in = number > 0 && (number > highest || highest - number < u64::from(size));
                let is_new = is_in && !received.contains(&number);
                prop_assert_eq!(window.is_new(number), is_new);
                prop_assert_eq!(window.receive(number), is_new);
                if is_new {
                    received.insert(number);
                }
            }
        }

        /// Every number in the window, and 2^32 - size above it, is known by its lower half.
        #[test]
        fn the_upper_half_is_inferred(highest in 1u64..1 << 34, ahead in 0..(1u64 << 32) - 4096, size in 64u16..=4096) {
            let mut window = Window::new(size);
            prop_assert!(window.receive(highest));
            for number in [highest + ahead, highest.saturating_sub(ahead % u64::from(size)).max(1)] {
                prop_assert_eq!(window.extended(number as u32), number);
            }
        }
    }

    #[test]
    fn nothing_follows_the_last_number() {
        let mut window = Window::new(64);
        assert!(window.receive(u64::MAX - 5));
        assert_eq!(window.extended(u32::MAX), u64::MAX);
        assert!(!window.is_new(window.extended(3)));
    }
}
