//! The test bed of an experiment, and what of its machine and devices may spoil the result.

use crate::outcome::CannotRun;
use clap::ValueEnum;
use corelane_host::bed::{Bed, BedPlan};
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

/// A bed for so many buckets, over which a payload of `size` bytes passes whole: the device counts frames, and a fragment is
/// one. `queues` is the number of queues of each end, the kernel's choice where `None`.
pub fn build_bed(wanted: BedArgument, buckets: usize, size: u32, queues: Option<u32>) -> anyhow::Result<Bed> {
    let constant = "the bed's addresses are constants of the right form";
    let clients = if buckets > BUCKETS_OF_CLIENTS {
        MORE_CLIENTS
    } else {
        CLIENTS
    };
    let plan = BedPlan {
        mtu: Some((size + HEADER_BYTES).max(USUAL_MTU)),
        queues,
        loopback_ok: wanted != BedArgument::Namespaces,
        ..BedPlan::new(
            SERVER.parse().expect(constant),
            vec![clients.parse().expect(constant)],
        )
    };
    let bed = match wanted {
        BedArgument::Loopback => Bed::loopback(&plan, "asked for with --bed loopback".to_owned()),
        BedArgument::Auto | BedArgument::Namespaces => Bed::build(&plan),
    };
    bed.map_err(|error| CannotRun(error.to_string()).into())
}

/// The plan of a bed that holds so many connections, and one such bed, to be asked about. Its clients' pool has addresses
/// for fifteen million.
pub fn bed_for_connections(wanted: BedArgument, connections: u64) -> anyhow::Result<(BedPlan, Bed)> {
    let constant = "the bed's addresses are constants of the right form";
    let plan = BedPlan {
        loopback_ok: wanted != BedArgument::Namespaces,
        loopback: wanted == BedArgument::Loopback,
        connections: Some(u32::try_from(connections).unwrap_or(u32::MAX)),
        ..BedPlan::new(
            SERVER.parse().expect(constant),
            vec![CONNECTING_CLIENTS.parse().expect(constant)],
        )
    };
    match Bed::build(&plan) {
        Ok(bed) => Ok((plan, bed)),
        Err(error) => Err(CannotRun(error.to_string()).into()),
    }
}

/// What may spoil or explain the result: of the machine, and of the server's device, which only its side can see.
pub fn snapshot(bed: &Bed) -> Snapshot {
    let mut snapshot = conditions::snapshot(&[]);
    let devices = [bed.server.device().to_owned()];
    snapshot.add(bed.server.run(move || conditions::of_devices(&devices)));
    snapshot
}
