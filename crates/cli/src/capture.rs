//! Reads capture files: frames, with hash and queue if the capture records them.
//!
//! pcap stores frames only. pcapng has options for the hash and the queue of a frame (draft-ietf-opsawg-pcapng,
//! "Enhanced Packet Block Options"): `epb_hash`, whose algorithm 5 is Toeplitz, and `epb_queue`.

use crate::documents::{lines, wrong_file};
use crate::outcome::{Outcome, usage};
use corelane_packet::verify::log::{self, Pair};
use corelane_packet::verify::{Observed, Queue};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness};
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

/// The first four bytes of a pcapng file, equal in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// `epb_hash`: the algorithm number, followed by four bytes of hash in network byte order.
const TOEPLITZ: u8 = 5;

/// `epb_queue`: a 32-bit number in the section's byte order.
const EPB_QUEUE: u16 = 6;

/// Passes every frame of a capture to `take`, in order, and stops at the first error.
pub fn each_frame(path: &Path, mut take: impl FnMut(&[u8], Observed) -> Outcome) -> Outcome {
    let wrong = |error: &dyn Display| wrong_file("--pcap", path, error);
    let mut file = File::open(path).map_err(|error| wrong(&error))?;
    let mut start = [0; 4];
    file.read_exact(&mut start).map_err(|error| wrong(&error))?;
    file.rewind().map_err(|error| wrong(&error))?;
    if start != SECTION_HEADER {
        let mut reader = PcapReader::new(file).map_err(|error| wrong(&error))?;
        check_ethernet(reader.header().datalink).map_err(|error| wrong(&error))?;
        while let Some(packet) = reader.next_packet() {
            take(&packet.map_err(|error| wrong(&error))?.data, Observed::default())?;
        }
        return Ok(());
    }
    let mut reader = PcapNgReader::new(file).map_err(|error| wrong(&error))?;
    loop {
        let endianness = reader.section().endianness;
        let Some(block) = reader.next_block() else {
            return Ok(());
        };
        match block.map_err(|error| wrong(&error))? {
            Block::InterfaceDescription(interface) => {
                check_ethernet(interface.linktype).map_err(|error| wrong(&error))?;
            }
            Block::EnhancedPacket(packet) => take(&packet.data, observed(&packet, endianness))?,
            Block::SimplePacket(packet) => take(&packet.data, Observed::default())?,
            Block::Packet(packet) => take(&packet.data, Observed::default())?,
            _ => {}
        }
    }
}

/// The pairs of a log of hashes and queues, in order.
pub fn pairs(path: &Path) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Pair>>> {
    lines("--log", path, log::pair)
}

/// As [`each_frame`], with hash and queue from a log with one pair per frame, in the same order.
pub fn each_frame_with_log(
    path: &Path,
    log: Option<&Path>,
    mut take: impl FnMut(&[u8], Observed) -> Outcome,
) -> Outcome {
    let Some(log) = log else {
        return each_frame(path, take);
    };
    let mut pairs = pairs(log)?;
    each_frame(path, |frame, _| {
        let ended = || usage("--log", format!("{} ends before the capture does", log.display()));
        let pair = pairs.next().transpose()?.ok_or_else(ended)?;
        let observed = Observed {
            hash: Some(pair.hash),
            queue: Some(pair.queue),
            sequence: None,
        };
        take(frame, observed)
    })
}

fn check_ethernet(link: DataLink) -> Result<(), String> {
    match link {
        DataLink::ETHERNET => Ok(()),
        other => Err(format!(
            "link type {other:?} is not supported, only Ethernet: capture on one device, not on 'any'"
        )),
    }
}

/// Reads hash and queue from the options of a block.
fn observed(packet: &EnhancedPacketBlock<'_>, endianness: Endianness) -> Observed {
    let mut observed = Observed::default();
    for option in &packet.options {
        match option {
            EnhancedPacketOption::Hash(hash) => {
                if let [TOEPLITZ, a, b, c, d] = **hash {
                    observed.hash = Some(u32::from_be_bytes([a, b, c, d]));
                }
            }
            EnhancedPacketOption::Unknown(option) if option.code == EPB_QUEUE => {
                let word = <[u8; 4]>::try_from(&option.value[..]).ok();
                let number = word.map(|word| match endianness {
                    Endianness::Big => u32::from_be_bytes(word),
                    Endianness::Little => u32::from_le_bytes(word),
                });
                observed.queue = number.and_then(|number| u16::try_from(number).ok()).map(Queue);
            }
            _ => {}
        }
    }
    observed
}
