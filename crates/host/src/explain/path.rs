//! A flow, and the path predicted for its packets.

use std::net::SocketAddr;

use corelane_rss::{HashType, Protocol, Tuple};
use serde::{Deserialize, Serialize};

use crate::ethtool::FlowType;
use crate::inventory::{Device, Inventory};
use crate::sockets::Owner;

/// The source name of socket facts.
pub(super) const SOCKETS: &str = "sock_diag netlink, /proc";

/// The flow to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source and destination.
    pub tuple: Tuple,
    /// The protocol.
    pub protocol: Protocol,
    /// The device that receives and sends; `None` uses the routes.
    pub device: Option<String>,
    /// The sending CPU, if the caller knows it.
    pub sender_cpu: Option<u32>,
}

corelane_measure::words!(Confidence);

/// The confidence of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Unknown.
    Unknown,
    /// Usually true; exceptions are listed.
    Likely,
    /// Certain.
    #[default]
    Certain,
}

/// One step of a packet's path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The subject: `device`, `hash`, `entry`, `queue`, `interrupt`, `cpu`, `rps`, `socket` and so on.
    pub step: String,
    /// The value; `None` if unknown.
    pub value: Option<String>,
    /// The rule applied.
    pub rule: String,
    /// The source of the facts.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// What may override it.
    pub unless: Vec<String>,
}

impl Step {
    /// Adds an exception.
    pub(super) fn unless(&mut self, what: impl Into<String>) -> &mut Self {
        self.unless.push(what.into());
        self
    }
}

/// What a device receives, and the sending CPU if known.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) device: &'a Device,
    pub(super) flow: &'a Flow,
    /// The protocol; fragments have none that devices parse.
    pub(super) protocol: Protocol,
    pub(super) senders: &'a [Owner],
}

impl Arrival<'_> {
    pub(super) fn flow_type(&self) -> FlowType {
        FlowType::of(self.protocol, self.flow.tuple.source().ip())
    }
}

/// What is known of a packet's path so far.
#[derive(Default)]
pub(super) struct Way {
    pub(super) hash_type: Option<HashType>,
    pub(super) hash: Option<u32>,
    pub(super) entry: Option<usize>,
    pub(super) queue: Option<u32>,
    pub(super) interrupt: Option<u32>,
    pub(super) cpu: Option<u32>,
    /// The confidence of the latest value above.
    pub(super) confidence: Confidence,
    pub(super) steps: Vec<Step>,
}

impl Way {
    /// Lowers the confidence.
    pub(super) fn at_most(&mut self, confidence: Confidence) {
        self.confidence = self.confidence.min(confidence);
    }

    /// Adds a known step.
    pub(super) fn step(
        &mut self,
        step: &str,
        value: impl ToString,
        rule: impl Into<String>,
        source: &str,
        confidence: Confidence,
    ) -> &mut Step {
        let found = self.unknown(step, rule, source);
        found.value = Some(value.to_string());
        found.confidence = confidence;
        found
    }

    /// Adds an unknown step.
    pub(super) fn unknown(&mut self, step: &str, rule: impl Into<String>, source: &str) -> &mut Step {
        self.steps.push(Step {
            step: step.to_owned(),
            value: None,
            rule: rule.into(),
            source: source.to_owned(),
            confidence: Confidence::Unknown,
            unless: Vec::new(),
        });
        self.steps.last_mut().expect("one was pushed")
    }
}

/// Formats a hash for documents.
pub(super) fn hexadecimal(hash: u32) -> String {
    format!("0x{hash:08x}")
}

/// The path of a packet's fragments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragments {
    /// The hash of a fragment, in hexadecimal; `None` if there is none.
    pub hash: Option<String>,
    /// The table entry.
    pub entry: Option<usize>,
    /// The queue of that entry.
    pub queue: Option<u32>,
    /// The CPU that receives them.
    pub cpu: Option<u32>,
    /// Whether they reach the same CPU as the whole packets of their flow; `None` if either is unknown.
    pub with_whole_packets: Option<bool>,
    /// A description of the difference.
    pub words: String,
}

/// This machine's role for the packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It receives them.
    Receives,
    /// It sends them to another host.
    Sends,
    /// Both ends are on this machine.
    Keeps,
}

/// The path of the packets of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedPath {
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// This machine's role.
    pub role: Role,
    /// The device on which they arrive or leave.
    pub device: Option<String>,
    /// The hash type, by its NDIS name.
    pub hash_type: Option<String>,
    /// The hash, in hexadecimal.
    pub hash: Option<String>,
    /// The entry of the indirection table.
    pub entry: Option<usize>,
    /// The queue.
    pub queue: Option<u32>,
    /// The interrupt.
    pub interrupt: Option<u32>,
    /// The CPU that receives the packets, after RPS if that is on, or that sends them.
    pub cpu: Option<u32>,
    /// The CPU's node.
    pub node: Option<u32>,
    /// The confidence of the CPU.
    pub cpu_confidence: Confidence,
    /// The steps, in path order.
    pub steps: Vec<Step>,
    /// The path of fragments, if this machine receives them.
    pub fragments: Option<Fragments>,
    /// The sockets that receive the packets, if on this machine: one, or the members of a group.
    pub sockets: Vec<Owner>,
}
