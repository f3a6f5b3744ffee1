//! Plans one flow per table entry and its load. In: a steering table and a seed. Out: the plan of the generator.

use super::Request;
use crate::error::{LabError, Refusal};
use corelane_load::pace::Pace;
use corelane_load::sources::{Lease, PlannedWorker, Ports};
use corelane_load::udp::Skew;
use corelane_load::udp::{Probes, UdpPlan, Until};
use corelane_rss::{IndirectionTable, Steering, plan};
use std::net::SocketAddr;

/// Source ports below the kernel's ephemeral range (`net.ipv4.ip_local_port_range` begins at 32,768).
const PORTS: std::ops::RangeInclusive<u16> = 10_000..=32_767;

/// Payload bytes: the smallest that holds a probe, because only the path of datagrams is measured.
pub const PAYLOAD_BYTES: u32 = 64;

/// Datagrams per batch.
const BATCH: usize = 64;

/// An answer that takes longer counts as lost. A busy machine may delay a thread by some time slices, which is not a
/// loss.
const LOSS_TIMEOUT_S: f64 = 2.0;

/// The generator's plan for round `round`.
pub(super) fn load(request: &Request, server: SocketAddr, round: u32) -> Result<UdpPlan, LabError> {
    let entries = request.steering.table.size();
    // One bucket per entry: the planner then returns one port per entry.
    let by_entry = Steering {
        table: IndirectionTable::round_robin(entries, entries)?,
        cpus: vec![0; entries],
        ..request.steering.clone()
    };
    let planned = plan::ports(&by_entry, request.client.into(), server, PORTS, Some(1))?;
    if let Some(entry) = planned.unreached.first() {
        let (client, entry) = (request.client, entry.index());
        let reason = format!(
            "no source port of {client} lands on entry {entry}: the key does not reach the whole table (corelane key \
             audit)"
        );
        return Err(Refusal::new("--key", reason).into());
    }
    let mut weights: Vec<f64> = (1..=entries)
        .map(|rank| (rank as f64).powf(-request.exponent))
        .collect();
    fastrand::Rng::with_seed(request.seed.wrapping_add(u64::from(round))).shuffle(&mut weights);
    let sum: f64 = weights.iter().sum();
    let worker = PlannedWorker {
        cpu: request.client_cpu,
        bucket: None,
        own_descriptors: false,
        leases: vec![Lease {
            address: request.client.into(),
            ports: Ports::Listed(planned.buckets.concat()),
            connections: entries,
        }],
        weights: weights.iter().map(|weight| weight / sum).collect(),
    };
    let probes = Probes::new(PAYLOAD_BYTES as usize).expect("64 bytes hold a probe");
    Ok(UdpPlan {
        pace: Pace::Rate {
            per_second: request.rate,
        },
        until: Until {
            duration_s: Some(request.duration_s),
            datagrams: None,
        },
        loss_timeout_s: LOSS_TIMEOUT_S,
        batch: BATCH,
        skew: Skew::Zipf {
            exponent: request.exponent,
        },
        ..UdpPlan::new(server, probes, vec![worker])
    })
}
