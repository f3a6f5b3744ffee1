//! Reads a capture file in the format that its first bytes show.

use crate::burst::FrameTime;
use crate::error::LinkError;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The type of a section header block, with which every pcapng file begins (draft-ietf-opsawg-pcapng, section 4.1).
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The first four bytes of a pcap file with times in microseconds or nanoseconds, in the byte order that gives the
/// lower number (draft-ietf-opsawg-pcap, section 4).
const PCAP: [u32; 2] = [0xa1b2_c3d4, 0x4d3c_b2a1];

/// `epb_hash` has the number of its algorithm, then four bytes of hash in network byte order (draft-ietf-opsawg-pcapng,
/// "Enhanced Packet Block Options").
const TOEPLITZ: u8 = 5;

/// `epb_queue` is a 32-bit number in the section's byte order.
const EPB_QUEUE: u16 = 6;

/// A capture file that is being read.
pub struct CaptureReader {
    path: PathBuf,
    format: Format,
    /// The bytes of the frame read last.
    data: Vec<u8>,
    /// Frames read so far.
    frames: u64,
    is_ended: bool,
}

enum Format {
    Pcap(PcapReader<BufReader<File>>),
    PcapNg(PcapNgReader<BufReader<File>>),
}

/// One frame of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedFrame<'file> {
    /// Its bytes, from the destination address.
    pub data: &'file [u8],
    /// Bytes on the wire: more if the capture truncated it.
    pub wire_length: u32,
    /// Nanoseconds since the epoch.
    pub time: FrameTime,
    /// Its Toeplitz hash; only pcapng has it.
    pub hash: Option<u32>,
    /// The queue on which it arrived; only pcapng has it.
    pub queue: Option<u16>,
}

impl CaptureReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If it cannot be opened, is not a capture, or has another link layer than Ethernet.
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
        let file = BufReader::with_capacity(1 << 20, file);
        let header = |error| refused(format!("the file's header: {}", words(&error)));
        let format = if magic == SECTION_HEADER {
            Format::PcapNg(PcapNgReader::new(file).map_err(header)?)
        } else if !PCAP.contains(&u32::from_be_bytes(magic).min(u32::from_le_bytes(magic))) {
            return Err(refused("neither pcap nor pcapng: give a capture file".to_owned()));
        } else {
            let reader = PcapReader::new(file).map_err(header)?;
            require_ethernet(reader.header().datalink).map_err(refused)?;
            Format::Pcap(reader)
        };
        Ok(CaptureReader {
            path: path.to_owned(),
            format,
            data: Vec::new(),
            frames: 0,
            is_ended: false,
        })
    }

    /// The next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged or cut off. It is then read no further.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame<'_>>, LinkError> {
        if self.is_ended {
            return Ok(None);
        }
        self.data.clear();
        let next = match &mut self.format {
            Format::Pcap(reader) => next_of_pcap(reader, &mut self.data),
            Format::PcapNg(reader) => next_of_pcapng(reader, &mut self.data),
        };
        self.is_ended = !matches!(next, Ok(Some(_)));
        let number = self.frames + 1;
        let frame = next.map_err(|what| LinkError::file(&self.path, format!("frame {number}: {what}")))?;
        self.frames = number;
        let data = &self.data[..];
        Ok(frame.map(|frame| CapturedFrame { data, ..frame }))
    }

    /// Whether the file was read to its end or to the damage.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
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

/// The next frame without its bytes, which are appended to `data`.
fn next_of_pcap(
    reader: &mut PcapReader<BufReader<File>>,
    data: &mut Vec<u8>,
) -> Result<Option<CapturedFrame<'static>>, String> {
    let nanoseconds_a_unit = match reader.header().ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // Raw packets, because the library rejects packets that were longer on the wire than the capture's snap length.
    let packet = reader.next_raw_packet().transpose().map_err(damaged)?;
    Ok(packet.map(|packet| {
        data.extend_from_slice(&packet.data);
        CapturedFrame {
            wire_length: packet.orig_len,
            time: u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * nanoseconds_a_unit,
            ..CapturedFrame::default()
        }
    }))
}

