//! The plan of a UDP server: serialisable, so that it can be printed, passed to a child process and included in a
//! report.

use super::error::UdpError;
use super::model::{Answers, Mode, Model};
use crate::listening::{SocketPlan, SteeringPlan};
use crate::reflection::is_local;
use crate::service;
use corelane_host::memory::MemoryPolicy;
use corelane_rss::Steering;
use corelane_worker::engine::{EngineKind, EngineSettings};
use corelane_worker::group::GroupSettings;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// A fully resolved UDP server plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpPlan {
    /// Where it listens.
    #[serde(flatten)]
    pub socket: SocketPlan,
    /// Whether datagrams are answered or discarded.
    pub mode: Mode,
    /// How a datagram reaches its worker.
    pub model: Model,
    /// How datagrams are steered; with the model `single`, one worker serves all buckets.
    #[serde(flatten)]
    pub steered: SteeringPlan,
    /// The requested engine; `None` probes and chooses.
    pub engine: Option<EngineKind>,
    /// How the engine moves datagrams.
    #[serde(flatten)]
    pub settings: EngineSettings,
    /// NUMA node of each worker's memory.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// Requested socket receive buffer in bytes; `None` keeps the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// Device to monitor for the CPU of the receive path; `None` leaves locality unknown.
    pub device: Option<String>,
    /// How it answers; `received` requires the device.
    #[serde(default)]
    pub answers: Answers,
    /// Number of transmit queues, if the device is to be monitored for the CPU and queue on which answers leave: bucket
    /// *i* has queue *i* modulo this number. `None` leaves that unknown.
    #[serde(default)]
    pub transmit_queues: Option<u32>,
    /// Compute hash, hash type and bucket of each datagram for the application.
    #[serde(default)]
    pub metadata: bool,
    /// Count datagrams by hash, hash type and bucket; requires their metadata.
    #[serde(default)]
    pub flows: bool,
}

impl UdpPlan {
    /// An echo server on `address`, steered by `steering`, with defaults otherwise.
    #[must_use]
    pub fn new(address: SocketAddr, steering: Steering) -> Self {
        Self {
            socket: SocketPlan::new(address),
            mode: Mode::Echo,
            model: Model::Exact,
            steered: steering.into(),
            engine: None,
            settings: EngineSettings::default(),
            memory: MemoryPolicy::default(),
            receive_buffer_bytes: None,
            device: None,
            answers: Answers::default(),
            transmit_queues: None,
            metadata: false,
            flows: false,
        }
    }

    /// Rejects incompatible settings.
    pub(super) fn check(&self) -> Result<(), UdpError> {
        service::buckets(&self.steered.steering)?;
        let (answers, model) = (self.answers, self.model);
        if answers != Answers::PerSend && model != Model::Exact {
            return Err(UdpError::Answers { answers, model });
        }
        if answers == Answers::Connected && self.steered.rebalance.is_some() {
            return Err(UdpError::ConnectedFlows);
        }
        Ok(())
    }

    /// Options of every socket on the server's address.
    pub(super) fn socket_settings(&self) -> GroupSettings {
        GroupSettings {
            receive_buffer: self.receive_buffer_bytes,
            gro: self.settings.gro,
            destinations: self.settings.destinations,
            ..self.socket.settings()
        }
    }

    /// Number of workers, excluding the reader of a farm.
    pub(super) fn workers(&self) -> usize {
        match self.model {
            Model::Single => 1,
            _ => self.steered.steering.table.buckets(),
        }
    }

    /// Whether the plan allows an answer to `peer`: to any address if the plan names an address; only to loopback and
    /// private networks if it listens on all addresses.
    pub(super) fn may_answer(&self, peer: IpAddr) -> bool {
        !self.socket.address.ip().is_unspecified() || is_local(peer)
    }
}
