//! Device features: flow control, offloads, queues, rings, coalescing, steering.
//!
//! Input: the name of a device in the calling thread's network namespace. Output: [`Pause`], the set of active
//! [`features`], and more for the [inventory](crate::inventory), read over the kernel's ethtool netlink interface
//! (`Documentation/networking/ethtool-netlink.rst`, since Linux 5.6). What that interface does not report is read by
//! [`ioctl`]. Only [`change`] changes anything; reading needs no privilege.

pub mod change;
pub(crate) mod ioctl;
mod shown;
mod steering;

use std::collections::BTreeSet;
use std::io;

use serde::{Deserialize, Serialize};

pub use shown::shown;
pub use steering::{Field, FlowType, HashFunction, Rss, Rule, RuleAction, Rules, Transform};

use crate::HostError;
use crate::netlink::Generic;
use crate::netlink::attributes::{first, flag_in, inside, nest, number_in, text, text_in};

/// Whether a device pauses its link partner and can be paused (IEEE 802.3 annex 31B). A paused sender looks like a slow
/// one, and drops move to where they are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Whether the two ends negotiate it; the active setting may then differ from the other two.
    pub autonegotiate: bool,
    /// Whether this device stops sending on request.
    pub receive: bool,
    /// Whether this device requests its partner to stop.
    pub transmit: bool,
}

/// The queues of a device: current and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Interrupts with a receive queue only.
    pub receive: u32,
    /// The maximum.
    pub receive_maximum: u32,
    /// Interrupts with a transmit queue only.
    pub transmit: u32,
    /// The maximum.
    pub transmit_maximum: u32,
    /// Interrupts with a receive and a transmit queue.
    pub combined: u32,
    /// The maximum.
    pub combined_maximum: u32,
}

impl Channels {
    /// The maximum number of receive queues.
    #[must_use]
    pub fn receiving_maximum(&self) -> u32 {
        self.receive_maximum.max(self.combined_maximum)
    }
}

/// The ring sizes of each queue, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Frames of a receive ring.
    pub receive: Option<u32>,
    /// The maximum.
    pub receive_maximum: Option<u32>,
    /// Frames of a transmit ring.
    pub transmit: Option<u32>,
    /// The maximum.
    pub transmit_maximum: Option<u32>,
}

/// Interrupt coalescing. `None` means not supported by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Microseconds after the first frame received.
    pub receive_microseconds: Option<u32>,
    /// Frames received.
    pub receive_frames: Option<u32>,
    /// Microseconds after the first frame sent.
    pub transmit_microseconds: Option<u32>,
    /// Whether the driver adapts the above to the load.
    pub adaptive_receive: bool,
}

/// The first attribute of every request and reply: the device (`ETHTOOL_A_*_HEADER`).
const HEADER: u16 = 1;
/// `ETHTOOL_A_HEADER_DEV_NAME`.
const DEVICE_NAME: u16 = 2;

/// The source of what that family reports.
pub(crate) const ETHTOOL: &str = "ethtool netlink";

/// An open connection to the kernel's ethtool family.
pub(crate) struct Ethtool {
    family: Generic,
}

impl Ethtool {
    /// Opens a socket in the calling thread's network namespace.
    pub(crate) fn open() -> Result<Self, HostError> {
        Ok(Self {
            family: Generic::open("ethtool")?,
        })
    }

    // The numbers below are those of messages (`ETHTOOL_MSG_*_GET`) and of attributes (`ETHTOOL_A_*`) of
    // `linux/ethtool_netlink.h`.

    /// Flow control; `None` if the device has none.
    pub(crate) fn pause(&mut self, device: &str) -> Result<Option<Pause>, HostError> {
        self.ask(device, 21, "flow control", |attributes| Pause {
            autonegotiate: flag_in(attributes, 2),
            receive: flag_in(attributes, 3),
            transmit: flag_in(attributes, 4),
        })
    }

    /// The active offloads, by the kernel's names (`ETHTOOL_A_FEATURES_ACTIVE`).
    pub(crate) fn features(&mut self, device: &str) -> Result<BTreeSet<String>, HostError> {
        let active = self.ask(device, 11, "offloads", |attributes| names_in(attributes, 4))?;
        Ok(active.unwrap_or_default())
    }

    /// The driver's private flags that are on, by its names; `rx-copybreak` and similar tunables are not included.
    /// `None` if it has none.
    pub(crate) fn private_flags(&mut self, device: &str) -> Result<Option<BTreeSet<String>>, HostError> {
        self.ask(device, 13, "private flags", |attributes| names_in(attributes, 2))
    }

    /// The number of queues; `None` if the driver does not report it.
    pub(crate) fn channels(&mut self, device: &str) -> Result<Option<Channels>, HostError> {
        self.ask(device, 17, "channels", |attributes| {
            // Zero values are omitted (`channels_fill_reply` in `net/ethtool/channels.c`).
            let number = |kind| number_in(attributes, kind).unwrap_or(0);
            Channels {
                receive: number(6),
                receive_maximum: number(2),
                transmit: number(7),
                transmit_maximum: number(3),
                combined: number(9),
                combined_maximum: number(5),
            }
        })
    }

