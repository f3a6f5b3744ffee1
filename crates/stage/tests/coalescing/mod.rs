//! Segments are merged and cut again: built here by `etherparse`, so that every header and checksum is an independent one's.

mod cut;
mod merged;
mod never_merged;
mod receiver;

use crate::common::Lent;
use corelane_rss::Key;
use corelane_stage::coalescing::{Coalescing, Counts, Plan};
use corelane_stage::segmenting::{self, Segmenting};
use corelane_stage::{Desk, Merged, Stage, Work};
use etherparse::{IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, TcpHeader};
use std::sync::Arc;
use std::time::Instant;

/// A segment, and the link that it comes from.
#[derive(Clone)]
pub struct Tcp {
    pub link: usize,
    pub macs: [u8; 12],
    pub tags: Vec<u16>,
    pub ip: IpHeaders,
    pub tcp: TcpHeader,
    pub payload: Vec<u8>,
}

/// A segment of a flow with this source port: `payload` begins at this sequence number.
pub fn segment(v6: bool, port: u16, sequence: u32, payload: &[u8]) -> Tcp {
    let ip = match v6 {
        false => {
            let mut header = Ipv4Header::new(0, 64, IpNumber::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
            header.identification = (sequence / 100) as u16;
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        true => {
            let header = Ipv6Header {
                next_header: IpNumber::TCP,
                hop_limit: 64,
                source: [0x20; 16],
                destination: [0x21; 16],
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Ipv6Extensions::default())
        }
    };
    let mut tcp = TcpHeader::new(port, 80, sequence, 1000);
    (tcp.ack, tcp.acknowledgment_number) = (true, 7);
    // As most have: two of no operation, a timestamp.
    let timestamp = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6];
    tcp.set_options_raw(&timestamp).unwrap();
    Tcp {
        link: 0,
        macs: [2; 12],
        tags: Vec::new(),
        ip,
        tcp,
        payload: payload.to_vec(),
    }
}

impl Tcp {
    pub fn v4(&mut self) -> &mut Ipv4Header {
        match &mut self.ip {
            IpHeaders::Ipv4(header, _) => header,
            IpHeaders::Ipv6(..) => panic!("a segment of IPv6"),
        }
    }

    pub fn v6(&mut self) -> (&mut Ipv6Header, &mut Ipv6Extensions) {
        match &mut self.ip {
            IpHeaders::Ipv6(header, extensions) => (header, extensions),
            IpHeaders::Ipv4(..) => panic!("a segment of IPv4"),
        }
    }

    pub fn is_v6(&self) -> bool {
        matches!(self.ip, IpHeaders::Ipv6(..))
    }

    /// The frame, with right lengths and checksums.
    pub fn frame(&self) -> Vec<u8> {
        let (mut ip, mut tcp) = (self.ip.clone(), self.tcp.clone());
        ip.set_payload_len(tcp.header_len() + self.payload.len()).unwrap();
        let checksum = match &ip {
            IpHeaders::Ipv4(header, _) => tcp.calc_checksum_ipv4(header, &self.payload),
            IpHeaders::Ipv6(header, _) => tcp.calc_checksum_ipv6(header, &self.payload),
        };
        tcp.checksum = checksum.unwrap();
        let mut frame = self.macs.to_vec();
        for tag in &self.tags {
            frame.extend([0x81, 0x00]);
            frame.extend(tag.to_be_bytes());
        }
        frame.extend(if self.is_v6() { [0x86, 0xdd] } else { [0x08, 0x00] });
        ip.write(&mut frame).unwrap();
        tcp.write(&mut frame).unwrap();
        frame.extend(&self.payload);
        frame
    }
}

/// What leaves.
pub struct Ran {
    pub frames: Vec<Vec<u8>>,
    pub merged: Vec<Option<Merged>>,
    pub counts: Counts,
}

/// Runs the stage over a batch of segments.
pub fn coalesced(plan: Plan, batch: &[Tcp]) -> Ran {
    let frames = batch.iter().map(|segment| (segment.link, segment.frame()));
    coalesced_frames(plan, frames.collect(), |_| ())
}

/// Runs the stage over a batch of frames, each with its link, after `before`.
pub fn coalesced_frames(
    plan: Plan,
    frames: Vec<(usize, Vec<u8>)>,
    before: impl FnOnce(&mut Work<'_, Lent>),
) -> Ran {
    let counts = Arc::new(Counts::default());
    let mut stage = Coalescing::new(plan, &Key::VERIFICATION, Arc::clone(&counts));
    let (mut desk, mut lent) = (Desk::default(), Lent(frames));
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    work.read();
    before(&mut work);
    stage.run(&mut work);
    work.settle();
    let (frames, merged) = left(&work);
    drop(stage);
    let counts = Arc::into_inner(counts).expect("the stage is gone");
    Ran {
        frames,
        merged,
        counts,
    }
}

/// Runs both stages over a batch of frames.
pub fn there_and_back(plan: Plan, frames: Vec<(usize, Vec<u8>)>) -> (Vec<Vec<u8>>, segmenting::Counts) {
    let counts = Arc::new(segmenting::Counts::default());
    let coalescing = Coalescing::new(plan, &Key::VERIFICATION, Arc::default());
    let mut stages = (coalescing, Segmenting::new(Arc::clone(&counts)));
    let (mut desk, mut lent) = (Desk::default(), Lent(frames));
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    work.read();
    stages.run(&mut work);
    let (frames, merged) = left(&work);
    assert!(merged.iter().all(Option::is_none), "all are cut");
    drop(stages);
    (frames, Arc::into_inner(counts).expect("the stages are gone"))
}

fn left(work: &Work<'_, Lent>) -> (Vec<Vec<u8>>, Vec<Option<Merged>>) {
    let places = (0..work.len()).filter(|place| work.goes_on(*place));
    places
        .map(|place| (work.frame(place).to_vec(), work.merged(place)))
        .unzip()
}
