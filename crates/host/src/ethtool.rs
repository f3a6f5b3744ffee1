//! What a device does with frames on its own: flow control and offloads.
//!
//! What enters: the name of a device in the calling thread's network namespace. What leaves: [`Pause`] and the set of
//! active [`features`], read over the kernel's ethtool netlink interface (`Documentation/networking/ethtool-netlink.rst`,
//! since Linux 5.6). Nothing is changed, and no privilege is needed.

use std::collections::BTreeSet;
use std::io;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NlasIterator, ParseableParametrized, parse_string, parse_u8,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;
use serde::{Deserialize, Serialize};

use crate::HostError;
use crate::netlink::Netlink;

/// Whether a device pauses its link partner and lets itself be paused (IEEE 802.3 annex 31B). A paused sender looks like a
/// slow one, and drops move to where they are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Whether the two ends negotiate it; what is in force may then differ from the other two.
    pub autonegotiate: bool,
    /// Whether this device stops sending when asked.
    pub receive: bool,
    /// Whether this device asks its partner to stop.
    pub transmit: bool,
}

/// Reads the flow control of `device`; `None` where the device has none, as virtual ones do not.
///
/// # Errors
///
/// [`HostError::Netlink`] for a device that is not there and for kernels before 5.6.
pub fn pause(device: &str) -> Result<Option<Pause>, HostError> {
    Ethtool::open()?.pause(device)
}

/// Reads the offloads active on `device`, by the kernel's own names (`ethtool -k` maps some of them to others):
/// `rx-gro`, `tx-generic-segmentation`, `tx-tcp-segmentation`, `rx-lro`, `rx-hashing` and so on.
///
/// # Errors
///
/// [`HostError::Netlink`] for a device that is not there and for kernels before 5.6.
pub fn features(device: &str) -> Result<BTreeSet<String>, HostError> {
    Ethtool::open()?.features(device)
}

// Commands and attributes of `linux/ethtool_netlink.h`.
const VERSION: u8 = 1;
const MESSAGE_FEATURES_GET: u8 = 11;
const MESSAGE_PAUSE_GET: u8 = 21;
/// `ETHTOOL_A_PAUSE_HEADER` and `ETHTOOL_A_FEATURES_HEADER`: each request begins with the device it is about.
const ATTRIBUTE_HEADER: u16 = 1;
const HEADER_DEVICE_NAME: u16 = 2;
const PAUSE_AUTONEGOTIATE: u16 = 2;
const PAUSE_RECEIVE: u16 = 3;
const PAUSE_TRANSMIT: u16 = 4;
const FEATURES_ACTIVE: u16 = 4;
const BITSET_BITS: u16 = 3;
const BITSET_BIT: u16 = 1;
const BIT_NAME: u16 = 2;
/// The flag on an attribute that holds attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;

/// An open exchange with the kernel's ethtool family.
pub(crate) struct Ethtool {
    netlink: Netlink,
    family: u16,
}

