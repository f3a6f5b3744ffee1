//! Generic netlink: sends a command with attributes to one family, returns the attributes of the replies.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, parse_u16};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::attributes::{first, text};
use super::{Netlink, Raw};
use crate::HostError;

/// The version of the families used here (`ETHTOOL_GENL_VERSION`, `NETDEV_FAMILY_VERSION`).
const VERSION: u8 = 1;

/// Bytes of `struct genlmsghdr` of `linux/genetlink.h`: command, version, two reserved.
const HEADER: usize = 4;

/// An open connection to one generic netlink family.
pub(crate) struct Generic {
    netlink: Netlink,
    family: u16,
}

impl Generic {
    /// Opens a socket in the calling thread's network namespace and looks up the family's number.
    ///
    /// # Errors
    ///
    /// [`HostError::Netlink`] if the kernel does not have the family.
    pub(crate) fn open(name: &str) -> Result<Self, HostError> {
        let step = format!("the {name} family");
        let mut exchange = Self {
            netlink: Netlink::open(NETLINK_GENERIC).map_err(HostError::netlink(step.as_str()))?,
            family: libc::GENL_ID_CTRL as u16,
        };
        let answer = exchange.ask(
            &step,
            libc::CTRL_CMD_GETFAMILY as u8,
            text(libc::CTRL_ATTR_FAMILY_NAME as u16, name),
        )?;
        let family =
            first(&answer, libc::CTRL_ATTR_FAMILY_ID as u16).and_then(|bytes| parse_u16(&bytes).ok());
        exchange.family = family.ok_or_else(|| HostError::netlink(step)(io::ErrorKind::NotFound.into()))?;
        Ok(exchange)
    }

    /// Queries one object: the attributes of the first reply, empty if there is none.
    ///
    /// # Errors
    ///
    /// [`HostError::Netlink`] with `step`.
    pub(crate) fn ask(&mut self, step: &str, command: u8, attributes: Vec<u8>) -> Result<Vec<u8>, HostError> {
        let answers = self.request(step, command, attributes, 0)?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// Queries all objects: the attributes of every reply.
    ///
    /// # Errors
    ///
    /// Same as [`Generic::ask`].
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
