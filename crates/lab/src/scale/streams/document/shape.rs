//! What one step tries. Vocabulary only: names as documents and flags spell them, and words for people.

use crate::placing::Placement;
use crate::scale::limit::buckets;
use crate::scale::{plan, steps};
use corelane_measure::quantity;
use corelane_measure::words::write_word;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The server, and how a connection finds its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Server {
    /// Our server: a listener a bucket, chosen by the RSS hash and the indirection table.
    Exact,
    /// Our server: the same listeners, chosen by the kernel's own hash. The control.
    Reuseport,
    /// A server that was given as a command.
    Subject,
}

impl Server {
    /// The server in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Exact => "exact steering",
            Self::Reuseport => "kernel-hashed SO_REUSEPORT",
            Self::Subject => "subject",
        }
    }
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [Self::Exact, Self::Reuseport].into_iter();
        let refusal =
            format!("there is no model '{text}': give exact or reuseport (--subject names any other server)");
        all.find(|server| server.to_string() == text).ok_or(refusal)
    }
}

/// What the connections carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// HTTP requests for an object.
    Requests,
    /// Bytes from the client, which the server swallows.
    Sink,
    /// Bytes from the server.
    Source,
    /// Bytes both ways: what the client sends comes back.
    Echo,
}

impl FromStr for Traffic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [Self::Sink, Self::Source, Self::Echo].into_iter();
        let refusal = format!("there is no mode '{text}': give sink, source or echo");
        all.find(|traffic| traffic.to_string() == text).ok_or(refusal)
    }
}

impl Display for Server {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write_word(self, formatter)
    }
}

impl Display for Traffic {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write_word(self, formatter)
    }
}

/// What selects steps: as [`plan::Selection`], and what only streams have.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Selection {
    /// Models of our server; empty with a subject.
    pub servers: Vec<Server>,
    /// Traffic modes, measured one after the other; only requests for HTTP.
    pub traffics: Vec<Traffic>,
    /// Sizes of requested objects, in bytes.
    pub object_bytes: Vec<u64>,
    /// Bytes per write, for byte streams.
    pub write_bytes: Vec<u64>,
    /// Total connections.
    pub connections: Vec<u64>,
    /// Numbers of active buckets; `None` for 1 to all.
    pub active: Option<Vec<usize>>,
    /// Descriptors that one table may hold.
    pub descriptor_limit: usize,
    /// The common part.
    #[serde(flatten)]
    pub common: plan::Selection,
}

/// What one step tries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The server.
    pub server: Server,
    /// Where each bucket's client runs.
    pub placement: Placement,
    /// What the connections carry.
    pub traffic: Traffic,
    /// Bytes of the object that each request asks for; `None` if there are no objects, or the subject decides.
    pub object_bytes: Option<u64>,
    /// Bytes per write of the side that sends without a request; `None` if there are objects, or the subject decides.
    pub write_bytes: Option<u64>,
    /// Connections in all.
    pub connections: u64,
    /// Buckets that the traffic is aimed at; with a subject, CPUs that it has.
    pub buckets_active: usize,
}

impl Shape {
    /// `1 KiB objects over 64 connections`.
    pub(crate) fn load_words(&self) -> String {
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{} connections", quantity::count(many)),
        };
        let size = self.size().map(quantity::bytes);
        let pieces = match &size {
            Some(size) => format!("{size} writes"),
            None => "bytes".to_owned(),
        };
        let what = match (self.traffic, size) {
            (Traffic::Requests, Some(size)) => format!("{size} objects"),
            (Traffic::Requests, None) => "requests".to_owned(),
            (Traffic::Sink, _) => format!("{pieces} to the server"),
            (Traffic::Source, _) => format!("{pieces} from the server"),
            (Traffic::Echo, _) => format!("{pieces} there and back"),
        };
        format!("{what} over {connections}")
    }

    /// Bytes of an object or of a write.
    pub(crate) fn size(&self) -> Option<u64> {
        self.object_bytes.or(self.write_bytes)
    }

    fn load(&self) -> (Traffic, Option<u64>, u64) {
        (self.traffic, self.size(), self.connections)
    }
}

impl steps::Shape for Shape {
    fn active(&self) -> usize {
        self.buckets_active
    }

    fn grows_to(&self, other: &Self) -> bool {
        (self.server, self.placement) == (other.server, other.placement) && self.same_load(other)
    }

    fn same_load(&self, other: &Self) -> bool {
        self.load() == other.load()
    }

    /// `exact steering, aligned, 1 KiB objects over 64 connections`.
    fn title(&self) -> String {
        format!("{}, {}", self.who(), self.load_words())
    }

    fn who(&self) -> String {
        format!("{}, {}", self.server.words(), self.placement)
    }

    /// The subject has the colour of what is judged.
    fn class(&self) -> String {
        let server = match self.server {
            Server::Subject => Server::Exact,
            own => own,
        };
        format!("fill {server} {}", self.placement)
    }

    fn is_exact(&self) -> bool {
        (self.server, self.placement) == (Server::Exact, Placement::Aligned)
    }

    fn is_crossed(&self) -> bool {
        self.placement == Placement::Crossed
    }

    /// A subject has CPUs.
    fn places(&self, count: usize) -> &'static str {
        match (self.server, count) {
            (Server::Subject, 1) => "CPU",
            (Server::Subject, _) => "CPUs",
            _ => buckets(count),
        }
    }

    /// The subject is judged as our server is.
    fn is_judged(&self) -> bool {
        self.server != Server::Reuseport && self.placement == Placement::Aligned
    }

    /// Of those with the first traffic and size, the one with the most connections.
    fn weight(&self, first: &Self) -> u64 {
        let is_kin = (self.traffic, self.size()) == (first.traffic, first.size());
        if is_kin {
            self.connections.saturating_add(1)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::steps::Shape as _;

    #[test]
    fn a_shape_is_told_in_words() {
        let shape = Shape {
            server: Server::Exact,
            placement: Placement::Aligned,
            traffic: Traffic::Requests,
            object_bytes: Some(1024),
            write_bytes: None,
            connections: 10_000,
            buckets_active: 2,
        };
        assert_eq!(
            shape.title(),
            "exact steering, aligned, 1 KiB objects over 10,000 connections"
        );
        let other = Shape {
            buckets_active: 1,
            ..shape.clone()
        };
        assert!(shape.grows_to(&other));
        let control = Shape {
            server: Server::Reuseport,
            ..shape.clone()
        };
        assert!(shape.same_load(&control) && !shape.grows_to(&control));
        let bytes = Shape {
            traffic: Traffic::Source,
            object_bytes: None,
            write_bytes: Some(65_536),
            connections: 1,
            ..shape
        };
        assert_eq!(
            bytes.load_words(),
            "64 KiB writes from the server over 1 connection"
        );
    }

    #[test]
    fn flags_and_documents_spell_names_alike() {
        for server in [Server::Exact, Server::Reuseport] {
            assert_eq!(server.to_string().parse(), Ok(server));
        }
        assert!("subject".parse::<Server>().unwrap_err().contains("--subject"));
        for traffic in [Traffic::Sink, Traffic::Source, Traffic::Echo] {
            assert_eq!(traffic.to_string().parse(), Ok(traffic));
        }
        assert!("requests".parse::<Traffic>().is_err());
    }
}
