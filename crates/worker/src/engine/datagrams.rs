//! Received datagrams, lent to the handler. Input: messages of the kernel. Output: single datagrams.

use crate::system::memory::Pages;
use std::net::SocketAddr;

/// One datagram, lent for the duration of the event.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The sender.
    pub peer: SocketAddr,
    /// Its payload, truncated to [`receive_buffer_bytes`](super::EngineSettings::receive_buffer_bytes).
    pub payload: &'a [u8],
    /// Whether the payload was truncated.
    pub truncated: bool,
    /// The address that it was sent to, and the socket's port; `None` unless the engine and its sockets report
    /// [`destinations`](super::EngineSettings::destinations). Of an IPv4 datagram this is the IPv4 address, also if a
    /// socket of both families reports `peer` as a mapped one. [`Ops::send_from`](super::Ops::send_from) takes it.
    pub destination: Option<SocketAddr>,
    /// Whether that is a broadcast or multicast address.
    pub broadcast: bool,
    /// Whether the kernel received it in one piece with others of the same sender (`UDP_GRO`).
    pub merged: bool,
}

impl Datagram<'_> {
    /// The datagram without its payload, to be kept or passed on.
    #[must_use]
    pub const fn head(&self) -> Datagram<'static> {
        Datagram {
            peer: self.peer,
            payload: &[],
            truncated: self.truncated,
            destination: self.destination,
            broadcast: self.broadcast,
            merged: self.merged,
        }
    }
}

/// The datagrams of one event, in the order in which the socket received them.
///
/// Datagrams that the kernel merged on receive (`UDP_GRO`) are split again: every item is a datagram as it was sent.
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    memory: &'a Pages,
    messages: std::slice::Iter<'a, Message>,
    /// The message of the last datagram, and how many of its bytes follow.
    last: Option<&'a Message>,
    left: u32,
    /// The socket's port.
    port: u16,
}

/// One message of the kernel: a datagram, or several contiguous ones of one peer and size (the last may be shorter).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) peer: SocketAddr,
    /// The offset of the payload in the engine's receive memory.
    pub(crate) offset: usize,
    /// Bytes received, merged datagrams included.
    pub(crate) length: u32,
    /// Bytes of each merged datagram; 0 for a single one.
    pub(crate) segment: u32,
    /// Its port is 0.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) broadcast: bool,
    pub(crate) truncated: bool,
}

impl Message {
    /// The number of datagrams in the message.
    pub(crate) fn datagrams(&self) -> u64 {
        match self.segment {
            0 => 1,
            segment => u64::from(self.length.div_ceil(segment).max(1)),
        }
    }
}

impl<'a> Datagrams<'a> {
    pub(crate) fn new(memory: &'a Pages, messages: &'a [Message], port: u16) -> Self {
        Self {
            memory,
            messages: messages.iter(),
            last: None,
            left: 0,
            port,
        }
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datagram<'a>> {
        let message = match self.last {
            Some(message) if self.left > 0 => message,
            _ => {
                let message = self.messages.next()?;
                (self.last, self.left) = (Some(message), message.length);
                message
            }
        };
        let length = match message.segment {
            0 => message.length,
            segment => segment.min(self.left),
        };
        let start = message.offset + (message.length - self.left) as usize;
        self.left -= length;
        Some(Datagram {
            peer: message.peer,
            payload: self.memory.bytes(start..start + length as usize),
            truncated: message.truncated && self.left == 0,
            destination: message.destination.map(|mut destination| {
                destination.set_port(self.port);
                destination
            }),
            broadcast: message.broadcast,
            merged: message.segment > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(offset: usize, length: u32, segment: u32, truncated: bool) -> Message {
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        Message {
            peer,
            offset,
            length,
            segment,
            destination: None,
            broadcast: false,
            truncated,
        }
    }

    #[test]
    fn merged_datagrams_are_split_the_last_one_shorter() {
        let memory = Pages::new(4_096).unwrap();
        let messages = [
            message(0, 10, 0, false),
            message(64, 25, 10, true),
            message(128, 0, 0, false),
        ];
        let seen: Vec<_> = Datagrams::new(&memory, &messages, 0)
            .map(|datagram| (datagram.payload.len(), datagram.truncated))
            .collect();
        assert_eq!(
            seen,
            [(10, false), (10, false), (10, false), (5, true), (0, false)]
        );
    }

    proptest! {
        #[test]
        fn splitting_loses_no_byte_and_counts_correctly(length in 0u32..9_000, segment in 0u32..3_000) {
            let mut memory = Pages::new(9_000).unwrap();
            for (index, byte) in memory.bytes_mut(0..9_000).iter_mut().enumerate() {
                *byte = index as u8;
            }
            let messages = [message(0, length, segment, false)];
            let parts: Vec<_> = Datagrams::new(&memory, &messages, 0).collect();
            let whole: Vec<u8> = parts.iter().flat_map(|part| part.payload).copied().collect();
            prop_assert_eq!(whole, memory.bytes(0..length as usize));
            prop_assert_eq!(parts.len() as u64, messages[0].datagrams());
        }
    }
}
