//! The test bed: a server side and a client side, each in a network namespace of its own, joined by a veth pair.
//!
//! Input: a [`BedPlan`] with the server's address and the client pools. Output: a [`Bed`] whose two [`Side`]s run
//! closures, and the processes these start, in their namespaces. If namespaces are not permitted, the bed is the
//! machine's loopback device with addresses of its range, and the bed reports the reason.
//!
//! Nothing is left behind. A thread holds each namespace, which has no name and is mounted nowhere, so threads,
//! namespaces and devices disappear with the process however it ends. A process started in a side holds the namespace
//! until it ends.
//!
//! Only the experiment's frames cross the link: each end has the other as its one permanent neighbour, neither resolves
//! addresses, and IPv6 is either off or silent (`quiet`). The device counters of a trial therefore count only its own
//! frames.
//!
//! A bed can be sized for a million TCP connections (`connections`): both sides treat whole prefixes as local, and the
//! per-namespace limits are raised in these two namespaces only.

mod addresses;
mod namespaces;
mod own;
mod side;
pub(crate) mod user_namespace;
mod wire;

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use addresses::PlanError;
pub use own::{Change, OwnError, OwnNamespace, foreign, in_first_namespace};
pub use side::Side;
pub use user_namespace::enter_user_namespace;

use crate::HostError;
use side::Keeper;

/// The number of transmit queues of a device in the calling thread's network namespace.
///
/// # Errors
///
/// The kernel's error, for instance when there is no such device.
pub fn transmit_queues(device: &str) -> Result<u32, HostError> {
    let link = wire::Wire::open()?.link(device)?;
    Ok(link.transmit_queues.unwrap_or(0))
}

corelane_measure::words!(BedKind);

/// The kind of a bed, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BedKind {
    /// Two network namespaces, created with the existing privileges of the process.
    Namespaces,
    /// Two network namespaces of a user namespace, created without privilege.
    UserNamespace,
    /// The machine's own loopback device, shared with everything else that uses it.
    Loopback,
}

/// The parameters of a bed. Server and clients are of one address family, IPv4 or IPv6.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BedPlan {
    /// The server's only address. It may lie inside a client pool: clients then cannot use it.
    pub server: IpAddr,
    /// The client pools. The client side can bind every address in them, and each reaches the server.
    pub clients: Vec<IpNet>,
    /// Whether to fall back to the loopback device if namespaces are not permitted.
    pub loopback_ok: bool,
    /// Whether to use the loopback device in any case.
    #[serde(default)]
    pub loopback: bool,
    /// The MTU of the link in bytes; `None` for the kernel's 1500. The loopback device keeps its own.
    pub mtu: Option<u32>,
    /// Receive and transmit queues of each end; `None` for the kernel's default.
    pub queues: Option<u32>,
    /// Prefixes that the server side treats as local in addition to `server`, and that the clients can reach.
    #[serde(default)]
    pub server_networks: Vec<IpNet>,
    /// TCP connections that each side must hold. Sizes the connection hash table and raises the limits on queues and
    /// ports. `None` for the kernel's settings. The loopback device keeps the machine's.
    #[serde(default)]
    pub connections: Option<u32>,
}

/// Brings a device of the calling thread's network namespace up: for example a tap created by an emulator.
///
/// # Errors
///
/// [`HostError::Netlink`] if the device does not exist or `CAP_NET_ADMIN` is missing.
pub fn switch_on(device: &str) -> Result<(), HostError> {
    let mut wire = wire::Wire::open()?;
    let index = wire.link(device)?.index;
    wire.switch(index, wire::UP)
}

impl BedPlan {
    /// A plan with the kernel's MTU, queues and limits; falls back to loopback.
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
    /// The plan is invalid on every machine.
    #[error(transparent)]
    Plan(#[from] PlanError),

    /// The kernel denied a network namespace.
    #[error("cannot make a network namespace: {cause}{hint}")]
    Namespace {
        /// The kernel's error.
        #[source]
        cause: io::Error,
        /// What would permit it; empty or begins with "; ".
        hint: String,
    },

    /// The namespaces exist, but setting them up failed.
    #[error(transparent)]
    Host(#[from] HostError),

    /// A thread could not be started, or an end of the link did not become ready to carry frames.
    #[error("{0}")]
    Failed(String),
}

/// Two sides that reach each other and nothing else. Dropping the bed ends both.
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
    /// Builds the best kind of bed that this process may create.
    ///
    /// Unprivileged processes call [`enter_user_namespace`] first, while they have one thread. Build a bed before pinning
    /// the calling thread: the sides, and what they start, inherit its affinity.
    ///
    /// # Errors
    ///
    /// [`BedError::Plan`] for an invalid plan; any other error only if `loopback_ok` is not set.
    pub fn build(plan: &BedPlan) -> Result<Bed, BedError> {
        let client = addresses::check(plan)?;
        if plan.loopback {
            return Self::loopback(plan, "asked for".to_owned());
        }
        match namespaces::build(plan, client) {
            Err(error) if plan.loopback_ok => Self::loopback(plan, error.to_string()),
            built => built,
        }
    }

    /// Builds the bed on the loopback device, which [`Bed::build`] does only as a fallback. [`Bed::reason`] returns
    /// `reason`.
    ///
    /// Addresses of the plan are mapped to the loopback range: 10.11.2.1 becomes 127.11.2.1, a pool of 10.11.2.0/24
    /// becomes 127.11.2.0/24. IPv6 has a single loopback address, which is then both server and pool.
    ///
    /// # Errors
    ///
    /// [`BedError::Plan`] for an invalid plan, [`BedError::Failed`] if no thread can be started.
    pub fn loopback(plan: &BedPlan, reason: String) -> Result<Bed, BedError> {
        addresses::check(plan)?;
        let (server_address, client_address, clients) = addresses::on_loopback(plan);
        let (server, client) = (Keeper::start("server")?, Keeper::start("client")?);
        Ok(Bed {
            server: Side::new(server, "lo", server_address, false),
            client: Side::new(client, "lo", client_address, false),
            kind: BedKind::Loopback,
            reason: Some(reason),
            clients,
        })
    }

    /// The kind of the bed.
    pub fn kind(&self) -> BedKind {
        self.kind
    }

    /// Why the bed is not of a better kind; `None` for the best kind.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The pools that clients can bind in this bed; on loopback these differ from the plan. Adjacent pools are merged.
    /// A pool may contain the server's address, which clients cannot use.
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
