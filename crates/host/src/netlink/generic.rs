//! One family of generic netlink: a command and its attributes enter, the attributes of the kernel's answers leave.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, parse_u16};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::attributes::{first, text};
use super::{Netlink, Raw};
use crate::HostError;

/// The version of the families that this room asks (`ETHTOOL_GENL_VERSION`, `NETDEV_FAMILY_VERSION`).
const VERSION: u8 = 1;

/// Bytes of `struct genlmsghdr` of `linux/genetlink.h`: command, version, two of nothing.
const HEADER: usize = 4;

/// The family that knows the others, its command and attributes (`linux/genetlink.h`).
mod control {
    pub(super) const FAMILY: u16 = 16;
    pub(super) const GET_FAMILY: u8 = 3;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
}

/// An open exchange with one family of the kernel's.
pub(crate) struct Generic {
    netlink: Netlink,
    family: u16,
}

impl Generic {
    /// Opens a socket in the calling thread's network namespace and asks for the family's number.
    ///
    /// # Errors
    ///
    /// [`HostError::Netlink`] for kernels without the family.
    pub(crate) fn open(name: &str) -> Result<Self, HostError> {
        let step = format!("the {name} family");
        let mut exchange = Self {
            netlink: Netlink::open(NETLINK_GENERIC).map_err(HostError::netlink(step.as_str()))?,
            family: control::FAMILY,
        };
        let answer = exchange.ask(&step, control::GET_FAMILY, text(control::FAMILY_NAME, name))?;
        let family = first(&answer, control::FAMILY_ID).and_then(|bytes| parse_u16(&bytes).ok());
        exchange.family = family.ok_or_else(|| HostError::netlink(step)(io::ErrorKind::NotFound.into()))?;
        Ok(exchange)
    }

    /// Asks about one thing: the attributes of the first answer, none where there is no answer.
    ///
    /// # Errors
    ///
    /// [`HostError::Netlink`] that says `step`.
    pub(crate) fn ask(&mut self, step: &str, command: u8, attributes: Vec<u8>) -> Result<Vec<u8>, HostError> {
        let answers = self.request(step, command, attributes, 0)?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// Asks about all there are: the attributes of every answer.
    ///
    /// # Errors
    ///
    /// As [`Generic::ask`].
    pub(crate) fn dump(
        &mut self,
        step: &str,
        command: u8,
        attributes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, HostError> {
        self.request(step, command, attributes, NLM_F_DUMP)
    }

    fn request(
        &mut self,
        step: &str,
        command: u8,
        attributes: Vec<u8>,
        flags: u16,
    ) -> Result<Vec<Vec<u8>>, HostError> {
        let bytes = [vec![command, VERSION, 0, 0], attributes].concat();
        let kind = self.family;
        let answers = self.netlink.request(Raw { kind, bytes }, flags);
        let answers = answers.map_err(HostError::netlink(step))?.into_iter();
        Ok(answers
            .map(|answer| answer.bytes.get(HEADER..).unwrap_or_default().to_vec())
            .collect())
    }
}
