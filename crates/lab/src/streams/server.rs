//! The server of a trial: ours, or any other.

use super::document::{Segments, Shape, Traffic};
use super::plan::StreamsPlan;
use crate::child::{ChildError, ServerProcess, Subject};
use crate::document::as_json;
use corelane_host::HostError;
use corelane_host::bed::Side;
use corelane_host::counters::Family;
use corelane_serve::Server;
use corelane_serve::http::{HttpServed, HttpServer};
use corelane_serve::tcp::{TcpMode, TcpServed, TcpServer};
use serde_json::Value;
use std::path::Path;

/// A server that is ready.
pub(super) struct ServerOfTrial {
    /// Its processes.
    pub(super) processes: ServerProcesses,
    /// Asks it what it counted so far.
    pub(super) counts: Box<dyn FnMut() -> Result<ServerCounts, ChildError>>,
}

/// The processes of a server, which any thread can query.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerProcesses {
    first: u32,
    /// Whether the first process is only the keeper of the others.
    keeps: bool,
}

/// The server's own counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServerCounts {
    /// Requests received; `None` if bytes are counted.
    pub(super) requests: Option<u64>,
    /// Connections accepted by each bucket, in bucket order; empty if the server does not report them.
    pub(super) accepted: Vec<u64>,
    /// Bytes that each bucket received and sent, in bucket order; empty where requests are counted, or nothing.
    pub(super) bytes: Vec<(u64, u64)>,
    /// Retransmissions, reordering and stalls of TCP, if they were polled.
    pub(super) segments: Option<Segments>,
    /// Its raw report.
    pub(super) raw: Value,
}

impl ServerCounts {
    /// Whether the server counts at all.
    pub(super) fn is_told(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Whether the counts are unchanged, and thus complete.
    pub(super) fn stands_at(&self, earlier: &Self) -> bool {
        (self.requests, &self.accepted, &self.bytes) == (earlier.requests, &earlier.accepted, &earlier.bytes)
    }
}

impl ServerOfTrial {
    /// Starts the server of a step, ours or the subject; returns when it accepts connections.
    pub(super) fn start(
        plan: &StreamsPlan,
        shape: &Shape,
        program: &Path,
        side: &Side,
    ) -> Result<Self, ChildError> {
        let with = |mode| {
            let plan = plan.tcp_server(shape, mode);
            Self::serving::<TcpServer>(&plan, program, side, of_tcp)
        };
        match (plan.subject(shape), shape.traffic) {
            // It does not count, but this checks that it still runs.
            (Some(subject), _) => Self::serving::<Subject>(&subject, program, side, |served| ServerCounts {
                raw: as_json(served),
                ..ServerCounts::default()
            }),
            (None, Traffic::Requests) => {
                Self::serving::<HttpServer>(&plan.http_server(shape), program, side, of_http)
            }
            (None, Traffic::Sink) => with(TcpMode::Sink),
            (None, Traffic::Source) => with(TcpMode::Source),
            (None, Traffic::Echo) => with(TcpMode::Echo),
        }
    }

    fn serving<S: Server + 'static>(
        plan: &S::Plan,
        program: &Path,
        side: &Side,
        counts: fn(&S::Served) -> ServerCounts,
    ) -> Result<Self, ChildError> {
        let mut process = ServerProcess::<S>::start(program, side, plan)?;
        Ok(Self {
            processes: ServerProcesses {
                first: process.pid(),
                keeps: S::STARTS_PROCESSES,
            },
            counts: Box::new(move || Ok(counts(&process.served()?))),
        })
    }
}

impl ServerProcesses {
    /// Their CPU time and process ids.
    pub(super) fn family(self) -> Result<Family, HostError> {
        match self.keeps {
            true => Family::below(self.first),
            false => Family::read(self.first),
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
