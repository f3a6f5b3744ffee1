//! Cuts packets into fragments that an MTU permits: those of IPv4 that may be cut, and of IPv6 those that were made whole or
//! wrapped here, since only a source cuts a packet (RFC 8200, section 4.5). No ICMP error is sent for the others.

mod ipv4;
mod ipv6;
mod parts;
mod plan;

pub use plan::{Counts, Plan};

use crate::{Batch, Context, PlannedStage, Stage, Work};
use corelane_packet::Addresses;
use plan::Cause;
use std::sync::Arc;

/// Cuts packets.
#[derive(Debug)]
pub struct Fragmenting {
    mtu: usize,
    counts: Arc<Counts>,
}

impl Fragmenting {
    /// A stage that cuts packets.
    #[must_use]
    pub fn new(plan: &Plan, counts: Arc<Counts>) -> Fragmenting {
        Fragmenting {
            mtu: plan.mtu.into(),
            counts,
        }
    }

    fn packet<B: Batch>(&self, work: &mut Work<'_, B>, place: usize) {
        let Ok(packet) = work.dissection(place) else {
            return;
        };
        let long = packet.network_offset()..packet.packet_end();
        if long.len() <= self.mtu {
            return;
        }
        let cut = match packet.addresses() {
            _ if packet.is_truncated() => Err::<_, Cause>(|counts| &counts.malformed),
            Addresses::V4(_) => {
                let data = packet.fragment_data();
                ipv4::cut(work, place, long, data, self.mtu)
            }
            Addresses::V6(_) => ipv6::cut(work, place, long, self.mtu),
        };
        match cut {
            Ok(fragments) => {
                self.counts.cut.add(1);
                self.counts.fragments.add(fragments);
            }
            Err(cause) => work.drop(place, cause(&self.counts)),
        }
    }
}

impl Stage for Fragmenting {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        if work.longest() <= self.mtu {
            return;
        }
        for place in 0..work.len() {
            if work.frame(place).len() > self.mtu && work.goes_on(place) {
                self.packet(work, place);
            }
        }
    }
}

impl PlannedStage for Fragmenting {
    const NAME: &'static str = "fragment";
    const ABOUT: &'static str = "Cut packets of more bytes than this MTU";
    const VALUE: &'static str = "MTU";
    const BARE: Option<&'static str> = Some("mtu");
    type Plan = Plan;
    type Counts = Counts;

    fn of(plan: &Plan, _context: &Context, counts: Arc<Counts>) -> Fragmenting {
        Fragmenting::new(plan, counts)
    }
}
