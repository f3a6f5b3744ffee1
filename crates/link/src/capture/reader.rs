//! Reads a capture file in the format that its first bytes show.

use super::input::{Input, Stop};
use super::link_layer::{LinkLayer, Record};
use super::pcap::Pcap;
use super::pcapng::{PcapNg, SECTION_HEADER};
use crate::burst::FrameTime;
use crate::error::LinkError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A capture file that is being read.
pub struct CaptureReader {
    path: PathBuf,
    input: Input,
    format: Format,
    /// The record read last, behind room for an Ethernet header.
    buffer: Vec<u8>,
    record: Record,
    /// Frames read so far.
    frames: u64,
    not_read: BTreeMap<LinkLayer, u64>,
    is_cut_off: bool,
    is_ended: bool,
}

enum Format {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// One frame of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedFrame<'file> {
    /// Its bytes, from the destination address. If it was captured without Ethernet, it has the header of an Ethernet frame
    /// with made-up addresses.
    pub data: &'file [u8],
    /// Bytes on the wire: more if the capture truncated it.
    pub wire_length: u32,
    /// Nanoseconds since the epoch.
    pub time: FrameTime,
    /// Its Toeplitz hash; only pcapng has it.
    pub hash: Option<u32>,
    /// The queue on which it arrived; only pcapng has it.
    pub queue: Option<u16>,
    /// Frames of the file before it, those that cannot be read included.
    pub number: u64,
}

/// What of a capture file was not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaptureAccount {
    /// Frames of link layers that cannot be read or without an EtherType, by the name of the layer.
    pub not_read: BTreeMap<String, u64>,
    /// Whether the file ends within a record, as that of a killed program does. All frames before it were read.
    pub cut_off: bool,
}

impl CaptureReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If it cannot be opened, is not a capture, or has only frames of a link layer that cannot be read.
    pub fn open(path: &Path) -> Result<CaptureReader, LinkError> {
        let refused = |what: String| LinkError::file(path, what);
        let mut file = open_file(path).map_err(|cause| refused(cause.to_string()))?;
        if file.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
            return Err(refused(
                "a pipe, in which the reader cannot go back: save it to a file first".to_owned(),
            ));
        }
        let mut magic = [0; 4];
        file.read_exact(&mut magic)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .map_err(|_| refused("too short for a capture file".to_owned()))?;
        let mut input = Input::new(file);
        let format = match Pcap::open(magic, &mut input) {
            _ if u32::from_be_bytes(magic) == SECTION_HEADER => Format::PcapNg(PcapNg::new()),
            Err(stop) => return Err(refused(format!("the file's header: {stop}"))),
            Ok(None) => return Err(refused("neither pcap nor pcapng: give a capture file".to_owned())),
            Ok(Some(pcap)) if !pcap.layer.is_known() => {
                return Err(refused(format!(
                    "frames of link layer {}: Ethernet, LINUX_SLL, LINUX_SLL2, RAW, NULL and LOOP can be read",
                    pcap.layer.name()
                )));
            }
            Ok(Some(pcap)) => Format::Pcap(pcap),
        };
        Ok(CaptureReader {
            path: path.to_owned(),
            input,
            format,
            buffer: Vec::new(),
            record: Record::default(),
            frames: 0,
            not_read: BTreeMap::new(),
            is_cut_off: false,
            is_ended: false,
        })
    }

    /// The next frame; `None` at the end of the file, or where it is cut off. Frames that cannot be read are passed over and
    /// counted.
    ///
    /// # Errors
    /// If the file is damaged. It is then read no further.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame<'_>>, LinkError> {
        // The record lies in the reader and not in the result of a function: copies of it took a third of the time of `verify`.
        Ok(self.advance()?.then(|| CapturedFrame {
            data: &self.buffer[self.record.bytes.clone()],
            wire_length: self.record.wire_length,
            time: self.record.time,
            hash: self.record.hash,
            queue: self.record.queue,
            number: self.frames - 1,
        }))
    }

    /// Reads the next frame into the buffer. Returns false at the end.
    fn advance(&mut self) -> Result<bool, LinkError> {
        while !self.is_ended {
            let next = match &mut self.format {
                Format::Pcap(pcap) => pcap.next(&mut self.input, &mut self.buffer),
                Format::PcapNg(pcapng) => pcapng.next(&mut self.input, &mut self.buffer),
            };
            self.is_ended = !matches!(next, Ok(Some(_)));
            self.is_cut_off = matches!(next, Err(Stop::CutOff));
            self.record = match next {
                Ok(Some(record)) => record,
                Ok(None) | Err(Stop::CutOff) => break,
                Err(stop) => {
                    let number = self.frames + 1;
                    return Err(LinkError::file(&self.path, format!("frame {number}: {stop}")));
                }
            };
            self.frames += 1;
            if self.record.make_ethernet(&mut self.buffer) {
                return Ok(true);
            }
            *self.not_read.entry(self.record.layer).or_default() += 1;
        }
        Ok(false)
    }

    /// What was not read so far.
    #[must_use]
    pub fn account(&self) -> CaptureAccount {
        let by_name = |(layer, frames): (&LinkLayer, &u64)| (layer.name(), *frames);
        CaptureAccount {
            not_read: self.not_read.iter().map(by_name).collect(),
            cut_off: self.is_cut_off,
        }
    }

    /// Frames that were not read so far: of other link layers, and the one within which the file is cut off.
    #[must_use]
    pub fn frames_not_read(&self) -> u64 {
        self.not_read.values().sum::<u64>() + u64::from(self.is_cut_off)
    }

    /// Whether the file was read to its end, to where it is cut off, or to the damage.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }
}

impl CaptureAccount {
    /// A line per kind of what was not read; none if everything was.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let by_layer = |(layer, frames): (&String, &u64)| format!("{frames} frames of link layer {layer}");
        let mut lines: Vec<String> = self.not_read.iter().map(by_layer).collect();
        if self.cut_off {
            lines.push("the last frame, within which the capture is cut off".to_owned());
        }
        lines
    }
}

/// Opens a file to read. A pipe without a writer opens at once, so that it can be refused.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

impl fmt::Debug for CaptureReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CaptureReader")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
