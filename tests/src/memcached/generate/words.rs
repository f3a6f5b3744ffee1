//! Keys, values, numbers and times of requests.

use super::super::compare::CLIENTS_CAS;
use super::super::sequence::LAST_CAS;
use super::Generator;

/// Numbers at the limits of what is parsed as 32 or 64 bits, signed or not; and what is no number.
const LIMITS: &[&str] = &[
    "0",
    "-0",
    "+1",
    "007",
    "-1",
    "1.5",
    "1e3",
    "0x10",
    "abc",
    "1a",
    "--1",
    "-",
    "4294967295",
    "4294967296",
    "-2147483648",
    "-2147483649",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
];

/// Numbers as values and differences.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "5",
    "9",
    "10",
    "99",
    "100",
    "1000",
    "4294967295",
    "18446744073709551614",
    "18446744073709551615",
];

impl Generator {
    /// One of these.
    pub(super) fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.usize(..choices.len())]
    }

    /// True once in so many.
    pub(super) fn once_in(&mut self, many: u32) -> bool {
        self.random.u32(..many) == 0
    }

    /// A key of any value.
    pub(super) fn plain_key(&mut self) -> Vec<u8> {
        // One is met more often than the others.
        let keys = if self.random.bool() {
            1
        } else {
            self.keys.plain.len()
        };
        self.keys.plain[self.random.usize(..keys)].clone()
    }

    /// A key whose values are numbers.
    pub(super) fn numeric_key(&mut self) -> Vec<u8> {
        let key = usize::from(self.once_in(4));
        self.keys.numeric[key].clone()
    }

    /// A key that may be read in this round.
    pub(super) fn read_key(&mut self) -> Vec<u8> {
        if self.changes_numbers {
            self.plain_key()
        } else {
            self.any_key()
        }
    }

    /// Either.
    pub(super) fn any_key(&mut self) -> Vec<u8> {
        if self.once_in(3) {
            self.numeric_key()
        } else {
            self.plain_key()
        }
    }

    /// A value for this key: a number, or bytes that do not begin with one.
    pub(super) fn value_of(&mut self, key: &[u8]) -> Vec<u8> {
        if self.keys.numeric.iter().any(|numeric| numeric == key) {
            return self.number().into();
        }
        let length = match self.random.u16(0..2_000) {
            0 => self.random.usize(500_000..700_000),
            1..10 => self.random.usize(3_000..40_000),
            10..300 => self.random.usize(100..=3_000),
            300..400 => 0,
            _ => self.random.usize(1..20),
        };
        let length = if self.is_short { length.min(1_900) } else { length };
        let is_text = self.random.bool();
        let byte = |at: usize, random: u8| match at {
            0 => b'v',
            _ if is_text => b'a' + random % 26,
            _ => random,
        };
        (0..length).map(|at| byte(at, self.random.u8(..))).collect()
    }

    /// A number that `incr` takes as value.
    pub(super) fn number(&mut self) -> &'static str {
        self.one_of(NUMBERS)
    }

    /// A number at a limit, or none.
    pub(super) fn limit(&mut self) -> &'static str {
        self.one_of(LIMITS)
    }

    /// A time to live as clients send it: seconds, or seconds since 1970.
    pub(super) fn time_to_live(&mut self) -> String {
        let days = 24 * 60 * 60;
        if self.expire_soon && self.random.bool() {
            return self.one_of(&["1", "2"]).to_owned();
        }
        match self.random.u8(0..16) {
            0..6 => "0".to_owned(),
            6..10 => self.one_of(&["30", "60", "100", "5000"]).to_owned(),
            10 => (30 * days).to_string(),
            11 => (30 * days + 1).to_string(),
            12 => (self.now + self.random.u64(40..100_000)).to_string(),
            13 => (self.now - self.random.u64(100..100_000)).to_string(),
            14 => self.one_of(&["-1", "-10", "-2147483648"]).to_owned(),
            _ => self.one_of(&["2147483647", "4000000"]).to_owned(),
        }
    }

    /// The flags that a client stores with an item.
    pub(super) fn client_flags(&mut self) -> &'static str {
        self.one_of(&["0", "0", "1", "12345", "4294967295"])
    }

    /// The CAS number that a client sends: the last that it was sent, one of its own, or none that any item has.
    pub(super) fn cas(&mut self) -> Vec<u8> {
        match self.random.u8(0..8) {
            0..5 if !self.is_short => LAST_CAS.to_vec(),
            7 => b"0".to_vec(),
            _ => self.clients_cas(),
        }
    }

    /// A CAS number that a client gives to an item.
    pub(super) fn clients_cas(&mut self) -> Vec<u8> {
        (CLIENTS_CAS + self.random.u64(..3)).to_string().into_bytes()
    }
}
