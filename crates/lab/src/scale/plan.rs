//! What the scaling experiment is to do: its steps as data.

use super::observe::{Observe, crossed_sink};
use corelane_host::bed::Bed;
use corelane_host::memory::MemoryPolicy;
use corelane_load::pace::Pace;
use corelane_load::udp::{Spread, UdpLoadError, UdpPlan as UdpLoadPlan, UdpRequest, Until};
use corelane_report::scale::{Mode, Model, Placement};
use corelane_rss::Steering;
use corelane_serve::udp::UdpPlan as UdpServePlan;
use corelane_worker::engine::{EngineKind, EngineSettings};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Length of the traffic before each trial that is not counted: it faults memory in and fills the kernel's caches.
const WARM_UP_S: f64 = 0.1;

/// Buckets up to which every number of active ones is a step of its own.
const MOST_STEPS_OF_ONE: usize = 8;

/// Receive buffer of each bucket's socket. Large enough that a client which has its CPU for a whole time slice (about 3 ms
/// at 700,000 datagrams a second, 1,280 bytes of memory each) does not overflow it at once; as large as the kernel allows
/// without privilege (`net.core.rmem_max`) is often less, and then that is what it gets.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// What a user asks of the experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScaleRequest {
    /// Key, table, and the CPU of each bucket.
    pub steering: Steering,
    /// The models to try, in this order.
    pub models: Vec<Model>,
    /// Where their clients run. `None` tries every model aligned, and exact steering crossed as the control.
    pub placements: Option<Vec<Placement>>,
    /// What the server does. `None` tries echo under every model, and sink under exact steering with aligned clients.
    pub modes: Option<Vec<Mode>>,
    /// Seconds of one trial.
    pub duration_s: f64,
    /// Trials of each step.
    pub rounds: u32,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// Client sockets a bucket, each on an address of its own where the pool has as many.
    pub flows: usize,
    /// Unanswered datagrams a socket in echo.
    pub window: u32,
    /// The engine asked for.
    pub engine: Option<EngineKind>,
    /// Datagrams moved at once.
    pub batch: usize,
    /// Send with `UDP_SEGMENT`.
    pub gso: bool,
    /// Receive with `UDP_GRO`.
    pub gro: bool,
    /// From which node the memory of every worker, of server and clients, comes.
    #[serde(default)]
    pub memory: MemoryPolicy,
    /// From which node the buffers of datagrams come, where that is to differ.
    #[serde(default)]
    pub buffer_memory: Option<MemoryPolicy>,
    /// Seed of the order of trials.
    pub seed: u64,
    /// What is observed while each trial is measured.
    #[serde(default)]
    pub observe: Observe,
}

/// The experiment, fully decided.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScalePlan {
    /// As asked.
    #[serde(flatten)]
    pub request: ScaleRequest,
    /// Where the server listens.
    pub server: SocketAddr,
    /// The clients' address pool.
    pub clients: corelane_load::pool::Pool,
    /// The server's device, for counters and the tap.
    pub device: String,
    /// Every step.
    pub steps: Vec<PlannedStep>,
    /// Controls that cannot run here, and why.
    pub left_out: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Echo or sink.
    pub mode: Mode,
    /// How the server's sockets are chosen.
    pub model: Model,
    /// On which CPUs the clients run.
    pub placement: Placement,
    /// Buckets that are loaded.
    pub buckets_active: usize,
}

