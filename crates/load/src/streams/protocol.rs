//! Interface between the connection handling of a generator (when, from where and how connections are opened, used and
//! closed) and a protocol.

use super::counts::{Counts, Histograms, OwnCounts};
use super::error::StreamLoadError;
use super::in_flight::InFlight;
use super::metrics::{LATENCY, LiveStreams};
use super::output::ConnectionOutput;
use super::plan::{Model, PlannedPool, StreamPlan, Timeouts};
use crate::failure::Failure;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use corelane_worker::Time;
use corelane_worker::tls::{ClientSettings, SystemAuthorities};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A protocol over streams: requests and their answers on connections. The value is a pool's part of the plan; every
/// worker reads what [`prepare`](Self::prepare) returns.
///
/// The methods handle events of a connection with requests in flight. In [`Turn::counts`] they count `requests.sent`,
/// `bytes.sent` and `bytes.body`; everything else is counted for them.
pub trait StreamProtocol:
    Clone + fmt::Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Name used between processes and in metrics.
    const NAME: &'static str;

    /// Name and version of the format of its generator's document, such as `corelane/loaded-http/1`.
    const SCHEMA: &'static str;

    /// Its names in the TLS handshake (ALPN); none: any.
    const TLS_NAMES: &'static [&'static [u8]] = &[];

    /// How it uses connections: [`Answered`], or an own use.
    type Traffic: Traffic<Self>;

    /// The prepared requests of a pool, and the expected answers.
    type Requests: fmt::Debug + Send + Sync;

    /// One of them, such as its index or key.
    type Request: fmt::Debug + Send;

    /// Those in flight on a connection: [`One`](super::in_flight::One), or a
    /// [`Pipeline`](super::in_flight::Pipeline) of [`depth`](Self::depth).
    type InFlight: InFlight<Self::Request>;

    /// Per-connection state: what was received of an answer, and what is not sent of a request.
    type Exchange: Default + fmt::Debug + Send;

    /// State shared by the connections of one worker's part of a pool.
    type Shared: Send;

    /// Its own counters, in [`RequestCounts::own`](super::counts::RequestCounts::own).
    type Counts: OwnCounts;

    /// Why its requests cannot be planned or prepared.
    type Error: Error + Send + Sync + 'static;

    /// Requests in flight on a connection, at most.
    fn depth(&self) -> usize {
        1
    }

    /// Bytes that all workers keep beside their connections.
    fn state_bytes(&self) -> u64 {
        0
    }

    /// Bytes of [`Counts`](Self::Counts) beside the counters themselves.
    fn counts_bytes(&self) -> u64 {
        0
    }

    /// Bytes of the requests of a connection that may be queued at a time, at most; 0: those that every engine takes.
    fn queued_bytes(&self) -> usize {
        0
    }

    /// Prepares the requests.
    ///
    /// # Errors
    /// If they cannot be sent, such as a file that cannot be read.
    fn prepare(&self, timeouts: &Timeouts) -> Result<Self::Requests, Self::Error>;

    /// The shared state of one part of a pool, before any connection.
    fn share(requests: &Self::Requests, part: Part) -> Self::Shared;

    /// Chooses the next request, which begins at once.
    fn choose(
        requests: &Self::Requests,
        shared: &mut Self::Shared,
        random: &mut fastrand::Rng,
    ) -> Self::Request;

    /// Begins a request, the newest in flight. In a pipeline it must be written completely.
    fn begin(turn: &mut Turn<'_, Self, impl ConnectionOutput>, ask: Ask) -> Step;

    /// Processes bytes from the server. With [`Step::Complete`], it leaves those that follow the answer.
    fn receive(turn: &mut Turn<'_, Self, impl ConnectionOutput>, bytes: &mut &[u8]) -> Step;

    /// The kernel has accepted all queued bytes.
    fn drained(_: &mut Turn<'_, Self, impl ConnectionOutput>) -> Step {
        Step::Wait
    }

    /// The deadline has passed; [`Turn::deadline`] still holds its time.
    fn expired(turn: &mut Turn<'_, Self, impl ConnectionOutput>) -> Step;

    /// The server has closed its side and the connection closes; returns the effect on the answer. `genuine`: the end
    /// is authentic; always true without TLS, with TLS only after close_notify (RFC 9112 9.8).
    fn ended(_: &mut Turn<'_, Self, impl ConnectionOutput>, _genuine: bool) -> Step {
        Step::Failed(Failure::ClosedEarly)
    }
}

/// How a protocol uses its connections; by default for request after request, each answered. The methods are called for
/// connections with a request in flight.
pub trait Traffic<P: StreamProtocol> {
    /// Whether a connection has one request, which begins as it opens and lasts as long as the run, and is not opened
    /// again.
    const LASTS: bool = false;

    /// The live counts.
    const COUNTED: &'static [Metric<LiveStreams>] = LiveStreams::OF_REQUESTS;

    /// The live durations: what [`times`](Self::times) returns.
    const TIMED: &'static Metric<Histogram> = &LATENCY;

    /// The live counts whose sum grows at the rate of the run.
    const RATE: &'static [Metric<LiveStreams>] = &[LiveStreams::OK];

    /// The durations of the live view.
    fn times(histograms: &Histograms) -> &Histogram {
        &histograms.latency
    }

    /// The time to send begins.
    fn start(_: &mut Turn<'_, P, impl ConnectionOutput>) -> Step {
        Step::Wait
    }

    /// The time to send is over.
    fn finish(_: &mut Turn<'_, P, impl ConnectionOutput>) -> Step {
        Step::Wait
    }

    /// The connection has ended, or with `lasted` the run has.
    fn left(_: &mut Turn<'_, P, impl ConnectionOutput>, _lasted: bool) -> Step {
        Step::Wait
    }

    /// Number of stalled connections.
    fn stalled(_: &P::Shared) -> u64 {
        0
    }
}

/// Requests and answers, at a rate or one after the other.
#[derive(Debug)]
pub struct Answered;

impl<P: StreamProtocol> Traffic<P> for Answered {}

/// Which part of the load a worker's connections of a pool are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its place among all parts that have connections, of all workers and pools.
    pub place: usize,
    /// The number of those.
    pub of: usize,
    /// The bucket of the server that all of its connections land on, if there is one.
    pub bucket: Option<OfBucket>,
}

/// Which part of the load on a bucket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfBucket {
    pub bucket: u16,
    /// Its place among the parts of this bucket.
    pub place: usize,
    /// The number of those.
    pub of: usize,
}

/// How a request is made.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Its intended start.
    pub due: Time,
    /// Whether it is aborted when its answer begins.
    pub aborts: bool,
    /// Whether it is the last on the connection.
    pub last: bool,
}

/// A connection with requests in flight, while the protocol handles one of its events.
pub struct Turn<'a, P: StreamProtocol, O> {
    /// The time of the event.
    pub now: Time,
    /// The state of the connection.
    pub exchange: &'a mut P::Exchange,
    /// The oldest request in flight: the next answer is its own.
    pub request: &'a P::Request,
    /// When that was due.
    pub due: Time,
    /// When [`StreamProtocol::expired`] is called, if before the oldest request is answered.
    pub deadline: &'a mut Time,
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
    /// The oldest request in flight is answered.
    Complete {
        /// The error, if a well-framed answer is wrong.
        wrong: Option<Failure>,
        /// Whether the connection may make another request.
        stays: bool,
    },
    /// The oldest request has failed, and with it the connection.
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
    /// Requests in flight on a connection, at most.
    pub(crate) depth: usize,
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
            depth: pool.protocol.depth(),
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
