//! The pcapng format (draft-ietf-opsawg-pcapng): interfaces and packets; all other blocks are passed over.

use super::input::{Input, Order, Stop};
use super::link_layer::{LinkLayer, ROOM, Record};
use crate::burst::FrameTime;

/// The type of a section header block, with which every file begins (section 4.1); the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// The second number of a section header, which shows the byte order.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Types of blocks (sections 4.2 to 4.4, and appendix A for the obsolete packet block).
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Bytes of a block's type and length, and of the length at its end.
const HEAD: u32 = 8;
const TAIL: u32 = 4;

/// Options of interfaces: `if_tsresol`, `if_tsoffset`; of packets: `epb_hash` and `epb_queue`.
const TIME_RESOLUTION: u16 = 9;
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

/// Where the bytes of a packet are in the body of its block, and what its fixed fields say.
struct Packet {
    interface: u32,
    units: Option<u64>,
    wire_length: u32,
    at: usize,
    captured: usize,
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
        while let Some(head) = input.record::<8>()? {
            let [a, b, c, d, e, f, g, h] = head;
            let length = [e, f, g, h];
            if [a, b, c, d] == SECTION_HEADER {
                self.begin_section(input, length)?;
                continue;
            }
            let (kind, length) = (self.order.u32([a, b, c, d]), self.order.u32(length));
            let body = body_of(length, 0)?;
            if !matches!(
                kind,
                INTERFACE | OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET
            ) {
                input.skip(u64::from(body))?;
                self.end_block(input, length)?;
                continue;
            }
            let body = body as usize;
            input.fill(buffer, ROOM, body)?;
            self.end_block(input, length)?;
            let block = &buffer[ROOM..ROOM + body];
            if kind == INTERFACE {
                self.interfaces.push(self.interface(block)?);
            } else {
                return self.packet(kind, block).map(Some);
            }
        }
        Ok(None)
    }

    /// A section header: byte order, version, length of the section, options. Interfaces are those of their section.
    fn begin_section(&mut self, input: &mut Input, length: [u8; 4]) -> Result<(), Stop> {
        let magic: [u8; 4] = input.array()?;
        let order = [Order::Little, Order::Big]
            .into_iter()
            .find(|order| order.u32(magic) == BYTE_ORDER_MAGIC);
        self.order = order.ok_or_else(|| Stop::Damaged("a section of unknown byte order".to_owned()))?;
        self.interfaces.clear();
        let length = self.order.u32(length);
        input.skip(u64::from(body_of(length, 4)?))?;
        self.end_block(input, length)
    }

    fn end_block(&self, input: &mut Input, length: u32) -> Result<(), Stop> {
        let again = self.order.u32(input.array()?);
        match again == length {
            true => Ok(()),
            false => Err(Stop::Damaged(format!(
                "a block of {length} bytes whose end says {again}"
            ))),
        }
    }

    /// An interface: link layer, two bytes without meaning, snap length, options.
    fn interface(&self, block: &[u8]) -> Result<Interface, Stop> {
        let (Some(layer), Some(snap_length)) = (block.first_chunk(), number_at(self.order, block, 4)) else {
            return Err(Stop::Damaged("a short description of an interface".to_owned()));
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
                (TIME_OFFSET, value) if value.len() == 8 => {
                    let [first, second] =
                        [0, 4].map(|at| number_at(self.order, value, at).unwrap_or_default());
                    let (high, low) = match self.order {
                        Order::Big => (first, second),
                        Order::Little => (second, first),
                    };
                    interface.offset = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    /// A frame, whose bytes are in the block, which is in the buffer behind room for an Ethernet header.
    fn packet(&self, kind: u32, block: &[u8]) -> Result<Record, Stop> {
        let damaged = |what: &str| Stop::Damaged(what.to_owned());
        let packet = self
            .fields(kind, block)
            .ok_or_else(|| damaged("a short packet block"))?;
        let interface = self.interfaces.get(packet.interface as usize);
        let interface =
            interface.ok_or_else(|| damaged("a frame of an interface that the file does not describe"))?;
        let mut captured = packet.captured;
        if kind == SIMPLE_PACKET {
            // Such a block does not say how much was captured, and padding may follow.
            let snap_length = match interface.snap_length {
                0 => usize::MAX,
                length => length as usize,
            };
            captured = captured.min(packet.wire_length as usize).min(snap_length);
        }
        let end = packet.at + captured;
        let options_at = end.next_multiple_of(4);
        let Some(behind) = block.get(end..) else {
            return Err(damaged("a frame longer than its block"));
        };
        let (mut hash, mut queue) = (None, None);
        if kind != SIMPLE_PACKET {
            for (code, value) in options(self.order, behind.get(options_at - end..).unwrap_or_default()) {
                match (code, value) {
                    (HASH, [TOEPLITZ, a, b, c, d]) => hash = Some(u32::from_be_bytes([*a, *b, *c, *d])),
                    (QUEUE, value) if kind == ENHANCED_PACKET => {
                        let number = self.order.number(value);
                        queue = number.and_then(|number| u16::try_from(number).ok());
                    }
                    _ => {}
                }
            }
        }
        Ok(Record {
            layer: interface.layer,
            bytes: ROOM + packet.at..ROOM + end,
            wire_length: packet.wire_length,
            time: packet.units.map_or(0, |units| interface.nanoseconds(units)),
            hash,
            queue,
        })
    }

    /// The fixed fields of a packet block. Times are two numbers of 32 bits, the upper half first, in both byte orders.
    fn fields(&self, kind: u32, block: &[u8]) -> Option<Packet> {
        let number = |at: usize| number_at(self.order, block, at);
        if kind == SIMPLE_PACKET {
            return Some(Packet {
                interface: 0,
                units: None,
                wire_length: number(0)?,
                at: 4,
                captured: block.len() - 4,
            });
        }
        let interface = match kind {
            // Two bytes of it; the other two count dropped packets.
            OBSOLETE_PACKET => u32::from(self.order.u16(*block.first_chunk()?)),
            _ => number(0)?,
        };
        Some(Packet {
            interface,
            units: Some(u64::from(number(4)?) << 32 | u64::from(number(8)?)),
            captured: number(12)? as usize,
            wire_length: number(16)?,
            at: 20,
        })
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

/// Bytes of the body of a block of this length, of which `read` were read.
fn body_of(length: u32, read: u32) -> Result<u32, Stop> {
    length
        .checked_sub(HEAD + TAIL + read)
        .filter(|body| body % 4 == 0)
        .ok_or_else(|| Stop::Damaged(format!("a block of {length} bytes")))
}

fn number_at(order: Order, bytes: &[u8], at: usize) -> Option<u32> {
    order.number(bytes.get(at..)?)
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
