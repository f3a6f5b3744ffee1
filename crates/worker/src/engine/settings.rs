//! Settings of an engine.

use crate::system::address::{DESTINATION_BYTES, SEGMENT_BYTES};
use corelane_host::memory::MemoryPolicy;
use serde::{Deserialize, Serialize};
use std::io;

/// Maximum datagrams per call: `UIO_MAXIOV` of the kernel.
const LARGEST_BATCH: usize = 1_024;

/// The largest payload of a UDP datagram: the maximum length of 65,535 bytes minus the header of 8.
const LARGEST_PAYLOAD: usize = 65_527;

/// Larger buffers exceed the second-level cache of every current CPU.
const LARGEST_STREAM_BUFFER: usize = 1 << 20;

/// Settings of an engine. They apply to all of its sockets. Plans include those that a user can choose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineSettings {
    /// Datagrams per system call, 1 to 1,024; 64 by default. At 1 the epoll engine makes one `recvfrom` and one
    /// `sendto` per datagram: the reference of all comparisons.
    #[serde(rename = "batch")]
    pub datagram_batch: usize,
    /// The largest payload received completely, in bytes; longer ones are truncated and marked. 65,535 by default,
    /// because merged datagrams ([`gro`](Self::gro)) need it. Unused parts of the buffers are never touched.
    #[serde(skip)]
    pub receive_buffer_bytes: usize,
    /// Sends consecutive datagrams of one size to one peer as one message (`UDP_SEGMENT`), up to 64 datagrams and
    /// 65,507 bytes; the kernel or the device segments it. Off by default.
    pub coalesce: bool,
    /// Receives datagrams of one flow merged (`UDP_GRO`); [`Datagrams`](super::Datagrams) splits them again. Off by
    /// default. In a socket group, set it for all members or for none.
    pub gro: bool,
    /// Reports the [`destination`](super::Datagram::destination) of each datagram, of sockets that were opened with
    /// [`destinations`](crate::group::GroupSettings::destinations). Off by default.
    #[serde(skip)]
    pub destinations: bool,
    /// Maximum bytes of one connection lent per event, 1 to 1,048,576; 65,536 by default. All connections of an engine
    /// share one such buffer.
    #[serde(skip)]
    pub stream_buffer_bytes: usize,
    /// Bytes of one connection that may be received before others have their turn, and that are kept after its owner has
    /// turned receiving off; rounded up to a buffer. 65,536 by default. At 0 the kernel decides with io_uring, up to all
    /// of its buffers. With epoll it is one buffer, and nothing is kept.
    #[serde(skip)]
    pub stream_burst_bytes: u32,
    /// Bytes of copies that one connection may have queued; more is rejected as [`Full`](super::Full). 1 MiB by
    /// default.
    #[serde(skip)]
    pub stream_queue_bytes: usize,
    /// The sockets and connections that the engine is to serve, by which io_uring sizes its queues: they are locked
    /// memory, of which users have little. 0, the default, if their number is not known.
    #[serde(skip)]
    pub sockets: usize,
    /// Memory for queued datagrams, in bytes, rounded up to 64 KiB. 8 MiB by default, enough for the replies to a batch
    /// of 64 datagrams of the largest size. The same amount is reserved for the bytes that connections write in one
    /// turn; more is allocated as needed. Unused memory is never touched.
    #[serde(skip)]
    pub arena_bytes: usize,
    /// The policy of the memory above; by default that of the worker's other memory.
    #[serde(rename = "buffer_memory")]
    pub memory: Option<MemoryPolicy>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            datagram_batch: 64,
            receive_buffer_bytes: 65_535,
            coalesce: false,
            gro: false,
            destinations: false,
            stream_buffer_bytes: 65_536,
            stream_burst_bytes: 65_536,
            stream_queue_bytes: 1 << 20,
            sockets: 0,
            arena_bytes: 8 << 20,
            memory: None,
        }
    }
}

impl EngineSettings {
    /// Merged messages received per call: 1 MiB in total. 4, 16 and 64 performed alike on loopback.
    const MERGED_BATCH: usize = 16;

    /// Messages per receive call.
    pub(crate) fn receive_batch(&self) -> usize {
        if self.gro {
            self.datagram_batch.min(Self::MERGED_BATCH)
        } else {
            self.datagram_batch
        }
    }

    /// Room for the control messages of a received message.
    pub(crate) fn control_bytes(&self) -> usize {
        let merged = if self.gro { SEGMENT_BYTES } else { 0 };
        merged + if self.destinations { DESTINATION_BYTES } else { 0 }
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        let payload = format!(" (the largest payload is {LARGEST_PAYLOAD})");
        for (name, value, most, more) in [
            ("datagram_batch", self.datagram_batch, LARGEST_BATCH, ""),
            (
                "receive_buffer_bytes",
                self.receive_buffer_bytes,
                65_535,
                &payload,
            ),
            (
                "stream_buffer_bytes",
                self.stream_buffer_bytes,
                LARGEST_STREAM_BUFFER,
                "",
            ),
        ] {
            if !(1..=most).contains(&value) {
                let text = format!("{name} is {value}: give 1 to {most}{more}");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let refused = |settings: EngineSettings| settings.check().unwrap_err().to_string();
        let batch = EngineSettings {
            datagram_batch: 0,
            ..EngineSettings::default()
        };
        assert!(refused(batch).contains("datagram_batch is 0"));
        let buffer = EngineSettings {
            receive_buffer_bytes: 65_536,
            ..EngineSettings::default()
        };
        assert!(refused(buffer).contains("receive_buffer_bytes is 65536"));
        assert!(EngineSettings::default().check().is_ok());
    }
}
