//! Compares the answers of two servers to the same requests, byte for byte, but for what may differ:
//!
//! - CAS numbers, which each server issues itself: they correspond one to one, and may have to be in the same order. Numbers of
//!   clients are equal;
//! - times to live and since the last access: one second, as two clocks tick at different moments. A time before the server's start,
//!   which upstream prints modulo 2³², is any such time. The last access of items that have aged depends on where upstream's LRU has
//!   them;
//! - spaces after a number: upstream keeps the length of a value that `decr` makes shorter, unless an unsent answer refers to it;
//! - the empty line that upstream sends after the error for a too long key of `get`;
//! - what `me` prints of upstream's memory: `cls` and `size`;
//! - the version.

use std::collections::BTreeMap;
use std::iter;

/// Numbers below are issued by servers, the others given by clients (`E`).
pub const CLIENTS_CAS: u64 = 1_000_000_000_000;

/// Times from this on are before the server's start, modulo 2³².
const BEFORE_START: i64 = 1 << 31;

/// Whether CAS numbers of a server with several partitions are compared, which are in order in each of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CasOrder {
    /// The numbers of both servers have the same order.
    Same,
    /// They correspond one to one.
    Any,
}

/// What may differ besides.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The order of CAS numbers.
    pub order: CasOrder,
    /// Items have aged.
    pub aged: bool,
    /// A connection was reset: the answers are compared as far as they go.
    pub reset: bool,
}

/// Compares the answers of `expected` and `actual` over one connection.
///
/// # Errors
/// The first answers that differ, as text.
pub fn compare(expected: &[u8], actual: &[u8], tolerance: Tolerance) -> Result<(), String> {
    let mut numbers = CasNumbers::default();
    let (mut left, mut right) = (Answers(expected).peekable(), Answers(actual).peekable());
    loop {
        let (expected, actual) = (left.next(), right.next());
        let (Some(expected), Some(actual)) = (expected, actual) else {
            if tolerance.reset || expected == actual {
                return numbers.check(tolerance.order);
            }
            return Err(different(expected, actual));
        };
        if !alike(expected, actual, tolerance.aged, &mut numbers) {
            return Err(different(Some(expected), Some(actual)));
        }
        if expected.line == b"CLIENT_ERROR bad command line format\r\n" {
            let is_empty = |next: Option<&Answer<'_>>| next.is_some_and(|next| next.line == b"\r\n");
            match (is_empty(left.peek()), is_empty(right.peek())) {
                (true, false) => drop(left.next()),
                (false, true) => drop(right.next()),
                _ => {}
            }
        }
    }
}

fn different(expected: Option<Answer<'_>>, actual: Option<Answer<'_>>) -> String {
    let text = |answer: Option<Answer<'_>>| {
        answer.map_or("nothing".to_owned(), |answer| {
            let bytes = [answer.line, answer.value].concat();
            super::sequence::printed(&bytes)
        })
    };
    format!(
        "upstream answers {}\nthe subject      {}",
        text(expected),
        text(actual)
    )
}

/// One line of an answer, with the value that follows it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Answer<'a> {
    line: &'a [u8],
    value: &'a [u8],
}

/// The answers in what a server sent.
struct Answers<'a>(&'a [u8]);

impl<'a> Iterator for Answers<'a> {
    type Item = Answer<'a>;

    fn next(&mut self) -> Option<Answer<'a>> {
        // Upstream shows a binary key that was appended to as it is, with its line ends. No answer begins with a space.
        let is_end = |at: &usize| self.0[*at] == b'\n' && self.0.get(at + 1) != Some(&b' ');
        let end = (0..self.0.len()).find(is_end);
        let (line, rest) = self.0.split_at(end.map_or(self.0.len(), |end| end + 1));
        if line.is_empty() {
            return None;
        }
        let words: Vec<&[u8]> = words(line).collect();
        let length = match words[0] {
            b"VALUE" => words.get(3),
            b"VA" => words.get(1),
            _ => None,
        };
        let length = length
            .and_then(|word| number(word))
            .map_or(0, |length| length + 2);
        let (value, rest) = rest.split_at(rest.len().min(usize::try_from(length).unwrap_or(0)));
        self.0 = rest;
        Some(Answer { line, value })
    }
}

