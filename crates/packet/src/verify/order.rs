//! Detects reordering within flows: counts frames that arrived late, and frames on another queue than the previous
//! frame of their flow.

use super::Queue;
use crate::bytes::{array, number32};
use crate::dissection::{Dissection, TransportHeader};
use crate::layout::Marks;
use crate::protocol::IpProtocol;
use serde::Serialize;

/// Flows tracked at a time, a power of two. Each flow has one slot, and a newer flow displaces an older one. At 24
/// bytes per flow they fit into a CPU's private cache.
const FLOWS: usize = 1 << 12;

/// Order within flows, as far as it could be tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reordering {
    /// Frames whose position in their flow is known: data segments of TCP, and frames given a sequence number.
    pub followed: u64,
    /// Frames that arrived after frames sent later: they filled a gap in their flow (RFC 4737, section 3). A
    /// retransmitted TCP segment fills a gap too.
    pub late: u64,
    /// Frames that arrived on another queue than the previous frame of their flow, which makes reordering possible.
    pub queue_changes: u64,
    /// Flows evicted to track others; reordering across an eviction is not counted.
    pub forgotten: u64,
}

/// Position of one packet in its flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    /// Both ports as on the wire, or zero.
    ports: u32,
    /// First sequence number, and how many numbers the packet occupies; zero if unknown.
    start: u32,
    length: u32,
}

impl Step {
    /// The step of a packet; TCP segments with data carry their own sequence numbers.
    #[inline(always)]
    pub fn of(dissection: &Dissection, sequence: Option<u32>) -> Step {
        let plain = dissection.has(Marks::PLAIN);
        let ports = match plain || dissection.ports().is_some() {
            true => number32(dissection.frame(), dissection.transport_offset()).unwrap_or(0),
            false => 0,
        };
        let tcp = dissection.protocol() == IpProtocol::TCP
            && (plain
                || (matches!(dissection.transport(), TransportHeader::Tcp(_)) && !dissection.is_part()));
        let (start, length) = match sequence {
            Some(sequence) => (sequence, 1),
            None if tcp => tcp_segment(dissection).unwrap_or((0, 0)),
            None => (0, 0),
        };
        Step { ports, start, length }
    }

    /// Whether there is nothing to track.
    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.length == 0
    }
}

/// The tracked flows.
#[derive(Clone, Debug)]
pub(super) struct Order {
    flows: Box<[Flow]>,
    pub reordering: Reordering,
}

/// One slot. A tag of zero marks it empty.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    tag: u32,
    /// The next expected sequence number.
    next: Option<u32>,
    /// The latest gap: start and end.
    hole: (u32, u32),
    queue: Option<Queue>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            flows: vec![Flow::default(); FLOWS].into(),
            reordering: Reordering::default(),
        }
    }
}

impl Order {
    /// Records a step. Hash and ports identify the flow: two flows share both with a probability of 2^-32.
    #[inline(always)]
    pub fn take(&mut self, hash: u32, step: Step, queue: Option<Queue>) {
        if queue.is_none() && step.is_none() {
            return;
        }
        // The golden ratio's digits: odd, with as many ones as zeros. The upper bits of a product depend on all bits of
        // its factors.
        let mixed = u64::from(hash ^ step.ports).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tag = hash.rotate_left(16) ^ step.ports | 1;
        let flow = &mut self.flows[(mixed >> (u64::BITS - FLOWS.trailing_zeros())) as usize];
        if flow.tag != tag {
            self.reordering.forgotten += u64::from(flow.tag != 0);
            *flow = Flow {
                tag,
                ..Flow::default()
            };
        }
        if let Some(queue) = queue {
            let before = flow.queue.replace(queue);
            self.reordering.queue_changes += u64::from(before.is_some_and(|before| before != queue));
        }
        if !step.is_none() {
            self.reordering.followed += 1;
            self.reordering.late += u64::from(flow.follow(step.start, step.length));
        }
    }
}

impl Flow {
    /// Records `length` numbers from `start` on, and returns whether they arrived late. Numbers wrap around (RFC 9293,
    /// section 3.4).
    fn follow(&mut self, start: u32, length: u32) -> bool {
        let end = start.wrapping_add(length);
        let Some(next) = self.next else {
            self.next = Some(end);
            return false;
        };
        if !before(start, next) {
            if start != next {
                self.hole = (next, start);
            }
            self.next = Some(end);
            return false;
        }
        let (from, up_to) = self.hole;
        let late = from != up_to && !before(start, from) && before(start, up_to);
        if late && start == from {
            self.hole.0 = if before(end, up_to) { end } else { up_to };
        } else if late {
            self.hole.1 = start;
        }
        late
    }
}

/// Whether `a` precedes `b` in serial number arithmetic.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Sequence number and length of a TCP segment that takes up sequence numbers: data, SYN and FIN (RFC 9293, section 3.4).
#[inline(always)]
fn tcp_segment(dissection: &Dissection) -> Option<(u32, u32)> {
    let at = dissection.transport_offset();
    let header: [u8; 14] = array(dissection.frame(), at)?;
    let [_, _, _, _, a, b, c, d, .., offset, flags] = header;
    let options_end = at + usize::from(offset >> 4) * 4;
    let payload = dissection.layout.end().checked_sub(options_end)?;
    let length = payload as u32 + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
    Some((u32::from_be_bytes([a, b, c, d]), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(segments: &[(u32, u32)]) -> Vec<bool> {
        let mut flow = Flow::default();
        segments
            .iter()
            .map(|(start, length)| flow.follow(*start, *length))
            .collect()
    }

    #[test]
    fn a_frame_is_late_when_it_fills_a_hole_and_only_once() {
        let segments = [(0, 10), (20, 10), (30, 10), (10, 10), (10, 10), (40, 10)];
        assert_eq!(late(&segments), [false, false, false, true, false, false]);
    }

    #[test]
    fn what_is_sent_twice_is_not_late() {
        assert_eq!(late(&[(0, 10), (0, 10), (10, 10), (5, 5)]), [false; 4]);
    }

    #[test]
    fn a_hole_is_filled_piece_by_piece_in_any_order() {
        let forwards = [(0, 1), (4, 1), (1, 1), (2, 1), (3, 1)];
        assert_eq!(late(&forwards), [false, false, true, true, true]);
        let backwards = [(0, 1), (4, 1), (3, 1), (2, 1), (1, 1)];
        assert_eq!(late(&backwards), [false, false, true, true, true]);
    }

    #[test]
    fn numbers_wrap_around() {
        let segments = [(u32::MAX - 1, 2), (5, 5), (0, 5)];
        assert_eq!(late(&segments), [false, false, true]);
    }
}
