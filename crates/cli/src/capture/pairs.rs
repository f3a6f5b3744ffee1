//! Logs of hashes and queues: a file enters, pairs leave line by line.

use crate::outcome::usage;
use corelane_packet::verify::log;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The pairs of a log file, read line by line.
pub struct Pairs<'a> {
    path: &'a Path,
    lines: std::iter::Zip<std::ops::RangeFrom<usize>, std::io::Lines<BufReader<File>>>,
}

impl<'a> Pairs<'a> {
    /// Opens a log.
    pub fn open(path: &'a Path) -> anyhow::Result<Pairs<'a>> {
        let file =
            File::open(path).map_err(|error| usage("--log", format!("{}: {error}", path.display())))?;
        let lines = (1..).zip(BufReader::new(file).lines());
        Ok(Pairs { path, lines })
    }

    fn wrong(&self, error: impl std::fmt::Display) -> anyhow::Error {
        usage("--log", format!("{}: {error}", self.path.display()))
    }
}

impl Iterator for Pairs<'_> {
    type Item = anyhow::Result<log::Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (number, line) = self.lines.next()?;
            let pair = match line {
                Ok(line) => log::pair(number, &line).map_err(|error| self.wrong(error)),
                Err(error) => Err(self.wrong(format!("line {number}: {error}"))),
            };
            if let Some(pair) = pair.transpose() {
                return Some(pair);
            }
        }
    }
}
