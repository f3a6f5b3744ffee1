//! The test bed: a server side and a client side, each in a network namespace of its own, joined by a veth pair.
//!
//! What enters: a [`BedPlan`] with the server's address and the client pools. What leaves: a [`Bed`] whose two
//! [`Side`]s run closures, and the processes these start, in their namespaces. Where namespaces are not permitted the
//! bed is the loopback device of the machine, with addresses of its range, and says why.
//!
//! Nothing can be left behind: each namespace is held by a thread, has no name and is mounted nowhere, so that threads,
//! namespaces and devices go with the process however it ends. A process started in a side holds the namespace until it
//! ends itself.
//!
//! No frame but the experiment's crosses the link: each end has the other as its one permanent neighbour, neither
//! resolves addresses, and IPv6 is either off or keeps silent (`quiet`). The device counters of a trial are therefore
//! those of its own frames.
//!
//! A bed can be made for a million TCP connections (`connections`): whole prefixes are local on either side, and what the
//! kernel limits for each namespace is raised in these two alone.

mod addresses;
mod connections;
mod namespaces;
mod own;
mod side;
mod transmit;
mod user_namespace;
mod wire;

use std::fmt;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::link::LinkFlags;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use addresses::PlanError;
pub use own::{Change, OwnError, OwnNamespace, foreign, in_first_namespace};
pub use side::Side;
pub use user_namespace::enter_user_namespace;

use crate::HostError;
use side::Keeper;

/// How many transmit queues a device of the calling thread's network namespace has.
///
/// # Errors
///
/// What the kernel says, for instance when there is no such device.
pub fn transmit_queues(device: &str) -> Result<u32, HostError> {
    let link = wire::Wire::open()?.link(device)?;
    Ok(link.transmit_queues.unwrap_or(0))
}

/// What a bed stands on, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BedKind {
    /// Two network namespaces, made with the privilege the process already had.
    Namespaces,
    /// Two network namespaces of a user namespace, made without privilege.
    UserNamespace,
    /// The machine's own loopback device, shared with everything else that uses it.
    Loopback,
}

impl fmt::Display for BedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BedKind::Namespaces => "namespaces",
            BedKind::UserNamespace => "user namespace",
            BedKind::Loopback => "loopback",
        })
    }
}

/// What a bed is to hold. Server and clients are of one address family, IPv4 or IPv6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BedPlan {
    /// The server's one address. It may lie inside a client pool: clients then cannot take it.
    pub server: IpAddr,
    /// The client pools. Every address of them can be bound on the client side, and each reaches the server.
    pub clients: Vec<IpNet>,
    /// Whether the loopback device will do where namespaces are not permitted.
    pub loopback_ok: bool,
    /// Whether the loopback device is wanted and nothing better.
    #[serde(default)]
    pub loopback: bool,
    /// The largest packet of the link in bytes; the kernel's 1500 where `None`. The loopback device keeps its own.
    pub mtu: Option<u32>,
    /// Receive and transmit queues of each end; the kernel's choice where `None`.
    pub queues: Option<u32>,
    /// Prefixes of which the server side takes every address as its own beside `server`, and which the clients reach.
    #[serde(default)]
    pub server_networks: Vec<IpNet>,
    /// TCP connections that each side is to hold: sizes the table that packets look them up in, and raises the limits of
    /// queues and ports. The kernel's settings where `None`. The loopback device keeps the machine's.
    #[serde(default)]
    pub connections: Option<u32>,
}

/// Switches a device of the calling thread's network namespace on: a tap that an emulator made, for instance.
///
/// # Errors
///
/// [`HostError::Netlink`] for a device that is not there and without `CAP_NET_ADMIN`.
pub fn switch_on(device: &str) -> Result<(), HostError> {
    let mut wire = wire::Wire::open()?;
    let index = wire.link(device)?.index;
    wire.switch(index, LinkFlags::Up)
}

impl BedPlan {
    /// A plan with the kernel's MTU, queues and limits, that may fall back to loopback.
    pub fn new(server: IpAddr, clients: Vec<IpNet>) -> Self {
        Self {
            server,
            clients,
            loopback_ok: true,
            loopback: false,
            mtu: None,
            queues: None,
            server_networks: Vec::new(),
            connections: None,
        }
    }
}

