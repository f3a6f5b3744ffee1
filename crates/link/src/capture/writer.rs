//! Writes a capture file in the format of its file name.

use super::pcapng::{AROUND, BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE, SECTION_HEADER, TIME_RESOLUTION};
use crate::burst::FrameTime;
use crate::error::LinkError;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of the longest frame that is written whole: the default of tcpdump (`MAXIMUM_SNAPLEN` of libpcap).
const SNAPLEN: u32 = 262_144;

/// The number of the link layer Ethernet.
const ETHERNET: u32 = 1;

/// A capture file being written. Dropping it flushes the buffer; [`CaptureWriter::flush`] also returns whether that
/// succeeded.
pub struct CaptureWriter {
    path: PathBuf,
    format: Format,
    file: BufWriter<File>,
}

#[derive(Clone, Copy)]
enum Format {
    Pcap,
    PcapNg,
}

impl CaptureWriter {
    /// Creates or truncates a file and writes its header: pcapng if its name ends so, otherwise pcap with times in
    /// nanoseconds.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn create(path: &Path) -> Result<CaptureWriter, LinkError> {
        let failed = |error| failed(path, &error);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
        let extension = path.extension().unwrap_or_default();
        let format = match extension.eq_ignore_ascii_case("pcapng") {
            true => Format::PcapNg,
            false => Format::Pcap,
        };
        format.begin(&mut file).map_err(failed)?;
        Ok(CaptureWriter {
            path: path.to_owned(),
            format,
            file,
        })
    }

    /// Appends a frame of `wire_length` bytes, of which `frame` was captured. Bytes beyond the first 262,144 are omitted.
    ///
    /// # Errors
    /// If the file cannot be written, for instance on a full disk.
    pub fn write(&mut self, time: FrameTime, wire_length: u32, frame: &[u8]) -> Result<(), LinkError> {
        let frame = &frame[..frame.len().min(SNAPLEN as usize)];
        let written = self.format.write(&mut self.file, time, wire_length, frame);
        written.map_err(|error| failed(&self.path, &error))
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// If the file cannot be written, for instance on a full disk.
    pub fn flush(&mut self) -> Result<(), LinkError> {
        self.file.flush().map_err(|error| failed(&self.path, &error))
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

impl Format {
    /// Writes the header of a file. Its numbers are little-endian, which the first ones show.
    fn begin(self, file: &mut impl Write) -> io::Result<()> {
        match self {
            // draft-ietf-opsawg-pcap, section 4: magic number of nanosecond times, version 2.4, two zeros, the longest
            // frame, link layer.
            Format::Pcap => write_numbers(file, &[0xa1b2_3c4d, 2 | 4 << 16, 0, 0, SNAPLEN, ETHERNET]),
            // draft-ietf-opsawg-pcapng, section 4.1: byte order, version 1.0, unknown length. Section 4.2: link layer, the
            // longest frame, the option of times with nine digits behind the point, the end of the options.
            Format::PcapNg => {
                let section = [BYTE_ORDER_MAGIC, 1, u32::MAX, u32::MAX];
                write_block(file, SECTION_HEADER, &section, &[])?;
                let resolution = u32::from(TIME_RESOLUTION) | 1 << 16;
                write_block(file, INTERFACE, &[ETHERNET, SNAPLEN, resolution, 9, 0], &[])
            }
        }
    }

    /// Writes a frame: its time, captured bytes and bytes on the wire, then the bytes.
    fn write(self, file: &mut impl Write, time: FrameTime, wire_length: u32, frame: &[u8]) -> io::Result<()> {
        let captured = frame.len() as u32;
        match self {
            // draft-ietf-opsawg-pcap, section 5: seconds, nanoseconds.
            Format::Pcap => {
                let (seconds, nanoseconds) = (time / 1_000_000_000, time % 1_000_000_000);
                write_numbers(file, &[seconds as u32, nanoseconds as u32, captured, wire_length])?;
                file.write_all(frame)
            }
            // draft-ietf-opsawg-pcapng, section 4.3: interface, upper and lower half of the nanoseconds.
            Format::PcapNg => {
                let facts = [0, (time >> 32) as u32, time as u32, captured, wire_length];
                write_block(file, ENHANCED_PACKET, &facts, frame)
            }
        }
    }
}

/// Whether a file that begins with these bytes has the header of those that [`CaptureWriter`] writes. Other programs rarely
/// choose the same: nanoseconds, and this longest frame.
#[must_use]
pub fn is_written_capture(begin: &[u8]) -> bool {
    [Format::Pcap, Format::PcapNg].iter().any(|format| {
        let mut header = Vec::new();
        format.begin(&mut header).is_ok() && begin.starts_with(&header)
    })
}

/// A block (draft-ietf-opsawg-pcapng, section 3.1): type, length, numbers, bytes, padding to 32 bits, the length again.
fn write_block(file: &mut impl Write, kind: u32, numbers: &[u32], bytes: &[u8]) -> io::Result<()> {
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    let length = AROUND + (4 * numbers.len() + bytes.len() + padding) as u32;
    write_numbers(file, &[kind, length])?;
    write_numbers(file, numbers)?;
    file.write_all(bytes)?;
    file.write_all(&[0; 3][..padding])?;
    write_numbers(file, &[length])
}

fn write_numbers(file: &mut impl Write, numbers: &[u32]) -> io::Result<()> {
    numbers
        .iter()
        .try_for_each(|number| file.write_all(&number.to_le_bytes()))
}

fn failed(path: &Path, error: &io::Error) -> LinkError {
    LinkError::file(path, format!("cannot be written: {error}"))
}
