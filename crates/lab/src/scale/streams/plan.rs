//! The plan: steps as data, and their CPUs. `peers.rs` derives server and clients from a step.

use super::document::{Protocol, Selection, Server, Shape, Traffic};
use crate::placing::{ONE_CPU, Placement, active_counts, sorted};
use crate::scale::plan::Settings;
use crate::trial::{CpuShare, mean_share};
use corelane_host::bed::{Bed, BedPlan};
use corelane_load::pool::Pool;
use corelane_measure::quantity;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Descriptors of a worker's table that are not connections: engine, waker, listener, standard streams, and a margin.
const OTHER_DESCRIPTORS: usize = 64;

/// Connections that one descriptor table holds.
pub(super) const fn room(descriptor_limit: usize) -> u64 {
    descriptor_limit.saturating_sub(OTHER_DESCRIPTORS) as u64
}

/// Margin over the even share of connections per listener: if the kernel selects source ports, connections spread
/// evenly only on average. Planned ports need no margin.
const UNEVEN_SHARE: f64 = 1.08;

/// The user's request.
#[derive(Debug, Clone, Serialize)]
pub struct StreamsRequest {
    /// What is measured.
    pub protocol: Protocol,
    /// Which steps are measured.
    #[serde(flatten)]
    pub selection: Selection,
    /// Settings of every step.
    #[serde(flatten)]
    pub settings: Settings,
    /// Another server instead of ours.
    pub subject: Option<SubjectRequest>,
    /// The CPUs of the clients of each bucket; `None` for the worker's own.
    pub client_cpus: Option<Vec<u32>>,
    /// Scheduled requests per second, or bytes per second that the clients write, over all connections. `None`: each
    /// request follows the previous response, and bytes are written at the maximum rate.
    pub rate: Option<f64>,
}

/// CPUs of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sides {
    /// Of the server.
    pub(super) server: Vec<u32>,
    /// Of the clients.
    pub(super) clients: Vec<u32>,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubjectRequest {
    /// The shell command.
    pub command: String,
    /// The path to request, for HTTP; `{size}` is replaced by the object size in bytes.
    pub path: Option<String>,
}

/// The resolved plan.
#[derive(Debug, Clone, Serialize)]
pub struct StreamsPlan {
    /// The request.
    #[serde(flatten)]
    pub request: StreamsRequest,
    /// The bed that each trial is run in.
    pub bed: BedPlan,
    /// Where the server listens.
    pub server: SocketAddr,
    /// The clients' address pool.
    pub clients: Pool,
    /// Every step.
    pub steps: Vec<Shape>,
    /// Steps that cannot run here, with reasons.
    pub left_out: Vec<String>,
}

/// Mean idle share of these CPUs.
pub(super) fn idle_share(cpus: &[u32], shares: &[CpuShare]) -> Option<f64> {
    let own = shares.iter().filter(|share| cpus.contains(&share.cpu));
    mean_share(own, |share| share.idle_share)
}

impl StreamsRequest {
    /// Server and placement of every series, controls last.
    fn series(&self) -> Vec<(Server, Placement)> {
        let servers = match &self.subject {
            Some(_) => &[Server::Subject][..],
            None => &self.selection.servers,
        };
        let mut series = Vec::new();
        for &server in servers {
            let requested = self.selection.common.placements.as_deref();
            let placements = Placement::chosen(requested, server == Server::Exact);
            series.extend(placements.iter().map(|placement| (server, *placement)));
        }
        series
    }

    /// The traffic modes with sizes of objects or writes; a subject may ignore them.
    fn loads(&self) -> Vec<(Traffic, Option<u64>)> {
        let mut loads = Vec::new();
        for &traffic in &self.selection.traffics {
            let is_subjects = self.subject.as_ref().is_some_and(|subject| match traffic {
                Traffic::Requests => !subject.path.as_ref().is_some_and(|path| path.contains("{size}")),
                Traffic::Source => true,
                Traffic::Sink | Traffic::Echo => false,
            });
            let sizes = match traffic {
                Traffic::Requests => &self.selection.object_bytes,
                Traffic::Sink | Traffic::Source | Traffic::Echo => &self.selection.write_bytes,
            };
            match is_subjects {
                true => loads.push((traffic, None)),
                false => loads.extend(sizes.iter().map(|bytes| (traffic, Some(*bytes)))),
            }
        }
        loads
    }
}

