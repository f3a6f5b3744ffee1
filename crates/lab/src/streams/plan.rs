//! What the experiment is to do: its steps as data, and from a step the server and the clients.

use super::client::ClientPlan;
use super::run::StreamsError;
use crate::child::SubjectPlan;
use crate::placing::{active_counts, distinct, other_cpus};
use corelane_host::bed::{Bed, BedPlan};
use corelane_host::memory::MemoryPolicy;
use corelane_load::http::{
    Behaviour, GATHER, HttpLoadError, HttpPlan as HttpLoadPlan, HttpRequest, Model, OneRequest, PlannedBody,
    PlannedPhase, PoolRequest, StatusRange, Timeouts, TlsSettings, Until,
};
use corelane_load::pool::Pool;
use corelane_load::sources::Align;
use corelane_proto::http::url::{Scheme, Url};
use corelane_report::quantity;
use corelane_report::scale::Placement;
use corelane_report::streams::{Protocol, Server, Shape, Traffic};
use corelane_rss::Steering;
use corelane_serve::http::HttpPlan as HttpServePlan;
use corelane_worker::engine::EngineKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Descriptors of a worker's table that are not connections: engine, waker, listener, standard streams, and a margin.
const OTHER_DESCRIPTORS: usize = 64;

/// What the connections of one listener may exceed its even share by: clients whose source the kernel chooses spread
/// evenly only on average. Planned ports need none of it.
const UNEVEN_SHARE: f64 = 1.08;

/// Connections that may wait at each of our listeners: as many as `net.core.somaxconn` of the bed allows.
const LONGEST_BACKLOG: u16 = u16::MAX;

/// How long a subject may take until it accepts.
const SUBJECT_READY_MS: u64 = 30_000;

/// How long opening a connection, an answer, and the last answers may take. A million connections that are opened as fast
/// as they can be on one CPU keep each other waiting for seconds, and an answer of a gigabyte takes that long.
const TIMEOUTS: Timeouts = Timeouts {
    connect_s: 60.0,
    continue_s: 1.0,
    first_byte_s: 60.0,
    request_s: 120.0,
    drain_s: 30.0,
};

/// What a user asks of the experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamsRequest {
    /// What is measured.
    pub protocol: Protocol,
    /// Key, table, and the CPU of each bucket; for a subject, its CPUs.
    pub steering: Steering,
    /// Our server in these ways; empty with a subject.
    pub servers: Vec<Server>,
    /// Another server instead of ours.
    pub subject: Option<SubjectRequest>,
    /// Where clients run. `None` tries every server aligned, and exact steering crossed as the control.
    pub placements: Option<Vec<Placement>>,
    /// Bytes of the objects asked for.
    pub object_bytes: Vec<u64>,
    /// Connections in all.
    pub connections: Vec<u64>,
    /// Numbers of active buckets; `None` for 1 to all.
    pub active: Option<Vec<usize>>,
    /// The CPUs of the clients of each bucket; `None` for the worker's own.
    pub client_cpus: Option<Vec<u32>>,
    /// Requests a second on a schedule; `None` for the next request after each answer.
    pub rate: Option<f64>,
    /// Seconds of one trial.
    pub duration_s: f64,
    /// Trials of each step.
    pub rounds: u32,
    /// The engine asked for.
    pub engine: Option<EngineKind>,
    /// Seed of the order of trials.
    pub seed: u64,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubjectRequest {
    /// The command as a shell takes it.
    pub command: String,
    /// The path to ask for; `{size}` stands for the bytes of the object.
    pub path: String,
}

/// The experiment, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamsPlan {
    /// As asked.
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
    /// What cannot run here, and why.
    pub left_out: Vec<String>,
    /// Descriptors that one table may hold.
    pub descriptor_limit: usize,
}

impl StreamsRequest {
    /// Server and placement of every series, controls last.
    fn series(&self) -> Vec<(Server, Placement)> {
        let servers = match &self.subject {
            Some(_) => &[Server::Subject][..],
            None => &self.servers,
        };
        let mut series = Vec::new();
        for &server in servers {
            let natural = match server {
                Server::Exact => &[Placement::Aligned, Placement::Crossed][..],
                Server::Reuseport | Server::Subject => &[Placement::Aligned],
            };
            for &placement in self.placements.as_deref().unwrap_or(natural) {
                series.push((server, placement));
            }
        }
        series
    }

    /// Sizes of objects to ask for: what the subject makes of them, where it does.
    fn objects(&self) -> Vec<Option<u64>> {
        match &self.subject {
            Some(subject) if !subject.path.contains("{size}") => vec![None],
            _ => self.object_bytes.iter().copied().map(Some).collect(),
        }
    }
}

