//! One phase. In: a running server and a load. Out: the counts of each bucket, the losses and the table changes.

use super::document::{Phase, PhaseName};
use super::plan::Request;
use crate::child::{LoadProcess, ServerProcess, Watch};
use crate::error::Refusal;
use crate::experiment::{RunningTrial, joined};
use crate::placing::lasting;
use crate::trial::TrialHead;
use corelane_host::bed::Bed;
use corelane_load::pace::Pace;
use corelane_load::sources::{Lease, PlannedWorker, Ports};
use corelane_load::udp::{Probes, Skew, UdpLoad, UdpPlan};
use corelane_measure::statistics::ratio;
use corelane_rss::plan::{self, Landing};
use corelane_rss::{IndirectionTable, Steering, Transform};
use corelane_serve::udp::{BucketServed, UdpPlan as UdpServePlan, UdpServed, UdpServer};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Receive buffer of each bucket's socket: some hundred milliseconds of one bucket's load, because a busy machine may
/// delay its worker for that long.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// A server and its load.
pub(super) struct Bench<'a> {
    place: (&'a Bed, &'a Path),
    request: &'a Request,
    head: TrialHead,
    watch: Watch<'a>,
    pub(super) server: ServerProcess<UdpServer>,
}

impl<'a> Bench<'a> {
    pub(super) fn start<'b: 'a>(
        (bed, program): (&'a Bed, &'a Path),
        request: &'a Request,
        running: &mut RunningTrial<'b>,
    ) -> anyhow::Result<Bench<'a>> {
        let side = &bed.server;
        let plan = UdpServePlan {
            flows: true,
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
            ..UdpServePlan::new(SocketAddr::new(side.address(), 0), request.steering.clone())
        };
        let watch = running.watch();
        let server = ServerProcess::<UdpServer>::start(program, side, &plan, watch.interrupt)?;
        running.begun();
        Ok(Bench {
            place: (bed, program),
            request,
            head: running.head(request.duration_s),
            watch,
            server,
        })
    }

    pub(super) fn phase(
        &mut self,
        name: PhaseName,
        changes: Option<[IndirectionTable; 2]>,
    ) -> anyhow::Result<Phase> {
        let ((bed, program), request, watch) = (self.place, self.request, self.watch);
        let part = watch.part(name);
        let watch = watch.naming(part.as_ref());
        let load = load(request, self.server.ready().address, self.head.round)?;
        let generator = LoadProcess::<UdpLoad>::start(program, &bed.client)?;
        let before = self.server.served()?;
        let (sent, started) = (AtomicBool::new(false), Instant::now());
        let (loaded, entries_moved) = thread::scope(|scope| {
            let loading = scope.spawn(|| {
                let loaded = generator.run(&load, watch, |_| sent.store(true, Ordering::Release));
                // Signal the end on failure too.
                sent.store(true, Ordering::Release);
                loaded
            });
            let moved = self.attend(&sent, changes);
            let loaded = joined(loading.join());
            anyhow::Ok((loaded?, moved?))
        })?;
        let seconds = started.elapsed().as_secs_f64();
        // Workers publish their counts periodically: they are complete once they cover all answers.
        let seen = |served: &UdpServed| served.buckets.iter().map(|bucket| bucket.seen).sum::<u64>();
        let all = seen(&before) + loaded.total.returned;
        let after = self.server.settled(seen, |seen, _| Ok(*seen >= all))?;
        let pairs = || after.buckets.iter().zip(&before.buckets);
        let counted =
            |of: fn(&BucketServed) -> u64| pairs().map(move |(after, before)| of(after) - of(before));
        let bucket_datagrams: Vec<u64> = counted(|bucket| bucket.seen).collect();
        let seen: u64 = bucket_datagrams.iter().sum();
        let fullest = bucket_datagrams.iter().copied().max().unwrap_or(0) as f64;
        let table_changes = after.steering.generation - before.steering.generation;
        let (total, round_trip) = (loaded.total, loaded.round_trip);
        let mut head = self.head.clone();
        head.end_if_lost(&loaded.outcome);
        Ok(Phase {
            head,
            name,
            sent: total.sent,
            returned: total.returned,
            lost: total.lost,
            refused: total.refused.values().sum(),
            reordered: total.reordered,
            fullest_over_mean: ratio(fullest * bucket_datagrams.len() as f64, seen as f64),
            bucket_datagrams,
            steering_samples: counted(|bucket| bucket.steering_samples).sum(),
            steering_right: counted(|bucket| bucket.steering_right).sum(),
            table_changes,
            entries_moved,
            changes_a_minute: table_changes as f64 * 60.0 / seconds,
            round_trip_p99_us: round_trip.map(|summary| summary.p99_ns as f64 / 1e3),
            limited_by: loaded.outcome.limited_by,
        })
    }

    /// Alternates between two tables on schedule until the last datagram is sent; returns the number of entries moved.
    fn attend(&mut self, sent: &AtomicBool, tables: Option<[IndirectionTable; 2]>) -> anyhow::Result<u64> {
        let Some(tables) = tables else {
            return Ok(0);
        };
        let interval = Duration::from_secs(60) / self.request.changes_a_minute;
        let started = Instant::now();
        let mut moved = 0;
        for turn in 1_u32.. {
            // The schedule is fixed: a late change does not delay the next ones.
            let due = started + interval * turn;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if sent.load(Ordering::Acquire) {
                break;
            }
            moved += self.server.change_table(tables[turn as usize % 2].clone())? as u64;
        }
        Ok(moved)
    }
}

