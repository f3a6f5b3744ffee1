//! Answers out of the bytes of a connection, which may be split anywhere.

use super::sizes::LARGEST_VALUE;
use corelane_proto::memcached::client::{Answer, Parsed, Wrong, parse};
use memchr::memchr;

/// Keeps an answer whose end has not been received.
#[derive(Debug, Default)]
pub(super) struct Reader {
    held: Vec<u8>,
    /// Whether `held` is an answer that was returned.
    is_over: bool,
}

impl Reader {
    /// The next answer, which is taken from `bytes`; `None` if all are taken and more are needed.
    pub(super) fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<Answer<'a>>, Wrong> {
        if std::mem::take(&mut self.is_over) {
            self.held.clear();
        }
        if self.held.is_empty() {
            return match read(bytes)? {
                Parsed::Answer(answer, length) => {
                    *bytes = &bytes[length..];
                    Ok(Some(answer))
                }
                Parsed::Partial(_) => {
                    self.held.extend_from_slice(std::mem::take(bytes));
                    Ok(None)
                }
            };
        }
        while let Parsed::Partial(needed) = read(&self.held)? {
            if bytes.is_empty() {
                return Ok(None);
            }
            let wanted = match needed.checked_sub(self.held.len()) {
                Some(wanted) => wanted,
                None => memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1),
            };
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            self.held.extend_from_slice(taken);
            *bytes = rest;
        }
        self.is_over = true;
        match read(&self.held)? {
            Parsed::Answer(answer, _) => Ok(Some(answer)),
            Parsed::Partial(_) => Ok(None),
        }
    }
}

/// Bytes of what may be appended to the largest value.
const APPENDED: usize = 1 << 20;

fn read(bytes: &[u8]) -> Result<Parsed<'_>, Wrong> {
    parse(bytes, LARGEST_VALUE as usize + APPENDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_pieces_of_any_size_are_the_same() {
        let bytes = b"VALUE a 0 12\r\n0123456789\r\n\r\nEND\r\nSTORED\r\nVA 3 kb O1\r\nabc\r\nHD\r\n57\r\n";
        let mut expected = Vec::new();
        for size in (1..=bytes.len()).rev() {
            let (mut reader, mut answers) = (Reader::default(), Vec::new());
            for mut piece in bytes.chunks(size) {
                while !piece.is_empty() {
                    if let Some(answer) = reader.next(&mut piece).unwrap() {
                        answers.push(format!("{answer:?}"));
                    }
                }
            }
            if expected.is_empty() {
                expected = answers;
                assert_eq!(expected.len(), 6);
            } else {
                assert_eq!(answers, expected, "{size}");
            }
        }
    }
}
