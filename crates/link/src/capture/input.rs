//! Reads the bytes of a capture file from its start to its end.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// A file that is being read.
pub(super) struct Input(BufReader<File>);

/// Why the file can be read no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// It ends within a record: the program that wrote it was killed, or its disk was full.
    CutOff,
    /// Its contents contradict themselves, or it cannot be read.
    Damaged(String),
}

/// The byte order of a file's numbers, as its first bytes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// The order in which these bytes are this number.
    pub(super) fn of(bytes: [u8; 4], number: u32) -> Option<Order> {
        [Order::Little, Order::Big]
            .into_iter()
            .find(|order| order.u32(bytes) == number)
    }

    fn lowest_first<const N: usize>(self, mut bytes: [u8; N]) -> [u8; N] {
        if self == Order::Big {
            bytes.reverse();
        }
        bytes
    }

    pub(super) fn u16(self, bytes: [u8; 2]) -> u16 {
        u16::from_le_bytes(self.lowest_first(bytes))
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        u32::from_le_bytes(self.lowest_first(bytes))
    }

    pub(super) fn i64(self, bytes: [u8; 8]) -> i64 {
        i64::from_le_bytes(self.lowest_first(bytes))
    }

    /// The number of four bytes at `at`, if there are so many.
    pub(super) fn number(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.u32(*bytes.get(at..)?.first_chunk()?))
    }
}

/// Bytes of the longest record that is read: more than any program writes.
const LONGEST: usize = 1 << 28;

/// A length that the file does not have takes no more memory than this beyond the file's own length.
const STEP: usize = 1 << 20;

impl Input {
    pub(super) fn new(file: File) -> Input {
        Input(BufReader::with_capacity(1 << 20, file))
    }

    /// The next bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map_err(stop)?;
        Ok(bytes)
    }

    /// The next bytes; `None` at the end of the file.
    pub(super) fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Stop> {
        match self.0.fill_buf().map_err(stop)? {
            [] => Ok(None),
            _ => self.array().map(Some),
        }
    }

    /// Reads `count` bytes into `buffer`, from the offset `at` on. The buffer grows as needed and is not shortened.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>, at: usize, count: usize) -> Result<(), Stop> {
        if count > LONGEST {
            return Err(Stop::Damaged(format!("a record of {count} bytes")));
        }
        let (mut have, end) = (at, at + count);
        while have < end {
            let until = end.min(have + STEP);
            if buffer.len() < until {
                buffer.resize(until, 0);
            }
            self.0.read_exact(&mut buffer[have..until]).map_err(stop)?;
            have = until;
        }
        Ok(())
    }

    /// Passes over bytes.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), Stop> {
        match io::copy(&mut (&mut self.0).take(count), &mut io::sink()).map_err(stop)? {
            skipped if skipped < count => Err(Stop::CutOff),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::CutOff => formatter.pad("it ends too early"),
            Stop::Damaged(what) => write!(formatter, "the file is damaged: {what}"),
        }
    }
}

fn stop(error: io::Error) -> Stop {
    match error.kind() {
        ErrorKind::UnexpectedEof => Stop::CutOff,
        _ => Stop::Damaged(error.to_string()),
    }
}
