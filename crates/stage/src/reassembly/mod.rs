//! Makes datagrams of fragments, of IPv4 and IPv6, whatever their protocol. A datagram leaves where its last missing fragment
//! was. Fragments wait in memory of a fixed size; each limit has its count.
//!
//! Nothing is judged before a datagram is whole, so that fragments hide nothing from the stages behind this one. What waits
//! too long, or beyond a limit, is dropped; no ICMP error is sent.

mod counts;
mod held;
mod key;
mod output;
mod overlap;
mod part;
mod plan;
mod store;
mod waiting;

pub use counts::Counts;
pub use key::owner;
pub use overlap::{Overlap, OverlapIpv6};
pub use plan::{Placement, Plan};

use crate::{Batch, Context, Kinds, PlannedStage, Stage, Work};
use corelane_packet::Fragment;
use counts::Cause;
use held::{Arrived, Held};
use output::{IPV6_HEADER, LONGEST};
use part::Part;
use std::sync::Arc;

/// How many datagrams are given up for their age in one batch at most, so that no batch waits long.
const MOST_EXPIRED: usize = 64;

/// Makes datagrams of fragments. Other frames, and IPv6 fragments that are whole datagrams (RFC 6946), pass unchanged.
#[derive(Debug)]
pub struct Reassembly {
    held: Held,
}

impl Reassembly {
    /// A reassembly of fragments. The seed, secret, keeps others from choosing datagrams that are slow to find.
    #[must_use]
    pub fn new(plan: Plan, seed: u64, counts: Arc<Counts>) -> Reassembly {
        Reassembly {
            held: Held::new(plan, seed, counts),
        }
    }

    fn fragment<B: Batch>(&mut self, work: &mut Work<'_, B>, place: usize) {
        let Ok(frame) = work.dissection(place) else { return };
        let Fragment::Part(fragment) = frame.fragment() else {
            return;
        };
        self.held.counts.fragments.add(1);
        let mut part = match Part::of(&frame, fragment) {
            Ok(part) => part,
            Err(cause) => return work.drop(place, cause(&self.held.counts)),
        };
        let from = (work.link(place), work.tunnel(place));
        match self.held.arrive(&frame, &mut part, from, work.time(place)) {
            Arrived::Waits => work.take(place),
            Arrived::Completes(number) => self.complete(work, place, number, &part),
            Arrived::Dropped(cause) => work.drop(place, cause(&self.held.counts)),
            Arrived::Ruins(number, cause) => {
                self.held.give_up(number, cause);
                work.drop(place, cause(&self.held.counts));
            }
        }
    }

    /// Replaces the frame at a place by the datagram that it makes whole.
    fn complete<B: Batch>(&mut self, work: &mut Work<'_, B>, place: usize, number: u32, part: &Part) {
        match self.assemble(work, place, number, part) {
            Ok(()) => {
                let waited = self.held.release(number);
                self.held.counts.datagrams.add(1);
                self.held.counts.made_whole.add(waited + 1);
            }
            Err(cause) => {
                self.held.give_up(number, cause);
                work.drop(place, cause(&self.held.counts));
            }
        }
    }

    fn assemble<B: Batch>(
        &mut self,
        work: &mut Work<'_, B>,
        place: usize,
        number: u32,
        part: &Part,
    ) -> Result<(), Cause> {
        let (store, datagram) = (&self.held.store, self.held.waiting.get(number));
        let is_first = part.start == 0;
        let first = datagram.first;
        let headers = part.kept_headers(match is_first {
            true => part.data,
            false => store.piece(first).skipped as usize,
        });
        let length = headers + datagram.end as usize;
        let fixed = part.network + if part.is_ipv6 { IPV6_HEADER } else { 0 };
        if length - fixed > LONGEST {
            return Err(|counts| &counts.too_long);
        }
        let is_congested = output::congested(datagram.ecn).ok_or::<Cause>(|counts| &counts.ecn)?;
        let is_whole = datagram.longest == datagram.longest_whole;
        work.replace(place, length, |frames, whole| {
            let arrived = frames.frame(place);
            // The byte behind them is the first of IPv6's fragment header: what it names.
            let mut next = [0];
            let (head, data) = whole.split_at_mut(headers);
            if is_first {
                head.copy_from_slice(&arrived[..headers]);
                next[0] = arrived[headers];
            } else {
                store.copy(first, 0, head);
                store.copy(first, headers, &mut next);
            }
            for (fragment, piece) in store.from(first) {
                let to = &mut data[piece.start as usize..piece.end as usize];
                store.copy(fragment, piece.skipped as usize, to);
            }
            data[part.start as usize..part.end as usize].copy_from_slice(part.bytes(arrived));
            match part.is_ipv6 {
                true => output::finish_ipv6(whole, part.network, headers, is_congested, next[0]),
                false => output::finish_ipv4(whole, part.network, headers, is_congested, is_whole),
            }
        });
        work.set_cut_as(place, part.identification);
        let is_nested = part.is_ipv6 && work.dissection(place).is_ok_and(|whole| whole.is_fragment());
        match is_nested {
            true => Err(|counts| &counts.nested),
            false => Ok(()),
        }
    }
}

impl Stage for Reassembly {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        let places = if work.kinds().has(Kinds::FRAGMENT) {
            work.len()
        } else {
            0
        };
        for place in 0..places {
            if work.goes_on(place) {
                self.fragment(work, place);
            }
        }
        let is_late = |this: &Held, oldest| this.is_late(oldest, work.now());
        self.held
            .give_up_oldest(|counts| &counts.timeout, MOST_EXPIRED, is_late);
        self.held.publish();
    }

    fn end<B: Batch>(&mut self, _work: &mut Work<'_, B>) {
        self.held
            .give_up_oldest(|counts| &counts.ended, usize::MAX, |_, _| true);
        self.held.publish();
    }

    fn take_over(&mut self, old: Reassembly) {
        self.held.take_over(old.held);
    }
}

impl PlannedStage for Reassembly {
    const NAME: &'static str = "reassemble";
    const ABOUT: &'static str = "Make datagrams of fragments; settings: at=arrival|owner, overlap_ipv4=linux|drop|trim, overlap_ipv6=linux|drop, memory=, \
        datagrams=, fragments=, timeout=";
    const SAME_ADDRESSES: bool = true;
    type Plan = Plan;
    type Counts = Counts;

    fn of(plan: &Plan, context: &Context, counts: Arc<Counts>) -> Reassembly {
        Reassembly::new(plan.clone(), context.seed, counts)
    }
}
