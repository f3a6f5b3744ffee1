//! The test bed of an experiment, and the conditions of its machine and devices.

use crate::outcome::{cannot_run, usage};
use clap::{Args, ValueEnum};
use corelane_host::bed::{self, Bed, BedPlan};
use corelane_host::conditions::{self, Snapshot};

/// The addresses of a bed, in one family. They exist only in its namespaces.
struct Addresses {
    server: &'static str,
    /// Clients of up to [`BUCKETS_OF_CLIENTS`] buckets.
    clients: &'static str,
    /// Clients of more buckets.
    more_clients: &'static str,
    /// Clients that connect. None is the server's address, and each has ports for 60,000 connections.
    connecting_clients: &'static str,
    /// Bytes of IP and UDP headers before the payload.
    header_bytes: u32,
}

/// Those of the posts ("Receive side scaling: testing UDP throughput").
const IPV4: Addresses = Addresses {
    server: "10.11.2.1",
    clients: "10.11.2.0/24",
    more_clients: "10.11.0.0/16",
    connecting_clients: "10.12.0.0/24",
    header_bytes: 20 + 8,
};

/// As many, from the range for private use (RFC 4193).
const IPV6: Addresses = Addresses {
    server: "fd00:11:2::1",
    clients: "fd00:11:2::/120",
    more_clients: "fd00:11:2::/112",
    connecting_clients: "fd00:12::/120",
    header_bytes: 40 + 8,
};

/// Buckets that 254 addresses reach with any table.
const BUCKETS_OF_CLIENTS: usize = 32;

/// The default and the largest MTU of a link (`ETH_MAX_MTU`).
const USUAL_MTU: u32 = 1500;
const LARGEST_MTU: u32 = 65_535;

/// The posts' port.
pub const PORT: u16 = 8080;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BedArgument {
    /// Network namespaces if permitted, otherwise loopback
    Auto,
    /// Two network namespaces joined by veth; fail if not permitted
    Namespaces,
    /// Loopback
    Loopback,
}

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, Args)]
pub struct BedArguments {
    /// Where the experiment runs
    #[arg(long, value_enum, default_value = "auto")]
    pub bed: BedArgument,
    /// Use IPv6 addresses instead of IPv4
    #[arg(long)]
    pub ipv6: bool,
}

impl BedArguments {
    /// Enters a user namespace, which unprivileged network namespaces require. Must be called while the process has one
    /// thread.
    pub fn enter(self) {
        if self.bed != BedArgument::Loopback {
            // An error is ignored: building the bed reports what is missing, and why.
            let _ = bed::enter_user_namespace();
        }
    }

    /// Builds a bed for `buckets` buckets whose MTU fits a payload of `size` bytes, because the device would count
    /// fragments as frames. `queues` is the number of queues of each end; `None` for the kernel's default.
    pub fn build(self, buckets: usize, size: u32, queues: Option<u32>) -> anyhow::Result<Bed> {
        let addresses = self.addresses();
        let mtu = size + addresses.header_bytes;
        if mtu > LARGEST_MTU {
            let most = LARGEST_MTU - addresses.header_bytes;
            return Err(usage("--size", format!("at most {most} bytes fit into a packet")));
        }
        let plan = BedPlan {
            mtu: Some(mtu.max(USUAL_MTU)),
            queues,
            ..self.plan(match buckets {
                ..=BUCKETS_OF_CLIENTS => addresses.clients,
                _ => addresses.more_clients,
            })
        };
        let bed = match self.bed {
            BedArgument::Loopback => Bed::loopback(&plan, "requested with --bed loopback".to_owned()),
            BedArgument::Auto | BedArgument::Namespaces => Bed::build(&plan),
        };
        bed.map_err(cannot_run)
    }

    /// The plan of a bed for `connections` connections, and one such bed to query. The clients' pool has addresses for
    /// fifteen million connections.
    pub fn build_for_connections(self, connections: u64) -> anyhow::Result<(BedPlan, Bed)> {
        let plan = BedPlan {
            loopback: self.bed == BedArgument::Loopback,
            connections: Some(u32::try_from(connections).unwrap_or(u32::MAX)),
            ..self.plan(self.addresses().connecting_clients)
        };
        let bed = Bed::build(&plan).map_err(cannot_run)?;
        Ok((plan, bed))
    }

    fn plan(self, clients: &str) -> BedPlan {
        let constant = "the bed's addresses are constants of the right form";
        let server = self.addresses().server.parse().expect(constant);
        BedPlan {
            loopback_ok: self.bed != BedArgument::Namespaces,
            ..BedPlan::new(server, vec![clients.parse().expect(constant)])
        }
    }

    fn addresses(self) -> &'static Addresses {
        if self.ipv6 { &IPV6 } else { &IPV4 }
    }
}

/// Conditions of the machine and of the server's device, which is visible only from the server's namespace.
pub fn snapshot(bed: &Bed) -> Snapshot {
    let mut snapshot = conditions::snapshot(&[]);
    let devices = [bed.server.device().to_owned()];
    snapshot.add(bed.server.run(move || conditions::of_devices(&devices)));
    snapshot
}
