//! Which worker of a server owns a key, and how its packets are steered: what `stats corelane` says.

use corelane_measure::share::Share;
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The owners of keys: worker *i* is bucket *i* of the steering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    /// Seed of the hash of keys.
    pub seed: u64,
    /// Number of workers.
    pub partitions: usize,
    /// How the server's packets are steered.
    pub steering: Steering,
}

/// What a server says, and the address that it was asked from.
#[derive(Debug, Clone)]
pub struct Said {
    /// This machine, as the server sees it.
    pub client: IpAddr,
    statistics: BTreeMap<String, String>,
}

/// Why it is not known who owns a key.
#[derive(Debug, Error)]
pub enum OwnersError {
    /// It cannot be asked.
    #[error("cannot ask {server} for `stats corelane`: {error}")]
    Io {
        /// The server.
        server: SocketAddr,
        /// What failed.
        error: io::Error,
    },
    /// It does not know the question.
    #[error(
        "{server} does not say who owns its keys (`stats corelane`: {answer}): that takes `corelane serve memcached`"
    )]
    NotSaid {
        /// The server.
        server: SocketAddr,
        /// What it answered.
        answer: String,
    },
    /// It says something else.
    #[error("`stats corelane` has no {name} that can be used: {value}")]
    Statistic {
        /// Name of the statistic.
        name: &'static str,
        /// What it is, or why it cannot be used.
        value: String,
    },
}

impl Said {
    /// Asks a server over TCP, waiting for each step this long at most.
    ///
    /// # Errors
    /// See [`OwnersError`].
    pub fn by(server: SocketAddr, patience: Duration) -> Result<Self, OwnersError> {
        let asked = ask(server, patience);
        let (client, lines) = asked.map_err(|error| OwnersError::Io { server, error })?;
        let statistics: BTreeMap<_, _> = lines.iter().filter_map(|line| statistic(line)).collect();
        match statistics.is_empty() {
            true => Err(OwnersError::NotSaid {
                server,
                answer: lines.join(" "),
            }),
            false => Ok(Self { client, statistics }),
        }
    }

    /// Who owns the keys.
    ///
    /// # Errors
    /// If that is not said, or not in a way that is known here.
    pub fn owners(&self) -> Result<Owners, OwnersError> {
        for (name, known) in [("hash", "xxh64"), ("partition_of_hash", RULE)] {
            let said = self.get(name)?;
            if said != known {
                return Err(refused(name, said));
            }
        }
        let partitions: usize = self.number("partitions")?;
        let table = self.get("steering_table")?;
        let entries: Result<Vec<Bucket>, _> = table
            .split(',')
            .map(|entry| entry.parse().map(Bucket::new))
            .collect();
        let entries = entries.map_err(|error| refused("steering_table", error))?;
        let table =
            IndirectionTable::from_entries(entries).map_err(|error| refused("steering_table", error))?;
        if !(1..=IndirectionTable::LARGEST).contains(&partitions) || table.buckets() > partitions {
            return Err(refused("partitions", partitions));
        }
        let cpu = |worker| {
            let cpu = self.statistics.get(&format!("{worker}:cpu"));
            cpu.and_then(|cpu| cpu.parse().ok()).unwrap_or(worker as u32)
        };
        Ok(Owners {
            seed: self.number("seed")?,
            partitions,
            steering: Steering {
                key: self.number::<Key>("steering_key")?,
                hash_fields: self.number::<HashFields>("steering_fields")?,
                table,
                cpus: (0..partitions).map(cpu).collect(),
                generation: self.number("steering_generation")?,
            },
        })
    }

    /// The keys that the workers were asked for so far, and how many of them they own; the others they handed over or read from
    /// their owners' memory.
    #[must_use]
    pub fn locality(&self) -> Share {
        let sum = |of: &str| {
            let named = self.statistics.iter().filter(|(name, _)| name.ends_with(of));
            named.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
        };
        let local = sum(":local");
        Share {
            hits: local,
            samples: local + sum(":handed_over") + sum(":read_directly"),
        }
    }

    fn get(&self, name: &'static str) -> Result<&str, OwnersError> {
        let value = self.statistics.get(name);
        value.map(String::as_str).ok_or_else(|| refused(name, "missing"))
    }

    fn number<T: FromStr<Err: Display>>(&self, name: &'static str) -> Result<T, OwnersError> {
        self.get(name)?.parse().map_err(|error| refused(name, error))
    }
}

/// The one rule for the owner of a hash that is known here: [`corelane_store::Hash::owner`].
const RULE: &str = "(hash >> 32) * partitions >> 32";

impl Owners {
    /// The hash of a key.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u64 {
        corelane_store::hash(key, self.seed).value()
    }

    /// The worker that owns a key.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> usize {
        corelane_store::hash(key, self.seed).owner(self.partitions)
    }
}

fn refused(name: &'static str, value: impl Display) -> OwnersError {
    let value = value.to_string();
    OwnersError::Statistic { name, value }
}

/// The lines that a server answers, up to `END` or an error.
fn ask(server: SocketAddr, patience: Duration) -> io::Result<(IpAddr, Vec<String>)> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(b"stats corelane\r\n")?;
    let mut lines = Vec::new();
    for line in BufReader::new(&stream).lines().take(MOST_LINES) {
        let line = line?;
        let is_last = !line.starts_with("STAT ");
        if is_last && line == "END" {
            break;
        }
        lines.push(line);
        if is_last {
            break;
        }
    }
    Ok((stream.local_addr()?.ip(), lines))
}

/// More than the largest server has: some lines, and some ten for each worker.
const MOST_LINES: usize = 1 << 16;

fn statistic(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
    Some((name.to_owned(), value.to_owned()))
}
