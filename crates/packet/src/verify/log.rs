//! Parses logs of hashes and queues, one frame per line.
//!
//! In a plain log a line begins with a hash and a queue, separated by blanks, tabs or a comma; the rest is ignored. The hash
//! is hexadecimal after `0x`, otherwise decimal. Empty lines and lines that start with `#` are skipped; any other line is an
//! error.
//!
//! In the log of a driver or an application the two stand anywhere in a line behind their names, such as
//! `flowid=0x21f7db62; rxr->me=3` or `RSS hash=0x5263c3f2 - RSS queue=0x1`. Lines without both are counted.

use super::Queue;
use thiserror::Error;

/// The names of the hash and of the queue, with `=` or `:` behind them, in the logs of drivers and applications: ixgbe's of
/// FreeBSD, `dpdk-testpmd --verbose`, and their like.
const HASHES: [&str; 5] = ["flowid", "hash", "rss_hash", "rxhash", "rx_hash"];
const QUEUES: [&str; 7] = ["rxr->me", "queue", "ring", "rxq", "qid", "rx_queue", "queue_id"];

/// The hash and queue of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The hash that the device computed.
    pub hash: u32,
    /// The queue on which the frame arrived.
    pub queue: Queue,
}

/// The pairs of a whole log, in order, with an error for each invalid line.
pub fn pairs(text: &str) -> impl Iterator<Item = Result<Pair, LogError>> + '_ {
    Pairs::of(text.lines().map(Ok))
}

/// The pairs of a log that is read line by line.
#[derive(Debug)]
pub struct Pairs<L> {
    lines: L,
    /// Lines read.
    number: usize,
    kind: Kind,
    /// The pair behind an error that is given first.
    next: Option<Pair>,
    skipped: u64,
}

/// What the lines read so far show.
#[derive(Debug)]
enum Kind {
    /// Nothing, or the first line that is none of a plain log: an error unless this is the log of a driver.
    Unknown(Option<LogError>),
    Plain,
    OfDriver,
}

impl<L> Pairs<L> {
    /// The pairs of these lines, or errors of reading them.
    pub fn of(lines: L) -> Pairs<L> {
        Pairs {
            lines,
            number: 0,
            kind: Kind::Unknown(None),
            next: None,
            skipped: 0,
        }
    }

    /// Lines of a driver's log so far without a hash and a queue.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        match self.kind {
            Kind::OfDriver => self.skipped,
            _ => 0,
        }
    }

    /// The pair of a line; `None` if it has none.
    fn take(&mut self, line: &str) -> Result<Option<Pair>, LogError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if let Kind::Plain = self.kind {
            return plain(self.number, line).map(Some);
        }
        if let Some(pair) = labelled(line) {
            self.kind = Kind::OfDriver;
            return Ok(Some(pair));
        }
        self.skipped += 1;
        let Kind::Unknown(first) = &mut self.kind else {
            return Ok(None);
        };
        let (first, read) = (first.take(), plain(self.number, line));
        let Ok(pair) = read else {
            self.kind = Kind::Unknown(first.or(read.err()));
            return Ok(None);
        };
        self.kind = Kind::Plain;
        self.next = first.as_ref().map(|_| pair);
        first.map_or(Ok(Some(pair)), Err)
    }
}

impl<L, S, E> Iterator for Pairs<L>
where
    L: Iterator<Item = Result<S, E>>,
    S: AsRef<str>,
    E: From<LogError>,
{
    type Item = Result<Pair, E>;

    fn next(&mut self) -> Option<Result<Pair, E>> {
        if let Some(pair) = self.next.take() {
            return Some(Ok(pair));
        }
        while let Some(line) = self.lines.next() {
            self.number += 1;
            let pair = line.and_then(|line| Ok(self.take(line.as_ref())?));
            if let Some(pair) = pair.transpose() {
                return Some(pair);
            }
        }
        match &mut self.kind {
            Kind::Unknown(first) => first.take().map(|error| Err(error.into())),
            _ => None,
        }
    }
}

/// The pair of a line of a plain log.
fn plain(number: usize, line: &str) -> Result<Pair, LogError> {
    let mut fields = line
        .split(|separator: char| separator.is_whitespace() || separator == ',')
        .filter(|field| !field.is_empty());
    let hash_field = fields.next().unwrap_or_default();
    let wrong = |what| LogError { number, what };
    let queue_field = fields
        .next()
        .ok_or_else(|| wrong("a hash without a queue: give both, separated by a blank".to_owned()))?;
    let hash = match hash_field.strip_prefix("0x").or(hash_field.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => hash_field.parse(),
    };
    let hash = hash.map_err(|_| {
        wrong(format!(
            "{hash_field:?} is no hash: give 32 bits as 0x and hexadecimal digits, or in decimal"
        ))
    })?;
    let queue = queue_field.parse().map_err(|_| {
        wrong(format!(
            "{queue_field:?} is no queue: give its number, from 0 to 65535"
        ))
    })?;
    let queue = Queue(queue);
    Ok(Pair { hash, queue })
}

