//! The answer to one datagram: it is sent whole or not at all, so its size is bounded before it is written.

use crate::reflection::is_local;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::udp::{DATA_BYTES, HEADER_BYTES};
use std::net::IpAddr;

/// Most bytes of an answer, with its frames: the default largest item has room. Longer ones hardly ever arrive whole, because
/// they do not fit into the receive buffer of a socket.
const LARGEST: usize = 1 << 20;

/// Most bytes of an answer per byte of its request, with frames, if the sender's address may be forged: nothing proves that it
/// asked. That is the limit of QUIC (RFC 9000 8.1), with which reflection does not pay. Spaces at the end of a line make a
/// request longer.
const MULTIPLE: usize = 3;

/// Capacity that is kept for the next answer: each request that waits for other workers has one.
const KEPT: usize = 4 << 10;

/// Most bytes of the answer to a request of `request` bytes, frames included. Addresses of the own networks count as proven:
/// routers let none of them in from outside.
pub(super) fn most(sender: IpAddr, request: usize) -> usize {
    if is_local(sender) {
        LARGEST
    } else {
        LARGEST.min(MULTIPLE * request)
    }
}

/// An answer of limited size.
#[derive(Default)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    /// Where it begins; what is in front of it are others.
    start: usize,
    most: usize,
    /// Something found no room: what is there must not be sent.
    is_cut: bool,
}

impl Answer {
    /// Begins an answer of at most so many bytes.
    pub(super) fn begin(&mut self, most: usize) {
        self.clear(KEPT);
        self.follow(most);
    }

    /// Removes all that is written; more capacity than `kept` is released.
    pub(super) fn clear(&mut self, kept: usize) {
        if self.bytes.capacity() > kept {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
    }

    /// Begins an answer of at most so many bytes behind what is written.
    #[inline]
    pub(super) fn follow(&mut self, most: usize) {
        (self.start, self.most, self.is_cut) = (self.bytes.len(), most, false);
    }

    /// Removes the answer, not what is in front of it.
    pub(super) fn withdraw(&mut self) {
        self.bytes.truncate(self.start);
    }

    /// Whether the answer cannot be sent, or could not if so many bytes followed.
    #[inline]
    pub(super) fn exceeds(&self, more: usize) -> bool {
        let length = self.bytes.len() - self.start + more;
        self.is_cut || length + length.div_ceil(DATA_BYTES) * HEADER_BYTES > self.most
    }

    /// What is written of it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// All that is written, and where the answer begins in it.
    pub(super) fn all(&self) -> (&[u8], usize) {
        (&self.bytes, self.start)
    }
}

impl Output for Answer {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if self.exceeds(bytes.len()) {
            self.is_cut = true;
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn put_all<const PIECES: usize>(&mut self, pieces: [&[u8]; PIECES]) {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if self.exceeds(length) {
            self.is_cut = true;
            return;
        }
        self.bytes.reserve(length);
        pieces
            .iter()
            .for_each(|piece| self.bytes.extend_from_slice(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_may_be_forged_gets_a_multiple_of_its_request_and_the_own_networks_any_item() {
        let (public, own) = ([192, 0, 2, 1].into(), [10, 0, 0, 1].into());
        assert_eq!(most(public, 20), 60);
        assert_eq!(most(public, usize::MAX / MULTIPLE), LARGEST);
        assert_eq!(most(own, 20), LARGEST);
    }

    #[test]
    fn an_answer_has_room_with_its_frames_or_is_cut() {
        let mut answer = Answer::default();
        let with = |answer: &mut Answer, most: usize, length: usize| {
            answer.begin(most);
            answer.put(&vec![b'x'; length]);
            (answer.exceeds(0), answer.bytes().len())
        };
        assert_eq!(with(&mut answer, 60, 52), (false, 52));
        assert_eq!(with(&mut answer, 60, 53), (true, 0));
        // Two frames.
        assert_eq!(with(&mut answer, 1_416, 1_400), (false, 1_400));
        assert_eq!(with(&mut answer, 1_415, 1_400), (true, 0));
        // What is small enough does not follow what was not.
        answer.put(b"y");
        assert_eq!((answer.exceeds(0), answer.bytes()), (true, &b""[..]));
        assert_eq!(with(&mut answer, LARGEST, 1 << 19), (false, 1 << 19));
        answer.begin(LARGEST);
        assert!(answer.bytes.capacity() <= KEPT);
        // Behind another one.
        answer.put(b"first");
        answer.follow(60);
        answer.put(&[b'x'; 53]);
        assert_eq!((answer.exceeds(0), answer.bytes()), (true, &b""[..]));
        answer.follow(60);
        answer.put(&[b'x'; 52]);
        assert_eq!((answer.exceeds(0), answer.bytes().len()), (false, 52));
        answer.withdraw();
        assert_eq!(answer.all(), (&b"first"[..], 5));
    }
}