impl StreamsPlan {
    /// The steps of `request` in beds like `bed`, which was built by `bed_plan`.
    #[must_use]
    pub fn new(request: StreamsRequest, bed_plan: BedPlan, bed: &Bed, port: u16) -> Self {
        let mut plan = Self {
            request,
            bed: bed_plan,
            server: SocketAddr::new(bed.server.address(), port),
            clients: bed.clients().iter().copied().collect(),
            steps: Vec::new(),
            left_out: Vec::new(),
        };
        plan.add_steps();
        plan
    }

    fn add_steps(&mut self) {
        let active = self.request.selection.active.clone();
        let active =
            active.unwrap_or_else(|| active_counts(self.buckets(), self.request.selection.common.quick));
        for (server, placement) in self.request.series() {
            if !placement.is_possible(&self.request.settings.steering.cpus) {
                self.leave_out(ONE_CPU.to_owned());
                continue;
            }
            for (traffic, size) in self.request.loads() {
                for connections in self.request.selection.connections.clone() {
                    // Impossible steps are reported together: they differ only in buckets.
                    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
                    for &buckets_active in &active {
                        let shape = Shape {
                            server,
                            placement,
                            traffic,
                            object_bytes: size.filter(|_| traffic == Traffic::Requests),
                            write_bytes: size.filter(|_| traffic != Traffic::Requests),
                            connections,
                            buckets_active,
                        };
                        match self.why_not(&shape) {
                            None => self.steps.push(shape),
                            Some(why) => refused.entry(why).or_default().push(buckets_active.to_string()),
                        }
                    }
                    for (reason, buckets) in refused {
                        self.leave_out(format!("steps with {} active: {reason}", buckets.join(", ")));
                    }
                }
            }
        }
    }

    fn leave_out(&mut self, reason: String) {
        if !self.left_out.contains(&reason) {
            self.left_out.push(reason);
        }
    }

    /// Why a step is impossible.
    fn why_not(&self, shape: &Shape) -> Option<String> {
        let (connections, active) = (shape.connections, shape.buckets_active);
        if connections < active as u64 {
            return Some(format!(
                "{} connections are fewer than one a bucket",
                quantity::count(connections)
            ));
        }
        let held = match shape.server {
            Server::Exact => connections.div_ceil(active as u64),
            // The kernel's hash spreads over all listeners, active or not.
            Server::Reuseport => (connections as f64 * UNEVEN_SHARE / self.buckets() as f64).ceil() as u64,
            Server::Subject => return None,
        };
        let descriptors = self.request.selection.descriptor_limit;
        (held > room(descriptors)).then(|| {
            format!(
                "a descriptor table holds {}, too few for {} connections (give more --buckets with --share-cpus)",
                quantity::count(descriptors as u64),
                quantity::count(connections)
            )
        })
    }

    /// The number of buckets, each with its own descriptor table, that hold this many connections: the number of CPUs
    /// or a multiple.
    #[must_use]
    pub fn buckets_for(connections: u64, cpus: usize, descriptor_limit: usize) -> usize {
        let room = room(descriptor_limit).max(1) as f64;
        let tables = (connections as f64 * UNEVEN_SHARE / room).ceil() as usize;
        let cpus = cpus.max(1);
        tables.max(cpus).next_multiple_of(cpus)
    }