/// The words of a line, without its end.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r")
        .unwrap_or(line)
        .split(|byte| *byte == b' ')
}

fn number(word: &[u8]) -> Option<i64> {
    str::from_utf8(word).ok()?.parse().ok()
}

/// What a word of an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cas,
    Seconds,
    LastAccess,
    Length,
    Memory,
    Version,
    Other,
}

/// What the word at a place of a line is, and how long its name is.
fn kind(first: &[u8], place: usize, word: &[u8]) -> (Kind, usize) {
    let meta = |word: &[u8]| match word.first() {
        Some(b'c') => (Kind::Cas, 1),
        Some(b't') => (Kind::Seconds, 1),
        Some(b'l') => (Kind::LastAccess, 1),
        Some(b's') => (Kind::Length, 1),
        _ => (Kind::Other, 0),
    };
    match (first, place) {
        (b"VALUE", 3) | (b"VA", 1) => (Kind::Length, 0),
        (b"VALUE", 4) => (Kind::Cas, 0),
        (b"VERSION", 1) => (Kind::Version, 0),
        (b"VA", 2..) | (b"HD" | b"EX" | b"NF" | b"NS", 1..) => meta(word),
        (b"ME", 2..) => {
            let name = word.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1);
            let kind = match &word[..name] {
                b"cas=" => Kind::Cas,
                b"exp=" => Kind::Seconds,
                b"la=" => Kind::LastAccess,
                b"cls=" | b"size=" => Kind::Memory,
                _ => Kind::Other,
            };
            (kind, name)
        }
        _ => (Kind::Other, 0),
    }
}

/// Whether two answers mean the same; their CAS numbers are noted.
fn alike(expected: Answer<'_>, actual: Answer<'_>, aged: bool, numbers: &mut CasNumbers) -> bool {
    let are_padded = expected.value != actual.value;
    if are_padded && !is_same_number(expected.value, actual.value) {
        return false;
    }
    let words_of = |answer: Answer<'_>| words(answer.line).count();
    let ends_alike = expected.line.ends_with(b"\r\n") == actual.line.ends_with(b"\r\n");
    if words_of(expected) != words_of(actual) || !ends_alike {
        return false;
    }
    let first = words(expected.line).next().unwrap_or_default();
    let pairs = iter::zip(words(expected.line), words(actual.line));
    for (place, (one, other)) in pairs.enumerate() {
        let (kind_of_one, name) = kind(first, place, one);
        if kind(first, place, other) != (kind_of_one, name) || one[..name] != other[..name] {
            return false;
        }
        let are_equal = one == other;
        let is_permitted = match (kind_of_one, number(&one[name..]), number(&other[name..])) {
            (Kind::Cas, Some(one), Some(other)) => numbers.note(one, other),
            (Kind::LastAccess, Some(_), Some(_)) if aged => true,
            (Kind::Seconds | Kind::LastAccess, Some(one), Some(other)) => is_same_time(one, other),
            (Kind::Length, Some(_), Some(_)) => are_padded,
            (Kind::Memory, Some(_), Some(_)) | (Kind::Version, ..) => true,
            _ => false,
        };
        if !are_equal && !is_permitted {
            return false;
        }
    }
    true
}

