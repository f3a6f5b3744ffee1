//! One blocking exchange with the kernel over netlink.
//!
//! What enters: a message of any protocol of the `netlink-packet` family. What leaves: the kernel's answers, or the
//! error it gave. The socket belongs to the network namespace of the thread that opened it.

pub(crate) mod attributes;
mod generic;

pub(crate) use generic::Generic;

use std::fmt::Debug;
use std::io;

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator, parse_string,
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

    /// Sends `message` and returns what the kernel answers before its acknowledgement.
    ///
    /// `flags` are added to `NLM_F_REQUEST | NLM_F_ACK`; with `NLM_F_DUMP` the answers are those before the dump's end.
    pub(crate) fn request<M>(&mut self, message: M, flags: u16) -> io::Result<Vec<M>>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
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

    /// Collects answers to the latest request up to its acknowledgement.
    fn answers<M: NetlinkDeserializable + Debug>(&self) -> io::Result<Vec<M>> {
        let mut answers = Vec::new();
        loop {
            let datagram = match self.socket.recv_from_full() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                received => received?.0,
            };
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let length = length_of_first(rest)?;
                let message = NetlinkMessage::<M>::deserialize(&rest[..length]).map_err(malformed)?;
                rest = &rest[padded(length).min(rest.len())..];
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Error(status) => match status.code {
                        None => return Ok(answers),
                        Some(_) => return Err(refusal(&status)),
                    },
                    // A dump that failed says so in its last message (`netlink_dump_done` in `net/netlink/af_netlink.c`).
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

/// The error number and, where the kernel gives one, its own sentence about it.
///
/// With `NETLINK_CAP_ACK` the answer holds the 16 bytes of the request's header and then attributes, of which
/// `NLMSGERR_ATTR_MSG` (1) is that sentence (`Documentation/userspace-api/netlink/intro.rst`, "Ext ACK").
fn refusal(status: &ErrorMessage) -> io::Error {
    const REQUEST_HEADER_LENGTH: usize = 16;
    const ATTRIBUTE_MESSAGE: u16 = 1;
    let error = status.to_io();
    let attributes = status.header.get(REQUEST_HEADER_LENGTH..).unwrap_or(&[]);
    let sentence = NlasIterator::new(attributes)
        .filter_map(Result::ok)
        .find(|attribute| attribute.kind() == ATTRIBUTE_MESSAGE)
        .and_then(|attribute| parse_string(attribute.value()).ok());
    match sentence {
        Some(sentence) => io::Error::new(error.kind(), format!("{error}: {sentence}")),
        None => error,
    }
}

/// The length the first message in a datagram claims, checked against what arrived.
fn length_of_first(bytes: &[u8]) -> io::Result<usize> {
    let buffer = NetlinkBuffer::new_checked(bytes).map_err(malformed)?;
    usize::try_from(buffer.length()).map_err(malformed)
}

/// Messages in one datagram are aligned to four bytes (`NLMSG_ALIGNTO`).
fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
