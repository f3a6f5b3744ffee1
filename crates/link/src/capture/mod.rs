//! Capture files as links: frames come from a file, or go to one; pcap and pcapng.
//!
//! A [`CaptureLink`] has one file to read, one to write, or both. Times have nanoseconds. IP packets of other link layers
//! (cooked captures, raw IP, loopback) are read as Ethernet frames; frames of the rest are counted.

mod input;
mod link_layer;
mod pcap;
mod pcapng;
mod reader;
mod writer;

use crate::burst::{Burst, Extent};
use crate::error::LinkError;
use crate::layout::FrameLayout;
use crate::link::{Link, Port, Sent, WriteFrame};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub use reader::{CaptureAccount, CaptureReader, CapturedFrame};
pub use writer::{CaptureWriter, is_written_capture};

/// A link that reads frames from one file and writes frames to another.
#[derive(Debug)]
pub struct CaptureLink {
    port: Port,
    reader: Option<CaptureReader>,
    writer: Option<CaptureWriter>,
    /// Frames of the file that were longer than a buffer.
    oversized: u64,
    memory: Vec<u8>,
    layout: FrameLayout,
}

impl CaptureLink {
    /// A link on these files. Without a file to read it receives nothing; without one to write it discards sent frames.
    ///
    /// # Errors
    /// If a file cannot be opened or created, or is no capture of frames that can be read.
    pub fn open(
        read: Option<&Path>,
        write: Option<&Path>,
        layout: FrameLayout,
    ) -> Result<CaptureLink, LinkError> {
        let shown = [read, write]
            .into_iter()
            .flatten()
            .map(|path| path.display().to_string());
        let name = format!("pcap:{}", shown.collect::<Vec<_>>().join(","));
        Ok(CaptureLink {
            reader: read.map(CaptureReader::open).transpose()?,
            writer: write.map(CaptureWriter::create).transpose()?,
            oversized: 0,
            port: Port::new(name, layout.longest(), layout),
            memory: vec![0; layout.bytes()],
            layout,
        })
    }
}

impl Link for CaptureLink {
    fn port(&self) -> &Port {
        &self.port
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        let port = &mut self.port;
        port.extents.clear();
        while port.extents.len() < limit.min(self.layout.frames())
            && let Some(reader) = &mut self.reader
            && let Some(frame) = reader.next_frame()?
        {
            if frame.data.len() > port.longest {
                self.oversized += 1;
                continue;
            }
            let offset = self.layout.start_of(port.extents.len());
            self.memory[offset..][..frame.data.len()].copy_from_slice(frame.data);
            let length = frame.data.len() as u32;
            let extent = Extent::captured(offset, length, frame.wire_length, frame.time);
            port.extents.push(extent);
        }
        port.tally.count_received(&port.extents);
        let not_read = self.reader.as_ref().map_or(0, CaptureReader::frames_not_read);
        port.tally.receive_invalid = self.oversized + not_read;
        Ok(Burst::of(&mut self.memory, &port.extents))
    }

    fn transmit(&mut self, count: usize, mut write: impl WriteFrame) -> Result<usize, LinkError> {
        let now = now();
        // No burst is lent now, so that its memory is free.
        let buffer = &mut self.memory[..self.port.longest];
        for number in 0..count {
            let length = write(number, buffer).min(buffer.len());
            self.port.tally.count_sent((1, length as u64));
            if let Some(writer) = &mut self.writer {
                writer.write(now, length as u32, &buffer[..length])?;
            }
        }
        Ok(count)
    }

    fn send_merged(&mut self, frame: &[u8], _segment: u16) -> Result<Sent, LinkError> {
        let length = frame.len() as u32;
        if let Some(writer) = &mut self.writer {
            writer.write(now(), length, frame)?;
        }
        let taken = self.port.tally.count_sent((1, length.into()));
        Ok(Sent {
            taken,
            ..Sent::default()
        })
    }

    fn is_ended(&self) -> bool {
        self.reader.as_ref().is_none_or(CaptureReader::is_ended)
    }

    fn check(&mut self) -> Result<(), LinkError> {
        self.writer.as_mut().map_or(Ok(()), CaptureWriter::flush)
    }
}

/// Nanoseconds since the epoch.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