/// Whether two values are the same number with other spaces behind it.
fn is_same_number(one: &[u8], other: &[u8]) -> bool {
    let digits = |value: &[u8]| {
        value
            .strip_suffix(b"\r\n")
            .map(|value| value.trim_ascii_end().to_vec())
    };
    let number = digits(one);
    number == digits(other) && number.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

fn is_same_time(one: i64, other: i64) -> bool {
    let is_before_start = |time: i64| !(-1..BEFORE_START).contains(&time);
    (one - other).abs() <= 1 || (is_before_start(one) && is_before_start(other))
}

/// The pairs of CAS numbers that two servers sent at the same places.
#[derive(Default)]
struct CasNumbers {
    pairs: BTreeMap<u64, u64>,
    back: BTreeMap<u64, u64>,
}

impl CasNumbers {
    /// Whether these may correspond.
    fn note(&mut self, expected: i64, actual: i64) -> bool {
        let (Ok(expected), Ok(actual)) = (u64::try_from(expected), u64::try_from(actual)) else {
            return expected == actual;
        };
        if expected.max(actual) >= CLIENTS_CAS || expected.min(actual) == 0 {
            return expected == actual;
        }
        *self.pairs.entry(expected).or_insert(actual) == actual
            && *self.back.entry(actual).or_insert(expected) == expected
    }

    /// Whether they have this order.
    fn check(&self, order: CasOrder) -> Result<(), String> {
        let pairs: Vec<_> = self.pairs.iter().collect();
        match pairs.windows(2).find(|two| two[0].1 > two[1].1) {
            Some(two) if order == CasOrder::Same => Err(format!(
                "CAS numbers of upstream and subject are in another order: {:?}, {:?}",
                two[0], two[1]
            )),
            _ => Ok(()),
        }
    }
}

/// The CAS numbers in what a server sent.
pub fn cas_numbers(answers: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    for answer in Answers(answers) {
        let first = words(answer.line).next().unwrap_or_default();
        for (place, word) in words(answer.line).enumerate() {
            let (kind, name) = kind(first, place, word);
            let cas = str::from_utf8(&word[name..])
                .ok()
                .and_then(|text| text.parse::<u64>().ok());
            found.extend(cas.filter(|_| kind == Kind::Cas));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Tolerance = Tolerance {
        order: CasOrder::Same,
        aged: false,
        reset: false,
    };

    fn alike_but(expected: &str, actual: &str, tolerance: Tolerance) -> bool {
        compare(expected.as_bytes(), actual.as_bytes(), tolerance).is_ok()
    }

    fn alike(expected: &str, actual: &str) -> bool {
        alike_but(expected, actual, STRICT)
    }

    #[test]
    fn any_other_byte_is_a_difference() {
        let answers = "STORED\r\nVALUE a 1 2\r\nxy\r\nEND\r\nHD t30 c7 Oab\r\nEN\r\n";
        assert!(alike(answers, answers));
        for at in 0..answers.len() {
            let mut other = answers.as_bytes().to_vec();
            other[at] ^= 1;
            // t31 is one second off, and c6 another server's number.
            let is_permitted = ["0 c7", "7 Oab"]
                .iter()
                .any(|place| answers[at..].starts_with(place));
            let compared = compare(answers.as_bytes(), &other, STRICT);
            assert_eq!(compared.is_ok(), is_permitted, "{}", other.escape_ascii());
            assert!(compare(answers.as_bytes(), &answers.as_bytes()[..at], STRICT).is_err());
        }
    }

    #[test]
    fn cas_numbers_correspond_one_to_one_and_in_order() {
        let gets = |one: u64, other: u64| format!("VALUE a 0 1 {one}\r\nx\r\nHD c{other} t-1\r\n");
        assert!(alike(&gets(3, 4), &gets(17, 28)));
        assert!(!alike(&gets(3, 4), &gets(17, 17)));
        assert!(!alike(&gets(3, 3), &gets(17, 18)));
        assert!(!alike(&gets(3, 4), &gets(18, 17)));
        let any = Tolerance {
            order: CasOrder::Any,
            ..STRICT
        };
        assert!(alike_but(&gets(3, 4), &gets(18, 17), any));
        assert!(!alike_but(&gets(3, 4), &gets(17, 17), any));
        assert!(!alike(&gets(3, CLIENTS_CAS), &gets(3, CLIENTS_CAS + 1)));
        assert!(!alike(&gets(3, 0), &gets(3, 4)));
    }

    #[test]
    fn times_may_be_one_second_off() {
        assert!(alike("HD t30 l0\r\n", "HD t29 l1\r\n"));
        let aged = Tolerance { aged: true, ..STRICT };
        assert!(alike_but("HD t30 l3\r\n", "HD t29 l0\r\n", aged));
        assert!(!alike_but("HD t30 l0\r\n", "HD t28 l0\r\n", aged));
        assert!(!alike("HD t30\r\n", "HD t28\r\n"));
        assert!(!alike("HD t-1\r\n", "HD t4294967200\r\n"));
        assert!(alike("HD t4294967230\r\n", "HD t4294967200\r\n"));
        let me = |seconds: u32, size: u32| {
            format!("ME a exp=-1 la={seconds} cas=3 fetch=no cls=1 size={size}\r\n")
        };
        assert!(alike(&me(0, 63), &me(1, 48)));
        assert!(!alike(&me(0, 63), &me(2, 48)));
        assert!(!alike(&me(0, 63), &me(0, 63).replace("no", "yes")));
    }

    #[test]
    fn spaces_behind_a_number_are_no_difference() {
        assert!(alike(
            "VALUE n 0 2\r\n9 \r\nEND\r\n",
            "VALUE n 0 1\r\n9\r\nEND\r\n"
        ));
        assert!(alike("VA 2 s2\r\n9 \r\n", "VA 1 s1\r\n9\r\n"));
        assert!(!alike("VALUE n 0 2\r\n9 \r\n", "VALUE n 0 1\r\n8\r\n"));
        assert!(!alike("VALUE n 0 2\r\nx \r\n", "VALUE n 0 1\r\nx\r\n"));
        assert!(!alike("HD s2\r\n", "HD s1\r\n"));
    }

    #[test]
    fn one_empty_line_may_follow_the_error_for_a_too_long_key() {
        let error = "CLIENT_ERROR bad command line format\r\n";
        assert!(alike(&format!("{error}\r\nEND\r\n"), &format!("{error}END\r\n")));
        assert!(!alike(
            &format!("{error}\r\n\r\nEND\r\n"),
            &format!("{error}END\r\n")
        ));
        assert!(!alike("ERROR\r\n\r\n", "ERROR\r\n"));
    }

    #[test]
    fn versions_differ() {
        assert!(alike("VERSION 1.6.45\r\n", "VERSION 1.6.45-other\r\n"));
        assert!(!alike("VERSION 1.6.45\r\n", "VERSION 1.6.45 other\r\n"));
    }

    #[test]
    fn values_are_no_lines() {
        let value = |inside: &str| format!("VA {}\r\n{inside}\r\nEN\r\n", inside.len());
        assert!(!alike(&value("HD t30\r\n"), &value("HD t29\r\n")));
        assert_eq!(cas_numbers(value("HD c5\r\n").as_bytes()), [0; 0]);
        assert_eq!(cas_numbers(b"HD c5 t6\r\nVALUE a 0 1 7\r\nx\r\n"), [5, 7]);
    }

    #[test]
    fn a_key_may_have_line_ends() {
        let answer = |cas: u64, value: &str| format!("VA 1 ka\r\n c{cas} t30\r\n{value}\r\nHD ka\r\n\r\n");
        assert!(alike(&answer(3, "x"), &answer(4, "x")));
        assert!(!alike(&answer(3, "x"), &answer(4, "y")));
        assert_eq!(cas_numbers(answer(3, "x").as_bytes()), [3]);
    }

    #[test]
    fn answers_before_a_reset_are_compared() {
        let reset = Tolerance {
            reset: true,
            ..STRICT
        };
        assert!(alike_but("OK\r\nEN\r\n", "OK\r\n", reset));
        assert!(!alike_but("OK\r\nEN\r\n", "NO\r\n", reset));
    }
}
