//! The pcap format (draft-ietf-opsawg-pcap).

use super::input::{Input, Order, Stop};
use super::link_layer::{LinkLayer, ROOM, Record};

/// The first number of a file with times in microseconds and in nanoseconds (section 4), and the nanoseconds of a unit.
const MAGIC: [(u32, u64); 2] = [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)];

/// A file behind its header.
pub(super) struct Pcap {
    order: Order,
    nanoseconds_a_unit: u64,
    pub(super) layer: LinkLayer,
}

impl Pcap {
    /// Reads the file's header (section 4): magic number, version, two numbers without meaning, snap length, link layer.
    /// `None` if the file does not begin with a magic number of this format, which is given.
    pub(super) fn open(magic: [u8; 4], input: &mut Input) -> Result<Option<Pcap>, Stop> {
        let of = |(number, unit)| Some((Order::of(magic, number)?, unit));
        let Some((order, nanoseconds_a_unit)) = MAGIC.into_iter().find_map(of) else {
            return Ok(None);
        };
        let header: [u8; 24] = input.array()?;
        // The upper half has the length of frame check sequences.
        let layer = LinkLayer(order.number(&header, 20).unwrap_or_default() as u16);
        Ok(Some(Pcap {
            order,
            nanoseconds_a_unit,
            layer,
        }))
    }

    /// The next frame (section 5): seconds, fraction, captured bytes, bytes on the wire, then the bytes. `None` at the end.
    pub(super) fn next(&mut self, input: &mut Input, buffer: &mut Vec<u8>) -> Result<Option<Record>, Stop> {
        let Some(header) = input.record::<16>()? else {
            return Ok(None);
        };
        let number = |at: usize| {
            self.order
                .u32([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let [seconds, fraction, captured, wire_length] = [number(0), number(4), number(8), number(12)];
        input.fill(buffer, ROOM, captured as usize)?;
        Ok(Some(Record {
            layer: self.layer,
            bytes: ROOM..ROOM + captured as usize,
            wire_length,
            time: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.nanoseconds_a_unit,
            hash: None,
            queue: None,
        }))
    }
}
