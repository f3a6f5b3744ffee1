//! What a connection works with while an event of it is handled: what its bucket shares, the time, and where answers go.

use super::access::Lines;
use super::counters::HttpCounters;
use super::exchange::Stamp;
use super::files::Files;
use super::output::Output;
use super::plan::HttpPlan;
use corelane_proto::http::request::{Head, Limits};
use corelane_worker::engine::Id;
use corelane_worker::timers::Wheel;
use corelane_worker::{CachePadded, Time};
use std::sync::Arc;

/// What all connections of a bucket use.
pub(super) struct Parts {
    pub(super) plan: Arc<HttpPlan>,
    pub(super) head_limits: Limits,
    pub(super) counters: Arc<CachePadded<HttpCounters>>,
    pub(super) wheel: Wheel<Id>,
    pub(super) stamp: Stamp,
    pub(super) scratch: Vec<u8>,
    pub(super) files: Option<Files>,
    pub(super) log: Option<Lines>,
}

/// What a connection has to do with while it is at work.
pub(super) struct ConnectionContext<'a> {
    pub(super) plan: &'a HttpPlan,
    pub(super) head_limits: Limits,
    pub(super) counters: &'a HttpCounters,
    pub(super) wheel: &'a mut Wheel<Id>,
    pub(super) stamp: &'a mut Stamp,
    /// Where heads are put together.
    pub(super) scratch: &'a mut Vec<u8>,
    /// The folder that is served; none where objects are.
    pub(super) files: Option<&'a mut Files>,
    /// The access log; none where none is kept.
    log: Option<&'a mut Lines>,
    pub(super) now: Time,
    pub(super) out: Output<'a>,
}

impl ConnectionContext<'_> {
    /// Counts an answer by its status, which is what its line in the access log says.
    pub(super) fn count_status(&mut self, status: u16) {
        self.counters.count_status(status);
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.status(slot, status, self.now);
        }
    }

    /// A request's head was read: its line in the access log begins.
    pub(super) fn begin_line(&mut self, head: &Head<'_>) {
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.begin(slot, head, self.now);
        }
    }

    /// Adds what was queued of an answer's body to its line.
    pub(super) fn add_to_line(&mut self) {
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.add(slot, self.out.take_body_bytes());
        }
    }

    /// The answer or the connection has ended, and with it the line.
    pub(super) fn end_line(&mut self) {
        self.add_to_line();
        let slot = self.out.plain().id.slot();
        if let Some(log) = &mut self.log {
            log.end(slot, self.now);
        }
    }
}

impl Parts {
    pub(super) fn context<'a>(&'a mut self, out: Output<'a>, now: Time) -> ConnectionContext<'a> {
        ConnectionContext {
            plan: &self.plan,
            head_limits: self.head_limits,
            counters: &self.counters,
            wheel: &mut self.wheel,
            stamp: &mut self.stamp,
            scratch: &mut self.scratch,
            files: self.files.as_mut(),
            log: self.log.as_mut(),
            now,
            out,
        }
    }
}
