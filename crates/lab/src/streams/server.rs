//! The server of a trial: ours, or any other.

use super::plan::StreamsPlan;
use super::run::StreamsError;
use crate::child::{HttpServerProcess, SubjectProcess};
use corelane_host::HostError;
use corelane_host::bed::Side;
use corelane_host::counters::Family;
use corelane_report::streams::Shape;
use corelane_serve::http::HttpServed;
use serde_json::Value;
use std::path::Path;

/// A server that is ready.
pub(super) enum ServerOfTrial {
    Http(Box<HttpServerProcess>),
    Subject(SubjectProcess),
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
    /// Requests that came.
    pub(super) requests: Option<u64>,
    /// Connections accepted by each bucket, in bucket order; empty where the server does not tell.
    pub(super) accepted: Vec<u64>,
    /// Its report as it wrote it.
    pub(super) raw: Value,
}

impl ServerOfTrial {
    /// Starts the server of a step; returns when it accepts connections.
    pub(super) fn start(
        plan: &StreamsPlan,
        shape: &Shape,
        program: &Path,
        side: &Side,
    ) -> Result<Self, StreamsError> {
        Ok(match plan.subject(shape) {
            Some(subject) => Self::Subject(SubjectProcess::start(program, side, &subject)?),
            None => Self::Http(Box::new(HttpServerProcess::start(
                program,
                side,
                &plan.http_server(shape),
            )?)),
        })
    }

    /// Its processes.
    pub(super) fn processes(&self) -> ServerProcesses {
        match self {
            Self::Http(process) => ServerProcesses::Own(process.pid()),
            Self::Subject(process) => ServerProcesses::Kept(process.pid()),
        }
    }

    /// What it counted so far.
    pub(super) fn counts(&mut self) -> Result<ServerCounts, StreamsError> {
        Ok(match self {
            Self::Http(process) => of_http(&process.served()?),
            // It does not count; but that it is still there is worth knowing.
            Self::Subject(process) => ServerCounts {
                raw: super::as_json(&process.served()?),
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
    let mut raw = super::as_json(served);
    if let Some(fields) = raw.as_object_mut() {
        // The report has it once for all trials.
        fields.remove("steering");
    }
    ServerCounts {
        requests: Some(served.requests()),
        accepted: served.buckets.iter().map(|bucket| bucket.accepted).collect(),
        raw,
    }
}