/// Source ports below the kernel's ephemeral range (`net.ipv4.ip_local_port_range` begins at 32,768).
const PORTS: std::ops::RangeInclusive<u16> = 10_000..=32_767;

/// Payload bytes: the smallest that holds a probe, because only the path of datagrams is measured.
pub const PAYLOAD_BYTES: u32 = 64;

/// An answer that takes longer counts as lost. A busy machine may delay a thread by some time slices, which is not a
/// loss.
const LOSS_TIMEOUT_S: f64 = 2.0;

/// The generator's plan for round `round`.
pub(super) fn load(request: &Request, server: SocketAddr, round: usize) -> anyhow::Result<UdpPlan> {
    let entries = request.steering.table.size();
    // One bucket per entry: the planner then returns one port per entry.
    let by_entry = Steering {
        table: IndirectionTable::round_robin(entries, entries)?,
        cpus: vec![0; entries],
        ..request.steering.clone()
    };
    let planned = plan::ports(
        &by_entry,
        request.client,
        server,
        PORTS,
        Some(1),
        Transform::Plain,
    )?;
    if let Some(entry) = planned.unreached.first() {
        let (client, entry) = (request.client, entry.index());
        let reason = format!(
            "no source port of {client} lands on entry {entry}: the key does not reach the whole table (corelane key \
             audit)"
        );
        return Err(Refusal::new("--key", reason).into());
    }
    let skew = Skew::Zipf {
        exponent: request.exponent,
    };
    let mut weights = skew.shares(entries).unwrap_or_default();
    fastrand::Rng::with_seed(request.seed.wrapping_add(round as u64)).shuffle(&mut weights);
    let worker = PlannedWorker {
        cpu: request.client_cpu,
        bucket: None,
        own_descriptors: false,
        leases: vec![Lease {
            address: request.client,
            ports: Ports::Listed(planned.buckets.concat()),
            connections: entries,
            landing: Landing::default(),
        }],
        weights,
        ..PlannedWorker::default()
    };
    let probes = Probes::new(PAYLOAD_BYTES as usize).expect("64 bytes hold a probe");
    Ok(UdpPlan {
        pace: Pace::Rate {
            per_second: request.rate,
        },
        until: lasting(request.duration_s),
        loss_timeout_s: LOSS_TIMEOUT_S,
        skew,
        ..UdpPlan::new(server, probes, vec![worker])
    })
}