impl StreamsPlan {
    /// The steps of `request` in beds like `bed`, which was built by `bed_plan`.
    #[must_use]
    pub fn new(
        request: StreamsRequest,
        bed_plan: BedPlan,
        bed: &Bed,
        port: u16,
        descriptor_limit: usize,
    ) -> Self {
        let mut plan = Self {
            request,
            bed: bed_plan,
            server: SocketAddr::new(bed.server.address(), port),
            clients: bed.clients().iter().copied().collect(),
            steps: Vec::new(),
            left_out: Vec::new(),
            descriptor_limit,
        };
        plan.add_steps();
        plan
    }

    fn add_steps(&mut self) {
        let buckets = self.request.steering.cpus.len();
        let active = self
            .request
            .active
            .clone()
            .unwrap_or_else(|| active_counts(buckets));
        for (server, placement) in self.request.series() {
            if placement == Placement::Crossed && distinct(&self.request.steering.cpus) < 2 {
                self.leave_out("clients on the wrong CPU: needs two CPUs".to_owned());
                continue;
            }
            for object_bytes in self.request.objects() {
                for connections in self.request.connections.clone() {
                    let shape = |buckets_active: usize| Shape {
                        server,
                        placement,
                        traffic: Traffic::Requests,
                        object_bytes,
                        connections,
                        buckets_active,
                    };
                    self.add_growing(active.iter().map(|active| shape(*active)));
                }
            }
        }
    }

    /// Adds the steps of one series that can be. Those that cannot are named together: they differ in buckets alone.
    fn add_growing(&mut self, shapes: impl Iterator<Item = Shape>) {
        let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for shape in shapes {
            match self.why_not(&shape) {
                None => self.steps.push(shape),
                Some(reason) => {
                    let buckets = refused.entry(reason).or_default();
                    buckets.push(shape.buckets_active.to_string());
                }
            }
        }
        for (reason, buckets) in refused {
            self.leave_out(format!("steps with {} active: {reason}", buckets.join(", ")));
        }
    }

    fn leave_out(&mut self, reason: String) {
        if !self.left_out.contains(&reason) {
            self.left_out.push(reason);
        }
    }

