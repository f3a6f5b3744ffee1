//! The mailbox from a reader to one worker: datagrams by value, in order, in bounded lock-free rings. A datagram that
//! does not fit is rejected, and counted by the reader.
//!
//! In: [`Outbox::post`]. Out: [`Inbox::take`].

use corelane_worker::engine::Datagram;
use rtrb::{Consumer, Producer, RingBuffer};
use std::net::SocketAddr;

/// Payload capacity of a mailbox: some 2,000 datagrams of the posts' 510 bytes, a few milliseconds at one worker's
/// rate; a socket buffer of 4 MiB holds some 3,200 of them.
const MAILBOX_BYTES: usize = 1 << 20;

/// Maximum number of datagrams in a mailbox, however short they are.
const MAILBOX_DATAGRAMS: usize = MAILBOX_BYTES / 64;

/// A datagram without its payload, which is in the other ring.
struct Header {
    peer: SocketAddr,
    length: usize,
    truncated: bool,
    destination: Option<SocketAddr>,
    broadcast: bool,
}

/// The reader's end.
pub(super) struct Outbox {
    headers: Producer<Header>,
    payloads: Producer<u8>,
}

/// The worker's end.
pub(super) struct Inbox {
    headers: Consumer<Header>,
    payloads: Consumer<u8>,
    /// The current payload, made contiguous: in the ring it may wrap.
    payload: Vec<u8>,
}

/// The mailbox has no room for the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// An empty mailbox.
pub(super) fn new() -> (Outbox, Inbox) {
    let (headers, taken_headers) = RingBuffer::new(MAILBOX_DATAGRAMS);
    let (payloads, taken_payloads) = RingBuffer::new(MAILBOX_BYTES);
    let inbox = Inbox {
        headers: taken_headers,
        payloads: taken_payloads,
        payload: Vec::new(),
    };
    (Outbox { headers, payloads }, inbox)
}

impl Outbox {
    /// Copies a datagram into the mailbox.
    pub(super) fn post(&mut self, datagram: &Datagram<'_>) -> Result<(), Full> {
        if self.headers.is_full() {
            return Err(Full);
        }
        self.payloads
            .push_entire_slice(datagram.payload)
            .map_err(|_| Full)?;
        // Pushed after its payload: a visible header implies a visible payload.
        let header = Header {
            peer: datagram.peer,
            length: datagram.payload.len(),
            truncated: datagram.truncated,
            destination: datagram.destination,
            broadcast: datagram.broadcast,
        };
        self.headers.push(header).map_err(|_| Full)
    }
}

impl Inbox {
    /// Removes and returns the oldest datagram, if any.
    pub(super) fn take(&mut self) -> Option<Datagram<'_>> {
        let header = self.headers.pop().ok()?;
        self.payload.resize(header.length, 0);
        self.payloads
            .pop_entire_slice(&mut self.payload)
            .expect("a payload is there before its header");
        Some(Datagram {
            peer: header.peer,
            payload: &self.payload,
            truncated: header.truncated,
            destination: header.destination,
            broadcast: header.broadcast,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Whether the reader has ended and the mailbox is empty.
    pub(super) fn is_finished(&self) -> bool {
        // In this order, so that datagrams posted before the reader ended are seen.
        self.headers.is_abandoned() && self.headers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEERS: [&str; 3] = ["10.11.2.3:4000", "[2001:db8::1]:65535", "0.0.0.0:0"];

    #[test]
    fn datagrams_come_out_in_order_and_whole_wherever_the_ring_wraps() {
        let (mut outbox, mut inbox) = new();
        let (mut posted, mut taken) = (0_usize, 0_usize);
        let size = |index: usize| index * 977 % 65_536;
        while taken < 2_000 {
            let payload: Vec<u8> = (0..size(posted)).map(|at| (at + posted) as u8).collect();
            let datagram = Datagram {
                peer: PEERS[posted % PEERS.len()].parse().unwrap(),
                payload: &payload,
                truncated: posted % 5 == 0,
                destination: (posted % 3 != 0).then(|| PEERS[posted % 2].parse().unwrap()),
                broadcast: posted % 7 == 0,
            };
            if outbox.post(&datagram) == Ok(()) {
                posted += 1;
                continue;
            }
            let datagram = inbox.take().unwrap();
            assert_eq!(datagram.peer, PEERS[taken % PEERS.len()].parse().unwrap());
            let destination = (taken % 3 != 0).then(|| PEERS[taken % 2].parse().unwrap());
            assert_eq!(datagram.destination, destination);
            assert_eq!(datagram.payload.len(), size(taken));
            assert!(
                datagram
                    .payload
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| *byte == (at + taken) as u8)
            );
            let flags = (datagram.truncated, datagram.broadcast);
            assert_eq!(flags, (taken % 5 == 0, taken % 7 == 0));
            taken += 1;
        }
    }

    #[test]
    fn a_full_mailbox_refuses_and_keeps_what_it_has() {
        let (mut outbox, mut inbox) = new();
        let datagram = Datagram {
            peer: PEERS[0].parse().unwrap(),
            payload: &[7; 510],
            truncated: false,
            destination: None,
            broadcast: false,
        };
        let held = (0..).take_while(|_| outbox.post(&datagram).is_ok()).count();
        assert_eq!(held, MAILBOX_BYTES / 510);
        drop(outbox);
        for _ in 0..held {
            assert!(!inbox.is_finished());
            assert_eq!(inbox.take().unwrap().payload, [7; 510]);
        }
        assert!(inbox.take().is_none() && inbox.is_finished());
    }

    #[test]
    fn empty_datagrams_fill_a_mailbox_too() {
        let (mut outbox, mut inbox) = new();
        let datagram = Datagram {
            peer: PEERS[1].parse().unwrap(),
            payload: &[],
            truncated: false,
            destination: None,
            broadcast: false,
        };
        let held = (0..).take_while(|_| outbox.post(&datagram).is_ok()).count();
        assert_eq!(held, MAILBOX_DATAGRAMS);
        assert_eq!(inbox.take().unwrap().peer, datagram.peer);
        assert_eq!(outbox.post(&datagram), Ok(()));
    }
}
