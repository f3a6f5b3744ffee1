//! What all threads of a running server share: its plan, its address, and the present steering.

use super::loop_guard::LocalEchoes;
use super::model::Mode;
use super::plan::UdpPlan;
use arc_swap::ArcSwap;
use corelane_rss::{Bucket, Steerer, Tuple};
use corelane_worker::engine::Datagram;
use std::net::SocketAddr;
use std::sync::Arc;

/// What all threads of a server share.
pub(super) struct Common {
    pub(super) plan: UdpPlan,
    pub(super) address: SocketAddr,
    pub(super) steerer: Arc<ArcSwap<Steerer>>,
    pub(super) echoes: LocalEchoes,
}

impl Common {
    /// A server with this plan, which listens on `address`.
    pub(super) fn new(plan: UdpPlan, address: SocketAddr) -> Arc<Self> {
        let steerer = Arc::new(ArcSwap::from_pointee(plan.steered.steering.steerer()));
        let common = Self {
            plan,
            address,
            steerer,
            echoes: LocalEchoes::new(),
        };
        common.refresh_echoes();
        Arc::new(common)
    }

    /// Updates what is known of the other echoes of this machine.
    pub(super) fn refresh_echoes(&self) {
        if self.plan.mode == Mode::Echo {
            self.echoes.refresh(self.address);
        }
    }

    /// The address and port that a datagram was sent to; `None` if this is a wildcard address and the kernel did not
    /// report it.
    pub(super) fn destination(&self, datagram: &Datagram<'_>) -> Option<SocketAddr> {
        let named = Some(self.address).filter(|address| !address.ip().is_unspecified());
        datagram.destination.or(named)
    }

    /// A datagram's addresses on the wire, which its hash takes: without scopes, which no packet carries. `None` if the
    /// destination is not known.
    pub(super) fn tuple(&self, datagram: &Datagram<'_>) -> Option<Tuple> {
        let unscoped = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
        Tuple::new(unscoped(datagram.peer), unscoped(self.destination(datagram)?)).ok()
    }

    /// The bucket that the hash selects.
    pub(super) fn bucket_of(&self, tuple: &Tuple) -> Bucket {
        self.steerer.load().bucket_of(tuple)
    }
}
