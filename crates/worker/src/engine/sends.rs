//! Datagrams waiting to be sent: one queue per socket, all in one list of runs over one arena.

use super::arena::Arena;
use super::chains::{Chain, Chains};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

/// The arena has no room for another datagram until some are sent. The datagram was not queued; the caller decides
/// whether to drop and count it or to retry after the next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the send arena is full: send again after the next turn, or raise arena_bytes")]
pub struct Full;

/// Maximum datagrams per `UDP_SEGMENT` send: `UDP_MAX_SEGMENTS` before Linux 6.9, which doubled it.
pub(crate) const MOST_SEGMENTS: u32 = 64;

/// Maximum bytes per send: 65,535 minus the headers of IPv4 (20 bytes) and UDP (8). IPv6 would allow 65,527.
pub(crate) const MOST_BYTES: u32 = 65_507;

/// Where a datagram goes and where it comes from, as far as the socket does not determine it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    /// The peer; none on a connected socket.
    pub(crate) peer: Option<SocketAddr>,
    /// The local address, whose port is ignored; none for that of the socket, or on a wildcard address the one that
    /// the routing table selects.
    pub(crate) source: Option<SocketAddr>,
}

/// One datagram, or several of one size with the same ends, contiguous in the arena; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) ends: Ends,
    start: u32,
    length: u32,
    /// Bytes of each datagram except the last.
    segment: u16,
    /// The number of datagrams in the run.
    pub(crate) datagrams: u16,
}

impl Run {
    /// The range of its bytes in the arena.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }

    /// The segment size; none for a single datagram.
    pub(crate) fn segment(&self) -> Option<u16> {
        (self.datagrams > 1).then_some(self.segment)
    }
}

/// The queue of one socket: its runs, and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    chain: Chain,
    pub(crate) runs: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self {
        chain: Chain::EMPTY,
        runs: 0,
    };
}

/// The runs of all sockets.
#[derive(Debug)]
pub(crate) struct Sends {
    pub(crate) arena: Arena,
    runs: Chains<Run>,
    coalesce: bool,
}

impl Sends {
    pub(crate) fn new(arena_bytes: usize, coalesce: bool) -> io::Result<Self> {
        Ok(Self {
            arena: Arena::new(arena_bytes)?,
            runs: Chains::new(),
            coalesce,
        })
    }

    /// Queues a datagram of `length` bytes, at most 65,535, that `fill` writes. Segments over `segment_limit` are not
    /// coalesced.
    pub(crate) fn push(
        &mut self,
        queue: &mut Queue,
        segment_limit: u16,
        ends: Ends,
        length: u16,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        let start = match self.lengthen(queue, segment_limit, ends, length) {
            Some(start) => start,
            None => self.append(queue, ends, length)?,
        };
        fill(self.arena.bytes_mut(start, usize::from(length)));
        Ok(())
    }

    /// Appends a datagram to the last run, if that has the same ends and the rules of `UDP_SEGMENT` allow it; returns
    /// the offset of its bytes.
    fn lengthen(&mut self, queue: &Queue, segment_limit: u16, ends: Ends, length: u16) -> Option<usize> {
        if !self.coalesce || length == 0 {
            return None;
        }
        let run = self.runs.last_mut(&queue.chain)?;
        let whole = u32::from(run.segment) * u32::from(run.datagrams) == run.length;
        let end = run.range().end;
        let joins = whole
            && length <= run.segment
            && run.segment <= segment_limit
            && run.ends == ends
            && u32::from(run.datagrams) < MOST_SEGMENTS
            && run.length + u32::from(length) <= MOST_BYTES
            && self.arena.extend(end, usize::from(length));
        if !joins {
            return None;
        }
        run.length += u32::from(length);
        run.datagrams += 1;
        Some(end)
    }

    fn append(&mut self, queue: &mut Queue, ends: Ends, length: u16) -> Result<usize, Full> {
        let start = self.arena.reserve(usize::from(length)).ok_or(Full)?;
        let run = Run {
            ends,
            start: start as u32,
            length: u32::from(length),
            segment: length,
            datagrams: 1,
        };
        self.runs.push(&mut queue.chain, run);
        queue.runs += 1;
        Ok(start)
    }

