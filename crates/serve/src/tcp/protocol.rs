//! TCP as one of the protocols that servers of connections speak: what is counted per bucket.

use super::bucket::{Bucket, TcpCounters};
use super::plan::{TcpMode, TcpPlan};
use crate::server::ServeError;
use crate::streams::{ConnectionCounts, Listening, Protocol, StreamServer, StreamsServed};
use corelane_worker::CachePadded;
use corelane_worker::engine::{Chosen, EngineKind, EngineSettings, choose};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;

/// A TCP server that is running. Dropping it stops it.
pub type TcpServer = StreamServer<Tcp>;

/// The counts of a TCP server: the document that `serve tcp` ends with.
pub type TcpServed = StreamsServed<BucketTcp, TcpOwn>;

/// What only a TCP server reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpOwn {
    /// What it did with each connection.
    pub mode: TcpMode,
}

/// The counts of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketTcp {
    /// What became of its connections.
    #[serde(flatten)]
    pub connections: ConnectionCounts,
    /// Segments received out of order (`TCP_INFO`), of connections looked at while open: what the last look of one that
    /// was reset did not see is missing.
    pub out_of_order_segments: u64,
    /// Segments sent again (`TCP_INFO`), counted alike.
    pub retransmitted_segments: u64,
    /// Times that a connection began to stand still.
    pub stalls: u64,
    /// Connections that stand still.
    pub stalled: u64,
}

/// Bytes without a protocol of their own.
pub struct Tcp;

impl Protocol for Tcp {
    const KIND: &'static str = "tcp_server";
    const SCHEMA: &'static str = "corelane/served-tcp/1";
    type Plan = TcpPlan;
    type Counters = TcpCounters;
    type Bucket = Bucket;
    type BucketServed = BucketTcp;
    type OwnServed = TcpOwn;

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
        Bucket::new(plan, counters)
    }

    fn bucket_served(counters: &TcpCounters, bucket: u16, cpu: u32) -> BucketTcp {
        BucketTcp {
            connections: counters.connections.counts(bucket, cpu),
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
