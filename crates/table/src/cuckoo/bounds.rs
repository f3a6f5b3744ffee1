//! Computes the lines of a mixed key: home, partner, and the remainder that distinguishes it from other keys of a line.

/// The fewest lines of a table. The line's number encodes this many bits of a mixed key, so that the rest fits its slot
/// (14 + 18 bits of an IPv4 address beside 12 of value and 2 of state).
pub const FEWEST_LINES: u32 = 1 << 14;

/// The division of the mixed keys among the lines of a table.
///
/// The home line is `(upper * lines) >> 64` of the 64-bit upper part of the mixed key (Lemire, "Fast random integer
/// generation in an interval"), so any number of lines works. The rest of the product, without the bits that the number
/// of lines makes redundant, is the remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    lines: u32,
    /// Low bits of the product that the remainder omits.
    dropped: u32,
    /// Low bits of the upper part that are always zero, because the mixed key is shorter.
    padding: u32,
}

/// The home line of a key, and the bits that identify it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its home line.
    pub home: u32,
    /// Distinguishes it from other keys of the same home, together with `rest`.
    pub remainder: u64,
    /// The part of the mixed key that the line's number does not encode; zero if there is none.
    pub rest: u64,
}

impl Bounds {
    /// The bounds of `lines` lines for mixed keys whose upper part has `bits` significant bits, its highest, and
    /// whose slots keep at most `remainder_bits` of the remainder.
    pub fn new(lines: u32, bits: u32, remainder_bits: u32) -> Bounds {
        let padding = u64::BITS - bits;
        let dropped = (lines.ilog2() + padding).max(u64::BITS - remainder_bits);
        Bounds {
            lines,
            dropped,
            padding,
        }
    }

    /// The number of lines.
    #[inline(always)]
    pub fn lines(self) -> u32 {
        self.lines
    }

    /// The place of a mixed key.
    #[inline(always)]
    pub fn place(self, upper: u64, rest: u64) -> Place {
        let product = u128::from(upper) * u128::from(self.lines);
        Place {
            home: (product >> 64) as u32,
            remainder: product as u64 >> self.dropped,
            rest,
        }
    }

    /// The place of a mixed key of 32 bits, in fewer steps.
    #[inline(always)]
    pub fn place_short(self, upper: u32) -> Place {
        let product = u64::from(upper) * u64::from(self.lines);
        Place {
            home: (product >> u32::BITS) as u32,
            remainder: u64::from(product as u32 >> (self.dropped % u32::BITS)),
            rest: 0,
        }
    }

    /// The upper part of the mixed key with this home and remainder, if the remainder was kept whole: at most one
    /// multiple of the number of lines lies in the range of products that they name, because the range is not longer.
    pub fn upper(self, home: u32, remainder: u64) -> u64 {
        let product = u128::from(home) << 64 | u128::from(remainder) << self.dropped;
        let step = u128::from(self.lines) << self.padding;
        (product.div_ceil(step) as u64) << self.padding
    }

    /// The other line of a key with this remainder that may be in `line`; the partner of the partner is `line`.
    #[inline(always)]
    pub fn partner(self, line: u32, remainder: u64) -> u32 {
        /// Odd, with its bits at random places (the golden ratio's fraction): spreads the remainder to the high bits.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(remainder.wrapping_add(1).wrapping_mul(SPREAD)) * u128::from(self.lines);
        let sum = (product >> 64) as u32;
        if sum >= line {
            sum - line
        } else {
            self.lines - line + sum
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn home_and_remainder_give_the_mixed_key_back(
            lines in FEWEST_LINES..1 << 31, upper: u64,
        ) {
            for (bits, remainder_bits) in [(32, 18), (64, 50)] {
                let bounds = Bounds::new(lines, bits, remainder_bits);
                let upper = upper >> (64 - bits) << (64 - bits);
                let place = bounds.place(upper, 0);
                prop_assert!(place.home < lines);
                prop_assert!(place.remainder >> remainder_bits == 0);
                prop_assert_eq!(bounds.upper(place.home, place.remainder), upper);
                if bits == 32 {
                    prop_assert_eq!(bounds.place_short((upper >> 32) as u32), bounds.place(upper, 0));
                }
            }
        }

        #[test]
        fn the_partner_of_the_partner_is_the_line_itself(lines in 1_u32..1 << 31, at: u32, remainder in 0_u64..1 << 50) {
            let bounds = Bounds::new(lines, 64, 50);
            let line = at % lines;
            let partner = bounds.partner(line, remainder);
            prop_assert!(partner < lines);
            prop_assert_eq!(bounds.partner(partner, remainder), line);
        }
    }
}
