//! What can be compared: names in, what each way asks of server and client out.

use super::document::{BASIC, ORACLE};
use corelane_rss::Way;
use corelane_worker::engine::{EngineKind, EngineSettings};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What a user asks of the comparison.
#[derive(Debug, Clone)]
pub struct Request {
    /// Ways to hash, in the order of the report; the oracle is among them unless there are none.
    pub hashes: Vec<HashWay>,
    /// Ways to move datagrams, in the order of the report; `basic` is among them unless there are none.
    pub udp: Vec<UdpWay>,
    /// Rounds; every way is measured once in each.
    pub rounds: u32,
    /// Seconds of one measurement of datagrams.
    pub duration_s: f64,
    /// The CPU that hashes and serves.
    pub server_cpu: u32,
    /// The CPU of the client.
    pub client_cpu: u32,
    /// Seed of the order within each round.
    pub seed: u64,
}

impl Request {
    /// Sorts names into ways, each once, and adds the reference of every kind that is named. All ways when none is.
    #[must_use]
    pub fn ways(names: &[WayName]) -> (Vec<HashWay>, Vec<UdpWay>) {
        let all = names.is_empty();
        let hash_named =
            |way: &HashWay| names.contains(&WayName::Hash(*way)) || names.contains(&WayName::Hashes);
        let udp_named =
            |way: &UdpWay| names.contains(&WayName::Udp(*way)) || names.contains(&WayName::Datagrams);
        let (hashes, udp) = (HashWay::all(), UdpWay::ALL);
        let some_hash = all || hashes.iter().any(hash_named);
        let some_udp = all || udp.iter().any(udp_named);
        let wanted_hash = |way: &HashWay| some_hash && (all || *way == HashWay::Oracle || hash_named(way));
        let wanted_udp = |way: &UdpWay| some_udp && (all || *way == UdpWay::Basic || udp_named(way));
        (
            hashes.into_iter().filter(wanted_hash).collect(),
            udp.into_iter().filter(wanted_udp).collect(),
        )
    }
}

/// A way to compute the Toeplitz hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashWay {
    /// The reference: a window of key bits slides along the input.
    Oracle,
    /// A fast one.
    Fast(Way),
}

impl HashWay {
    /// The oracle, then every fast way.
    #[must_use]
    pub fn all() -> Vec<Self> {
        std::iter::once(Self::Oracle)
            .chain(Way::ALL.into_iter().map(Self::Fast))
            .collect()
    }
}

impl fmt::Display for HashWay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oracle => out.write_str(ORACLE),
            Self::Fast(way) => way.fmt(out),
        }
    }
}

/// A way to move datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpWay {
    /// One `recvfrom` and one `sendto` a datagram.
    Basic,
    /// `recvmmsg` and `sendmmsg`.
    Batch,
    /// io_uring: multishot receives into provided buffers.
    Uring,
    /// Answers to one peer as one `UDP_SEGMENT` send.
    Gso,
    /// Datagrams sent and received 16 merged.
    GroGso16,
    /// Datagrams sent and received 64 merged.
    GroGso64,
}

impl UdpWay {
    /// Every way, the reference first.
    pub const ALL: [Self; 6] = [
        Self::Basic,
        Self::Batch,
        Self::Uring,
        Self::Gso,
        Self::GroGso16,
        Self::GroGso64,
    ];

