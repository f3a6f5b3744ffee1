//! The plan of the scaling experiment: its steps as data.

use super::document::{Selection, Shape};
use crate::placing::{ONE_CPU, Placement, active_counts, lasting, sorted};
use crate::scale::plan::{self, Settings};
use crate::scale::steps::Shape as _;
use corelane_host::HostError;
use corelane_host::bed::{Bed, BedKind};
use corelane_link::MarkedQueues;
use corelane_load::pace::Pace;
use corelane_load::sources::Transport;
use corelane_load::udp::{Probes, Skew, UdpLoadError, UdpPlan as UdpLoadPlan};
use corelane_serve::udp::UdpPlan as UdpServePlan;
use corelane_serve::udp::{Answers, Mode, Model};
use corelane_worker::engine::EngineSettings;
use serde::Serialize;
use std::net::SocketAddr;

/// Duration of the warm-up before each trial: it faults memory in and fills the kernel's caches.
const WARM_UP_S: f64 = 0.1;

/// How long the last answers are awaited: on a busy machine a worker of the server may wait this long for its CPU, and an
/// answer to a closed port is a loss of the experiment's own making. During a trial the usual timeout holds, after which a
/// flow whose whole window was dropped sends again.
const DRAIN_S: f64 = 2.0;

/// Receive buffer of each bucket's socket. It does not overflow when a client runs for a whole time slice (about 3 ms
/// at 700,000 datagrams per second, 1,280 bytes of memory each). The kernel's limit without privilege
/// (`net.core.rmem_max`) is often lower, and then applies.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// The user's request.
#[derive(Debug, Clone, Serialize)]
pub struct ScaleRequest {
    /// Which steps are measured.
    #[serde(flatten)]
    pub selection: Selection,
    /// Settings of every step.
    #[serde(flatten)]
    pub settings: Settings,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// Client sockets per bucket, each with its own address if the pool has enough.
    pub flows: usize,
    /// Outstanding datagrams per socket in echo mode.
    pub window: u32,
    /// Datagrams per batch.
    pub batch: usize,
    /// Send with `UDP_SEGMENT`.
    pub gso: bool,
    /// Receive with `UDP_GRO`.
    pub gro: bool,
}

/// The resolved plan.
#[derive(Debug, Clone, Serialize)]
pub struct ScalePlan {
    /// The request.
    #[serde(flatten)]
    pub request: ScaleRequest,
    /// Where the server listens.
    pub server: SocketAddr,
    /// The clients' address pool.
    pub clients: corelane_load::pool::Pool,
    /// The server's device, for counters and the tap.
    pub device: String,
    /// Its transmit queues, one per bucket, if the queues of answers are traced.
    pub transmit_queues: Option<u32>,
    /// Every step.
    pub steps: Vec<Shape>,
    /// Controls that cannot run here, with reasons.
    pub left_out: Vec<String>,
}

impl ScaleRequest {
    fn engine_settings(&self) -> EngineSettings {
        EngineSettings {
            datagram_batch: self.batch,
            coalesce: self.gso,
            gro: self.gro,
            memory: self.settings.buffer_memory,
            ..EngineSettings::default()
        }
    }

    /// The series of steps, each from one bucket to all. The defaults follow the posts: echo, sink, and the controls
    /// for exact steering.
    fn series(&self) -> Vec<(Mode, Model, Placement)> {
        let (echo, both) = ([Mode::Echo], [Mode::Echo, Mode::Sink]);
        let mut series = Vec::new();
        for &model in &self.selection.models {
            let exact = model == Model::Exact;
            for &placement in Placement::chosen(self.selection.common.placements.as_deref(), exact) {
                let main = exact && placement == Placement::Aligned;
                let natural = if main { &both[..] } else { &echo };
                for &mode in self.selection.modes.as_deref().unwrap_or(natural) {
                    series.push((mode, model, placement));
                }
            }
        }
        series
    }
}

