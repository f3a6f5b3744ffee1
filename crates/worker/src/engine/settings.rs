//! How an engine moves datagrams and streams.

use corelane_host::memory::MemoryPolicy;
use std::io;

/// Datagrams that one call may carry: `UIO_MAXIOV` of the kernel.
const LARGEST_BATCH: usize = 1_024;

/// The largest payload of a UDP datagram: 65,535 bytes of length field less its header of 8.
const LARGEST_PAYLOAD: usize = 65_527;

/// Larger buffers leave the second-level cache of every CPU there is.
const LARGEST_STREAM_BUFFER: usize = 1 << 20;

/// How an engine moves datagrams and streams. The settings hold for all sockets of one engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Datagrams a system call, 1 to 1,024; 64 by default. At 1 the epoll engine makes one `recvfrom` and one `sendto` a
    /// datagram: the way everything else is compared with.
    pub datagram_batch: usize,
    /// The largest payload received whole, in bytes; longer ones are cut and marked. 65,535 by default, as merged
    /// datagrams ([`gro`](Self::gro)) need; memory that no datagram reaches is never touched.
    pub receive_buffer_bytes: usize,
    /// Sends consecutive datagrams of one size to one peer as one (`UDP_SEGMENT`), up to 64 and 65,507 bytes; the kernel
    /// or the device cuts them apart. Off by default.
    pub coalesce: bool,
    /// Receives datagrams of one flow merged (`UDP_GRO`); [`Datagrams`](super::Datagrams) takes them apart. Off by default.
    /// In a socket group set it for all members or none.
    pub gro: bool,
    /// The most bytes of one connection lent at once, 1 to 1,048,576; 65,536 by default. One such buffer serves all
    /// connections of an engine.
    pub stream_buffer_bytes: usize,
    /// Bytes of copies that one connection may have queued; more is refused as [`Full`](super::Full). 1 MiB by default.
    pub stream_queue_bytes: usize,
    /// Memory for datagrams queued to be sent, in bytes, rounded up to 64 KiB. 8 MiB by default: a batch of 64 datagrams
    /// of the largest size can be answered without a refusal. As much again for what connections write in one turn;
    /// what exceeds that is allocated.
    /// Memory that is not needed is never touched.
    pub arena_bytes: usize,
    /// From which node the memory above comes; by default from where the worker's other memory does.
    pub memory: Option<MemoryPolicy>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            datagram_batch: 64,
            receive_buffer_bytes: 65_535,
            coalesce: false,
            gro: false,
            stream_buffer_bytes: 65_536,
            stream_queue_bytes: 1 << 20,
            arena_bytes: 8 << 20,
            memory: None,
        }
    }
}

impl EngineSettings {
    /// Merged datagrams received in one call: 1 MiB in all. 4, 16 and 64 measured alike on loopback.
    const MERGED_BATCH: usize = 16;

    /// Messages to take in one receive call.
    pub(crate) fn receive_batch(&self) -> usize {
        if self.gro {
            self.datagram_batch.min(Self::MERGED_BATCH)
        } else {
            self.datagram_batch
        }
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