    /// What it does, in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Basic => "one at a time: recvfrom, sendto",
            Self::Batch => "64 a call: recvmmsg, sendmmsg",
            Self::Uring => "io_uring multishot, sendmmsg",
            Self::Gso => "answers to one peer as one send",
            Self::GroGso16 => "16 merged: UDP_GRO, UDP_SEGMENT",
            Self::GroGso64 => "64 merged: UDP_GRO, UDP_SEGMENT",
        }
    }

    /// The server's engine.
    pub(super) fn engine(self) -> EngineKind {
        match self {
            Self::Uring => EngineKind::IoUring,
            _ => EngineKind::Epoll,
        }
    }

    /// How the server moves datagrams.
    pub(super) fn server(self) -> EngineSettings {
        let merged = self.merged();
        EngineSettings {
            datagram_batch: if self == Self::Basic {
                1
            } else {
                EngineSettings::default().datagram_batch
            },
            coalesce: merged || self == Self::Gso,
            gro: merged,
            ..EngineSettings::default()
        }
    }

    /// How the client does: in batches, and merged where the server is to receive merged datagrams. All ways that
    /// receive single datagrams meet the same client.
    pub(super) fn client(self) -> EngineSettings {
        EngineSettings {
            coalesce: self.merged(),
            gro: self.merged(),
            ..EngineSettings::default()
        }
    }

    /// Datagrams that a client socket keeps on the way, and so the most that are merged.
    pub(super) fn window(self) -> u32 {
        match self {
            Self::GroGso16 => 16,
            _ => 64,
        }
    }

    fn merged(self) -> bool {
        matches!(self, Self::GroGso16 | Self::GroGso64)
    }
}

impl fmt::Display for UdpWay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Basic => BASIC,
            Self::Batch => "batch",
            Self::Uring => "uring",
            Self::Gso => "gso",
            Self::GroGso16 => "gro_gso_16",
            Self::GroGso64 => "gro_gso_64",
        })
    }
}

/// A way, or all ways of a kind, as a user names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayName {
    /// `toeplitz`: every way to hash.
    Hashes,
    /// `udp`: every way to move datagrams.
    Datagrams,
    /// One way to hash.
    Hash(HashWay),
    /// One way to move datagrams.
    Udp(UdpWay),
}

/// A name that is no way's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no way {name:?}: give toeplitz, udp, or any of {known}", known = known().join(", "))]
pub struct UnknownWay {
    name: String,
}

impl FromStr for WayName {
    type Err = UnknownWay;

    fn from_str(text: &str) -> Result<Self, UnknownWay> {
        let hash = HashWay::all().into_iter().find(|way| way.to_string() == text);
        let udp = UdpWay::ALL.into_iter().find(|way| way.to_string() == text);
        match (text, hash, udp) {
            ("toeplitz", ..) => Ok(Self::Hashes),
            ("udp", ..) => Ok(Self::Datagrams),
            (_, Some(way), _) => Ok(Self::Hash(way)),
            (_, _, Some(way)) => Ok(Self::Udp(way)),
            _ => Err(UnknownWay {
                name: text.to_owned(),
            }),
        }
    }
}

fn known() -> Vec<String> {
    let hashes = HashWay::all().into_iter().map(|way| way.to_string());
    hashes
        .chain(UdpWay::ALL.into_iter().map(|way| way.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(names: &[&str]) -> String {
        let names: Vec<WayName> = names.iter().map(|name| name.parse().unwrap()).collect();
        let (hashes, udp) = Request::ways(&names);
        format!("{} | {}", list(&hashes), list(&udp))
    }

    fn list(ways: &[impl fmt::Display]) -> String {
        ways.iter()
            .map(|way| way.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn every_kind_that_is_named_comes_with_its_reference() {
        assert_eq!(ways(&["tables"]), "oracle tables | ");
        assert_eq!(ways(&["uring"]), " | basic uring");
        assert_eq!(ways(&["gso", "gso", "clmul"]), "oracle clmul | basic gso");
        assert_eq!(ways(&["udp"]), " | basic batch uring gso gro_gso_16 gro_gso_64");
        assert_eq!(
            ways(&[]),
            format!("{} | {}", list(&HashWay::all()), list(&UdpWay::ALL))
        );
    }

    #[test]
    fn an_unknown_way_is_answered_with_those_there_are() {
        let error = "avx".parse::<WayName>().unwrap_err().to_string();
        assert!(error.contains("avx") && error.contains("gro_gso_64"), "{error}");
    }
}
