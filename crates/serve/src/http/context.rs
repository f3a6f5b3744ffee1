//! The context of a connection while one of its events is handled: shared state of the bucket, the time, and the
//! output.

use super::access::{Client, Lines};
use super::files::Files;
use super::output::Output;
use super::plan::HttpPlan;
use crate::handshakes::Handshakes;
use crate::shared::lock;
use corelane_proto::http::request::{Head, Limits, Version};
use corelane_proto::http::{answer, date};
use corelane_worker::engine::Id;
use corelane_worker::timers::Wheel;
use corelane_worker::{CachePadded, Counter, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// The first status with a counter.
const FIRST_STATUS: u16 = 100;

/// The counters of one bucket: written by its worker, readable by any thread.
#[derive(Debug, Default)]
pub struct HttpCounters {
    pub(super) handshakes: Handshakes,
    /// Heads parsed.
    pub(super) requests: Counter,
    /// Request bodies read completely, and their bytes.
    pub(super) bodies: Counter,
    pub(super) body_bytes: Counter,
    /// Echoed bodies that matched the pattern.
    pub(super) pattern_bodies: Counter,
    pub(super) idle_closed: Counter,
    /// 500 statuses from the first one on.
    statuses: Box<[[Counter; 25]; 20]>,
    /// By name; a map, because they are rare.
    pub(super) faults: Mutex<BTreeMap<&'static str, u64>>,
}

impl HttpCounters {
    pub(super) fn count_status(&self, status: u16) {
        let place = usize::from(status.wrapping_sub(FIRST_STATUS));
        if let Some(counter) = self.statuses.as_flattened().get(place) {
            counter.add(1);
        }
    }

    /// Counts why a request was rejected, or a connection ended without a response.
    pub(super) fn count_fault(&self, name: &'static str) {
        *lock(&self.faults).entry(name).or_default() += 1;
    }

    /// Responses by status; non-zero counts.
    pub(super) fn statuses(&self) -> BTreeMap<u16, u64> {
        let counted = (FIRST_STATUS..).zip(self.statuses.as_flattened());
        counted
            .map(|(status, counter)| (status, counter.get()))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// Header fields of every response: server and date.
pub(super) struct Stamp {
    /// The system clock.
    wall: fn() -> SystemTime,
    /// Offset in nanoseconds from the worker's clock to it.
    offset: u64,
    second: u64,
    fields: Vec<u8>,
}

impl Stamp {
    /// The stamp of a worker whose clock shows `now`. The clocks are compared again with the first response of each
    /// second, so that a step of the system clock shows within one.
    pub(super) fn new(now: Time) -> Self {
        Self::of(SystemTime::now, now)
    }

    fn of(wall: fn() -> SystemTime, now: Time) -> Self {
        let mut stamp = Self {
            wall,
            offset: 0,
            second: 0,
            fields: Vec::new(),
        };
        stamp.compare(now);
        stamp
    }

    fn compare(&mut self, now: Time) {
        let wall = (self.wall)().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.offset = (wall.as_nanos() as u64).wrapping_sub(now.nanoseconds());
    }

    /// A time in seconds since the Unix epoch.
    fn second(&self, time: Time) -> u64 {
        time.nanoseconds().wrapping_add(self.offset) / 1_000_000_000
    }

    /// The date of a response that is made now, in seconds since the Unix epoch.
    pub(super) fn date(&mut self, now: Time) -> u64 {
        if self.second(now) != self.second {
            self.compare(now);
            self.second = self.second(now);
            self.fields.clear();
            answer::field(&mut self.fields, "Server", b"corelane");
            answer::field(&mut self.fields, "Date", date::write(self.second).as_bytes());
        }
        self.second
    }

    fn fields(&mut self, now: Time) -> &[u8] {
        self.date(now);
        &self.fields
    }
}

/// State shared by the connections of a bucket.
pub(super) struct Parts {
    pub(super) plan: Arc<HttpPlan>,
    pub(super) head_limits: Limits,
    pub(super) counters: Arc<CachePadded<HttpCounters>>,
    pub(super) wheel: Wheel<Id>,
    pub(super) stamp: Stamp,
    /// Buffer for heads.
    pub(super) scratch: Vec<u8>,
    /// The served folder; `None` when serving objects.
    pub(super) files: Option<Files>,
    /// The access log, if enabled.
    pub(super) log: Option<Lines>,
}

/// The context of a connection.
pub(super) struct ConnectionContext<'a> {
    pub(super) parts: &'a mut Parts,
    pub(super) now: Time,
    pub(super) out: Output<'a>,
    /// Its access log lines, if enabled.
    pub(super) client: Option<&'a mut Client>,
}

impl ConnectionContext<'_> {
    /// A request head was parsed: starts its access log line.
    pub(super) fn begin_line(&mut self, head: &Head<'_>) {
        if let Some(client) = &mut self.client {
            client.request(head, self.now);
        }
    }

    /// Adds queued body bytes of the response to the access log line.
    pub(super) fn add_to_line(&mut self) {
        if let Some(client) = &mut self.client {
            client.body_bytes += self.out.take_body_bytes();
        }
    }

    /// The response or the connection has ended: writes the access log line.
    pub(super) fn end_line(&mut self) {
        self.add_to_line();
        if let (Some(log), Some(client)) = (&mut self.parts.log, &mut self.client) {
            log.end(client, self.now, |time| self.parts.stamp.second(time));
        }
    }

    /// Begins the head of a response, counts its status, and records it in the access log line.
    pub(super) fn begin_head(&mut self, status: u16, version: Version, keep_alive: bool) {
        let parts = &mut *self.parts;
        parts.counters.count_status(status);
        if let Some(client) = &mut self.client {
            client.status(status, self.now);
        }
        parts.scratch.clear();
        answer::begin(&mut parts.scratch, status);
        parts.scratch.extend_from_slice(parts.stamp.fields(self.now));
        answer::connection(&mut parts.scratch, version, keep_alive);
    }

    /// Ends the current head, and queues it together with what `body` appends.
    pub(super) fn end_head(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        let scratch = &mut self.parts.scratch;
        answer::end(scratch);
        let head_bytes = scratch.len();
        body(scratch);
        self.out.write_head(scratch, head_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// 1994-11-06 08:49:37.
    static SECONDS: AtomicU64 = AtomicU64::new(784_111_777);

    #[test]
    fn a_step_of_the_system_clock_shows_within_a_second() {
        let wall = || UNIX_EPOCH + Duration::from_secs(SECONDS.load(Ordering::Relaxed));
        let mut stamp = Stamp::of(wall, Time::default());
        let mut date = |millis| {
            let fields = stamp.fields(Time::default() + Duration::from_millis(millis));
            String::from_utf8(fields.to_vec()).unwrap()
        };
        assert!(date(0).ends_with("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
        for (step, millis, shown) in [(3_600, 1_000, "09:49:37"), (-7_200, 2_000, "07:49:37")] {
            SECONDS.fetch_add(step as u64, Ordering::Relaxed);
            assert!(date(millis).contains(shown), "{}", date(millis));
        }
    }

    #[test]
    fn a_date_is_that_of_the_response_also_after_a_step_back() {
        static SECONDS: AtomicU64 = AtomicU64::new(784_111_777);
        let wall = || UNIX_EPOCH + Duration::from_secs(SECONDS.load(Ordering::Relaxed));
        let mut stamp = Stamp::of(wall, Time::default());
        stamp.fields(Time::default());
        SECONDS.fetch_sub(3_600, Ordering::Relaxed);
        let now = Time::default() + Duration::from_secs(1);
        let date = date::write(stamp.date(now));
        let fields = String::from_utf8(stamp.fields(now).to_vec()).unwrap();
        assert!(fields.contains(&format!("Date: {date}\r\n")), "{fields}");
    }
}
