//! What the connections of one pool ask for and expect: the same for all workers, and the same throughout a run.

use super::error::StreamLoadError;
use super::plan::{Model, PlannedPool, StreamPlan};
use super::protocol::StreamProtocol;
use super::tls::{self, TlsPool};
use rustls::RootCertStore;
use std::sync::Arc;
use std::time::Duration;

/// What one pool asks for and expects.
#[derive(Debug)]
pub struct Terms<P: StreamProtocol> {
    /// The pool as planned.
    pub pool: PlannedPool<P>,
    /// What its connections send.
    pub requests: P::Requests,
    /// From an answer to the next request of a connection.
    pub(crate) think: Duration,
    pub(crate) requests_a_connection: u32,
    pub(crate) connect_timeout: Duration,
    /// From the head of a request to sending its body unasked.
    pub continue_timeout: Duration,
    /// From sending a request to the first byte of its answer.
    pub first_byte_timeout: Duration,
    /// From sending a request to the end of its answer.
    pub request_timeout: Duration,
    /// How its connections are encrypted, where they are.
    pub(crate) tls: Option<TlsPool>,
}

impl<P: StreamProtocol> Terms<P> {
    /// The terms of each pool of a plan: reads bodies, certificates and the system's authorities (these once).
    pub(crate) fn of_plan(plan: &StreamPlan<P>) -> Result<Vec<Arc<Self>>, StreamLoadError> {
        let mut system = None;
        let pools = plan.pools.iter();
        pools
            .map(|pool| Self::new(plan, pool, &mut system).map(Arc::new))
            .collect()
    }

    fn new(
        plan: &StreamPlan<P>,
        pool: &PlannedPool<P>,
        system: &mut Option<Arc<RootCertStore>>,
    ) -> Result<Self, StreamLoadError> {
        let (seconds, timeouts) = (Duration::from_secs_f64, &plan.timeouts);
        Ok(Self {
            think: match pool.model {
                Model::Closed { think_s } => seconds(think_s),
                Model::Open { .. } => Duration::ZERO,
            },
            requests_a_connection: pool.requests_a_connection.unwrap_or(u32::MAX),
            connect_timeout: seconds(timeouts.connect_s),
            continue_timeout: seconds(timeouts.continue_s),
            first_byte_timeout: seconds(timeouts.first_byte_s.min(timeouts.request_s)),
            request_timeout: seconds(timeouts.request_s),
            tls: pool.tls.as_ref().map(|tls| tls::pool(tls, system)).transpose()?,
            requests: pool.protocol.prepare()?,
            pool: pool.clone(),
        })
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        matches!(self.pool.model, Model::Open { .. })
    }
}