impl ScalePlan {
    /// The steps of `request` on `bed`.
    #[must_use]
    pub fn new(request: ScaleRequest, bed: &Bed, port: u16) -> Self {
        let buckets = request.settings.steering.table.buckets();
        let (mut left_out, mut steps) = (Vec::new(), Vec::new());
        for series in request.series() {
            if series.2.is_possible(&request.settings.steering.cpus) {
                let counts = active_counts(buckets, request.selection.common.quick).into_iter();
                steps.extend(counts.map(|active| Shape::plain(series, active)));
            } else {
                left_out.push(ONE_CPU.to_owned());
            }
        }
        let mut plan = Self {
            request,
            server: SocketAddr::new(bed.server.address(), port),
            clients: bed.clients().iter().copied().collect(),
            device: bed.server.device().to_owned(),
            transmit_queues: None,
            steps,
            left_out,
        };
        plan.steps.extend(plan.crossed_sink());
        plan.vary(bed);
        plan
    }

    /// The step that shows waits for the receive lock, where clients can be on other CPUs: the receive path then takes the
    /// lock of a socket whose reader runs at the same time. On its worker's CPU it never can.
    fn crossed_sink(&self) -> Option<Shape> {
        let crossed = |step: &&Shape| (step.model, step.placement) == (Model::Exact, Placement::Crossed);
        let echo = self.steps.iter().rfind(crossed)?;
        let mode = Mode::Sink;
        let sink = Shape { mode, ..*echo };
        (self.request.settings.observe.locks && !self.steps.contains(&sink)).then_some(sink)
    }

    /// Adds the steps with variations, each next to the plain step of its shape with all buckets active.
    fn vary(&mut self, bed: &Bed) {
        let (skew, metadata) = (self.request.selection.skew, self.request.selection.metadata);
        if skew != Skew::None && self.request.settings.steering.table.buckets() < 2 {
            self.left_out.push("skew: needs two buckets".to_owned());
        } else if skew != Skew::None {
            self.beside(|step| Some(Shape { skew, ..step }));
        }
        for answers in self.answers_that_work(bed) {
            let is_echo = |step: Shape| (step.mode, step.model) == (Mode::Echo, Model::Exact);
            self.beside(|step| is_echo(step).then_some(Shape { answers, ..step }));
        }
        if metadata {
            self.beside(|step| (step.model == Model::Exact).then_some(Shape { metadata, ..step }));
        }
    }

    /// Adds the variations of plain steps with aligned clients and all buckets active.
    fn beside(&mut self, vary: impl Fn(Shape) -> Option<Shape>) {
        let buckets = self.request.settings.steering.table.buckets();
        let full = |step: &&Shape| {
            step.is_plain() && (step.buckets_active, step.placement) == (buckets, Placement::Aligned)
        };
        let all: Vec<_> = self.steps.iter().filter(full).copied().filter_map(vary).collect();
        self.steps.extend(all);
    }

    /// The requested transmit modes that the bed supports; enables tracing of answers if there are any.
    fn answers_that_work(&mut self, bed: &Bed) -> Vec<Answers> {
        let mut ways = self.request.selection.answers.clone();
        ways.retain(|answers| *answers != Answers::default());
        if self.request.selection.answers.is_empty() {
            return ways;
        }
        if bed.kind() == BedKind::Loopback {
            let why = "ways to answer: the loopback device has one queue; use a bed of namespaces";
            self.left_out.push(why.to_owned());
            return Vec::new();
        }
        self.transmit_queues = Some(self.request.settings.steering.table.buckets() as u32);
        if let Err(error) = bed.server.give_transmit_queues(&self.queue_cpus(true)) {
            self.left_out.push(format!("answers by caller: {error}"));
            ways.retain(|answers| !answers.queues_by_cpu());
        }
        let device = bed.server.device().to_owned();
        if let Err(error) = bed.server.run(move || MarkedQueues::attach(&device)) {
            self.left_out.push(format!("answers by received: {error}"));
            ways.retain(|answers| *answers != Answers::Received);
        }
        ways
    }

