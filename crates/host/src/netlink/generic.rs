//! One family of generic netlink: a command and its attributes enter, the attributes of the kernel's answers leave.

use std::io;

use netlink_packet_core::{DecodeError, Emitable, NLM_F_DUMP, ParseableParametrized};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;

use super::Netlink;
use crate::HostError;

/// The version of the families that this room asks (`ETHTOOL_GENL_VERSION`, `NETDEV_FAMILY_VERSION`).
const VERSION: u8 = 1;

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
    pub(crate) fn open(name: &'static str) -> Result<Self, HostError> {
        let failed = |cause| HostError::Netlink {
            step: format!("the {name} family"),
            cause,
        };
        let mut netlink = Netlink::open(NETLINK_GENERIC).map_err(failed)?;
        let ask = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName(name.to_owned())],
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
        let mut ask = GenlMessage::from_payload(Message { command, attributes });
        ask.set_resolved_family_id(self.family);
        let answers = self
            .netlink
            .request(ask, flags)
            .map_err(|cause| HostError::Netlink {
                step: step.to_owned(),
                cause,
            })?;
        Ok(answers
            .into_iter()
            .map(|answer| answer.payload.attributes)
            .collect())
    }
}

/// A request or answer of any family, its attributes as they stand on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    command: u8,
    attributes: Vec<u8>,
}

impl GenlFamily for Message {
    /// Not looked at: the number of the family is set by hand.
    fn family_name() -> &'static str {
        "any"
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
