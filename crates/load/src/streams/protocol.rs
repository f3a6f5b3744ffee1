//! What the connections of a generator say: the seam between when, from where and how connections are opened, used and
//! closed, and a protocol.

use super::error::StreamLoadError;
use super::loaded::Counts;
use super::terms::Terms;
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::{Id, Ops, Output, Plain};
use corelane_worker::tls::{Encrypted, Side};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

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

/// Where the bytes of one connection go, plain or encrypted.
pub trait Transport: Output {
    /// The connection in its engine; `None` where there is none.
    fn engine(&mut self) -> Option<(&mut Ops, Id)> {
        None
    }
}

impl<S: Side> Transport for Encrypted<'_, S> {}

impl Transport for Plain<'_> {
    fn engine(&mut self) -> Option<(&mut Ops, Id)> {
        Some((self.ops, self.id))
    }
}