    /// The ring sizes; `None` if the driver does not report them.
    pub(crate) fn rings(&mut self, device: &str) -> Result<Option<Rings>, HostError> {
        self.ask(device, 15, "rings", |attributes| Rings {
            receive: number_in(attributes, 6),
            receive_maximum: number_in(attributes, 2),
            transmit: number_in(attributes, 9),
            transmit_maximum: number_in(attributes, 5),
        })
    }

    /// The coalescing settings; `None` if the driver does not report them.
    pub(crate) fn coalescing(&mut self, device: &str) -> Result<Option<Coalescing>, HostError> {
        self.ask(device, 19, "interrupt coalescing", |attributes| Coalescing {
            receive_microseconds: number_in(attributes, 2),
            receive_frames: number_in(attributes, 3),
            transmit_microseconds: number_in(attributes, 6),
            adaptive_receive: flag_in(attributes, 11),
        })
    }

    /// The numbers of the additional RSS contexts, ascending; the default context, 0, is not included. Kernels before
    /// Linux 6.12 reject the listing.
    pub(crate) fn contexts(&mut self, device: &str) -> Result<Option<BTreeSet<u32>>, HostError> {
        let step = format!("the RSS contexts of device {device}");
        let dumped = offered(self.family.dump(&step, 38, header(device)))?;
        // Kernels that do not filter dump every device.
        let own = |answer: &&Vec<u8>| {
            let header = first(answer, HEADER).unwrap_or_default();
            text_in(&header, DEVICE_NAME).as_deref() == Some(device)
        };
        Ok(dumped.map(|answers| {
            let contexts = answers.iter().filter(own);
            let contexts = contexts.filter_map(|answer| number_in(answer, 2));
            contexts.filter(|context| *context != 0).collect()
        }))
    }

    /// Reads the attributes of the kernel's reply about `device`; `None` if the driver does not support the request.
    fn ask<T>(
        &mut self,
        device: &str,
        command: u8,
        what: &str,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, HostError> {
        let step = format!("{what} of device {device}");
        let answer = offered(self.family.ask(&step, command, header(device)))?;
        Ok(answer.map(|attributes| read(&attributes)))
    }
}

/// The attribute that names the device of a request.
fn header(device: &str) -> Vec<u8> {
    nest(HEADER, text(DEVICE_NAME, device))
}

/// A reply, or `None` if the kernel reports that the driver does not support the request.
fn offered<T>(answer: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match answer {
        Err(HostError::Netlink { cause, .. }) if cause.kind() == io::ErrorKind::Unsupported => Ok(None),
        answer => answer.map(Some),
    }
}

/// The names of the bits set in the bitsets of one kind. With `ETHTOOL_A_BITSET_NOMASK` (1) the kernel lists only set bits;
/// without it, all bits, the set ones with a value (`ETHTOOL_A_BITSET_BIT_VALUE`, 3). `ETHTOOL_A_BITSET_BITS` (3) holds
/// the bits (1), each with its name (2).
fn names_in(attributes: &[u8], kind: u16) -> BTreeSet<String> {
    let bitsets = inside(attributes, kind);
    bitsets
        .iter()
        .flat_map(|bitset| names_of_bitset(bitset))
        .collect()
}

fn names_of_bitset(bitset: &[u8]) -> BTreeSet<String> {
    let all_are_set = first(bitset, 1).is_some();
    let bits = inside(bitset, 3);
    let bits = bits.iter().flat_map(|bits| inside(bits, 1));
    let set = bits.filter(|bit| all_are_set || first(bit, 3).is_some());
    set.filter_map(|bit| text_in(&bit, 2)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::attributes::number;

    #[test]
    fn the_loopback_device_has_offloads_and_no_flow_control() {
        let features = Ethtool::open().unwrap().features("lo").unwrap();
        assert!(features.contains("tx-generic-segmentation"), "{features:?}");
        assert_eq!(Ethtool::open().unwrap().pause("lo").unwrap(), None);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        for refusal in [
            Ethtool::open()
                .unwrap()
                .features("no-such-device")
                .map(drop)
                .unwrap_err(),
            Ethtool::open()
                .unwrap()
                .pause("no-such-device")
                .map(drop)
                .unwrap_err(),
        ] {
            assert!(refusal.to_string().contains("no-such-device"), "{refusal}");
        }
    }

    #[test]
    fn a_bitset_with_a_mask_names_only_the_bits_that_are_set() {
        let bit = |name, set| {
            let value = if set { nest(3, Vec::new()) } else { Vec::new() };
            nest(1, [text(2, name), value].concat())
        };
        let bits = nest(3, [bit("on", true), bit("off", false)].concat());
        assert_eq!(names_of_bitset(&bits), BTreeSet::from(["on".to_owned()]));
        let listed = [nest(1, Vec::new()), number(2, 2), bits].concat();
        assert_eq!(names_of_bitset(&listed).len(), 2);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_bitset_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            names_of_bitset(&bytes);
        }
    }
}