fn next_of_pcapng(
    reader: &mut PcapNgReader<BufReader<File>>,
    data: &mut Vec<u8>,
) -> Result<Option<CapturedFrame<'static>>, String> {
    loop {
        let order = reader.section().endianness;
        let mut frame = CapturedFrame::default();
        let (bytes, wire_length, time, interface) = match reader.next_block().transpose().map_err(damaged)? {
            None => return Ok(None),
            Some(Block::EnhancedPacket(packet)) => {
                (frame.hash, frame.queue) = hash_and_queue(&packet, order);
                let time = packet.timestamp.as_nanos() as u64;
                (packet.data, packet.original_len, time, packet.interface_id)
            }
            Some(Block::SimplePacket(packet)) => (packet.data, packet.original_len, 0, 0),
            Some(Block::Packet(packet)) => {
                let interface = packet.interface_id.into();
                (packet.data, packet.original_len, packet.timestamp, interface)
            }
            // Statistics, names, and the interfaces, which the reader keeps.
            Some(_) => continue,
        };
        data.extend_from_slice(&bytes);
        let interface = reader.interfaces().get(interface as usize);
        let interface = interface.ok_or("a frame of an interface that the file does not describe")?;
        require_ethernet(interface.linktype)?;
        frame.time = nanoseconds(time, interface);
        frame.wire_length = wire_length;
        return Ok(Some(frame));
    }
}

fn hash_and_queue(packet: &EnhancedPacketBlock<'_>, order: Endianness) -> (Option<u32>, Option<u16>) {
    let (mut hash, mut queue) = (None, None);
    for option in &packet.options {
        match option {
            EnhancedPacketOption::Hash(bytes) => {
                if let [TOEPLITZ, a, b, c, d] = **bytes {
                    hash = Some(u32::from_be_bytes([a, b, c, d]));
                }
            }
            EnhancedPacketOption::Unknown(option) if option.code == EPB_QUEUE => {
                let number = <[u8; 4]>::try_from(&option.value[..]).map(|word| match order {
                    Endianness::Big => u32::from_be_bytes(word),
                    Endianness::Little => u32::from_le_bytes(word),
                });
                queue = number.ok().and_then(|number| u16::try_from(number).ok());
            }
            _ => {}
        }
    }
    (hash, queue)
}

/// A time in the interface's own units (`if_tsresol`, draft-ietf-opsawg-pcapng, section 4.2): a negative power of ten, or of
/// two if the highest bit is set; microseconds by default.
fn nanoseconds(units: u64, interface: &InterfaceDescriptionBlock<'_>) -> FrameTime {
    let resolution = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    let resolution = resolution.unwrap_or(6);
    let power = u32::from(resolution & 0x7f);
    let a_second = if resolution & 0x80 == 0 {
        10u128.checked_pow(power)
    } else {
        2u128.checked_pow(power)
    };
    let time = a_second.map_or(0, |a_second| u128::from(units) * 1_000_000_000 / a_second);
    u64::try_from(time).unwrap_or(u64::MAX)
}

fn require_ethernet(datalink: DataLink) -> Result<(), String> {
    match datalink {
        DataLink::ETHERNET => Ok(()),
        other => Err(format!(
            "frames of link layer {other:?}: only Ethernet can be read; capture on one device, not on 'any'"
        )),
    }
}

fn damaged(error: PcapError) -> String {
    format!("the file is damaged or cut off: {}", words(&error))
}

/// The error of the library, which does not name the cause of an error of reading.
fn words(error: &PcapError) -> String {
    match error {
        PcapError::IncompleteBuffer => "it ends too early".to_owned(),
        PcapError::IoError(cause) if cause.kind() == ErrorKind::UnexpectedEof => {
            "it ends too early".to_owned()
        }
        PcapError::IoError(cause) => cause.to_string(),
        error => error.to_string(),
    }
}
