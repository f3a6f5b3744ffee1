//! Which frames change bucket, where, and why. In: the frames of a capture with their times. Out: a row for each choice of
//! hash fields, and the first changes.
//!
//! A device hashes a frame as it arrives. The bridge hashes what comes of it: the datagram that fragments make, the packet
//! taken out of a tunnel. Where the two hashes select different buckets, a frame changes CPU on its way.

mod report;

pub use report::{Cause, Change, Explanation, FieldsExplained};

use crate::counts::StageCounts;
use crate::decapsulation::{self, Decapsulation};
use crate::dispatch::{Policy, Spread};
use crate::reassembly::{self, Reassembly};
use crate::{Desk, PlannedStage, Stage, StagePlans, Work};
use corelane_packet::{Addresses, Dissection, Fragment, HashTypes, IpProtocol};
use corelane_rss::{Bucket, Hash, IndirectionTable, Tuple};
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The fields that are compared, by name; further ones may be asked for.
const FIELDS: [(&str, HashTypes); 3] = [
    ("2tuple", HashTypes::TWO_TUPLE),
    ("driver", HashTypes::DRIVER_DEFAULT),
    ("4tuple", HashTypes::FOUR_TUPLE),
];
/// Those, and the ones asked for.
const MOST_FIELDS: usize = FIELDS.len() + 1;

/// Changes that are reported one by one.
const MOST_CHANGES: usize = 20;

/// The stages that run, by name.
pub const STAGES: [&str; 2] = [Reassembly::NAME, Decapsulation::NAME];

/// Explains frames, one after the other.
pub struct Explained {
    /// What selects a bucket at the end; of the device, the table differs. The fields are those of the changes reported.
    spread: Spread,
    device: Spread,
    reassembly: (Reassembly, Arc<reassembly::Counts>),
    decapsulation: (Decapsulation, Arc<decapsulation::Counts>),
    desk: Desk,
    start: Instant,
    /// Frames whose fragments wait, by datagram, the oldest first.
    waiting: HashMap<Datagram, Vec<Vec<Arrived>>>,
    flows: HashMap<(IpProtocol, Tuple), [Seen; MOST_FIELDS]>,
    rows: Vec<Row>,
    report: Explanation,
}

/// Addresses, identification and, in IPv4, protocol.
type Datagram = ([IpAddr; 2], u32, Option<IpProtocol>);

/// A frame as the device sees it.
#[derive(Clone, Copy)]
struct Arrived {
    number: u64,
    part: Option<Cause>,
    hashes: [Option<Hash>; MOST_FIELDS],
}

/// The buckets that frames of a flow arrive on.
#[derive(Clone, Copy, Default, PartialEq)]
enum Seen {
    #[default]
    None,
    One(Bucket),
    Several,
}

/// What is counted for some hash fields.
struct Row {
    types: HashTypes,
    explained: FieldsExplained,
    /// By bucket.
    before: Vec<u64>,
    after: Vec<u64>,
}

impl Explained {
    /// Nothing is explained yet. `device` is the table of the device; the fields of `spread` are those whose changes are
    /// reported one by one. Of the plans, those of [`STAGES`] count; both run always, on frames of whichever link.
    #[must_use]
    pub fn new(spread: Spread, device: IndirectionTable, plans: &StagePlans) -> Explained {
        let given = ("given", spread.hash_types);
        let is_known = FIELDS.iter().any(|(_, types)| *types == given.1);
        let fields = FIELDS.into_iter().chain((!is_known).then_some(given));
        let row = |(name, types): (&str, HashTypes)| Row {
            types,
            explained: FieldsExplained::new(name, types),
            before: vec![0; spread.buckets.into()],
            after: vec![0; spread.buckets.into()],
        };
        let (parts, tunnels) = (Arc::default(), Arc::default());
        let reassemble = plans.reassemble.clone().unwrap_or_default();
        let decapsulate = decapsulation::Plan {
            link: None,
            ..plans.decapsulate.clone().unwrap_or_default()
        };
        Explained {
            rows: fields.map(row).collect(),
            device: Spread {
                table: device,
                ..spread.clone()
            },
            reassembly: (Reassembly::new(reassemble, 0, Arc::clone(&parts)), parts),
            decapsulation: (Decapsulation::new(decapsulate, 7, Arc::clone(&tunnels)), tunnels),
            desk: Desk::default(),
            start: Instant::now(),
            waiting: HashMap::new(),
            flows: HashMap::new(),
            report: Explanation::new(spread.buckets, spread.hash_types),
            spread,
        }
    }

    /// Explains a frame that arrived at this time, since any one. `number` names it in the report.
    pub fn frame(&mut self, number: u64, bytes: &[u8], since: Duration) {
        self.report.frames += 1;
        let arrived = self.arrived(number, bytes);
        let time = self.start + since;
        let mut lent = vec![bytes.to_vec()];
        let mut desk = mem::take(&mut self.desk);
        let mut work = Work::new(&mut desk, &mut lent, time);
        if let Some(frames) = self.follow(&mut work, vec![arrived]) {
            self.arrive(&frames, &work);
        }
        self.desk = desk;
    }

    /// The frame as the device sees it.
    fn arrived(&mut self, number: u64, bytes: &[u8]) -> Arrived {
        let mut arrived = Arrived {
            number,
            part: None,
            hashes: [None; MOST_FIELDS],
        };
        let Ok(packet) = Dissection::of(bytes) else {
            self.report.not_ip += 1;
            return arrived;
        };
        if let Fragment::Part(part) = packet.fragment() {
            self.report.fragments += 1;
            arrived.part = Some(match part.offset {
                0 => Cause::FirstFragment,
                _ => Cause::LaterFragment,
            });
        }
        arrived.hashes = self.hashes(&packet);
        arrived
    }

