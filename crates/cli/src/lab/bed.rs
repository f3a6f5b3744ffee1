//! The test bed of an experiment, and the conditions of its machine and devices.

use crate::outcome::cannot_run;
use clap::ValueEnum;
use corelane_host::bed::{self, Bed, BedPlan};
use corelane_host::conditions::{self, Snapshot};

/// The addresses of the posts ("Receive side scaling: testing UDP throughput"). They exist only in the bed's
/// namespaces.
const SERVER: &str = "10.11.2.1";
const CLIENTS: &str = "10.11.2.0/24";

/// Used for more buckets than the posts' pool can reach: its 254 addresses cover 32 buckets with any table.
const MORE_CLIENTS: &str = "10.11.0.0/16";
const BUCKETS_OF_CLIENTS: usize = 32;

/// Client addresses for connections. None is the server's, and each has ports for 60,000 connections.
const CONNECTING_CLIENTS: &str = "10.12.0.0/24";

/// Bytes of IPv4 and UDP headers before the payload, and the default MTU of a link.
const HEADER_BYTES: u32 = 28;
const USUAL_MTU: u32 = 1500;

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

/// Enters a user namespace, which unprivileged network namespaces require. Must be called while the process has one
/// thread.
pub fn enter(wanted: BedArgument) {
    if wanted != BedArgument::Loopback {
        // An error is ignored: building the bed reports what is missing, and why.
        let _ = bed::enter_user_namespace();
    }
}

/// Builds a bed for `buckets` buckets whose MTU fits a payload of `size` bytes, because the device would count
/// fragments as frames. `queues` is the number of queues of each end; `None` for the kernel's default.
pub fn build_bed(wanted: BedArgument, buckets: usize, size: u32, queues: Option<u32>) -> anyhow::Result<Bed> {
    let clients = if buckets > BUCKETS_OF_CLIENTS {
        MORE_CLIENTS
    } else {
        CLIENTS
    };
    let plan = BedPlan {
        mtu: Some((size + HEADER_BYTES).max(USUAL_MTU)),
        queues,
        ..plan(wanted, clients)
    };
    let bed = match wanted {
        BedArgument::Loopback => Bed::loopback(&plan, "requested with --bed loopback".to_owned()),
        BedArgument::Auto | BedArgument::Namespaces => Bed::build(&plan),
    };
    bed.map_err(cannot_run)
}

/// The plan of a bed for `connections` connections, and one such bed to query. The clients' pool has addresses for
/// fifteen million connections.
pub fn bed_for_connections(wanted: BedArgument, connections: u64) -> anyhow::Result<(BedPlan, Bed)> {
    let plan = BedPlan {
        loopback: wanted == BedArgument::Loopback,
        connections: Some(u32::try_from(connections).unwrap_or(u32::MAX)),
        ..plan(wanted, CONNECTING_CLIENTS)
    };
    let bed = Bed::build(&plan).map_err(cannot_run)?;
    Ok((plan, bed))
}

fn plan(wanted: BedArgument, clients: &str) -> BedPlan {
    let constant = "the bed's addresses are constants of the right form";
    let (server, clients) = (SERVER.parse().expect(constant), clients.parse().expect(constant));
    BedPlan {
        loopback_ok: wanted != BedArgument::Namespaces,
        ..BedPlan::new(server, vec![clients])
    }
}

/// Conditions of the machine and of the server's device, which is visible only from the server's namespace.
pub fn snapshot(bed: &Bed) -> Snapshot {
    let mut snapshot = conditions::snapshot(&[]);
    let devices = [bed.server.device().to_owned()];
    snapshot.add(bed.server.run(move || conditions::of_devices(&devices)));
    snapshot
}
