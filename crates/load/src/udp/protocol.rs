//! What the datagrams of a generator say: the seam between when and from where they are sent, and a protocol.

use corelane_proto::probe::{Probe, SizeError, Stamp};
use corelane_worker::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A protocol of requests and answers, each one datagram. It is part of the plan, and every worker has a copy.
pub trait DatagramProtocol:
    Clone + fmt::Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The name of the generator's document is `corelane/loaded-NAME/1`.
    const NAME: &'static str;

    /// What is kept of each socket to find the request that an answer is to; nothing where answers repeat all that is needed.
    type Sent: Clone + fmt::Debug + Default + Send;

    /// Bytes of each request.
    fn request_bytes(&self) -> usize;

    /// Writes request `number` of a socket into `request`, which has [`request_bytes`](Self::request_bytes) bytes. Numbers
    /// begin at 0 and wrap. The intended send time is `due`. A request that the engine has no room for is written again.
    fn write(&self, sent: &mut Self::Sent, request: &mut [u8], number: u32, due: Time);

    /// Reads what came back to a socket; `None` where it is damaged or no answer.
    fn read(&self, sent: &Self::Sent, answer: &[u8]) -> Option<Answer>;
}

/// What an intact answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The number of its request.
    pub number: u32,
    /// When that was to be sent.
    pub due: Time,
    /// Why it is not what was asked for, where it is not.
    pub error: Option<&'static str>,
}

/// Payloads of one size that a server sends back as they are (`corelane_proto::probe`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "ProbeSize", try_from = "ProbeSize")]
pub struct Probes(Stamp);

#[derive(Serialize, Deserialize)]
struct ProbeSize {
    payload_bytes: usize,
}

impl Probes {
    /// Probes of `payload_bytes` bytes of UDP payload.
    ///
    /// # Errors
    /// When that is under 16 or over 65,507.
    pub fn new(payload_bytes: usize) -> Result<Self, SizeError> {
        Stamp::new(payload_bytes).map(Self)
    }
}

impl From<Probes> for ProbeSize {
    fn from(probes: Probes) -> Self {
        Self {
            payload_bytes: probes.0.length(),
        }
    }
}

impl TryFrom<ProbeSize> for Probes {
    type Error = SizeError;

    fn try_from(size: ProbeSize) -> Result<Self, SizeError> {
        Self::new(size.payload_bytes)
    }
}

impl DatagramProtocol for Probes {
    const NAME: &'static str = "udp";
    type Sent = ();

    fn request_bytes(&self) -> usize {
        self.0.length()
    }

    fn write(&self, (): &mut (), request: &mut [u8], number: u32, due: Time) {
        self.0.write(request, number, due.nanoseconds());
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