impl Ethtool {
    /// Opens a socket in the calling thread's network namespace and asks for the family's number.
    pub(crate) fn open() -> Result<Self, HostError> {
        let failed = |cause| HostError::Netlink {
            step: "the ethtool family".to_owned(),
            cause,
        };
        let mut netlink = Netlink::open(NETLINK_GENERIC).map_err(failed)?;
        let ask = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName("ethtool".to_owned())],
        });
        let family = netlink
            .request(ask, 0)
            .map_err(failed)?
            .into_iter()
            .flat_map(|answer| answer.payload.nlas)
            .find_map(|attribute| match attribute {
                GenlCtrlAttrs::FamilyId(family) => Some(family),
                _ => None,
            })
            .ok_or_else(|| failed(io::Error::from(io::ErrorKind::NotFound)))?;
        Ok(Self { netlink, family })
    }

    /// See [`pause`].
    pub(crate) fn pause(&mut self, device: &str) -> Result<Option<Pause>, HostError> {
        let attributes = match self.ask(device, MESSAGE_PAUSE_GET, "flow control") {
            Err(HostError::Netlink { cause, .. }) if cause.kind() == io::ErrorKind::Unsupported => {
                return Ok(None);
            }
            attributes => attributes?,
        };
        let flag = |kind| {
            inside(&attributes, kind)
                .first()
                .and_then(|bytes| parse_u8(bytes).ok())
                .is_some_and(|byte| byte != 0)
        };
        Ok(Some(Pause {
            autonegotiate: flag(PAUSE_AUTONEGOTIATE),
            receive: flag(PAUSE_RECEIVE),
            transmit: flag(PAUSE_TRANSMIT),
        }))
    }

    /// See [`features`].
    pub(crate) fn features(&mut self, device: &str) -> Result<BTreeSet<String>, HostError> {
        let attributes = self.ask(device, MESSAGE_FEATURES_GET, "offloads")?;
        let active = inside(&attributes, FEATURES_ACTIVE);
        Ok(active.iter().flat_map(|bitset| names_of_bitset(bitset)).collect())
    }

    /// The attributes the kernel answers a question about `device` with, as bytes.
    fn ask(&mut self, device: &str, command: u8, what: &str) -> Result<Vec<u8>, HostError> {
        let name = [device.as_bytes(), &[0]].concat();
        let header = bytes_of(&DefaultNla::new(HEADER_DEVICE_NAME, name));
        let message = Message {
            command,
            attributes: bytes_of(&DefaultNla::new(ATTRIBUTE_HEADER | NESTED, header)),
        };
        let mut ask = GenlMessage::from_payload(message);
        ask.set_resolved_family_id(self.family);
        let answers = self.netlink.request(ask, 0).map_err(|cause| HostError::Netlink {
            step: format!("{what} of device {device}"),
            cause,
        })?;
        let first = answers.into_iter().next();
        Ok(first.map(|answer| answer.payload.attributes).unwrap_or_default())
    }
}

/// A request or answer of the ethtool family, its attributes as they stand on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    command: u8,
    attributes: Vec<u8>,
}

impl GenlFamily for Message {
    fn family_name() -> &'static str {
        "ethtool"
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        VERSION
    }
}

impl Emitable for Message {
    fn buffer_len(&self) -> usize {
        self.attributes.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.attributes);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Message {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self {
            command: header.cmd,
            attributes: bytes.to_vec(),
        })
    }
}

fn bytes_of(attribute: &DefaultNla) -> Vec<u8> {
    let mut bytes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut bytes);
    bytes
}

/// What the attributes of one kind hold. What is malformed is passed over.
fn inside(attributes: &[u8], kind: u16) -> Vec<Vec<u8>> {
    NlasIterator::new(attributes)
        .filter_map(Result::ok)
        .filter(|attribute| attribute.kind() == kind)
        .map(|attribute| attribute.value().to_vec())
        .collect()
}

/// The names in a bitset that lists its set bits (`ETHTOOL_A_BITSET_NOMASK`, the form the kernel answers in unless asked for
/// a compact one).
fn names_of_bitset(bitset: &[u8]) -> BTreeSet<String> {
    inside(bitset, BITSET_BITS)
        .iter()
        .flat_map(|bits| inside(bits, BITSET_BIT))
        .flat_map(|bit| inside(&bit, BIT_NAME))
        .filter_map(|name| parse_string(&name).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_loopback_device_has_offloads_and_no_flow_control() {
        let features = features("lo").unwrap();
        assert!(features.contains("tx-generic-segmentation"), "{features:?}");
        assert_eq!(pause("lo").unwrap(), None);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        for refusal in [
            features("no-such-device").map(drop).unwrap_err(),
            pause("no-such-device").map(drop).unwrap_err(),
        ] {
            assert!(refusal.to_string().contains("no-such-device"), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_bitset_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            names_of_bitset(&bytes);
        }
    }
}
