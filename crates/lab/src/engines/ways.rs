//! The ways that can be compared. In: names. Out: the settings of server and client for each way.

use super::document::{BASIC, ORACLE};
use crate::named::Named;
use corelane_rss::Way;
use corelane_worker::engine::{EngineKind, EngineSettings};
use std::str::FromStr;
use thiserror::Error;

/// The user's request.
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
        (
            chosen(HashWay::all(), (HASHES, ORACLE), names, HashWay::name),
            chosen(UdpWay::all(), (DATAGRAMS, BASIC), names, UdpWay::name),
        )
    }
}

/// The ways of one kind that are named, with the reference.
fn chosen<Way: Copy>(
    mut all: Vec<Way>,
    (kind, reference): (&str, &str),
    names: &[WayName],
    name: fn(Way) -> &'static str,
) -> Vec<Way> {
    let is_named = |name: &str| names.iter().any(|WayName(named)| named == name);
    if names.is_empty() || is_named(kind) {
        return all;
    }
    let some = all.iter().any(|way| is_named(name(*way)));
    all.retain(|way| some && (name(*way) == reference || is_named(name(*way))));
    all
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

    /// [`ORACLE`], or the way: `gfni`, `clmul`, `tables`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oracle => ORACLE,
            Self::Fast(way) => way.name(),
        }
    }
}

/// A way to move datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpWay {
    /// One `recvfrom` and one `sendto` per datagram.
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

impl Named for UdpWay {
    const WHAT: &'static str = "way to move datagrams";
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Basic, BASIC),
        (Self::Batch, "batch"),
        (Self::Uring, "uring"),
        (Self::Gso, "gso"),
        (Self::GroGso16, "gro_gso_16"),
        (Self::GroGso64, "gro_gso_64"),
    ];
}

impl UdpWay {
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
        let client = self.client();
        EngineSettings {
            datagram_batch: if self == Self::Basic {
                1
            } else {
                client.datagram_batch
            },
            coalesce: client.coalesce || self == Self::Gso,
            ..client
        }
    }

    /// How the client does: in batches, and merged where the server is to receive merged datagrams. All ways that
    /// receive single datagrams meet the same client.
    pub(super) fn client(self) -> EngineSettings {
        let merged = matches!(self, Self::GroGso16 | Self::GroGso64);
        EngineSettings {
            coalesce: merged,
            gro: merged,
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
}

/// Every way to hash, as a user names them.
const HASHES: &str = "toeplitz";

/// Every way to move datagrams, as a user names them.
const DATAGRAMS: &str = "udp";

/// A way, or all ways of a kind, as a user names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WayName(String);

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no way {name:?}: give {HASHES}, {DATAGRAMS}, or any of {}", known().join(", "))]
pub struct UnknownWay {
    name: String,
}

impl FromStr for WayName {
    type Err = UnknownWay;

    fn from_str(text: &str) -> Result<Self, UnknownWay> {
        let name = text.to_owned();
        match [HASHES, DATAGRAMS].contains(&text) || known().contains(&text) {
            true => Ok(Self(name)),
            false => Err(UnknownWay { name }),
        }
    }
}

fn known() -> Vec<&'static str> {
    let hashes = HashWay::all().into_iter().map(HashWay::name);
    hashes
        .chain(UdpWay::all().into_iter().map(UdpWay::name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(names: &[&str]) -> String {
        let names: Vec<WayName> = names.iter().map(|name| name.parse().unwrap()).collect();
        let (hashes, udp) = Request::ways(&names);
        let hashes: Vec<&str> = hashes.into_iter().map(HashWay::name).collect();
        let udp: Vec<&str> = udp.into_iter().map(UdpWay::name).collect();
        format!("{} | {}", hashes.join(" "), udp.join(" "))
    }

    #[test]
    fn every_kind_that_is_named_comes_with_its_reference() {
        assert_eq!(ways(&["tables"]), "oracle tables | ");
        assert_eq!(ways(&["uring"]), " | basic uring");
        assert_eq!(ways(&["gso", "gso", "clmul"]), "oracle clmul | basic gso");
        assert_eq!(ways(&["udp"]), " | basic batch uring gso gro_gso_16 gro_gso_64");
        assert_eq!(
            ways(&[]),
            "oracle gfni clmul tables | basic batch uring gso gro_gso_16 gro_gso_64"
        );
    }

    #[test]
    fn an_unknown_way_is_answered_with_those_there_are() {
        let error = "avx".parse::<WayName>().unwrap_err().to_string();
        assert!(error.contains("avx") && error.contains("gro_gso_64"), "{error}");
    }
}