    /// The runs of a queue, first to last.
    pub(crate) fn iter<'a>(&'a self, queue: &Queue) -> impl Iterator<Item = &'a Run> + use<'a> {
        self.runs.iter(&queue.chain)
    }

    /// Removes the first run of a queue and releases its bytes.
    pub(crate) fn pop(&mut self, queue: &mut Queue) -> Option<Run> {
        let run = self.runs.pop(&mut queue.chain)?;
        queue.runs -= 1;
        self.arena.release(run.start as usize);
        Some(run)
    }

    /// Splits the first run, which the kernel refused to segment, into single datagrams, in order.
    pub(crate) fn split_first(&mut self, queue: &mut Queue) {
        let Some(run) = self.runs.pop(&mut queue.chain) else {
            return;
        };
        let pieces = u32::from(run.datagrams);
        self.arena.split(run.start as usize, pieces);
        let rest = std::mem::replace(&mut queue.chain, Chain::EMPTY);
        for piece in 0..pieces {
            let done = piece * u32::from(run.segment);
            let alone = Run {
                start: run.start + done,
                length: (run.length - done).min(u32::from(run.segment)),
                datagrams: 1,
                ..run
            };
            self.runs.push(&mut queue.chain, alone);
        }
        if !rest.is_empty() {
            self.runs.join(&mut queue.chain, rest);
        }
        queue.runs += pieces - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends {
        peer: None,
        source: None,
    };

    fn queued(sends: &Sends, queue: &Queue) -> Vec<(usize, u16)> {
        sends
            .iter(queue)
            .map(|run| (run.range().len(), run.datagrams))
            .collect()
    }

    fn push(sends: &mut Sends, queue: &mut Queue, length: u16) {
        sends
            .push(queue, u16::MAX, ENDS, length, |bytes| bytes.fill(length as u8))
            .unwrap();
    }

    #[test]
    fn equal_sizes_to_one_peer_become_one_run_that_a_shorter_one_ends() {
        let mut sends = Sends::new(1 << 20, true).unwrap();
        let mut queue = Queue::EMPTY;
        for length in [100, 100, 100, 40, 100, 200] {
            push(&mut sends, &mut queue, length);
        }
        assert_eq!(queued(&sends, &queue), [(340, 4), (100, 1), (200, 1)]);
    }

    #[test]
    fn a_run_holds_at_most_64_datagrams_and_65_507_bytes() {
        let mut sends = Sends::new(1 << 20, true).unwrap();
        let mut queue = Queue::EMPTY;
        (0..3).for_each(|_| push(&mut sends, &mut queue, 32_753));
        (0..66).for_each(|_| push(&mut sends, &mut queue, 10));
        // The first shorter segment ends the run.
        let expected = [(65_506, 2), (32_763, 2), (640, 64), (10, 1)];
        assert_eq!(queued(&sends, &queue), expected);
    }

    #[test]
    fn another_peer_and_another_source_begin_new_runs() {
        let mut sends = Sends::new(1 << 20, true).unwrap();
        let mut queue = Queue::EMPTY;
        push(&mut sends, &mut queue, 10);
        let address = Some(SocketAddr::from(([127, 0, 0, 1], 9)));
        let peer = Ends {
            peer: address,
            ..ENDS
        };
        let source = Ends {
            source: address,
            ..ENDS
        };
        for ends in [peer, source, source] {
            sends.push(&mut queue, u16::MAX, ends, 10, |_| {}).unwrap();
        }
        push(&mut sends, &mut queue, 10);
        assert_eq!(queued(&sends, &queue), [(10, 1), (10, 1), (20, 2), (10, 1)]);
    }

    #[test]
    fn a_split_run_keeps_order_bytes_and_count() {
        let mut sends = Sends::new(1, true).unwrap();
        let mut queue = Queue::EMPTY;
        for length in [100, 100, 7] {
            push(&mut sends, &mut queue, length);
        }
        sends.push(&mut queue, 99, ENDS, 100, |_| {}).unwrap();
        sends.split_first(&mut queue);
        assert_eq!(queued(&sends, &queue), [(100, 1), (100, 1), (7, 1), (100, 1)]);
        assert_eq!(queue.runs, 4);
        let third = sends.iter(&queue).nth(2).unwrap().range();
        assert_eq!(sends.arena.memory().bytes(third), [7; 7]);
        while sends.pop(&mut queue).is_some() {}
        assert_eq!((queue.runs, queue.chain), (0, Chain::EMPTY));
        assert_eq!(sends.arena.reserve(65_536), Some(0), "everything was released");
    }
}