    /// The CPUs of each transmit queue: its bucket's, or none if the kernel's hash selects the queue.
    fn queue_cpus(&self, by_cpu: bool) -> Vec<Vec<u32>> {
        let own = |cpu: &u32| if by_cpu { vec![*cpu] } else { Vec::new() };
        self.request.settings.steering.cpus.iter().map(own).collect()
    }

    /// Configures the selection of transmit queues for a step; does nothing if answers are not traced.
    ///
    /// # Errors
    /// See [`Side::give_transmit_queues`](corelane_host::bed::Side::give_transmit_queues).
    pub(super) fn prepare(&self, step: &Shape, bed: &Bed) -> Result<(), HostError> {
        if self.transmit_queues.is_none() {
            return Ok(());
        }
        let cpus = self.queue_cpus(step.answers.queues_by_cpu());
        match bed.server.give_transmit_queues(&cpus) {
            // If this is refused, no step needs another setting.
            Err(_) if !step.answers.queues_by_cpu() => Ok(()),
            set => set,
        }
    }

    /// The server of a step.
    pub(crate) fn server(&self, step: &Shape) -> UdpServePlan {
        let request = &self.request;
        UdpServePlan {
            mode: step.mode,
            model: step.model,
            engine: request.settings.engine,
            settings: request.engine_settings(),
            memory: request.settings.memory,
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
            device: Some(self.device.clone()),
            answers: step.answers,
            transmit_queues: self.transmit_queues,
            metadata: step.metadata,
            ..UdpServePlan::new(self.server, request.settings.steering.clone())
        }
    }

    /// The clients of a step.
    ///
    /// # Errors
    /// If the pool cannot reach a bucket, or the payload size is invalid.
    pub fn load(&self, step: &Shape, descriptor_limit: usize) -> Result<UdpLoadPlan, UdpLoadError> {
        let request = &self.request;
        let (settings, active) = (&request.settings, step.buckets_active);
        let sources = plan::sources(self.server, &self.clients, request.flows * active);
        let cpus = step.placement.client_cpus(&settings.steering.cpus, active);
        let workers = sources.plan(&settings.clients(cpus, descriptor_limit), Transport::Udp)?;
        let plan = UdpLoadPlan {
            pace: match step.mode {
                Mode::Echo => Pace::Window {
                    datagrams: request.window,
                },
                Mode::Sink => Pace::Flood,
            },
            until: lasting(request.settings.duration_s),
            answers: step.mode == Mode::Echo,
            drain_s: Some(DRAIN_S),
            engine: request.settings.engine,
            settings: request.engine_settings(),
            memory: request.settings.memory,
            ..UdpLoadPlan::new(self.server, Probes::new(request.payload_bytes)?, workers)
        };
        Ok(plan.skewed(step.skew))
    }

    /// `load`, shortened to the warm-up.
    pub(crate) fn warm_up(&self, load: &UdpLoadPlan) -> UdpLoadPlan {
        UdpLoadPlan {
            until: lasting(WARM_UP_S.min(self.request.settings.duration_s)),
            ..load.clone()
        }
    }

    /// CPUs on which clients or workers of the step run.
    #[must_use]
    pub fn cpus(&self, step: &Shape) -> Vec<u32> {
        let (active, all) = (step.buckets_active, &self.request.settings.steering.cpus);
        let workers = match step.model {
            Model::Single => 1,
            // All threads may receive, whichever buckets are active; the kernel's hash ignores buckets.
            Model::Shared | Model::Reuseport => all.len(),
            Model::Farm | Model::IncomingCpu | Model::Exact => active,
        };
        let mut cpus = all[..workers].to_vec();
        if step.model == Model::Farm {
            // The reader's.
            cpus.push(all[0]);
        }
        cpus.extend(step.placement.client_cpus(all, active));
        sorted(cpus)
    }
}
