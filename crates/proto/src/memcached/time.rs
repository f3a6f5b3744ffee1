//! Times and expiry. Times are whole seconds since an epoch that the server chooses once, when it starts.

/// The largest `exptime` that counts from now; larger ones are Unix times.
const LARGEST_RELATIVE: i32 = 60 * 60 * 24 * 30;

/// An expiry in the past: what has it is gone.
const PAST: u32 = 1;

/// The time of a batch of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since the epoch. The epoch should be some seconds before the server's start (memcached's is 62), since
    /// expiry times 0 and 1 mean "never" and "in the past".
    pub now: u32,
    /// The epoch: Unix time in seconds.
    pub epoch: u32,
}

impl Clock {
    /// When an item with this `exptime` of a request expires: 0 is never.
    pub fn expiry(self, exptime: i32) -> u32 {
        if exptime == 0 {
            0
        } else if exptime < 0 {
            PAST
        } else if exptime <= LARGEST_RELATIVE {
            self.now.wrapping_add(exptime as u32)
        } else {
            match (exptime as u32).checked_sub(self.epoch) {
                None | Some(0) => PAST,
                Some(expiry) => expiry,
            }
        }
    }

    /// Whether something with this expiry is gone.
    pub fn is_past(self, expiry: u32) -> bool {
        expiry != 0 && expiry <= self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exptime_is_relative_up_to_thirty_days_then_a_unix_time() {
        let clock = Clock {
            now: 100,
            epoch: 1_700_000_000,
        };
        let cases = [
            (0, 0),
            (1, 101),
            (2_592_000, 2_592_100),
            (2_592_001, PAST),
            (-1, PAST),
            (i32::MIN, PAST),
            (1_700_000_000, PAST),
            (1_700_000_150, 150),
        ];
        for (exptime, expiry) in cases {
            assert_eq!(clock.expiry(exptime), expiry, "{exptime}");
        }
        assert!(clock.is_past(100) && !clock.is_past(101) && !clock.is_past(0));
    }
}