    /// Why a step cannot be.
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
        let room = self.descriptor_limit.saturating_sub(OTHER_DESCRIPTORS) as u64;
        (held > room).then(|| {
            format!(
                "a descriptor table holds {}, too few for {} connections (give more --buckets with --share-cpus)",
                quantity::count(self.descriptor_limit as u64),
                quantity::count(connections)
            )
        })
    }

    /// How many buckets hold so many connections, each with a descriptor table of its own: as many as CPUs, or a multiple
    /// of those.
    #[must_use]
    pub fn buckets_for(connections: u64, cpus: usize, descriptor_limit: usize) -> usize {
        let room = descriptor_limit.saturating_sub(OTHER_DESCRIPTORS).max(1) as f64;
        let tables = (connections as f64 * UNEVEN_SHARE / room).ceil() as usize;
        let cpus = cpus.max(1);
        tables.max(cpus).next_multiple_of(cpus)
    }

    /// Buckets of the server.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.request.steering.cpus.len()
    }

    /// The CPUs of a step's workers.
    #[must_use]
    pub fn server_cpus(&self, shape: &Shape) -> Vec<u32> {
        self.request.steering.cpus[..shape.buckets_active].to_vec()
    }

    /// The CPU of the client of each active bucket.
    fn client_cpus(&self, shape: &Shape) -> Vec<u32> {
        let own = &self.request.steering.cpus;
        let all = match (&self.request.client_cpus, shape.placement) {
            (Some(named), _) => named.iter().copied().cycle().take(own.len()).collect(),
            (None, Placement::Aligned) => own.clone(),
            (None, Placement::Crossed) => other_cpus(own),
        };
        all[..shape.buckets_active].to_vec()
    }

    /// The CPUs on which server or clients of the step run.
    #[must_use]
    pub fn cpus(&self, shape: &Shape) -> Vec<u32> {
        let mut cpus = match shape.server {
            // The kernel's hash knows no active buckets.
            Server::Reuseport => self.request.steering.cpus.clone(),
            Server::Exact | Server::Subject => self.server_cpus(shape),
        };
        cpus.extend(self.client_cpus(shape));
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The subject of a step.
    #[must_use]
    pub fn subject(&self, shape: &Shape) -> Option<SubjectPlan> {
        let mut cpus = self.server_cpus(shape);
        cpus.sort_unstable();
        cpus.dedup();
        self.request.subject.as_ref().map(|subject| SubjectPlan {
            command: subject.command.clone(),
            address: self.server,
            cpus,
            ready_within_ms: SUBJECT_READY_MS,
        })
    }

    /// Our server in a step.
    #[must_use]
    pub fn http_server(&self, shape: &Shape) -> HttpServePlan {
        let request = &self.request;
        let one_table = self.descriptor_limit.saturating_sub(OTHER_DESCRIPTORS) as u64;
        let mut plan = HttpServePlan::new(self.server, request.steering.clone());
        plan.engine = request.engine;
        plan.backlog = LONGEST_BACKLOG;
        plan.kernel_hash = shape.server == Server::Reuseport;
        plan.own_descriptors = shape.connections > one_table;
        // What a connection waits for is the experiment's to say: all of it is shorter than this.
        plan.limits.idle_ms = ((request.duration_s + TIMEOUTS.connect_s + TIMEOUTS.request_s) * 2e3) as u64;
        plan
    }

    /// The clients of a step.
    pub(super) fn clients(&self, shape: &Shape) -> Result<ClientPlan, StreamsError> {
        Ok(ClientPlan::Http(Box::new(self.http_load(shape)?)))
    }

    /// The clients of a step that make requests.
    ///
    /// # Errors
    /// When the pool cannot reach a bucket, or has too few ports.
    pub fn http_load(&self, shape: &Shape) -> Result<HttpLoadPlan, HttpLoadError> {
        let request = &self.request;
        let cpus = self.client_cpus(shape);
        // Connections to a bucket come from the worker on the CPU that the clients' steering document names for it.
        let mut steering = request.steering.clone();
        steering.cpus[..shape.buckets_active].copy_from_slice(&cpus);
        let exact = shape.server == Server::Exact;
        let pool = PoolRequest {
            name: "main".to_owned(),
            servers: Vec::new(),
            requests: vec![OneRequest {
                weight: 1.0,
                url: self.url(shape),
                method: "GET".to_owned(),
                fields: Vec::new(),
                body: PlannedBody::Nothing,
                chunked: false,
                expect_continue: false,
                check: false,
            }],
            connections: shape.connections as usize,
            model: match request.rate {
                Some(per_second) => Model::Open { per_second },
                None => Model::Closed { think_s: 0.0 },
            },
            requests_a_connection: None,
            behaviour: Behaviour::default(),
            statuses: vec![StatusRange {
                first: 200,
                last: 299,
            }],
            sources: Some(self.clients.clone()),
            align: if exact { Align::Bucket } else { Align::Kernel },
            tls: TlsSettings::default(),
        };
        HttpRequest {
            pools: vec![pool],
            phases: vec![PlannedPhase::hold(Until {
                duration_s: Some(request.duration_s),
                ..Until::default()
            })],
            requests: None,
            steering: exact.then_some(steering),
            buckets: exact.then(|| (0..shape.buckets_active as u16).collect()),
            cpus,
            timeouts: TIMEOUTS,
            engine: request.engine,
            memory: MemoryPolicy::default(),
            gather: GATHER,
            descriptor_limit: self.descriptor_limit,
        }
        .resolve()
    }

    fn url(&self, shape: &Shape) -> Url {
        let size = shape.object_bytes.unwrap_or(0).to_string();
        let target = match &self.request.subject {
            Some(subject) => subject.path.replace("{size}", &size),
            None => format!("/size/{size}"),
        };
        Url {
            scheme: Scheme::Http,
            host: self.server.ip().to_string(),
            port: self.server.port(),
            target,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{HashFields, IndirectionTable, Key};

    fn plan(connections: Vec<u64>, cpus: Vec<u32>) -> StreamsPlan {
        let request = StreamsRequest {
            protocol: Protocol::Http,
            steering: Steering {
                key: Key::VERIFICATION,
                hash_fields: HashFields::FourTuple,
                table: IndirectionTable::round_robin(128, cpus.len()).unwrap(),
                cpus,
                generation: 0,
            },
            servers: vec![Server::Exact, Server::Reuseport],
            subject: None,
            placements: None,
            object_bytes: vec![128],
            connections,
            active: None,
            client_cpus: None,
            rate: None,
            duration_s: 1.0,
            rounds: 1,
            engine: None,
            seed: 1,
        };
        let bed_plan = BedPlan {
            loopback: true,
            ..BedPlan::new(
                "10.11.2.1".parse().unwrap(),
                vec!["10.12.0.0/24".parse().unwrap()],
            )
        };
        let bed = Bed::build(&bed_plan).unwrap();
        StreamsPlan::new(request, bed_plan, &bed, 8080, 20_000)
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
        assert!(server.own_descriptors && server.limits.idle_ms > 60_000);
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
