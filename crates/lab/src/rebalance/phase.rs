//! One phase: a server that runs and a load enter; what each bucket saw, what was lost and what was changed meanwhile leaves.

use super::document::{Phase, PhaseName};
use super::{RebalanceError, Request, flows};
use corelane_load::udp::{UdpLoad, UdpLoaded};
use corelane_rss::IndirectionTable;
use corelane_serve::udp::{FlowCounts, UdpPlan, UdpServed, UdpServer};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How often a server without changes is looked at, so that its samples are not lost.
const LOOK: Duration = Duration::from_millis(20);

/// Receive buffer of each bucket's socket: some hundred milliseconds of a bucket's load, which a busy machine may make it
/// wait.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// What is done to the table during a phase.
pub(super) enum Changes {
    /// Nothing.
    None,
    /// One table and the other in turn.
    Between {
        tables: [IndirectionTable; 2],
        a_minute: u32,
    },
}

/// A server, and the load that it is measured under.
pub(super) struct Bench<'a> {
    request: &'a Request,
    round: u32,
    server: UdpServer,
}

impl<'a> Bench<'a> {
    pub(super) fn start(request: &'a Request, round: u32) -> Result<Bench<'a>, RebalanceError> {
        let anywhere: SocketAddr = ([127, 0, 0, 1], 0).into();
        let server = UdpServer::start(UdpPlan {
            flows: true,
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
            ..UdpPlan::new(anywhere, request.steering.clone())
        })?;
        Ok(Bench {
            request,
            round,
            server,
        })
    }

    pub(super) fn change(&mut self, table: IndirectionTable) -> Result<(), RebalanceError> {
        self.server.change_table(table)?;
        Ok(())
    }

    /// The datagrams so far by hash.
    pub(super) fn flow_counts(&mut self) -> Result<FlowCounts, RebalanceError> {
        self.server.flows().ok_or_else(|| RebalanceError::System {
            what: "ask the server for its flows",
            source: io::Error::other("it does not count them"),
        })
    }

    pub(super) fn phase(&mut self, name: PhaseName, changes: Changes) -> Result<Phase, RebalanceError> {
        let load = flows::load(self.request, self.server.address(), self.round)?;
        let before = self.server.served();
        let generation = self.server.steering().generation;
        let mut load = UdpLoad::start(load)?;
        let started = Instant::now();
        let entries_moved = self.attend(&mut load, &changes)?;
        let seconds = started.elapsed().as_secs_f64();
        let loaded = load.finish()?;
        let changed = self.server.steering().generation - generation;
        let after = self.server.served();
        Ok(self.told(
            name,
            (&before, &after),
            &loaded,
            (changed, entries_moved, seconds),
        ))
    }

    /// Changes the table on schedule until the load has ended; tells how many entries moved in all.
    fn attend(&mut self, load: &mut UdpLoad, changes: &Changes) -> Result<u64, RebalanceError> {
        let Changes::Between { tables, a_minute } = changes else {
            while !load.wait(LOOK) {
                self.server.collect_samples();
            }
            return Ok(0);
        };
        let interval = Duration::from_secs(60) / *a_minute;
        let started = Instant::now();
        let mut moved = 0;
        for turn in 1_u32.. {
            // The schedule is fixed: a change that comes late does not delay those after it.
            let due = started + interval * turn;
            if load.wait(due.saturating_duration_since(Instant::now())) || load.sending_ended() {
                break;
            }
            moved += self.server.change_table(tables[turn as usize % 2].clone())? as u64;
            self.server.collect_samples();
        }
        while !load.wait(LOOK) {
            self.server.collect_samples();
        }
        Ok(moved)
    }

    fn told(
        &self,
        name: PhaseName,
        (before, after): (&UdpServed, &UdpServed),
        loaded: &UdpLoaded,
        (table_changes, entries_moved, seconds): (u64, u64, f64),
    ) -> Phase {
        let pairs = after.buckets.iter().zip(&before.buckets);
        let seen: Vec<u64> = pairs
            .clone()
            .map(|(after, before)| after.seen - before.seen)
            .collect();
        let samples = |of: fn(&corelane_serve::udp::BucketServed) -> u64| -> u64 {
            pairs.clone().map(|(after, before)| of(after) - of(before)).sum()
        };
        let total: u64 = seen.iter().sum();
        let fullest = seen.iter().copied().max().unwrap_or(0);
        Phase {
            round: self.round,
            name,
            sent: loaded.total.sent,
            returned: loaded.total.returned,
            lost: loaded.total.lost,
            refused: loaded.total.refused.values().sum(),
            reordered: loaded.total.reordered,
            fullest_over_mean: (total > 0).then(|| fullest as f64 * seen.len() as f64 / total as f64),
            bucket_datagrams: seen,
            steering_samples: samples(|bucket| bucket.steering_samples),
            steering_right: samples(|bucket| bucket.steering_right),
            table_changes,
            entries_moved,
            changes_a_minute: table_changes as f64 * 60.0 / seconds,
            round_trip_p99_us: loaded
                .round_trip
                .as_ref()
                .map(|summary| summary.p99_ns as f64 / 1e3),
            limited_by: loaded.limited_by.clone(),
        }
    }
}
