//! Large receive offload: merges the TCP segments of a flow that follow each other in a batch.
//!
//! The segments of one flow are far apart when thousands of flows arrive at once: a list of a few flows, which is looked
//! through for every segment, has forgotten a flow before its next segment comes. So the batch is sorted by hash type,
//! hash and arrival first ("Serving 100 Gbps from an Open Connect Appliance"): then they are adjacent. The hash is
//! computed from addresses and ports, never an opaque number of a device. The batch is one receive call of one queue, so
//! no frame waits for a later one.
//!
//! A merged frame leaves where its first segment was, and the frames of a flow keep their order. Nothing is merged that
//! cutting would not give back byte for byte ([`segmenting`](crate::segmenting)): a TCP receiver sees the same bytes, the
//! same marks of congestion and the same acknowledgments. What is not merged passes unchanged, and is counted by reason.

mod aggregate;
mod key;
mod open;
mod plan;
mod rules;

pub use plan::{Acknowledgments, Counts, Grouping, Plan, Push};

use crate::{Batch, Context, Kinds, PlannedStage, Stage, Work};
use corelane_packet::{HashTypes, IpProtocol};
use corelane_rss::{HashType, Key, Toeplitz};
use open::Open;
use rules::Rules;
use std::sync::Arc;

/// Flows of which a list keeps the last segment, as FreeBSD's does (`TCP_LRO_ENTRIES`).
const LIST: usize = 8;

/// Merges TCP segments.
#[derive(Debug)]
pub struct Coalescing {
    rules: Rules,
    keys: Vec<u64>,
    open: Open,
}

impl Coalescing {
    /// A stage that hashes with this key.
    #[must_use]
    pub fn new(plan: Plan, key: &Key, counts: Arc<Counts>) -> Coalescing {
        Coalescing {
            rules: Rules {
                plan,
                counts,
                toeplitz: Toeplitz::new(key),
                fragments: Vec::new(),
            },
            keys: Vec::new(),
            open: Open::new(match plan.grouping {
                Grouping::Sorted => 1,
                Grouping::List => LIST,
            }),
        }
    }

    /// Merges the collected frames.
    fn merge<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        let is_sorted = self.rules.plan.grouping == Grouping::Sorted;
        if is_sorted {
            // All differ by their places.
            self.keys.sort_unstable();
        }
        self.rules.fragments.sort_unstable();
        let flow_of = |number: Option<&u64>| number.map(|number| key::flow(*number));
        let mut last = None;
        for (at, number) in self.keys.iter().enumerate() {
            let (flow, place) = (key::flow(*number), key::place(*number));
            let others = [last, flow_of(self.keys.get(at + 1))];
            last = Some(flow);
            match is_sorted && !others.contains(&last) {
                true => open::pass(work, place, &self.rules),
                false => self.open.offer(work, flow, place, &self.rules),
            }
        }
        self.keys.clear();
        self.rules.fragments.clear();
        self.open.close_all(work);
    }
}

impl Stage for Coalescing {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        if !work.kinds().has(Kinds::TCP | Kinds::FRAGMENT) {
            return;
        }
        let types = HashTypes::NONE.with(HashType::TCP_IPV4).with(HashType::TCP_IPV6);
        for place in 0..work.len() {
            if !work.goes_on(place) {
                continue;
            }
            // Such a hash is that of a whole segment.
            if let Some(hash) = work.hash(place).filter(|hash| types.contains(hash.hash_type)) {
                self.keys.push(key::of(hash, place));
                continue;
            }
            let Ok(packet) = work.dissection(place) else {
                continue;
            };
            if packet.protocol() != IpProtocol::TCP {
                continue;
            }
            if packet.is_fragment() {
                self.rules.counts.fragments.add(1);
                self.rules.fragments.extend(self.rules.number(work, place));
            } else if let Some(input) = packet.rss_input(types) {
                let hash = input.hash(&self.rules.toeplitz);
                self.keys.push(key::of(hash, place));
            } else {
                self.rules.counts.headers.add(1);
            }
        }
        self.merge(work);
    }
}

impl PlannedStage for Coalescing {
    const NAME: &'static str = "coalesce";
    const ABOUT: &'static str = "Merge the TCP segments of a flow that come in one batch; settings: push=end|merge, acks=keep|merge, \
        grouping=sorted|list";
    type Plan = Plan;
    type Counts = Counts;

    fn of(plan: &Plan, context: &Context, counts: Arc<Counts>) -> Coalescing {
        Coalescing::new(*plan, &context.key, counts)
    }
}
