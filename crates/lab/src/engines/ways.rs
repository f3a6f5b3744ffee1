//! The ways that can be compared, and the plan. In: names. Out: the settings of server and client for each way.

use crate::error::Refusal;
use corelane_measure::words;
use corelane_rss::{Key, Toeplitz, Way};
use corelane_worker::engine::{EngineKind, EngineSettings, choose};
use serde::{Deserialize, Serialize};

/// The reference for hashes: the sliding-window oracle.
pub const ORACLE: &str = "oracle";

/// The reference for datagrams: one `recvfrom` and one `sendto` per datagram.
pub const BASIC: &str = "basic";

/// A way that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// The missing requirement.
    pub because: String,
}

/// The plan: what the user requested, less what this machine lacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Ways to hash, in the order of the report: [`ORACLE`] and names of [`Way`].
    pub toeplitz: Vec<String>,
    /// Ways to move datagrams, in the order of the report.
    pub udp: Vec<UdpWay>,
    /// Rounds; every way is measured once in each.
    pub rounds: u32,
    /// Seconds of one measurement of datagrams.
    pub duration_s: f64,
    /// Bytes of payload of a datagram.
    pub payload_bytes: usize,
    /// Datagrams on the way at once.
    pub outstanding: u32,
    /// The CPU that hashes, and on which the server runs.
    pub server_cpu: u32,
    /// The CPU on which the client runs.
    pub client_cpu: u32,
    /// Seed of the order within each round.
    pub seed: u64,
}

impl Plan {
    /// Sorts names into ways to hash and ways to move datagrams, each once, and adds the reference of every kind that
    /// is named. All ways if none is named.
    ///
    /// # Errors
    /// If there is no way of a name.
    pub fn ways(names: &[String]) -> Result<(Vec<String>, Vec<UdpWay>), Refusal> {
        let hashes = [ORACLE].into_iter().chain(Way::ALL.map(Way::name));
        let hashes: Vec<String> = hashes.map(str::to_owned).collect();
        let udp: Vec<UdpWay> = words::all();
        let known = udp.iter().map(UdpWay::to_string);
        let known: Vec<String> = hashes.iter().cloned().chain(known).collect();
        let is_known = |name: &String| [HASHES, DATAGRAMS].contains(&name.as_str()) || known.contains(name);
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            let known = known.join(", ");
            let reason = format!("there is no way {name:?}: give {HASHES}, {DATAGRAMS}, or any of {known}");
            return Err(Refusal::new("--ways", reason));
        }
        Ok((
            chosen(hashes, (HASHES, ORACLE), names),
            chosen(udp, (DATAGRAMS, BASIC), names),
        ))
    }

    /// Removes the ways that this machine does not support; returns them with reasons.
    pub fn leave_out(&mut self) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        let mut has = |name: String, because: Option<String>| {
            let has = because.is_none();
            left_out.extend(because.map(|because| LeftOut { name, because }));
            has
        };
        self.toeplitz.retain(|name| {
            let refused = fast(name).and_then(|way| Toeplitz::with_way(&Key::VERIFICATION, way).err());
            has(name.clone(), refused.map(|error| error.to_string()))
        });
        self.udp
            .retain(|way| has(way.to_string(), choose(Some(way.engine())).reason));
        left_out
    }
}

/// The fast hash of that name.
pub(super) fn fast(name: &str) -> Option<Way> {
    Way::ALL.into_iter().find(|way| way.name() == name)
}

/// The ways of one kind that are named, with the reference.
fn chosen<W: ToString>(mut all: Vec<W>, (kind, reference): (&str, &str), names: &[String]) -> Vec<W> {
    let is_named = |name: &str| names.iter().any(|named| named == name);
    if names.is_empty() || is_named(kind) {
        return all;
    }
    let some = all.iter().any(|way| is_named(&way.to_string()));
    all.retain(|way| some && (way.to_string() == reference || is_named(&way.to_string())));
    all
}

corelane_measure::words!(UdpWay);

/// A way to move datagrams, the reference first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    #[serde(rename = "gro_gso_16")]
    GroGso16,
    /// Datagrams sent and received 64 merged.
    #[serde(rename = "gro_gso_64")]
    GroGso64,
}

impl UdpWay {
    /// What it does, in words.
    pub(crate) fn describe(self) -> &'static str {
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
        let mut settings = self.client();
        if self == Self::Basic {
            settings.datagram_batch = 1;
        }
        settings.coalesce |= self == Self::Gso;
        settings
    }

    /// How the client does: in batches, and merged if the server is to receive merged datagrams. All ways that receive
    /// single datagrams have the same client.
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
