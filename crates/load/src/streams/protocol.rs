//! Interface between the connection handling of a generator (when, from where and how connections are opened, used and
//! closed) and a protocol.

use super::counts::{Counts, OwnCounts};
use super::error::StreamLoadError;
use super::plan::{Model, PlannedPool, StreamPlan, Timeouts};
use super::transport::Transport;
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::tls::{ClientSettings, SystemAuthorities};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A protocol over streams: either sequential requests, each with its answer, or one transfer per connection. The value
/// is a pool's part of the plan; every worker reads what [`prepare`](Self::prepare) returns.
///
/// The methods operate on the current exchange of a connection and are not called without one. They move `deadline`, at
/// which [`expired`](Self::expired) is called; it is cleared when the exchange is complete. In [`Context::counts`] the
/// protocol counts `requests.sent`, `bytes.sent` and `bytes.body`; everything else is counted for it.
pub trait StreamProtocol:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Name used between processes.
    const NAME: &'static str;

    /// Name and version of the format of its generator's document.
    const SCHEMA: &'static str;

    /// Its names in the TLS handshake (ALPN); none: any.
    const TLS_NAMES: &'static [&'static [u8]] = &[];

    /// Whether the only exchange of a connection is a transfer that lasts as long as the run: it begins when the
    /// connection opens, [`drained`](Self::drained) starts it, and an ended connection is not reopened.
    const IS_TRANSFER: bool = false;

    /// The prepared requests of a pool, and the expected answers.
    type Requests: fmt::Debug + Send + Sync;

    /// Per-connection state: the current request and answer.
    type Exchange: Default + fmt::Debug + Send;

    /// State shared by the connections of one worker's part of a pool.
    type Shared: Default + Send;

    /// Its own counters, in [`RequestCounts::own`](super::counts::RequestCounts::own).
    type Counts: OwnCounts;

    /// Why its requests cannot be planned or prepared.
    type Error: Error + Send + Sync + 'static;

    /// Prepares the requests.
    ///
    /// # Errors
    /// If they cannot be sent, such as a file that cannot be read.
    fn prepare(&self, timeouts: &Timeouts) -> Result<Self::Requests, Self::Error>;

    /// Chooses the next request.
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

    /// Processes bytes from the server.
    fn receive(
        exchange: &mut Self::Exchange,
        bytes: &[u8],
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step;

    /// The kernel has accepted all queued bytes.
    fn drained(
        _: &mut Self::Exchange,
        _deadline: &mut Time,
        _: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        Step::Wait
    }

    /// The deadline has passed; `deadline` still holds its time.
    fn expired(
        exchange: &mut Self::Exchange,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step;

    /// The server has closed its side and the connection closes; returns the effect on the answer. `genuine`: the end
    /// is authentic; always true without TLS, with TLS only after close_notify (RFC 9112 9.8).
    fn ended(_: &mut Self::Exchange, _genuine: bool, _: &mut Context<'_, Self, impl Transport>) -> Step {
        Step::Failed(Failure::ClosedEarly)
    }

    /// Transfers only: the time to send is over.
    fn finish(_: &mut Self::Exchange, _deadline: &mut Time, _: &mut Context<'_, Self, impl Transport>) {}

    /// Transfers only: the connection has ended, or with `lasted` the run has.
    fn left(_: &mut Self::Exchange, _lasted: bool, _: &mut Context<'_, Self, impl Transport>) {}

    /// Transfers only: number of stalled connections.
    fn stalled(_: &Self::Shared) -> u64 {
        0
    }
}

/// A request to make.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Its intended start.
    pub due: Time,
    /// Index among the pool's requests.
    pub request: u16,
    /// Whether it is aborted when its answer begins.
    pub aborts: bool,
    /// Whether it is the last on the connection.
    pub last: bool,
}

/// The context of an exchange while it handles one event.
pub struct Context<'a, P: StreamProtocol, O> {
    /// The time of the event.
    pub now: Time,
    /// The requests and expected answers of the pool.
    pub terms: &'a Terms<P>,
    /// The counts of this worker's part of the pool.
    pub counts: &'a mut Counts<P::Counts>,
    /// The output.
    pub out: &'a mut O,
    /// State shared by the connections.
    pub shared: &'a mut P::Shared,
}

/// The result of an exchange after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Wait for data or the deadline.
    Wait,
    /// Pause receiving until the deadline.
    Hold,
    /// Resume receiving.
    Resume,
    /// The answer is complete.
    Complete {
        /// The error, if a well-framed answer is wrong.
        wrong: Option<Failure>,
        /// Whether the connection may make another request.
        stays: bool,
    },
    /// The request and the connection have failed.
    Failed(Failure),
    /// The request was aborted on purpose; the connection is reset.
    Aborted,
}

/// The terms of one pool: the same for all workers, and constant during a run.
#[derive(Debug)]
pub struct Terms<P: StreamProtocol> {
    /// The pool as planned.
    pub pool: PlannedPool<P>,
    /// Its prepared requests.
    pub requests: P::Requests,
    /// Think time between an answer and the next request.
    pub(crate) think: Duration,
    pub(crate) requests_a_connection: u32,
    pub(crate) connect_timeout: Duration,
    /// From sending a request to the first byte of its answer.
    pub first_byte_timeout: Duration,
    /// From sending a request to the end of its answer.
    pub request_timeout: Duration,
    /// TLS settings of its connections, if any.
    pub(crate) tls: Option<ClientSettings>,
}

impl<P: StreamProtocol> Terms<P> {
    /// The terms of each pool of a plan; reads bodies, certificates and the system's certificate authorities (once).
    pub(crate) fn of_plan(plan: &StreamPlan<P>) -> Result<Vec<Arc<Self>>, StreamLoadError<P::Error>> {
        let mut system = SystemAuthorities::default();
        let pools = plan.pools.iter();
        pools
            .map(|pool| Self::new(plan, pool, &mut system).map(Arc::new))
            .collect()
    }

    fn new(
        plan: &StreamPlan<P>,
        pool: &PlannedPool<P>,
        system: &mut SystemAuthorities,
    ) -> Result<Self, StreamLoadError<P::Error>> {
        let (seconds, timeouts) = (Duration::from_secs_f64, &plan.timeouts);
        Ok(Self {
            think: match pool.model {
                Model::Closed { think_s } => seconds(think_s),
                Model::Open { .. } => Duration::ZERO,
            },
            requests_a_connection: pool.requests_a_connection.unwrap_or(u32::MAX),
            connect_timeout: seconds(timeouts.connect_s),
            first_byte_timeout: seconds(timeouts.first_byte_s.min(timeouts.request_s)),
            request_timeout: seconds(timeouts.request_s),
            tls: (pool.tls.as_ref())
                .map(|tls| ClientSettings::new(tls, P::TLS_NAMES, system))
                .transpose()?,
            requests: pool
                .protocol
                .prepare(timeouts)
                .map_err(StreamLoadError::Protocol)?,
            pool: pool.clone(),
        })
    }

    pub(crate) fn is_open_loop(&self) -> bool {
        matches!(self.pool.model, Model::Open { .. })
    }
}
