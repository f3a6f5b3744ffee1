//! Blocking netlink requests.
//!
//! Input: a message of any protocol. Output: the kernel's replies, or its error. The socket belongs to the network
//! namespace of the thread that opened it.

pub(crate) mod attributes;
mod generic;
pub(crate) mod links;

pub(crate) use generic::Generic;

use std::io;

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// A netlink socket and the number of its latest request.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket of `protocol`, such as [`netlink_sys::protocols::NETLINK_ROUTE`].
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_cap_ack(true)?;
        socket.set_ext_ack(true)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends `message` and returns the kernel's replies up to its acknowledgement.
    ///
    /// `flags` are added to `NLM_F_REQUEST | NLM_F_ACK`; with `NLM_F_DUMP` the replies are those before the dump's end.
    pub(crate) fn request(&mut self, message: Raw, flags: u16) -> io::Result<Vec<Raw>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        self.answers()
    }

    /// Collects replies to the latest request up to its acknowledgement.
    fn answers(&self) -> io::Result<Vec<Raw>> {
        let mut answers = Vec::new();
        loop {
            let datagram = match self.socket.recv_from_full() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?.0,
            };
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                // The claimed length, checked against what arrived.
                let length = NetlinkBuffer::new_checked(rest).map_err(malformed)?.length() as usize;
                let message = NetlinkMessage::<Raw>::deserialize(&rest[..length]).map_err(malformed)?;
                // Messages in one datagram are aligned to four bytes (`NLMSG_ALIGNTO`).
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Error(status) => match status.code {
                        None => return Ok(answers),
                        Some(_) => return Err(refusal(&status)),
                    },
                    // A failed dump reports the error in its last message (`netlink_dump_done` in
                    // `net/netlink/af_netlink.c`).
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(io::Error::from_raw_os_error(-done.code));
                    }
                    NetlinkPayload::Done(_) => return Ok(answers),
                    _ => {}
                }
            }
        }
    }
}

/// A request or reply, in wire format: a header of the protocol, then attributes.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) kind: u16,
    pub(crate) bytes: Vec<u8>,
}

impl Raw {
    /// The header, of this length, and the attributes; `None` if the message is of another kind or cut off.
    pub(crate) fn parts(&self, kind: u16, header: usize) -> Option<(&[u8], &[u8])> {
        let parts = self.bytes.split_at_checked(header)?;
        (self.kind == kind).then_some(parts)
    }
}

impl NetlinkSerializable for Raw {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.bytes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.bytes);
    }
}

impl NetlinkDeserializable for Raw {
    type Error = io::Error;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> io::Result<Self> {
        Ok(Self {
            kind: header.message_type,
            bytes: payload.to_vec(),
        })
    }
}

/// The error number and the kernel's error text, if any.
///
/// With `NETLINK_CAP_ACK` the reply contains the 16 bytes of the request's header followed by attributes, of which
/// `NLMSGERR_ATTR_MSG` (1) is the text (`Documentation/userspace-api/netlink/intro.rst`, "Ext ACK").
fn refusal(status: &ErrorMessage) -> io::Error {
    const REQUEST_HEADER_LENGTH: usize = 16;
    const ATTRIBUTE_MESSAGE: u16 = 1;
    let error = status.to_io();
    let attributes = status.header.get(REQUEST_HEADER_LENGTH..).unwrap_or(&[]);
    let sentence = attributes::text_in(attributes, ATTRIBUTE_MESSAGE);
    match sentence {
        Some(sentence) => io::Error::new(error.kind(), format!("{error}: {sentence}")),
        None => error,
    }
}

fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
