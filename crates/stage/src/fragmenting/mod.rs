//! Cuts packets into fragments that an MTU permits: those of IPv4 that may be cut, and of IPv6 those that were made whole or
//! wrapped here, since only a source cuts a packet (RFC 8200, section 4.5). No ICMP error is sent for the others.

mod ipv4;
mod ipv6;

use crate::{Batch, Stage, Work};
use corelane_measure::counter::Counter;
use corelane_packet::Addresses;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::ops::Range;
use std::sync::Arc;

/// The smallest MTU: IPv4's longest header and 8 bytes of data (RFC 791, section 3.2).
const LEAST_MTU: u16 = 68;

/// The longest packet that length and offset fields can describe.
const LONGEST: usize = u16::MAX as usize;

/// Which packets are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Bytes of the longest packet that leaves whole, from its IP header on: 68 to 65,535.
    #[serde(deserialize_with = "mtu")]
    pub mtu: u16,
}

fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let mtu = u16::deserialize(deserializer)?;
    match mtu < LEAST_MTU {
        true => Err(de::Error::custom(format!(
            "an MTU of {mtu} bytes: IPv4 needs {LEAST_MTU} at least"
        ))),
        false => Ok(mtu),
    }
}

/// The counts of packets that are longer than the MTU.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    /// Packets that were cut.
    pub cut: Counter,
    /// Fragments that they were cut into.
    pub fragments: Counter,
    /// Packets of IPv4 dropped since they are too long, and not to be fragmented.
    pub dont_fragment: Counter,
    /// Packets of IPv6 dropped since they are too long, and only their source may cut them.
    pub only_by_source: Counter,
    /// Packets dropped since the frame has only a part of them, or not all of their headers can be in each fragment.
    pub malformed: Counter,
}

/// The count of what was dropped for one reason.
type Cause = fn(&Counts) -> &Counter;

/// Cuts packets.
#[derive(Debug)]
pub struct Fragmenting {
    mtu: usize,
    counts: Arc<Counts>,
}

impl Fragmenting {
    /// A stage that cuts packets.
    #[must_use]
    pub fn new(plan: &Plan, counts: Arc<Counts>) -> Fragmenting {
        Fragmenting {
            mtu: plan.mtu.into(),
            counts,
        }
    }

    fn packet<B: Batch>(&self, work: &mut Work<'_, B>, place: usize) {
        let Ok(packet) = work.dissection(place) else {
            return;
        };
        let long = packet.network_offset()..packet.packet_end();
        if long.len() <= self.mtu || long.len() > LONGEST {
            return;
        }
        let cut = match packet.addresses() {
            _ if packet.is_truncated() => Err::<_, Cause>(|counts| &counts.malformed),
            Addresses::V4(_) => {
                let data = packet.fragment_data();
                ipv4::cut(work, place, long, data, self.mtu)
            }
            Addresses::V6(_) => ipv6::cut(work, place, long, self.mtu),
        };
        match cut {
            Ok(fragments) => {
                self.counts.cut.add(1);
                self.counts.fragments.add(fragments);
            }
            Err(cause) => work.drop(place, cause(&self.counts)),
        }
    }
}

impl Stage for Fragmenting {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in 0..work.len() {
            if work.frame(place).len() > self.mtu && work.goes_on(place) {
                self.packet(work, place);
            }
        }
    }
}

/// The parts of data that lie in later fragments, each with whether it is the last; all but the last have `room` bytes, or less
/// so that their length is a multiple of 8.
fn parts(mut data: Range<usize>, room: usize) -> impl Iterator<Item = (Range<usize>, bool)> {
    std::iter::from_fn(move || {
        let length = match data.len() {
            0 => return None,
            rest if rest <= room => rest,
            _ => room & !7,
        };
        let part = data.start..data.start + length;
        data.start = part.end;
        Some((part, data.is_empty()))
    })
}
