//! Parses logs of hashes and queues, one frame per line.
//!
//! A line holds a hash and a queue, separated by blanks, tabs or a comma; the rest is ignored. The hash is hexadecimal
//! after `0x`, otherwise decimal. Empty lines and lines that start with `#` are skipped.

use super::Queue;
use thiserror::Error;

/// The hash and queue of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The hash that the device computed.
    pub hash: u32,
    /// The queue on which the frame arrived.
    pub queue: Queue,
}

/// Parses a line; `None` for an empty line or a comment. `number` is the line number, from one, for the error.
pub fn pair(number: usize, line: &str) -> Result<Option<Pair>, LogError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
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
    Ok(Some(Pair { hash, queue }))
}

/// The pairs of a whole log, in order, with an error for each invalid line.
pub fn pairs(text: &str) -> impl Iterator<Item = Result<Pair, LogError>> + '_ {
    (1..)
        .zip(text.lines())
        .filter_map(|(number, line)| pair(number, line).transpose())
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

    #[test]
    fn lines_are_read_with_blanks_tabs_commas_and_third_columns() {
        let expected = Some(Pair {
            hash: 0x21f7_db62,
            queue: Queue(3),
        });
        for line in [
            "0x21f7db62\t3\t2",
            "  0x21F7DB62 3 ",
            "0x21f7db62,3,2,1",
            "569891682, 3",
        ] {
            assert_eq!(pair(1, line), Ok(expected), "{line}");
        }
        for line in ["", "   ", "# flowid ring"] {
            assert_eq!(pair(1, line), Ok(None), "{line:?}");
        }
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
}
