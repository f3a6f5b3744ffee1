//! TCP as a protocol of the connection servers: counters per bucket.

use super::bucket::{Bucket, TcpCounters};
use super::plan::{TcpMode, TcpPlan};
use crate::server::ServeError;
use crate::shared::summed;
use crate::streams::{ConnectionCounts, Listening, Protocol, StreamServer, StreamsServed};
use corelane_worker::CachePadded;
use corelane_worker::engine::{Chosen, EngineKind, EngineSettings, choose};
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
}

impl TcpServed {
    /// Errors of all buckets: `accept_failed` and `broken`.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        summed(self.buckets.iter().flat_map(|bucket| bucket.connections.errors()))
    }
}

/// Bytes without an application protocol.
pub struct Tcp;

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

    fn engine(asked: Option<EngineKind>) -> (Chosen, EngineSettings) {
        (choose(asked), EngineSettings::default())
    }

    fn open(_plan: &TcpPlan, _address: SocketAddr) -> Result<Self, ServeError> {
        Ok(Self)
    }

    fn bucket(&mut self, plan: &Arc<TcpPlan>, counters: Arc<CachePadded<TcpCounters>>) -> Bucket {
        Bucket::new(plan, None, counters)
    }

    fn bucket_served(counters: &TcpCounters, connections: ConnectionCounts) -> BucketTcp {
        BucketTcp {
            connections,
            out_of_order_segments: counters.out_of_order.get(),
            retransmitted_segments: counters.retransmitted.get(),
            stalls: counters.stalls.get(),
            stalled: counters.stalled.get(),
        }
    }

    fn own_served(&self, plan: &TcpPlan) -> TcpOwn {
        TcpOwn { mode: plan.mode }
    }
}
