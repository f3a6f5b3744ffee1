//! The pcapng format (draft-ietf-opsawg-pcapng): interfaces and packets; all other blocks are passed over.

use super::input::{Input, Order, Stop};
use super::link_layer::{LinkLayer, ROOM, Record};
use crate::burst::FrameTime;

/// The type of a section header block, with which every file begins (section 4.1); the same in both byte orders.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;

/// The second number of a section header, which shows the byte order.
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Types of blocks (sections 4.2 to 4.4, and appendix A for the obsolete packet block).
pub(super) const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// Bytes of a block besides its body: its type, its length, and the length again at its end.
pub(super) const AROUND: u32 = 12;

/// Options of interfaces: `if_tsresol`, `if_tsoffset`; of packets: `epb_hash` and `epb_queue`.
pub(super) const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;
const HASH: u16 = 3;
const QUEUE: u16 = 6;

/// `epb_hash` has the number of its algorithm, then four bytes of hash in network byte order.
const TOEPLITZ: u8 = 5;

/// The current section of a file.
pub(super) struct PcapNg {
    order: Order,
    interfaces: Vec<Interface>,
}

struct Interface {
    layer: LinkLayer,
    /// Zero: no limit.
    snap_length: u32,
    /// Units of time per second; `None` if they are too many to say.
    units_a_second: Option<u128>,
    /// Seconds to add to each time.
    offset: i64,
}

impl PcapNg {
    pub(super) fn new() -> PcapNg {
        PcapNg {
            order: Order::Little,
            interfaces: Vec::new(),
        }
    }

    /// The next frame; `None` at the end.
    pub(super) fn next(&mut self, input: &mut Input, buffer: &mut Vec<u8>) -> Result<Option<Record>, Stop> {
        while let Some([a, b, c, d, e, f, g, h]) = input.record()? {
            let kind = self.order.u32([a, b, c, d]);
            let mut read = 0;
            if kind == SECTION_HEADER {
                self.begin_section(input.array()?)?;
                read = 4;
            }
            let length = self.order.u32([e, f, g, h]);
            let body = length.checked_sub(AROUND + read).filter(|body| body % 4 == 0);
            let body = body.ok_or_else(|| Stop::Damaged(format!("a block of {length} bytes")))? as usize;
            match kind {
                INTERFACE | OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    input.fill(buffer, ROOM, body)?;
                }
                _ => input.skip(body as u64)?,
            }
            let again = self.order.u32(input.array()?);
            if again != length {
                let what = format!("a block of {length} bytes whose end says {again}");
                return Err(Stop::Damaged(what));
            }
            match kind {
                INTERFACE => self.interfaces.push(self.interface(&buffer[ROOM..ROOM + body])?),
                OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    return self.packet(kind, &buffer[ROOM..ROOM + body]).map(Some);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// A section header: byte order, version, length of the section, options. Interfaces are those of their section.
    fn begin_section(&mut self, magic: [u8; 4]) -> Result<(), Stop> {
        let order = Order::of(magic, BYTE_ORDER_MAGIC);
        self.order = order.ok_or_else(|| damaged("a section of unknown byte order"))?;
        self.interfaces.clear();
        Ok(())
    }

    /// An interface: link layer, two bytes without meaning, snap length, options.
    fn interface(&self, block: &[u8]) -> Result<Interface, Stop> {
        let (Some(layer), Some(snap_length)) = (block.first_chunk(), self.order.number(block, 4)) else {
            return Err(damaged("a short description of an interface"));
        };
        let mut interface = Interface {
            layer: LinkLayer(self.order.u16(*layer)),
            snap_length,
            units_a_second: Some(1_000_000),
            offset: 0,
        };
        for (code, value) in options(self.order, &block[8..]) {
            match (code, value) {
                (TIME_RESOLUTION, [resolution, ..]) => interface.units_a_second = units(*resolution),
                (TIME_OFFSET, value) => {
                    let seconds = value.try_into().map(|bytes| self.order.i64(bytes));
                    interface.offset = seconds.unwrap_or(interface.offset);
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    /// A frame, whose bytes are in the block, which is in the buffer behind room for an Ethernet header.
    fn packet(&self, kind: u32, block: &[u8]) -> Result<Record, Stop> {
        let number = |at| {
            let number = self.order.number(block, at);
            number.ok_or_else(|| damaged("a short packet block"))
        };
        let first = number(0)?;
        let interface = match kind {
            SIMPLE_PACKET => 0,
            // Two bytes of it; the other two count dropped packets.
            OBSOLETE_PACKET => u32::from(self.order.u16([block[0], block[1]])),
            _ => first,
        };
        let interface = self.interfaces.get(interface as usize);
        let interface =
            interface.ok_or_else(|| damaged("a frame of an interface that the file does not describe"))?;
        let (at, captured, wire_length, time) = if kind == SIMPLE_PACKET {
            // Such a block does not say how much was captured, and padding may follow.
            let snap_length = match interface.snap_length {
                0 => u32::MAX,
                length => length,
            };
            (4, first.min(snap_length).min(block.len() as u32 - 4), first, 0)
        } else {
            // Two numbers of 32 bits, the upper half first in both byte orders.
            let units = u64::from(number(4)?) << 32 | u64::from(number(8)?);
            (20, number(12)?, number(16)?, interface.nanoseconds(units))
        };
        let end = at + captured as usize;
        if end > block.len() {
            return Err(damaged("a frame longer than its block"));
        }
        let mut record = Record {
            layer: interface.layer,
            bytes: ROOM + at..ROOM + end,
            wire_length,
            time,
            hash: None,
            queue: None,
        };
        let options_at = match kind {
            SIMPLE_PACKET => block.len(),
            _ => end.next_multiple_of(4),
        };
        for (code, value) in options(self.order, block.get(options_at..).unwrap_or_default()) {
            match (code, value) {
                (HASH, [TOEPLITZ, a, b, c, d]) => record.hash = Some(u32::from_be_bytes([*a, *b, *c, *d])),
                (QUEUE, value) if kind == ENHANCED_PACKET => {
                    let number = self.order.number(value, 0);
                    record.queue = number.and_then(|number| u16::try_from(number).ok());
                }
                _ => {}
            }
        }
        Ok(record)
    }
}

impl Interface {
    /// Nanoseconds since the epoch of a time in the interface's units.
    fn nanoseconds(&self, units: u64) -> FrameTime {
        let time = self
            .units_a_second
            .map_or(0, |a_second| u128::from(units) * 1_000_000_000 / a_second);
        let time = time.min(u128::from(u64::MAX)) as i128 + i128::from(self.offset) * 1_000_000_000;
        time.clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// Units per second (`if_tsresol`): a power of ten, or of two if the highest bit is set.
fn units(resolution: u8) -> Option<u128> {
    let power = u32::from(resolution & 0x7f);
    match resolution & 0x80 {
        0 => 10u128.checked_pow(power),
        _ => 2u128.checked_pow(power),
    }
}

fn damaged(what: &str) -> Stop {
    Stop::Damaged(what.to_owned())
}

/// Code and value of each option: two numbers of 16 bits, the value, padding to 32 bits (section 3.5). They end with their
/// end mark, at the end of the block, or where one is longer than that.
fn options(order: Order, mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = *bytes.first_chunk()?;
        let (code, length) = (order.u16([a, b]), usize::from(order.u16([c, d])));
        let value = bytes.get(4..4 + length).filter(|_| code != 0)?;
        bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}
