//! Sending under skew: every flow sends its share of the traffic, regardless of answers.
//!
//! Sending as fast as answers arrive would distort the shares: each worker would keep its own bucket busy, and the
//! shares would follow the speeds of the buckets. So the workers stay in step: each compares its progress, relative to
//! its share, with the others, and does not run ahead of the slowest. The total rate is then the highest at which the
//! mix holds, and CPUs of small buckets idle, as under real traffic of that mix.
//!
//! In: the plan's weights, and the live counters of the other workers. Out: datagrams, through the generator.

use super::state::Generator;
use crate::live::LiveWorkers;
use crate::sources::PlannedWorker;
use crate::udp::metrics::LiveDatagrams;
use crate::udp::plan::UdpPlan;
use crate::udp::protocol::DatagramProtocol;
use crate::udp::weights::Turns;
use corelane_worker::Time;
use corelane_worker::engine::{Engine, Ops};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How far a worker may run ahead of the slowest, in datagrams of all workers together: a few time slices of the
/// scheduler (3 ms) at some hundred thousand per second. More would distort the mix of a short run.
const LEAD: f64 = 2_048.0;

/// How long a worker that is ahead waits before the next check: about ten datagrams of the slowest.
const LEAD_LOOK: Duration = Duration::from_micros(50);

/// Maximum number of datagrams queued between two passes of the engine.
const MOST_QUEUED: u32 = 256;

/// Unanswered datagrams per flow: a burst of that many answers fits a socket's default receive buffer of 212,992 bytes,
/// which holds about 160 of the posts' 510 bytes (1,280 bytes of memory each).
const LARGEST_WINDOW: u32 = 128;

/// One worker's part of the mix.
pub(super) struct Mix {
    pub(super) turns: Turns,
    place: usize,
    /// Each worker's share of the total.
    shares: Vec<f64>,
    live: LiveWorkers<LiveDatagrams>,
    issued: u64,
}

/// Why a worker queues no more datagrams for now.
enum Pause {
    /// Enough for one pass, or the arena is full.
    Enough,
    /// Too many datagrams are unanswered.
    Window,
    /// It is ahead of the others.
    Ahead,
}

impl Mix {
    /// The part of worker `place`; `None` if all flows have equal shares.
    pub(super) fn new<P>(plan: &UdpPlan<P>, place: usize, live: &LiveWorkers<LiveDatagrams>) -> Option<Self> {
        let weights = &plan.workers.get(place)?.weights;
        let share = |worker: &PlannedWorker| worker.weights.iter().sum();
        (!weights.is_empty()).then(|| Self {
            turns: Turns::new(weights),
            place,
            shares: plan.workers.iter().map(share).collect(),
            live: Arc::clone(live),
            issued: 0,
        })
    }

    /// This worker's share of the total.
    pub(super) fn share(&self) -> f64 {
        self.shares[self.place]
    }

    /// Datagrams that this worker may have issued by now.
    fn allowance(&self) -> u64 {
        let others = self.shares.iter().zip(&*self.live).enumerate();
        let progress = others
            .filter(|(place, (_, live))| *place != self.place && live.draining.get() == 0)
            .map(|(_, (share, live))| live.counts.sent.get() as f64 / share);
        let slowest = progress.fold(f64::INFINITY, f64::min);
        ((slowest + LEAD) * self.share()) as u64
    }
}

impl<P: DatagramProtocol> Generator<P> {
    /// Sends from the flows in turn until `end`, as fast as the slowest worker can; with a window, at most that many
    /// datagrams are unanswered over all flows of this worker.
    pub(super) fn keep_mix<E: Engine>(
        &mut self,
        engine: &mut E,
        mix: &mut Mix,
        end: Time,
        window: Option<u32>,
    ) -> io::Result<()> {
        let window = window.map(|window| u64::from(window) * self.flows.len() as u64);
        let mut next_look = engine.now() + self.shared.plan.loss_timeout();
        while self.goes_on(engine.now(), end) {
            let now = engine.now();
            let wait = match self.fill_mix(engine.ops(), mix, window, now) {
                Pause::Enough => now,
                Pause::Window => next_look,
                Pause::Ahead => now + LEAD_LOOK,
            };
            self.turn(engine, end.min(wait))?;
            self.publish(engine.ops());
            if engine.now() >= next_look {
                next_look = engine.now() + self.shared.plan.loss_timeout();
                (0..self.flows.len()).for_each(|flow| self.give_up_if_stalled(flow));
            }
        }
        Ok(())
    }

    fn fill_mix(&mut self, ops: &mut Ops, mix: &mut Mix, window: Option<u64>, now: Time) -> Pause {
        let allowance = mix.allowance();
        for _ in 0..MOST_QUEUED {
            let flow = mix.turns.current();
            let unanswered = self.flows[flow].outstanding();
            if mix.issued >= allowance {
                return Pause::Ahead;
            }
            if window.is_some_and(|window| self.outstanding >= window || unanswered >= LARGEST_WINDOW) {
                return Pause::Window;
            }
            if !self.send(ops, flow, now) {
                return Pause::Enough;
            }
            mix.turns.advance();
            mix.issued += 1;
        }
        Pause::Enough
    }
}
