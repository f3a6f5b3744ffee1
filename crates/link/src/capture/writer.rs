//! Writes a capture file in the format of its file name.

use crate::burst::FrameTime;
use crate::error::LinkError;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the longest frame that is written whole: the default of tcpdump (`MAXIMUM_SNAPLEN` of libpcap).
const SNAPLEN: u32 = 262_144;

/// A capture file being written. Dropping it flushes the buffer; [`CaptureWriter::flush`] also returns whether that
/// succeeded.
pub struct CaptureWriter {
    path: PathBuf,
    format: Format,
}

enum Format {
    Pcap(BufWriter<File>),
    PcapNg(PcapNgWriter<BufWriter<File>>),
}

impl CaptureWriter {
    /// Creates or truncates a file and writes its header: pcapng if its name ends so, otherwise pcap with times in
    /// nanoseconds.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn create(path: &Path) -> Result<CaptureWriter, LinkError> {
        let failed = |error: &dyn fmt::Display| failed(path, error);
        let file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(|error| failed(&error))?);
        let extension = path.extension().unwrap_or_default();
        let format = match extension.eq_ignore_ascii_case("pcapng") {
            true => Format::PcapNg(begin_pcapng(file).map_err(|error| failed(&error))?),
            false => Format::Pcap(begin_pcap(file).map_err(|error| failed(&error))?),
        };
        Ok(CaptureWriter {
            path: path.to_owned(),
            format,
        })
    }

    /// Appends a frame of `wire_length` bytes, of which `frame` was captured. Bytes beyond the first 262,144 are omitted.
    ///
    /// # Errors
    /// If the file cannot be written, for instance on a full disk.
    pub fn write(&mut self, time: FrameTime, wire_length: u32, frame: &[u8]) -> Result<(), LinkError> {
        let frame = &frame[..frame.len().min(SNAPLEN as usize)];
        match &mut self.format {
            Format::Pcap(file) => {
                write_pcap(file, time, wire_length, frame).map_err(|error| failed(&self.path, &error))
            }
            Format::PcapNg(writer) => {
                let block = EnhancedPacketBlock {
                    interface_id: 0,
                    // The library writes this number of nanoseconds in the interface's units, which are nanoseconds.
                    timestamp: Duration::from_nanos(time),
                    original_len: wire_length,
                    data: Cow::Borrowed(frame),
                    options: Vec::new(),
                };
                let written = writer.write_pcapng_block(block).map(drop);
                written.map_err(|error| failed(&self.path, &error))
            }
        }
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// If the file cannot be written, for instance on a full disk.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        let flushed = match &mut self.format {
            Format::Pcap(file) => file.flush(),
            Format::PcapNg(writer) => writer.get_mut().flush(),
        };
        flushed.map_err(|error| failed(&self.path, &error))
    }
}

impl fmt::Debug for CaptureWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CaptureWriter")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The header of a file (draft-ietf-opsawg-pcap, section 4): magic number of nanosecond times, version 2.4, two zeros, the
/// longest frame, link layer Ethernet. Little-endian, which the magic number shows.
fn begin_pcap<W: Write>(mut file: W) -> io::Result<W> {
    for number in [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, SNAPLEN, 1] {
        file.write_all(&u32::to_le_bytes(number))?;
    }
    Ok(file)
}

/// Whether a file that begins with these bytes has the header of those that [`CaptureWriter`] writes. Other programs rarely
/// choose the same: nanoseconds, and this longest frame.
#[must_use]
pub fn is_written_capture(begin: &[u8]) -> bool {
    let pcap = begin_pcap(Vec::new()).is_ok_and(|header| begin.starts_with(&header));
    pcap || begin_pcapng(Vec::new()).is_ok_and(|writer| begin.starts_with(&writer.into_inner()))
}

/// One frame (draft-ietf-opsawg-pcap, section 5): seconds, nanoseconds, captured bytes, bytes on the wire, then the bytes.
fn write_pcap(file: &mut impl Write, time: FrameTime, wire_length: u32, frame: &[u8]) -> io::Result<()> {
    let seconds = (time / 1_000_000_000) as u32;
    let nanoseconds = (time % 1_000_000_000) as u32;
    for number in [seconds, nanoseconds, frame.len() as u32, wire_length] {
        file.write_all(&number.to_le_bytes())?;
    }
    file.write_all(frame)
}

fn begin_pcapng<W: Write>(file: W) -> Result<PcapNgWriter<W>, PcapError> {
    let mut writer = PcapNgWriter::new(file)?;
    writer.write_pcapng_block(InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: SNAPLEN,
        options: vec![InterfaceDescriptionOption::IfTsResol(9)],
    })?;
    Ok(writer)
}

fn failed(path: &Path, error: &(impl fmt::Display + ?Sized)) -> LinkError {
    LinkError::file(path, format!("cannot be written: {error}"))
}