/// Why there is no bed.
#[derive(Debug, Error)]
pub enum BedError {
    /// The plan cannot be met on any machine.
    #[error(transparent)]
    Plan(#[from] PlanError),

    /// A network namespace was refused.
    #[error("cannot make a network namespace: {cause}{hint}")]
    Namespace {
        /// What the kernel said.
        #[source]
        cause: io::Error,
        /// What would permit it; empty or begins with "; ".
        hint: String,
    },

    /// A thread could not be started.
    #[error("cannot start the thread that holds a side of the bed: {0}")]
    Thread(#[source] io::Error),

    /// The namespaces are there, but what belongs in them could not be made.
    #[error(transparent)]
    Host(#[from] HostError),

    /// The ends of the link were made, and one did not get to carry frames.
    #[error(
        "device {device} of the test bed was not ready within {waited_ms} ms; try again when the machine is less busy"
    )]
    NotReady {
        /// The end that was not ready.
        device: String,
        /// How long was waited.
        waited_ms: u64,
    },
}

/// Two sides that reach each other and nothing else. Dropping it ends both.
#[derive(Debug)]
pub struct Bed {
    /// Where the server runs.
    pub server: Side,
    /// Where the clients run.
    pub client: Side,
    kind: BedKind,
    reason: Option<String>,
    clients: Vec<IpNet>,
}

impl Bed {
    /// Builds the bed on the best ground this process may stand on.
    ///
    /// Unprivileged processes call [`enter_user_namespace`] first, while they have one thread. Build a bed before pinning
    /// the calling thread: the sides, and what they start, inherit its affinity.
    ///
    /// # Errors
    ///
    /// [`BedError::Plan`] for a plan that no machine can meet; any other error only where `loopback_ok` is not set.
    pub fn build(plan: &BedPlan) -> Result<Bed, BedError> {
        addresses::check(plan)?;
        if plan.loopback {
            return Self::loopback(plan, "asked for".to_owned());
        }
        match namespaces::build(plan) {
            Err(error) if plan.loopback_ok => Self::loopback(plan, error.to_string()),
            built => built,
        }
    }

    /// Builds the bed on the loopback device, which [`Bed::build`] does only when it must. `reason` is what
    /// [`Bed::reason`] will say.
    ///
    /// Addresses are those of the plan moved into the loopback range: 10.11.2.1 becomes 127.11.2.1, a pool of
    /// 10.11.2.0/24 becomes 127.11.2.0/24. IPv6 has a single loopback address, which then is server and pool.
    ///
    /// # Errors
    ///
    /// [`BedError::Plan`] for a plan that no machine can meet, [`BedError::Thread`] where no thread can be started.
    pub fn loopback(plan: &BedPlan, reason: String) -> Result<Bed, BedError> {
        addresses::check(plan)?;
        let moved = addresses::on_loopback(plan);
        let start = |role| Keeper::start(role).map_err(BedError::Thread);
        let (server, client) = (start("server")?, start("client")?);
        Ok(Bed {
            server: Side::new(server, "lo", moved.server, false),
            client: Side::new(client, "lo", moved.client, false),
            kind: BedKind::Loopback,
            reason: Some(reason),
            clients: moved.pools,
        })
    }

    /// What the bed stands on.
    pub fn kind(&self) -> BedKind {
        self.kind
    }

    /// Why it does not stand on a better kind; `None` for the best.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The pools that clients can bind in this bed, which on loopback are not those of the plan. Pools that touch are
    /// merged. A pool may contain the server's address, which clients cannot take.
    pub fn clients(&self) -> &[IpNet] {
        &self.clients
    }

    /// One line for a report.
    pub fn describe(&self) -> String {
        let ground = match self.kind {
            BedKind::Namespaces => "two network namespaces joined by a veth pair",
            BedKind::UserNamespace => "two network namespaces of a user namespace, joined by a veth pair",
            BedKind::Loopback => "the loopback device of this machine",
        };
        let pools: Vec<String> = self.clients.iter().map(IpNet::to_string).collect();
        let mut line = format!(
            "{ground}: server {} on {}, clients {} on {}",
            self.server.address(),
            self.server.device(),
            pools.join(", "),
            self.client.device(),
        );
        if let Some(reason) = &self.reason {
            line.push_str(&format!(" ({reason})"));
        }
        line
    }
}
