//! Interface between the sending of datagrams (when and from where) and a protocol.

use corelane_proto::probe::{Probe, SizeError, Stamp};
use corelane_worker::Time;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A protocol of requests and answers of one datagram each. It is part of the plan, and every worker has a copy.
pub trait DatagramProtocol:
    Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// Name used between processes and in metrics.
    const NAME: &'static str;

    /// Name and version of the format of its generator's document, such as `corelane/loaded-udp/1`.
    const SCHEMA: &'static str;

    /// Per-socket state to match answers with requests; `()` if answers repeat everything required.
    type Sent: Clone + fmt::Debug + Default + Send;

    /// Bytes of each request.
    fn request_bytes(&self) -> usize;

    /// Writes request `number` of a socket into `request`, which is [`request_bytes`](Self::request_bytes) bytes long.
    /// Numbers begin at 0 and wrap. `due` is the intended send time. A request that does not fit the engine's buffers
    /// is written again later.
    fn write(&self, sent: &mut Self::Sent, request: &mut [u8], number: u32, due: Time);

    /// Parses a datagram received on a socket; `None` if it is damaged or not an answer.
    fn read(&self, sent: &Self::Sent, answer: &[u8]) -> Option<Answer>;
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

    fn request_bytes(&self) -> usize {
        self.stamp.length()
    }

    fn write(&self, (): &mut (), request: &mut [u8], number: u32, due: Time) {
        self.stamp.write(request, number, due.nanoseconds());
    }

    fn read(&self, (): &(), answer: &[u8]) -> Option<Answer> {
        let probe = Probe::read(answer).ok()?;
        Some(Answer {
            number: probe.sequence,
            due: Time::from_nanoseconds(probe.time),
            error: None,
        })
    }
}
