//! The server of a trial: ours, or any other.

use super::document::Segments;
use super::run::StreamsError;
use crate::child::{ServerProcess, Subject, SubjectPlan};
use crate::document::as_json;
use corelane_host::HostError;
use corelane_host::bed::Side;
use corelane_host::counters::Family;
use corelane_serve::http::{HttpPlan, HttpServed, HttpServer};
use corelane_serve::tcp::{TcpPlan, TcpServed, TcpServer};
use serde_json::Value;
use std::path::Path;

/// The server that a step needs.
pub(super) enum ServerPlan {
    /// Ours, of requests.
    Http(Box<HttpPlan>),
    /// Ours, of bytes.
    Tcp(Box<TcpPlan>),
    /// Any other.
    Subject(SubjectPlan),
}

/// A server that is ready.
pub(super) enum ServerOfTrial {
    Http(Box<ServerProcess<HttpServer>>),
    Tcp(Box<ServerProcess<TcpServer>>),
    Subject(ServerProcess<Subject>),
}

/// The processes of a server, which can be asked about from anywhere.
#[derive(Debug, Clone, Copy)]
pub(super) enum ServerProcesses {
    /// This one and what it started.
    Own(u32),
    /// What this one started, which is but its keeper.
    Kept(u32),
}

/// What a server counted itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServerCounts {
    /// Requests that came; `None` where bytes are counted.
    pub(super) requests: Option<u64>,
    /// Connections accepted by each bucket, in bucket order; empty where the server does not tell.
    pub(super) accepted: Vec<u64>,
    /// Bytes that each bucket received and sent, in bucket order; empty where requests are counted, or nothing.
    pub(super) bytes: Vec<(u64, u64)>,
    /// What TCP had to mend, where it was asked.
    pub(super) segments: Option<Segments>,
    /// Its report as it wrote it.
    pub(super) raw: Value,
}

impl ServerCounts {
    /// Whether the server counts at all.
    pub(super) fn is_told(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Whether it has counted nothing since: then it has counted everything.
    pub(super) fn stands_at(&self, earlier: &Self) -> bool {
        (self.requests, &self.accepted, &self.bytes) == (earlier.requests, &earlier.accepted, &earlier.bytes)
    }
}

impl ServerOfTrial {
    /// Starts the server of a step; returns when it accepts connections.
    pub(super) fn start(plan: &ServerPlan, program: &Path, side: &Side) -> Result<Self, StreamsError> {
        Ok(match plan {
            ServerPlan::Http(plan) => {
                Self::Http(Box::new(ServerProcess::<HttpServer>::start(program, side, plan)?))
            }
            ServerPlan::Tcp(plan) => {
                Self::Tcp(Box::new(ServerProcess::<TcpServer>::start(program, side, plan)?))
            }
            ServerPlan::Subject(plan) => Self::Subject(ServerProcess::<Subject>::start(program, side, plan)?),
        })
    }

    /// Its processes.
    pub(super) fn processes(&self) -> ServerProcesses {
        match self {
            Self::Http(process) => ServerProcesses::Own(process.pid()),
            Self::Tcp(process) => ServerProcesses::Own(process.pid()),
            Self::Subject(process) => ServerProcesses::Kept(process.pid()),
        }
    }

    /// What it counted so far.
    pub(super) fn counts(&mut self) -> Result<ServerCounts, StreamsError> {
        Ok(match self {
            Self::Http(process) => of_http(&process.served()?),
            Self::Tcp(process) => of_tcp(&process.served()?),
            // It does not count; but that it is still there is worth knowing.
            Self::Subject(process) => ServerCounts {
                raw: as_json(&process.served()?),
                ..ServerCounts::default()
            },
        })
    }
}

impl ServerProcesses {
    /// Their CPU time, and who they are.
    pub(super) fn family(self) -> Result<Family, HostError> {
        match self {
            Self::Own(process) => Family::read(process),
            Self::Kept(process) => Family::below(process),
        }
    }
}

fn of_http(served: &HttpServed) -> ServerCounts {
    ServerCounts {
        requests: Some(served.sum(|bucket| bucket.requests)),
        accepted: (served.buckets.iter())
            .map(|bucket| bucket.connections.accepted)
            .collect(),
        // The report has it once for all trials.
        raw: super::without(as_json(served), &["steering"]),
        ..ServerCounts::default()
    }
}

fn of_tcp(served: &TcpServed) -> ServerCounts {
    let buckets = || served.buckets.iter().map(|bucket| &bucket.connections);
    ServerCounts {
        requests: None,
        accepted: buckets().map(|bucket| bucket.accepted).collect(),
        bytes: buckets()
            .map(|bucket| (bucket.bytes_received, bucket.bytes_sent))
            .collect(),
        segments: Some(Segments {
            sent_again: served.sum(|bucket| bucket.retransmitted_segments),
            out_of_order: served.sum(|bucket| bucket.out_of_order_segments),
            stalls: served.sum(|bucket| bucket.stalls),
        }),
        raw: super::without(as_json(served), &["steering"]),
    }
}
