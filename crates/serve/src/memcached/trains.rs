//! Answers to one client that are sent together. The kernel takes a piece and splits it into datagrams of one size, of which the last may be
//! shorter. So answers to requests that came in one piece are sent longest first; others in the order of their requests.

use super::frames::Answer;
use corelane_proto::memcached::udp::{self, HEADER_BYTES};
use corelane_worker::engine::{Datagram, Id, Ops};
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes of answers that are sent together, without the last one; their capacity is kept.
const MOST: usize = 64 << 10;

/// Who asked.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) socket: Id,
    pub(super) from: Datagram<'static>,
    pub(super) number: u16,
}

impl Asked {
    /// Whether the answers to both are sent together: from one address to one client, which both sent in one piece or not.
    #[inline]
    fn is_beside(&self, other: &Self) -> bool {
        let of = |asked: &Self| {
            (
                asked.socket,
                asked.from.peer,
                asked.from.destination,
                asked.from.merged,
            )
        };
        of(self) == of(other)
    }
}

/// Answers to one client.
#[derive(Default)]
pub(super) struct Train {
    /// The last that asked.
    asked: Option<Asked>,
    /// All of them; the one that is written is the last.
    answer: Answer,
    /// The numbers of the requests that are answered, and where the answers are.
    answered: Vec<(u16, Range<usize>)>,
}

impl Train {
    /// Where the answer to a request is written, of at most so many bytes. What another client gets is sent before.
    #[inline]
    pub(super) fn begin(&mut self, ops: &mut Ops, asked: Asked, most: usize) -> &mut Answer {
        let is_beside = self.asked.is_some_and(|last| last.is_beside(&asked));
        if !is_beside || self.answer.all().1 > MOST {
            self.send(ops);
        }
        self.asked = Some(asked);
        self.answer.follow(most);
        &mut self.answer
    }

    /// The answer that was written last.
    pub(super) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Takes the answer that was written last.
    #[inline]
    pub(super) fn add(&mut self, number: u16) {
        let (all, start) = self.answer.all();
        self.answered.push((number, start..all.len()));
    }

    /// Leaves out the answer that was written last.
    pub(super) fn withdraw(&mut self) {
        self.answer.withdraw();
    }

    /// Sends the answers.
    pub(super) fn send(&mut self, ops: &mut Ops) {
        if let Some(asked) = self.asked.take() {
            if asked.from.merged {
                self.answered.sort_by_key(|(_, range)| Reverse(range.len()));
            }
            for (number, range) in self.answered.drain(..) {
                send(ops, Asked { number, ..asked }, &self.answer.all().0[range]);
            }
            self.answer.clear(MOST);
        }
    }
}

/// Sends an answer. What the engine has no room for is lost, as datagrams may be.
pub(super) fn send(ops: &mut Ops, asked: Asked, answer: &[u8]) {
    let Asked { socket, from, number } = asked;
    for (header, part) in udp::datagrams(number, answer) {
        let length = HEADER_BYTES + part.len();
        let sent = ops.send_from(socket, from.destination, Some(from.peer), length, |room| {
            let (head, rest) = room.split_at_mut(HEADER_BYTES);
            head.copy_from_slice(&header.bytes());
            rest.copy_from_slice(part);
        });
        if sent.is_err() {
            return;
        }
    }
}
