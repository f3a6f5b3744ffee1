//! The running TCP server: starts a worker a bucket, tells their counts, stops them.

use super::bucket::Bucket;
use super::counters::TcpCounters;
use super::plan::{TcpPlan, TcpServeError};
use super::served::{BucketTcp, TcpServed};
use crate::Server;
use crate::listeners::{self, Listening};
use corelane_worker::CachePadded;
use corelane_worker::crew::Crew;
use corelane_worker::engine::{Chosen, EngineSettings, choose};
use corelane_worker::steered::SteeredGroup;
use std::net::SocketAddr;
use std::sync::Arc;

/// A TCP server that is running. Dropping it stops it.
pub struct TcpServer {
    plan: TcpPlan,
    address: SocketAddr,
    engine: Chosen,
    /// One block a worker.
    counters: Vec<Arc<CachePadded<TcpCounters>>>,
    crew: Crew<()>,
    /// None where no program steers.
    group: Option<SteeredGroup>,
}

impl TcpServer {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn bucket(&self, index: usize) -> BucketTcp {
        let counters = &self.counters[index];
        let ended = counters.closed.get() + counters.broken.total();
        BucketTcp {
            bucket: index as u16,
            cpu: self.plan.steering.cpus[index],
            accepted: counters.accepted.get(),
            open: counters.accepted.get().saturating_sub(ended),
            bytes_received: counters.bytes_received.get(),
            bytes_sent: counters.bytes_sent.get(),
            out_of_order_segments: counters.out_of_order.get(),
            retransmitted_segments: counters.retransmitted.get(),
            stalls: counters.stalls.get(),
            stalled: counters.stalled.get(),
            accept_failed: counters.accept_failed.named(),
            broken: counters.broken.named(),
        }
    }
}

impl Server for TcpServer {
    type Plan = TcpPlan;
    type Served = TcpServed;
    type Error = TcpServeError;
    const KIND: &'static str = "tcp_server";

    fn start(plan: Self::Plan) -> Result<Self, TcpServeError> {
        let listening = Listening {
            address: plan.address,
            steering: &plan.steering,
            backlog: plan.backlog,
            free_bind: plan.free_bind,
            kernel_hash: plan.kernel_hash,
        };
        let (listeners, address) = listeners::open(listening)?;
        let group = listeners::steered(listening, &listeners)?;
        let engine = choose(plan.engine);
        let counters: Vec<_> = listeners.iter().map(|_| Arc::default()).collect();
        let bucket = |index: usize| Bucket::new(&plan, Arc::clone(&counters[index]));
        let settings = (engine.kind, EngineSettings::default());
        let (steering, own_descriptors) = (&plan.steering, plan.own_descriptors);
        let crew = listeners::serve(steering, own_descriptors, &settings, listeners, bucket)?;
        Ok(Self {
            plan,
            address,
            engine,
            counters,
            crew,
            group,
        })
    }

    fn served(&mut self) -> TcpServed {
        TcpServed {
            schema: "corelane/served-tcp/1".to_owned(),
            address: self.address,
            mode: self.plan.mode,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            steering: self
                .group
                .as_ref()
                .map_or(&self.plan.steering, SteeredGroup::steering)
                .clone(),
            buckets: (0..self.counters.len()).map(|index| self.bucket(index)).collect(),
        }
    }

    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn group(&mut self) -> Option<&mut SteeredGroup> {
        self.group.as_mut()
    }

    fn stop(mut self) -> Result<TcpServed, TcpServeError> {
        self.crew.stop();
        self.crew.finish()?;
        Ok(self.served())
    }
}