impl ScaleRequest {
    /// The series of steps, each from one bucket to all. What was not asked for is what the posts tried: echo, and sink
    /// beside it; and the controls that show what exact steering is worth.
    fn series(&self) -> Vec<(Mode, Model, Placement)> {
        let (echo, both) = ([Mode::Echo], [Mode::Echo, Mode::Sink]);
        let (aligned, control) = ([Placement::Aligned], [Placement::Aligned, Placement::Crossed]);
        let mut series = Vec::new();
        for &model in &self.models {
            let exact = model == Model::Exact;
            let natural = if exact { &control[..] } else { &aligned };
            for &placement in self.placements.as_deref().unwrap_or(natural) {
                let main = exact && placement == Placement::Aligned;
                let natural = if main { &both[..] } else { &echo };
                for &mode in self.modes.as_deref().unwrap_or(natural) {
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
        let buckets = request.steering.table.buckets();
        let mut left_out = Vec::new();
        let mut steps = Vec::new();
        for (mode, model, placement) in request.series() {
            if placement == Placement::Crossed && distinct(&request.steering.cpus) < 2 {
                left_out.push("clients on the wrong CPU: needs two CPUs".to_owned());
                continue;
            }
            steps.extend(
                active_counts(buckets)
                    .into_iter()
                    .map(|buckets_active| PlannedStep {
                        mode,
                        model,
                        placement,
                        buckets_active,
                    }),
            );
        }
        let mut plan = Self {
            request,
            server: SocketAddr::new(bed.server.address(), port),
            clients: bed.clients().iter().copied().collect(),
            device: bed.server.device().to_owned(),
            steps,
            left_out,
        };
        plan.steps.extend(crossed_sink(&plan));
        plan
    }

    /// The server of a step.
    #[must_use]
    pub fn server(&self, step: PlannedStep) -> UdpServePlan {
        let request = &self.request;
        UdpServePlan {
            mode: step.mode,
            model: step.model,
            engine: request.engine,
            batch: request.batch,
            coalesce: request.gso,
            gro: request.gro,
            memory: request.memory,
            buffer_memory: request.buffer_memory,
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
            device: Some(self.device.clone()),
            ..UdpServePlan::new(self.server, request.steering.clone())
        }
    }

    /// The clients of a step.
    ///
    /// # Errors
    /// When the pool cannot reach a bucket, or the payload cannot be.
    pub fn load(&self, step: PlannedStep, descriptor_limit: usize) -> Result<UdpLoadPlan, UdpLoadError> {
        let request = &self.request;
        UdpRequest {
            target: self.server,
            sources: Some(self.clients.clone()),
            steering: Some(request.steering.clone()),
            spread: Spread::Buckets,
            buckets: Some((0..step.buckets_active as u16).collect()),
            sockets: request.flows * step.buckets_active,
            cpus: self.client_cpus(step),
            payload_bytes: request.payload_bytes,
            pace: match step.mode {
                Mode::Echo => Pace::Window {
                    datagrams: request.window,
                },
                Mode::Sink => Pace::Flood,
            },
            until: Until {
                duration_s: Some(request.duration_s),
                datagrams: None,
            },
            answers: step.mode == Mode::Echo,
            engine: request.engine,
            memory: request.memory,
            moving: EngineSettings {
                datagram_batch: request.batch,
                coalesce: request.gso,
                gro: request.gro,
                memory: request.buffer_memory,
                ..EngineSettings::default()
            },
            descriptor_limit,
        }
        .resolve()
    }

    /// `load`, shortened to what is not counted.
    #[must_use]
    pub fn warm_up(&self, load: &UdpLoadPlan) -> UdpLoadPlan {
        let duration_s = Some(WARM_UP_S.min(self.request.duration_s));
        UdpLoadPlan {
            until: Until {
                duration_s,
                datagrams: None,
            },
            ..load.clone()
        }
    }

    /// The CPU of each bucket's client: its worker's, or the next worker's that runs elsewhere.
    fn client_cpus(&self, step: PlannedStep) -> Vec<u32> {
        let own = &self.request.steering.cpus;
        match step.placement {
            Placement::Aligned => own.clone(),
            Placement::Crossed => (0..own.len())
                .map(|bucket| {
                    let mut others = own.iter().cycle().skip(bucket + 1).take(own.len());
                    *others.find(|cpu| **cpu != own[bucket]).unwrap_or(&own[bucket])
                })
                .collect(),
        }
    }

    /// CPUs on which clients or workers of the step run.
    #[must_use]
    pub fn cpus(&self, step: PlannedStep) -> Vec<u32> {
        let (active, all) = (step.buckets_active, &self.request.steering.cpus);
        let workers = match step.model {
            Model::Single => 1,
            // Every thread takes what it can get, whichever buckets are active; the kernel's hash knows no buckets.
            Model::Shared | Model::Reuseport => all.len(),
            Model::Farm | Model::IncomingCpu | Model::Exact => active,
        };
        let mut cpus = all[..workers].to_vec();
        if step.model == Model::Farm {
            // The reader's.
            cpus.push(all[0]);
        }
        cpus.extend(&self.client_cpus(step)[..active]);
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// How many buckets are active in the steps of one series: every number up to the limit, and with more buckets the doublings
/// and all of them, which keeps the run near a minute and the law's points apart.
fn active_counts(buckets: usize) -> Vec<usize> {
    if buckets <= MOST_STEPS_OF_ONE {
        return (1..=buckets).collect();
    }
    let doublings = std::iter::successors(Some(1), |active| Some(active * 2));
    doublings
        .take_while(|active| *active < buckets)
        .chain([buckets])
        .collect()
}

fn distinct(cpus: &[u32]) -> usize {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_by_one_on_small_machines_and_double_on_large_ones() {
        assert_eq!(active_counts(3), [1, 2, 3]);
        assert_eq!(active_counts(8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(active_counts(24), [1, 2, 4, 8, 16, 24]);
        assert_eq!(active_counts(64), [1, 2, 4, 8, 16, 32, 64]);
    }
}