    fn hashes(&self, packet: &Dissection<'_>) -> [Option<Hash>; MOST_FIELDS] {
        let mut hashes = [None; MOST_FIELDS];
        for (hash, row) in hashes.iter_mut().zip(&self.rows) {
            *hash = packet
                .rss_input(row.types)
                .map(|input| input.hash(&self.spread.toeplitz));
        }
        hashes
    }

    /// Runs the stages over a frame until none changes it. Returns the frames that it was made of, itself included; `None` if
    /// it waits for others or was dropped.
    fn follow(
        &mut self,
        work: &mut Work<'_, Vec<Vec<u8>>>,
        mut frames: Vec<Arrived>,
    ) -> Option<Vec<Arrived>> {
        work.read();
        loop {
            let datagram = work.dissection(0).ok().and_then(|packet| datagram(&packet));
            let (stage, counts) = &mut self.reassembly;
            let (used, repeated) = (counts.made_whole.get(), counts.duplicate.get());
            stage.run(work);
            let used = counts.made_whole.get() - used;
            let is_repeated = counts.duplicate.get() > repeated;
            if let Some(datagram) = datagram {
                if !work.goes_on(0) {
                    if !is_repeated {
                        self.waiting.entry(datagram).or_default().push(frames);
                    }
                    return None;
                }
                let others = self.waiting.remove(&datagram).unwrap_or_default();
                // Those before them were of a datagram of the same name that was given up.
                let given_up = (others.len() + 1).saturating_sub(used as usize);
                let others = others.into_iter().skip(given_up).flatten();
                frames = others.chain(frames).collect();
            }
            work.read();
            self.decapsulation.0.run(work);
            if !work.goes_on(0) {
                return None;
            }
            if !work.has_unread() {
                return Some(frames);
            }
            work.read();
        }
    }

    /// Counts frames with what came of them.
    fn arrive(&mut self, frames: &[Arrived], work: &Work<'_, Vec<Vec<u8>>>) {
        let end = work.dissection(0).ok();
        let is_inner = work.depth(0) > 0;
        let flow = end.as_ref().map(|packet| (packet.protocol(), packet.tuple()));
        let hashes = end.map_or([None; MOST_FIELDS], |packet| self.hashes(&packet));
        self.report.arrived += frames.len() as u64;
        self.report.from_tunnels += if is_inner { frames.len() as u64 } else { 0 };
        let mut seen = flow.map(|flow| self.flows.entry(flow).or_default());
        for (number, row) in self.rows.iter_mut().enumerate() {
            let to = self.spread.bucket(Policy::Cpu, hashes[number], 0);
            row.after[to.index()] += 1;
            for frame in frames {
                let from = self.device.bucket(Policy::Cpu, frame.hashes[number], 0);
                row.before[from.index()] += 1;
                if let Some(seen) = &mut seen {
                    seen[number].add(from);
                }
                if from == to {
                    continue;
                }
                let cause = match (is_inner, frame.part) {
                    (true, _) => Cause::Tunnel,
                    (false, Some(part)) => part,
                    (false, None) => Cause::Entry,
                };
                row.explained.add(cause);
                if row.types == self.spread.hash_types && self.report.changes.len() < MOST_CHANGES {
                    let named = |hash: Option<Hash>| hash.map(|hash| hash.hash_type.to_string());
                    self.report.changes.push(Change {
                        frame: frame.number,
                        cause,
                        from: from.index(),
                        hashed: named(frame.hashes[number]),
                        to: to.index(),
                        hashed_then: named(hashes[number]),
                        flow: flow.map(|(protocol, tuple)| format!("{protocol} {tuple}")),
                    });
                }
            }
        }
    }

    /// What was found.
    #[must_use]
    pub fn report(&self) -> Explanation {
        let mut report = self.report.clone();
        report.flows = self.flows.len() as u64;
        let fields = self.rows.iter().enumerate().map(|(number, row)| {
            let several = self.flows.values().filter(|seen| seen[number] == Seen::Several);
            row.explained
                .with(several.count() as u64, &row.before, &row.after)
        });
        report.fields = fields.collect();
        let [mut parts, mut tunnels] = [BTreeMap::new(), BTreeMap::new()];
        self.reassembly.1.each(&mut |count| {
            parts.insert(count.name.to_owned(), count.value);
        });
        self.decapsulation.1.each(&mut |count| {
            tunnels.insert(count.name.to_owned(), count.value);
        });
        report.stages.insert(Reassembly::NAME.to_owned(), parts);
        report.stages.insert(Decapsulation::NAME.to_owned(), tunnels);
        report
    }
}

impl Seen {
    fn add(&mut self, bucket: Bucket) {
        *self = match *self {
            Seen::None => Seen::One(bucket),
            Seen::One(before) if before == bucket => Seen::One(bucket),
            Seen::One(_) | Seen::Several => Seen::Several,
        };
    }
}

/// The datagram that a packet is a fragment of, if it is one.
fn datagram(packet: &Dissection<'_>) -> Option<Datagram> {
    let Fragment::Part(part) = packet.fragment() else {
        return None;
    };
    Some(match packet.addresses() {
        Addresses::V4(both) => {
            let both = both.map(IpAddr::from);
            (both, part.identification, Some(packet.protocol()))
        }
        Addresses::V6(both) => (both.map(IpAddr::from), part.identification, None),
    })
}
