//! The mailbox from a reader to one worker: datagrams by value, in order, through a bounded ring that neither side waits
//! for. What does not fit is refused, and the reader counts it.
//!
//! In: [`Outbox::post`]. Out: [`Inbox::take`].

use corelane_worker::engine::Datagram;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes that a mailbox holds, headers included: some 1,900 datagrams of the posts' 510 bytes, a few milliseconds of one
/// worker's rate, as a socket buffer of 4 MiB holds some 3,200 of them.
const MAILBOX_BYTES: usize = 1 << 20;

/// Bytes before each payload: length (2), flags (1), unused (1), port (2), unused (2), address (16), IPv6 flow information
/// (4) and scope (4), in the machine's own byte order.
const HEADER_BYTES: usize = 32;

/// Flags of a header.
const TRUNCATED: u8 = 1;
const IPV6: u8 = 2;

/// The reader's end.
pub(super) struct Outbox(rtrb::Producer<u8>);

/// The worker's end.
pub(super) struct Inbox {
    ring: rtrb::Consumer<u8>,
    /// The payload being looked at: in the ring it may lie in two pieces.
    payload: Vec<u8>,
}

/// The mailbox has no room for the datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// An empty mailbox.
pub(super) fn new() -> (Outbox, Inbox) {
    let (producer, consumer) = rtrb::RingBuffer::new(MAILBOX_BYTES);
    let inbox = Inbox {
        ring: consumer,
        payload: Vec::new(),
    };
    (Outbox(producer), inbox)
}

impl Outbox {
    /// Copies a datagram into the mailbox.
    pub(super) fn post(&mut self, datagram: &Datagram<'_>) -> Result<(), Full> {
        let Ok(length) = u16::try_from(datagram.payload.len()) else {
            return Err(Full);
        };
        let bytes = HEADER_BYTES + usize::from(length);
        let mut chunk = self.0.write_chunk(bytes).map_err(|_| Full)?;
        let (first, second) = chunk.as_mut_slices();
        let header = header(datagram, length);
        for (at, part) in [(0, &header[..]), (HEADER_BYTES, datagram.payload)] {
            write(first, second, at, part);
        }
        chunk.commit_all();
        Ok(())
    }
}

impl Inbox {
    /// Takes the oldest datagram out, if there is one.
    pub(super) fn take(&mut self) -> Option<Datagram<'_>> {
        let mut header = [0; HEADER_BYTES];
        self.ring.pop_entire_slice(&mut header).ok()?;
        let (peer, length, truncated) = read(&header);
        self.payload.resize(length, 0);
        self.ring
            .pop_entire_slice(&mut self.payload)
            .expect("header and payload are committed together");
        Some(Datagram {
            peer,
            payload: &self.payload,
            truncated,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether the reader is gone and everything it posted was taken.
    pub(super) fn is_finished(&self) -> bool {
        // In this order: what was posted before the reader left is seen.
        self.ring.is_abandoned() && self.ring.is_empty()
    }
}

/// Writes `part` at `at` of two slices that follow each other.
fn write(first: &mut [u8], second: &mut [u8], at: usize, part: &[u8]) {
    let in_first = first.len().saturating_sub(at).min(part.len());
    if in_first > 0 {
        first[at..at + in_first].copy_from_slice(&part[..in_first]);
    }
    let rest = &part[in_first..];
    if !rest.is_empty() {
        let at = at + in_first - first.len();
        second[at..at + rest.len()].copy_from_slice(rest);
    }
}

fn header(datagram: &Datagram<'_>, length: u16) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&length.to_ne_bytes());
    header[4..6].copy_from_slice(&datagram.peer.port().to_ne_bytes());
    let mut flags = if datagram.truncated { TRUNCATED } else { 0 };
    match datagram.peer {
        SocketAddr::V4(peer) => header[8..12].copy_from_slice(&peer.ip().octets()),
        SocketAddr::V6(peer) => {
            flags |= IPV6;
            header[8..24].copy_from_slice(&peer.ip().octets());
            header[24..28].copy_from_slice(&peer.flowinfo().to_ne_bytes());
            header[28..].copy_from_slice(&peer.scope_id().to_ne_bytes());
        }
    }
    header[2] = flags;
    header
}

fn read(header: &[u8; HEADER_BYTES]) -> (SocketAddr, usize, bool) {
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let peer = if header[2] & IPV6 == 0 {
        let address = Ipv4Addr::new(header[8], header[9], header[10], header[11]);
        SocketAddr::new(IpAddr::V4(address), half(4))
    } else {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[8..24]);
        SocketAddr::V6(SocketAddrV6::new(
            Ipv6Addr::from(octets),
            half(4),
            word(24),
            word(28),
        ))
    };
    (peer, usize::from(half(0)), header[2] & TRUNCATED != 0)
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
            };
            if outbox.post(&datagram) == Ok(()) {
                posted += 1;
                continue;
            }
            let datagram = inbox.take().unwrap();
            assert_eq!(datagram.peer, PEERS[taken % PEERS.len()].parse().unwrap());
            assert_eq!(datagram.payload.len(), size(taken));
            assert!(
                datagram
                    .payload
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| *byte == (at + taken) as u8)
            );
            assert_eq!(datagram.truncated, taken % 5 == 0);
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
        };
        let held = (0..).take_while(|_| outbox.post(&datagram).is_ok()).count();
        assert_eq!(held, MAILBOX_BYTES / (HEADER_BYTES + 510));
        drop(outbox);
        for _ in 0..held {
            assert!(!inbox.is_finished());
            assert_eq!(inbox.take().unwrap().payload, [7; 510]);
        }
        assert!(inbox.take().is_none() && inbox.is_finished());
    }
}