/// The pair of a line with the names of both. Eight digits are hexadecimal, as `%08x` prints a hash.
fn labelled(line: &str) -> Option<Pair> {
    let number = |names: &[&str], hexadecimal_at: usize| {
        let mut values = values(line);
        let (_, value) =
            values.find(|(name, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)))?;
        match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None if value.len() == hexadecimal_at => u32::from_str_radix(value, 16).ok(),
            None => value.parse().ok(),
        }
    };
    Some(Pair {
        hash: number(&HASHES, 8)?,
        queue: Queue(number(&QUEUES, usize::MAX)?.try_into().ok()?),
    })
}

/// Each name and value with `=` or `:` in between.
fn values(line: &str) -> impl Iterator<Item = (&str, &str)> {
    const QUOTES: [char; 3] = [' ', '"', '\''];
    line.match_indices(['=', ':']).map(|(at, _)| {
        let name = line[..at].trim_end_matches(QUOTES);
        let of_name = |letter: char| letter.is_ascii_alphanumeric() || "_->".contains(letter);
        let name = name.rsplit(|letter| !of_name(letter)).next().unwrap_or_default();
        let value = line[at + 1..].trim_start_matches(QUOTES);
        let end = value.find(|letter: char| !letter.is_ascii_alphanumeric());
        (name, &value[..end.unwrap_or(value.len())])
    })
}

/// An invalid line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {number}: {what}")]
pub struct LogError {
    /// Line number, from one.
    pub number: usize,
    /// The problem, and the expected form.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Pair = Pair {
        hash: 0x21f7_db62,
        queue: Queue(3),
    };

    fn read(text: &str) -> (Vec<Result<Pair, LogError>>, u64) {
        let mut pairs = Pairs::of(text.lines().map(Ok));
        let read = pairs.by_ref().collect();
        (read, pairs.skipped())
    }

    #[test]
    fn lines_are_read_with_blanks_tabs_commas_and_third_columns() {
        for line in [
            "0x21f7db62\t3\t2",
            "  0x21F7DB62 3 ",
            "0x21f7db62,3,2,1",
            "569891682, 3",
        ] {
            assert_eq!(read(line), (vec![Ok(EXPECTED)], 0), "{line}");
        }
        assert_eq!(read("\n   \n# flowid ring\n"), (Vec::new(), 0));
    }

    #[test]
    fn hash_and_queue_stand_behind_their_names_anywhere_in_a_line() {
        for line in [
            "kernel: ix0: ixgbe_rxeof: 100034: m=0xfffff80047713d00; flowid=0x21f7db62; rxr->me=3",
            "ix0: m=0x12 flowid=21f7db62 ring=3 cpu=1",
            "port 0/queue 3: received 1 packets - RSS hash=0x21f7db62 - RSS queue=0x3 - hw ptype",
            r#"{"rss_hash": "0x21f7db62", "rxq": 3}"#,
            "rxhash: 569891682, queue: 3",
        ] {
            let text = format!("boot: starting 12:30\n{line}\n");
            assert_eq!(read(&text), (vec![Ok(EXPECTED)], 1), "{line}");
        }
    }

    #[test]
    fn lines_of_a_driver_without_both_are_counted() {
        let log = "1: link up\n\nflowid=0x21f7db62; rxr->me=3\nflowid=0x1\nrehash=0x1 ring=1\nflowid=1 queue=70000\n0x1 2\n";
        assert_eq!(read(log), (vec![Ok(EXPECTED)], 5));
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        let log = "0x1 0\nflowid 0\n0x1\n0x100000000 1\n0x1 65536\n0x2 1";
        let errors: Vec<String> = pairs(log)
            .filter_map(Result::err)
            .map(|error| error.to_string())
            .collect();
        let expected = [
            "line 2: \"flowid\" is no hash",
            "line 3: a hash without a queue",
            "line 4: \"0x100000000\" is no hash",
            "line 5: \"65536\" is no queue",
        ];
        assert_eq!(errors.len(), expected.len());
        for (error, expected) in errors.iter().zip(expected) {
            assert!(error.starts_with(expected), "{error}");
        }
        assert_eq!(pairs(log).filter(Result::is_ok).count(), 2);
    }

    #[test]
    fn a_bad_first_line_is_an_error_unless_a_driver_s_line_follows() {
        let error = |text: &str| {
            let (read, _) = read(text);
            read[0].clone().unwrap_err().number
        };
        assert_eq!(error("flowid ring\n"), 1);
        assert_eq!(error("\nflowid ring\n0x21f7db62 3\n"), 2);
        let (both, _) = read("flowid ring\n0x21f7db62 3\n");
        assert_eq!(both[1..], [Ok(EXPECTED)]);
    }
}
