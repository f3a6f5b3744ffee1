//! The test bed of an experiment, and what of its machine and devices may spoil the result.

use crate::outcome::cannot_run;
use clap::ValueEnum;
use corelane_host::bed::{self, Bed, BedPlan};
use corelane_host::conditions::{self, Snapshot};

/// The addresses of the posts ("Receive side scaling: testing UDP throughput"). They exist only in the bed's namespaces.
const SERVER: &str = "10.11.2.1";
const CLIENTS: &str = "10.11.2.0/24";

/// Where the posts' pool does not reach every bucket: 254 addresses are on all of 32 buckets and more, whatever the table.
const MORE_CLIENTS: &str = "10.11.0.0/16";
const BUCKETS_OF_CLIENTS: usize = 32;

/// Where connections come from: none of its addresses is the server's, and each has ports for 60,000 of them.
const CONNECTING_CLIENTS: &str = "10.12.0.0/24";

/// Bytes of IPv4 and UDP headers before the payload, and the MTU of a link that is not told otherwise.
const HEADER_BYTES: u32 = 28;
const USUAL_MTU: u32 = 1500;

/// The posts' port.
pub const PORT: u16 = 8080;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BedArgument {
    /// Network namespaces where allowed, else loopback
    Auto,
    /// Two network namespaces joined by veth, or not at all
    Namespaces,
    /// Loopback
    Loopback,
}

/// Enters a user namespace, as namespaces without privilege need one around them; while there is one thread.
pub fn enter(wanted: BedArgument) {
    if wanted != BedArgument::Loopback {
        // A refusal is no error here: the bed says what it could not have, and why.
        let _ = bed::enter_user_namespace();
    }
}

/// A bed for so many buckets, over which a payload of `size` bytes passes whole: the device counts frames, and a fragment is
/// one. `queues` is the number of queues of each end, the kernel's choice where `None`.
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
        BedArgument::Loopback => Bed::loopback(&plan, "asked for with --bed loopback".to_owned()),
        BedArgument::Auto | BedArgument::Namespaces => Bed::build(&plan),
    };
    bed.map_err(cannot_run)
}

/// The plan of a bed that holds so many connections, and one such bed, to be asked about. Its clients' pool has addresses
/// for fifteen million.
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

/// What may spoil or explain the result: of the machine, and of the server's device, which only its side can see.
pub fn snapshot(bed: &Bed) -> Snapshot {
    let mut snapshot = conditions::snapshot(&[]);
    let devices = [bed.server.device().to_owned()];
    snapshot.add(bed.server.run(move || conditions::of_devices(&devices)));
    snapshot
}
