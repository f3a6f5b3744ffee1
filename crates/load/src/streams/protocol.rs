//! What the connections of a generator say: the seam between when, from where and how connections are opened, used and
//! closed, and a protocol.

use super::error::StreamLoadError;
use super::loaded::Counts;
use super::plan::{Model, PlannedPool, StreamPlan};
use super::tls::{self, TlsPool};
use super::transport::Transport;
use crate::failure::Failure;
use corelane_worker::Time;
use rustls::RootCertStore;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A protocol over streams: on each connection one request after the other, each with its answer; or one transfer. The value
/// is a pool's part of the plan; every worker reads what it [prepares](Self::prepare).
///
/// The methods take the exchange under way on a connection. `deadline` is when [`expired`](Self::expired) is called, which
/// they move; they are called for no connection without an exchange.
pub trait StreamProtocol:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Its name between processes; the document of its generator is `corelane/loaded-NAME/1`.
    const NAME: &'static str;

    /// Whether the one exchange of a connection is a transfer that lasts as long as the run: it begins as the connection opens,
    /// [`drained`](Self::drained) starts it, and a connection that ends is not opened again.
    const IS_TRANSFER: bool = false;

    /// The requests of a pool as they are sent, and what their answers must be.
    type Requests: fmt::Debug + Send + Sync;

    /// What a connection keeps: the request and the answer under way.
    type Exchange: Default + fmt::Debug + Send;

    /// What the connections of one worker's part of a pool share.
    type Shared: Default + Send;

    /// Makes what the connections send.
    ///
    /// # Errors
    /// When a file that is to be sent cannot be read.
    fn prepare(&self) -> Result<Self::Requests, StreamLoadError>;

    /// Which request comes next.
    fn choose(_requests: &Self::Requests, _random: &mut fastrand::Rng) -> u16 {
        0
    }

    /// Begins an exchange.
    fn begin(
        exchange: &mut Self::Exchange,
        ask: Ask,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step;

    /// Takes what the server sent.
    fn receive(
        exchange: &mut Self::Exchange,
        bytes: &[u8],
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step;

    /// The kernel has taken everything that was queued.
    fn drained(
        _: &mut Self::Exchange,
        _deadline: &mut Time,
        _: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        Step::Wait
    }

    /// The deadline has passed; `deadline` still says when it was.
    fn expired(
        exchange: &mut Self::Exchange,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step;

    /// The server sends nothing more, and the connection closes: what that means for the answer. `genuine` says that the end
    /// is the server's word: without TLS always, with it only what was encrypted (RFC 9112 9.8).
    fn ended(_: &mut Self::Exchange, _genuine: bool, _: &mut Context<'_, Self, impl Transport>) -> Step {
        Step::Failed(Failure::ClosedEarly)
    }

    /// Of a transfer: the time to send is over.
    fn finish(_: &mut Self::Exchange, _deadline: &mut Time, _: &mut Context<'_, Self, impl Transport>) {}

    /// Of a transfer: the connection has ended, or with `lasted` the run before it.
    fn left(_: &mut Self::Exchange, _lasted: bool, _: &mut Context<'_, Self, impl Transport>) {}

    /// Of a transfer: connections that stand still.
    fn stalled(_: &Self::Shared) -> u64 {
        0
    }
}

/// The request that a connection is to make.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// When it was meant to be made.
    pub due: Time,
    /// Which of the pool's requests.
    pub request: u16,
    /// Whether it is given up as soon as its answer begins.
    pub aborts: bool,
    /// Whether it is the connection's last.
    pub last: bool,
}

/// What an exchange works with while it handles one event.
pub struct Context<'a, P: StreamProtocol, O> {
    /// The time of the event.
    pub now: Time,
    /// What the pool asks for and expects.
    pub terms: &'a Terms<P>,
    /// What is counted of this worker's part of the pool.
    pub counts: &'a mut Counts,
    /// Where bytes are written.
    pub out: &'a mut O,
    /// What the connections share.
    pub shared: &'a mut P::Shared,
}

/// What an exchange wants after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something arrives or the deadline passes.
    Wait,
    /// To receive nothing until the deadline.
    Hold,
    /// To receive again.
    Resume,
    /// The answer is complete.
    Complete {
        /// What is wrong with it, though it is well framed.
        wrong: Option<Failure>,
        /// Whether the connection may make another request.
        stays: bool,
    },
    /// The request has failed, and the connection with it.
    Failed(Failure),
    /// The request was given up, as it was to be; the connection is reset.
    Aborted,
}

/// What the connections of one pool ask for and expect: the same for all workers, and throughout a run.
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
