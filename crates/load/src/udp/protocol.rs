//! Interface between the sending of datagrams (when and from where) and a protocol.

use crate::streams::{OwnCounts, Part};
use corelane_proto::probe::{Probe, SizeError, Stamp};
use corelane_worker::Time;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A protocol of requests of one datagram each, which are answered. It is part of the plan, and every worker has a copy.
pub trait DatagramProtocol:
    Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Name used between processes and in metrics.
    const NAME: &'static str;

    /// Name and version of the format of its generator's document, such as `corelane/loaded-udp/1`.
    const SCHEMA: &'static str;

    /// Whether a correct server answers the requests of a socket in any order, so that an answer says nothing about those that
    /// it overtook.
    const ANY_ORDER: bool = false;

    /// Per-socket state to match answers with requests; `()` if answers repeat everything required.
    type Sent: fmt::Debug + Default + Send;

    /// What the requests of all workers are made of.
    type Requests: Send + Sync + 'static;

    /// State of a worker.
    type Shared: Send;

    /// Counters that only this protocol has.
    type Counts: OwnCounts;

    /// What requests are made of.
    fn prepare(&self) -> Self::Requests;

    /// The state of a worker, which sends this part of the requests.
    fn share(requests: &Self::Requests, part: Part) -> Self::Shared;

    /// Bytes of the largest request, or of the answer to it if that is larger.
    fn largest_bytes(&self) -> usize;

    /// Bytes that all workers keep beside their sockets.
    fn state_bytes(&self) -> u64 {
        0
    }

    /// Bytes of [`Counts`](Self::Counts) beside the counters themselves.
    fn counts_bytes(&self) -> u64 {
        0
    }

    /// Bytes of the next request of a worker: the same until it is written.
    fn next_bytes(&self, requests: &Self::Requests, shared: &mut Self::Shared) -> usize;

    /// Writes the next request into `request`, which is [`next_bytes`](Self::next_bytes) long, as request `number` of a
    /// socket. Numbers begin at 0 and wrap. The time is when it was to be sent.
    fn write(
        &self,
        shared: &mut Self::Shared,
        sent: &mut Self::Sent,
        request: &mut [u8],
        number_and_due: (u32, Time),
    );

    /// Parses a datagram received on a socket.
    fn read(&self, received: Received<'_, Self>, answer: &[u8]) -> Read;
}

/// What the parts of a datagram that was received may use and change.
pub struct Received<'a, P: DatagramProtocol> {
    /// What requests are made of.
    pub requests: &'a P::Requests,
    /// State of the worker.
    pub shared: &'a mut P::Shared,
    /// State of the socket.
    pub sent: &'a mut P::Sent,
    /// The worker's counts.
    pub own: &'a mut P::Counts,
    /// When it was received.
    pub now: Time,
}

/// What a datagram is that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// An answer, or the last part of one.
    Answer(Answer),
    /// Part of an answer that is not the last.
    Part,
    /// The answer to the request of this number, which is no longer awaited: a duplicate, or late.
    Unawaited(u32),
    /// Damaged, or not an answer.
    Damaged,
}

/// The content of an intact answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The number of its request.
    pub number: u32,
    /// The intended send time of the request.
    pub due: Time,
    /// Why the content is not as expected, if so.
    pub error: Option<&'static str>,
}

/// Payloads of constant size that the server echoes (`corelane_proto::probe`).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probes {
    #[serde(
        rename = "payload_bytes",
        serialize_with = "write_size",
        deserialize_with = "read_size"
    )]
    stamp: Stamp,
}

impl Probes {
    /// Probes of `payload_bytes` bytes of UDP payload.
    ///
    /// # Errors
    /// If `payload_bytes` is below 16 or above 65,507.
    pub fn new(payload_bytes: usize) -> Result<Self, SizeError> {
        Stamp::new(payload_bytes).map(|stamp| Self { stamp })
    }
}

fn write_size<S: Serializer>(stamp: &Stamp, serializer: S) -> Result<S::Ok, S::Error> {
    stamp.length().serialize(serializer)
}

fn read_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
    Stamp::new(usize::deserialize(deserializer)?).map_err(D::Error::custom)
}

impl DatagramProtocol for Probes {
    const NAME: &'static str = "udp";
    const SCHEMA: &'static str = "corelane/loaded-udp/1";
    type Sent = ();
    type Requests = ();
    type Shared = ();
    type Counts = ();

    fn prepare(&self) {}

    fn share((): &(), _: Part) {}

    fn largest_bytes(&self) -> usize {
        self.stamp.length()
    }

    fn next_bytes(&self, (): &(), (): &mut ()) -> usize {
        self.stamp.length()
    }

    fn write(&self, (): &mut (), (): &mut (), request: &mut [u8], (number, due): (u32, Time)) {
        self.stamp.write(request, number, due.nanoseconds());
    }

    fn read(&self, _: Received<'_, Self>, answer: &[u8]) -> Read {
        match Probe::read(answer) {
            Ok(probe) => Read::Answer(Answer {
                number: probe.sequence,
                due: Time::from_nanoseconds(probe.time),
                error: None,
            }),
            Err(_) => Read::Damaged,
        }
    }
}
