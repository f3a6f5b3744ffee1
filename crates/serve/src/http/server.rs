//! The running HTTP server: starts a worker a bucket, tells their counts, stops them.

use super::access::AccessLog;
use super::bucket::Bucket;
use super::counters::HttpCounters;
use super::output::QUEUE_BYTES;
use super::plan::{HttpPlan, HttpServeError};
use super::served::{BucketHttp, HttpServed};
use super::tls;
use crate::Server;
use crate::listeners::{self, Listening};
use corelane_rss::Steering;
use corelane_worker::CachePadded;
use corelane_worker::crew::Crew;
use corelane_worker::engine::{Chosen, EngineSettings, choose_batching};
use corelane_worker::steered::SteeredGroup;
use std::net::SocketAddr;
use std::sync::Arc;

/// An HTTP server that is running. Dropping it stops it.
pub struct HttpServer {
    plan: Arc<HttpPlan>,
    address: SocketAddr,
    engine: Chosen,
    /// One block a worker.
    counters: Vec<Arc<CachePadded<HttpCounters>>>,
    crew: Crew<()>,
    log: Option<AccessLog>,
    /// None where no program steers.
    group: Option<SteeredGroup>,
}

impl HttpServer {
    /// The steering in force.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        self.group
            .as_ref()
            .map_or(&self.plan.steering, SteeredGroup::steering)
    }

    /// Opens the file of the access log again, as is due after it was renamed. Nothing where none is kept.
    pub fn reopen_access_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn bucket(&self, index: usize) -> BucketHttp {
        let counters = &self.counters[index];
        BucketHttp {
            bucket: index as u16,
            cpu: self.plan.steering.cpus[index],
            accepted: counters.accepted.get(),
            open: counters.accepted.get().saturating_sub(counters.ended()),
            handshakes_full: counters.handshakes_full.get(),
            handshakes_resumed: counters.handshakes_resumed.get(),
            requests: counters.requests.get(),
            answers: counters.statuses().collect(),
            bodies: counters.bodies.get(),
            body_bytes: counters.body_bytes.get(),
            pattern_bodies: counters.pattern_bodies.get(),
            bytes_received: counters.bytes_received.get(),
            bytes_sent: counters.bytes_sent.get(),
            idle_closed: counters.idle_closed.get(),
            errors: counters.faults(),
            accept_failed: counters.accept_failed.named(),
            broken: counters.broken.named(),
        }
    }
}

impl Server for HttpServer {
    type Plan = HttpPlan;
    type Served = HttpServed;
    type Error = HttpServeError;
    const KIND: &'static str = "http_server";

    fn start(plan: Self::Plan) -> Result<Self, HttpServeError> {
        let listening = Listening {
            address: plan.address,
            steering: &plan.steering,
            backlog: plan.backlog,
            free_bind: plan.free_bind,
            kernel_hash: plan.kernel_hash,
        };
        let (listeners, address) = listeners::open(listening)?;
        let group = listeners::steered(listening, &listeners)?;
        let tls = match &plan.tls {
            Some(tls) => Some(tls::configuration(
                tls,
                address.ip(),
                plan.write_certificate.as_deref(),
            )?),
            None => None,
        };
        let engine = choose_batching(plan.engine);
        let settings = EngineSettings {
            stream_queue_bytes: QUEUE_BYTES,
            ..EngineSettings::default()
        };
        let settings = (engine.kind, settings);
        let counters: Vec<_> = listeners.iter().map(|_| Arc::default()).collect();
        let plan = Arc::new(plan);
        let log = plan.access_log.as_deref();
        let log = log
            .map(|path| AccessLog::open(path, listeners.len()))
            .transpose()?;
        let bucket = |index: usize| {
            let lines = log.as_ref().map(|log| log.lines(index));
            Bucket::new(
                Arc::clone(&plan),
                tls.clone(),
                Arc::clone(&counters[index]),
                lines,
            )
        };
        let (steering, own_descriptors) = (&plan.steering, plan.own_descriptors);
        Ok(Self {
            crew: listeners::serve(steering, own_descriptors, &settings, listeners, bucket)?,
            plan,
            address,
            engine,
            counters,
            log,
            group,
        })
    }

    fn served(&mut self) -> HttpServed {
        HttpServed {
            schema: "corelane/served-http/1".to_owned(),
            address: self.address,
            engine: self.engine.kind.to_string(),
            engine_reason: self.engine.reason.clone(),
            steering: self.steering().clone(),
            buckets: (0..self.counters.len()).map(|index| self.bucket(index)).collect(),
            access_log: self.log.as_ref().map(AccessLog::logged),
        }
    }

    fn is_finished(&self) -> bool {
        self.crew.is_finished()
    }

    fn group(&mut self) -> Option<&mut SteeredGroup> {
        self.group.as_mut()
    }

    fn stop(mut self) -> Result<HttpServed, HttpServeError> {
        self.crew.stop();
        self.crew.finish()?;
        if let Some(log) = &mut self.log {
            log.stop();
        }
        Ok(self.served())
    }
}
