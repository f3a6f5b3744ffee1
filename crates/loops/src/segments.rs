//! TCP segments of many connections that take turns, and merging them batch by batch. In: a number of connections, and how a
//! flow's segments are found. Out: frames, and the packets per aggregation.

use corelane_packet::checksum::{finished, internet, sum};
use corelane_rss::Key;
use corelane_stage::coalescing::{Coalescing, Counts, Grouping, Plan};
use corelane_stage::{Desk, Stage, Work};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of payload of a full segment.
pub const PAYLOAD: usize = 1448;

/// The flags of a segment that opens a connection, and of every other (RFC 9293, section 3.1).
pub const SYN: u8 = 0x02;
/// See [`SYN`].
pub const ACK: u8 = 0x10;

/// Ethernet to 02:00:00:00:00:01 from 02:00:00:00:00:09; IPv4 from 10.9.0.2 to 10.9.0.1, "don't fragment"; TCP to port 80
/// with the largest window. Lengths, identification, source port, numbers, flags and checksums are zero.
#[rustfmt::skip]
const HEADERS: [u8; 54] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x08, 0x00,
    0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1,
    0, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0xff, 0xff, 0, 0, 0, 0,
];

/// One connection, from a port of its own.
#[derive(Clone, Debug)]
pub struct Connection {
    port: u16,
    /// The number of the next byte that it sends.
    next: u32,
    /// The number of the next byte that it expects.
    pub acknowledged: u32,
    identification: u16,
}

impl Connection {
    /// The connection from port 1024 + `number`, before it is opened.
    #[must_use]
    pub fn new(number: u16) -> Connection {
        Connection {
            port: 1024 + number,
            next: 0,
            acknowledged: 0,
            identification: 0,
        }
    }

    /// The next frame that it sends: a segment with these flags and so many bytes.
    pub fn frame(&mut self, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = HEADERS.to_vec();
        frame.resize(HEADERS.len() + payload, 7);
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &(40 + payload as u16).to_be_bytes());
        put(18, &self.identification.to_be_bytes());
        put(34, &self.port.to_be_bytes());
        put(38, &self.next.to_be_bytes());
        put(42, &self.acknowledged.to_be_bytes());
        put(47, &[flags]);
        let header = internet(&frame[14..34]);
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        // The pseudo-header: addresses, protocol, length (RFC 9293, section 3.1).
        let pseudo = sum(&frame[26..34]) + 6 + 20 + payload as u64;
        let checksum = finished(pseudo + sum(&frame[34..]));
        frame[50..52].copy_from_slice(&checksum.to_be_bytes());
        self.identification = self.identification.wrapping_add(1);
        self.next = self
            .next
            .wrapping_add(payload as u32 + u32::from(flags & SYN != 0));
        frame
    }
}

/// Connections that take turns.
#[derive(Clone, Debug)]
pub struct Connections {
    all: Vec<Connection>,
    turn: usize,
}

impl Connections {
    /// These take turns.
    #[must_use]
    pub fn new(all: Vec<Connection>) -> Connections {
        Connections { all, turn: 0 }
    }

    /// The next full segments, one of each connection after the other.
    pub fn batch(&mut self, frames: usize) -> Vec<Vec<u8>> {
        let mut next = || {
            let frame = self.all[self.turn].frame(ACK, PAYLOAD);
            self.turn = (self.turn + 1) % self.all.len();
            frame
        };
        (0..frames).map(|_| next()).collect()
    }
}

/// The stage that merges, or none.
pub struct Merging {
    stage: Option<Coalescing>,
    counts: Arc<Counts>,
    desk: Desk,
}

impl Merging {
    /// A stage that finds the segments of a flow like this; `None`: nothing is merged, and headers are read only.
    #[must_use]
    pub fn new(grouping: Option<Grouping>) -> Merging {
        let counts = Arc::new(Counts::default());
        let stage = |grouping| {
            let plan = Plan {
                grouping,
                ..Plan::default()
            };
            Coalescing::new(plan, &Key::VERIFICATION, Arc::clone(&counts))
        };
        Merging {
            stage: grouping.map(stage),
            counts: Arc::clone(&counts),
            desk: Desk::default(),
        }
    }

    /// Merges a batch; returns what leaves.
    pub fn over<'a>(&'a mut self, frames: &'a mut Vec<Vec<u8>>) -> Work<'a, Vec<Vec<u8>>> {
        let mut work = Work::new(&mut self.desk, frames, Instant::now());
        work.read();
        if let Some(stage) = &mut self.stage {
            stage.run(&mut work);
        }
        work
    }

    /// Segments per frame that leaves.
    #[must_use]
    pub fn packets_per_aggregation(&self) -> f64 {
        match self.counts.aggregations.get() {
            0 => 1.0,
            aggregations => self.counts.segments.get() as f64 / aggregations as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_packet::{Dissection, Ports};

    #[test]
    fn a_segment_continues_its_connection_and_has_right_checksums() {
        let mut connection = Connection::new(7);
        connection.acknowledged = 0x0102_0304;
        let syn = connection.frame(SYN, 0);
        let [first, second] = [0, 1].map(|_| connection.frame(ACK, 100));
        for (frame, next, identification) in [(&syn, 0_u32, 0), (&first, 1, 1), (&second, 101, 2)] {
            let packet = Dissection::of(frame).unwrap();
            let ports = Ports {
                source: 1031,
                destination: 80,
            };
            assert_eq!((packet.ports(), packet.packet_end()), (Some(ports), frame.len()));
            assert_eq!(frame[38..46], [next.to_be_bytes(), [1, 2, 3, 4]].concat());
            assert_eq!(frame[18..20], [0, identification]);
            assert_eq!(
                (internet(&frame[14..34]), packet.has_wrong_checksum()),
                (0, false)
            );
        }
        assert_eq!((syn[47], first[47]), (SYN, ACK));
    }

    #[test]
    fn sorted_batches_merge_what_a_list_of_eight_flows_has_forgotten() {
        let per_aggregation = |grouping, flows| {
            let mut connections = Connections::new((0..flows).map(Connection::new).collect());
            let mut merging = Merging::new(grouping);
            merging.over(&mut connections.batch(400));
            merging.packets_per_aggregation()
        };
        for (flows, list, sorted) in [(8, 400.0 / 16.0, 400.0 / 16.0), (100, 1.0, 4.0)] {
            assert_eq!(per_aggregation(None, flows), 1.0);
            assert_eq!(per_aggregation(Some(Grouping::List), flows), list);
            assert_eq!(per_aggregation(Some(Grouping::Sorted), flows), sorted);
        }
    }
}
