//! Decimal numbers: the three ways in which memcached reads them, and how it writes them.

/// Most digits that the tokens of 32-bit numbers can have, and of 64-bit numbers.
const LONGEST_32: usize = 11;
const LONGEST_64: usize = 22;

/// A token as a number: digits only. The number of digits is limited, leading zeros included.
pub fn u32_of(token: &[u8]) -> Option<u32> {
    if token.len() > LONGEST_32 {
        return None;
    }
    token.iter().try_fold(0u32, |sum, byte| {
        sum.checked_mul(10)?.checked_add(u32::from(digit(*byte)?))
    })
}

/// As [`u32_of`], for 64 bits.
pub fn u64_of(token: &[u8]) -> Option<u64> {
    if token.len() > LONGEST_64 {
        return None;
    }
    token.iter().try_fold(0u64, |sum, byte| {
        sum.checked_mul(10)?.checked_add(u64::from(digit(*byte)?))
    })
}

/// As [`u32_of`], signed: a `-` can be in front, and alone it is zero.
pub fn i32_of(token: &[u8]) -> Option<i32> {
    if token.len() > LONGEST_32 {
        return None;
    }
    let (negative, digits) = match token {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    digits.iter().try_fold(0i32, |sum, byte| {
        let digit = i32::from(digit(*byte)?);
        let sum = sum.checked_mul(10)?;
        if negative {
            sum.checked_sub(digit)
        } else {
            sum.checked_add(digit)
        }
    })
}

fn digit(byte: u8) -> Option<u8> {
    let digit = byte.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

/// A number at the front of a text, as `strtoull` reads it: after white space and a sign, as many digits as there are,
/// and then white space, a zero byte or the end. A negative number wraps, and is refused if its upper bit is then set.
pub fn wrapping_u64(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = front(text)?;
    let number = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    (!negative || number <= i64::MAX as u64).then_some(number)
}

/// As [`wrapping_u64`], of which the lower half is used.
pub fn wrapping_u32(text: &[u8]) -> Option<u32> {
    wrapping_u64(text).map(|number| number as u32)
}

/// A number at the front of a text, as `strtol` reads it with 64 bits, of which the lower half is used.
pub fn wrapping_i32(text: &[u8]) -> Option<i32> {
    let (negative, magnitude) = front(text)?;
    let number = if negative {
        0i64.checked_sub_unsigned(magnitude)?
    } else {
        i64::try_from(magnitude).ok()?
    };
    Some(number as i32)
}

fn front(text: &[u8]) -> Option<(bool, u64)> {
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let (negative, digits) = match &text[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let length = digits
        .iter()
        .position(|byte| digit(*byte).is_none())
        .unwrap_or(digits.len());
    let ends = digits
        .get(length)
        .is_none_or(|byte| *byte == 0 || is_space(*byte));
    if length == 0 || !ends {
        return None;
    }
    let magnitude = digits[..length].iter().try_fold(0u64, |sum, byte| {
        sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })?;
    Some((negative, magnitude))
}

/// `isspace` of the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The digits of the numbers below 100.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Text that is written from its end to its front, of at most `N` bytes.
pub struct Backwards<const N: usize> {
    bytes: [u8; N],
    start: usize,
}

/// The digits of a number.
pub type Decimal = Backwards<20>;

impl Decimal {
    pub fn new(number: u64) -> Self {
        let mut digits = Self::empty();
        digits.number(number);
        digits
    }
}

impl<const N: usize> Backwards<N> {
    pub fn empty() -> Self {
        Self {
            bytes: [0; N],
            start: N,
        }
    }

    /// Puts a byte in front.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.start -= 1;
        self.bytes[self.start] = byte;
    }

    /// Puts a number in front.
    #[inline]
    pub fn number(&mut self, mut number: u64) {
        while number >= 10 {
            self.start -= 2;
            self.bytes[self.start..][..2].copy_from_slice(&PAIRS[(number % 100) as usize]);
            number /= 100;
            if number == 0 {
                return;
            }
        }
        self.byte(b'0' + number as u8);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_digits_within_a_length_and_a_range() {
        assert_eq!(u32_of(b"4294967295"), Some(u32::MAX));
        assert_eq!(u32_of(b"4294967296"), None);
        assert_eq!(u32_of(b"00000000001"), Some(1));
        assert_eq!(u32_of(b"000000000001"), None);
        assert_eq!(u64_of(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(u64_of(b"18446744073709551616"), None);
        assert_eq!(u64_of(b"+1"), None);
        assert_eq!(i32_of(b"-2147483648"), Some(i32::MIN));
        assert_eq!(i32_of(b"2147483648"), None);
        assert_eq!(i32_of(b"-"), Some(0));
        assert_eq!(i32_of(b"1-"), None);
    }

    #[test]
    fn fronts_of_texts_are_read_as_the_c_library_does() {
        assert_eq!(wrapping_u32(b"\t+7 x"), Some(7));
        assert_eq!(wrapping_u32(b"4294967297\r\n"), Some(1));
        assert_eq!(wrapping_u32(b"-18446744073709551615 "), Some(1));
        assert_eq!(wrapping_u32(b"-1 "), None);
        assert_eq!(wrapping_u32(b"18446744073709551616 "), None);
        assert_eq!(wrapping_u32(b"1x"), None);
        assert_eq!(wrapping_u32(b"- 1"), None);
        assert_eq!(wrapping_u64(b"12\0x"), Some(12));
        assert_eq!(wrapping_u64(b"  \r\n"), None);
        assert_eq!(wrapping_i32(b"-1 "), Some(-1));
        assert_eq!(wrapping_i32(b"4294967296 "), Some(0));
        assert_eq!(wrapping_i32(b"9223372036854775808 "), None);
        assert_eq!(wrapping_i32(b"-9223372036854775808 "), Some(0));
    }

    #[test]
    fn numbers_are_written_without_leading_zeros() {
        assert_eq!(Decimal::new(0).bytes(), b"0");
        assert_eq!(Decimal::new(1_000).bytes(), b"1000");
        for number in (0..1_000).chain([10_001, 99_999, 100_000]) {
            assert_eq!(Decimal::new(number).bytes(), number.to_string().as_bytes());
        }
        assert_eq!(Decimal::new(u64::MAX).bytes(), b"18446744073709551615");
    }
}
