//! TCP as a protocol of the connection servers: counters per bucket.

use super::bucket::{Bucket, TcpCounters};
use super::plan::{TcpMode, TcpPlan};
use crate::handshakes::HandshakeCounts;
use crate::server::ServeError;
use crate::shared::{named, summed};
use crate::streams::{ConnectionCounts, Listening, Protocol, StreamServer, StreamsServed};
use corelane_worker::CachePadded;
use corelane_worker::engine::{Chosen, EngineCounters, EngineSettings, choose};
use corelane_worker::tls::ServerSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// A running TCP server. Dropping it stops it.
pub type TcpServer = StreamServer<Tcp>;

/// Results of a TCP server: the final document of `serve tcp`.
pub type TcpServed = StreamsServed<BucketTcp, TcpOwn>;

/// Results specific to TCP servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpOwn {
    /// Its mode.
    pub mode: TcpMode,
}

/// The counters of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketTcp {
    /// Its connections.
    #[serde(flatten)]
    pub connections: ConnectionCounts,
    /// Segments received out of order (`TCP_INFO`), sampled while connections are open: for a reset connection, those
    /// after the last sample are missing.
    pub out_of_order_segments: u64,
    /// Retransmitted segments (`TCP_INFO`), with the same limitation.
    pub retransmitted_segments: u64,
    /// Number of stalls.
    pub stalls: u64,
    /// Connections stalled now.
    pub stalled: u64,
    /// TLS handshakes, if there were any.
    #[serde(default, flatten, skip_serializing_if = "HandshakeCounts::is_empty")]
    pub handshakes: HandshakeCounts,
    /// Connections that the server ended, by cause; `tls`: the client does not speak TLS, or rejected the certificate; `idle`:
    /// nothing moved for the idle timeout.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

impl BucketTcp {
    /// All errors by cause: `errors`, `accept_failed` and `broken`.
    pub fn all_errors(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.errors.iter().chain(self.connections.errors())
    }
}

impl TcpServed {
    /// Errors of all buckets: `errors`, `accept_failed` and `broken`.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        summed(self.buckets.iter().flat_map(BucketTcp::all_errors))
    }
}

/// Bytes without an application protocol.
pub struct Tcp {
    tls: Option<ServerSettings>,
}

impl Protocol for Tcp {
    const NAME: &'static str = "tcp";
    const SCHEMA: &'static str = "corelane/served-tcp/1";
    type Error = ServeError;
    type Plan = TcpPlan;
    type Counters = TcpCounters;
    type Bucket = Bucket;
    type BucketServed = BucketTcp;
    type OwnServed = TcpOwn;

    #[inline(never)]
    fn start(plan: TcpPlan) -> Result<StreamServer<Self>, ServeError> {
        StreamServer::of_plan(plan)
    }

    fn listening(plan: &TcpPlan) -> &Listening {
        &plan.listening
    }

    fn engine(plan: &TcpPlan) -> (Chosen, EngineSettings) {
        (choose(plan.listening.engine), EngineSettings::default())
    }

    fn open(plan: &TcpPlan, address: SocketAddr) -> Result<Self, ServeError> {
        let (tls, write) = (plan.tls.as_ref(), plan.write_certificate.as_deref());
        let settings = tls.map(|tls| ServerSettings::new(tls, address.ip(), write, &[]));
        Ok(Self {
            tls: settings.transpose()?,
        })
    }

    fn bucket(&mut self, plan: &Arc<TcpPlan>, counters: Arc<CachePadded<TcpCounters>>) -> Bucket {
        Bucket::new(plan, self.tls.clone(), counters)
    }

    fn bucket_served(counters: &TcpCounters, connections: ConnectionCounts, _: &EngineCounters) -> BucketTcp {
        BucketTcp {
            connections,
            out_of_order_segments: counters.out_of_order.get(),
            retransmitted_segments: counters.retransmitted.get(),
            stalls: counters.stalls.get(),
            stalled: counters.stalled.get(),
            handshakes: counters.handshakes.counts(),
            errors: named([("tls", counters.tls_failed.get()), ("idle", counters.idle.get())]),
        }
    }

    fn own_served(&self, plan: &TcpPlan) -> TcpOwn {
        TcpOwn { mode: plan.mode }
    }
}