    /// Buckets of the server.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.request.settings.steering.cpus.len()
    }

    /// The CPUs of a step's workers.
    pub(crate) fn server_cpus(&self, shape: &Shape) -> Vec<u32> {
        self.request.settings.steering.cpus[..shape.buckets_active].to_vec()
    }

    /// The CPU of the client of each active bucket.
    pub(super) fn client_cpus(&self, shape: &Shape) -> Vec<u32> {
        let own = &self.request.settings.steering.cpus;
        match &self.request.client_cpus {
            Some(named) => named.iter().copied().cycle().take(shape.buckets_active).collect(),
            None => shape.placement.client_cpus(own, shape.buckets_active),
        }
    }

    /// The CPUs that the server of a step may use.
    fn serving_cpus(&self, shape: &Shape) -> Vec<u32> {
        match shape.server {
            // The kernel's hash ignores active buckets.
            Server::Reuseport => self.request.settings.steering.cpus.clone(),
            Server::Exact | Server::Subject => self.server_cpus(shape),
        }
    }

    /// The CPUs of server and clients of a step, if they are disjoint: only then can one side be busy while the other
    /// is idle.
    pub(super) fn sides_apart(&self, shape: &Shape) -> Option<Sides> {
        let sides = Sides {
            server: self.serving_cpus(shape),
            clients: self.client_cpus(shape),
        };
        let apart = !sides.clients.iter().any(|cpu| sides.server.contains(cpu));
        apart.then_some(sides)
    }

    /// The CPUs on which server or clients of the step run.
    #[must_use]
    pub fn cpus(&self, shape: &Shape) -> Vec<u32> {
        let mut cpus = self.serving_cpus(shape);
        cpus.extend(self.client_cpus(shape));
        sorted(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Observe;
    use corelane_host::memory::MemoryPolicy;
    use corelane_rss::{HashFields, IndirectionTable, Key, Steering};

    fn plan(connections: Vec<u64>, cpus: Vec<u32>) -> StreamsPlan {
        let request = StreamsRequest {
            protocol: Protocol::Http,
            selection: Selection {
                servers: vec![Server::Exact, Server::Reuseport],
                traffics: vec![Traffic::Requests],
                object_bytes: vec![128],
                connections,
                descriptor_limit: 20_000,
                ..Selection::default()
            },
            settings: Settings {
                steering: Steering {
                    key: Key::VERIFICATION,
                    hash_fields: HashFields::FourTuple,
                    table: IndirectionTable::round_robin(128, cpus.len()).unwrap(),
                    cpus,
                    generation: 0,
                },
                duration_s: 1.0,
                engine: None,
                memory: MemoryPolicy::default(),
                buffer_memory: None,
                observe: Observe::default(),
            },
            subject: None,
            client_cpus: None,
            rate: None,
        };
        let bed_plan = BedPlan {
            loopback: true,
            ..BedPlan::new(
                "10.11.2.1".parse().unwrap(),
                vec!["10.12.0.0/24".parse().unwrap()],
            )
        };
        let bed = Bed::build(&bed_plan).unwrap();
        StreamsPlan::new(request, bed_plan, &bed, 8080)
    }

    fn shapes(plan: &StreamsPlan) -> Vec<(Server, Placement, u64, usize)> {
        let shape = |shape: &Shape| {
            (
                shape.server,
                shape.placement,
                shape.connections,
                shape.buckets_active,
            )
        };
        plan.steps.iter().map(shape).collect()
    }

    #[test]
    fn controls_stand_beside_every_number_of_buckets() {
        let plan = plan(vec![64], vec![0, 1]);
        let (exact, reuseport) = (Server::Exact, Server::Reuseport);
        let (aligned, crossed) = (Placement::Aligned, Placement::Crossed);
        let expected = [
            (exact, aligned, 64, 1),
            (exact, aligned, 64, 2),
            (exact, crossed, 64, 1),
            (exact, crossed, 64, 2),
            (reuseport, aligned, 64, 1),
            (reuseport, aligned, 64, 2),
        ];
        assert_eq!(shapes(&plan), expected);
        assert_eq!(plan.left_out, [""; 0]);
    }

    #[test]
    fn a_million_connections_need_the_descriptor_tables_of_all_buckets() {
        let buckets = StreamsPlan::buckets_for(1_000_000, 2, 20_000);
        assert_eq!(buckets, 56);
        assert_eq!(StreamsPlan::buckets_for(64, 2, 20_000), 2);
        let plan = plan(vec![1_000_000], (0..56).map(|bucket| bucket % 2).collect());
        assert!(
            plan.steps
                .iter()
                .all(|step| step.buckets_active == 56 || step.server == Server::Reuseport)
        );
        assert!(
            plan.left_out[0]
                .starts_with("steps with 1, 2, 4, 8, 16, 32 active: a descriptor table holds 20,000"),
            "{:?}",
            plan.left_out
        );
        let server = plan.http_server(&plan.steps[0]);
        assert!(server.listening.own_descriptors && server.limits.idle_ms > 60_000);
        let load = plan.http_load(&plan.steps[0]).unwrap();
        assert_eq!(load.connections(), 1_000_000);
        assert!(
            load.workers
                .iter()
                .all(|worker| worker.own_descriptors && worker.connections() < 20_000)
        );
    }

    #[test]
    fn crossed_clients_aim_at_the_same_buckets_from_other_cpus() {
        let plan = plan(vec![64], vec![0, 1]);
        let crossed = plan
            .steps
            .iter()
            .find(|step| step.placement == Placement::Crossed)
            .unwrap();
        let load = plan.http_load(crossed).unwrap();
        let worker = &load.workers[0];
        assert_eq!(
            (worker.cpu, worker.bucket, worker.connections()),
            (1, Some(0), 64)
        );
    }
}
