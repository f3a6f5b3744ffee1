//! The pcap format (draft-ietf-opsawg-pcap).

use super::input::{Input, Order, Stop};
use super::link_layer::{LinkLayer, ROOM, Record};

/// The first number of a file with times in microseconds, and in nanoseconds (section 4).
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// A file behind its header.
pub(super) struct Pcap {
    order: Order,
    nanoseconds_a_unit: u64,
    pub(super) layer: LinkLayer,
}

impl Pcap {
    /// Whether a file that begins with these bytes has this format.
    pub(super) fn is_magic(magic: [u8; 4]) -> bool {
        order_and_unit(magic).is_some()
    }

    /// Reads the file's header (section 4): magic number, version, two numbers without meaning, snap length, link layer.
    pub(super) fn open(input: &mut Input) -> Result<Pcap, Stop> {
        let header: [u8; 24] = input.array()?;
        let [a, b, c, d, .., e, f, g, h] = header;
        let Some((order, nanoseconds_a_unit)) = order_and_unit([a, b, c, d]) else {
            return Err(Stop::Damaged("no magic number".to_owned()));
        };
        // The upper half has the length of frame check sequences.
        let layer = LinkLayer(order.u32([e, f, g, h]) as u16);
        Ok(Pcap {
            order,
            nanoseconds_a_unit,
            layer,
        })
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

fn order_and_unit(magic: [u8; 4]) -> Option<(Order, u64)> {
    [Order::Little, Order::Big]
        .into_iter()
        .find_map(|order| match order.u32(magic) {
            MICROSECONDS => Some((order, 1_000)),
            NANOSECONDS => Some((order, 1)),
            _ => None,
        })
}
