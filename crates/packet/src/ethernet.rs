//! Parses Ethernet headers: addresses, VLAN tags, type and offset of the payload.

use crate::bytes::{array, number16};
use crate::layout::truncated;
pub use crate::protocol::EtherType;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Bytes before the first tag or payload: two addresses and a type (IEEE 802.3, clause 3.2).
const HEADER: usize = 14;

/// Bytes of a tag: its control information and the type of what follows (IEEE 802.1Q, clause 9.3).
const TAG: usize = 4;

/// A MAC address, first byte sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<MacAddress, NotAnAddress> {
        let refused = || NotAnAddress(text.to_owned());
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|byte| match byte.as_bytes() {
                [a, b] if [a, b].iter().all(|digit| digit.is_ascii_hexdigit()) => {
                    u8::from_str_radix(byte, 16).ok()
                }
                _ => None,
            })
            .collect();
        let bytes = bytes.ok_or_else(refused)?;
        bytes.try_into().map(MacAddress).map_err(|_| refused())
    }
}

/// Text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a MAC address: write it as 02:00:00:00:00:01")]
pub struct NotAnAddress(String);

impl TryFrom<String> for MacAddress {
    type Error = NotAnAddress;

    fn try_from(text: String) -> Result<MacAddress, NotAnAddress> {
        text.parse()
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> String {
        address.to_string()
    }
}

/// The source address of a frame; `None` if the frame is too short.
#[must_use]
pub fn source(frame: &[u8]) -> Option<MacAddress> {
    array(frame, 6).map(MacAddress)
}

/// The destination address of a frame; `None` if the frame is too short.
#[must_use]
pub fn destination(frame: &[u8]) -> Option<MacAddress> {
    array(frame, 0).map(MacAddress)
}

/// The VLAN identifiers of the complete tags of a frame, outermost first; 0 in a tag that carries only a priority.
pub fn vlan_ids(frame: &[u8]) -> impl Iterator<Item = u16> + '_ {
    (HEADER - 2..).step_by(TAG).map_while(|at| {
        let id = number16(frame, at + 2)? & 0x0fff;
        EtherType(number16(frame, at)?).is_vlan().then_some(id)
    })
}

/// Type and offset of the payload of an untagged frame; of a tagged frame, those of the first tag.
#[inline(always)]
pub(crate) fn untagged(frame: &[u8]) -> Option<(EtherType, usize)> {
    Some((EtherType(number16(frame, HEADER - 2)?), HEADER))
}

/// Type and offset of the payload, with all tags skipped. The frame starts at `start`.
#[inline(always)]
pub(crate) fn payload(frame: &[u8], start: usize) -> Result<(EtherType, usize), Refusal> {
    let mut at = start + HEADER;
    loop {
        let Some(ether_type) = number16(frame, at - 2).map(EtherType) else {
            return Err(truncated("Ethernet", at - start, frame, start));
        };
        if !ether_type.is_vlan() {
            return Ok((ether_type, at));
        }
        at += TAG;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacked() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend([0x88, 0xa8, 0xb0, 0x64, 0x81, 0x00, 0x0f, 0xff, 0x08, 0x00]);
        frame
    }

    #[test]
    fn stacked_tags_are_read_outermost_first_and_skipped() {
        assert_eq!(vlan_ids(&stacked()).collect::<Vec<_>>(), [100, 4095]);
        assert_eq!(payload(&stacked(), 0), Ok((EtherType::IPV4, 22)));
    }

    #[test]
    fn a_frame_cut_anywhere_in_its_tags_says_how_much_is_missing() {
        let frame = stacked();
        let needed = |length| match length {
            0..14 => 14,
            14..18 => 18,
            _ => 22,
        };
        for length in 0..frame.len() {
            let expected = Refusal::Truncated {
                layer: "Ethernet",
                needed: needed(length),
                captured: length,
            };
            assert_eq!(payload(&frame[..length], 0), Err(expected), "{length} bytes");
            assert!(vlan_ids(&frame[..length]).count() <= 2);
        }
    }

    #[test]
    fn addresses_print_as_tools_print_them() {
        let frame = stacked();
        assert_eq!(destination(&frame).unwrap().to_string(), "02:00:00:00:00:01");
        assert_eq!(source(&frame).unwrap().to_string(), "02:00:00:00:00:02");
        assert_eq!(source(&frame[..11]), None);
        assert_eq!("02:00:00:00:00:01".parse(), Ok(destination(&frame).unwrap()));
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:01",
            "0g:00:00:00:00:01",
        ] {
            assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
        }
    }
}
