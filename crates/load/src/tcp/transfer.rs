//! Transfers in one or both directions for the length of a run: when each connection writes, whether it makes progress,
//! and when the last bytes have arrived.

use crate::failure::Failure;
use crate::streams::{
    Ask, CONNECT, ConnectionOutput, Histograms, LiveStreams, One, Part, Step, StreamLoad, StreamLoadError,
    StreamPlan, StreamProtocol, StreamStart, Terms, Timeouts, Traffic, Turn,
};
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use corelane_measure::words;
use corelane_worker::Time;
use corelane_worker::engine::Remote;
use corelane_worker::tls;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

/// Direction of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferDirection {
    /// To the server.
    Write,
    /// From the server, which must send unsolicited.
    Read,
    /// Both at the same time: the server echoes, or sends as much.
    Both,
}

impl TransferDirection {
    /// Whether this end writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }
}

words!(TransferDirection);

/// Default and maximum size of a write: large enough that the cost per call does not matter.
pub const WRITE_BYTES: u32 = 1 << 20;

const fn write_bytes() -> u32 {
    WRITE_BYTES
}

/// Maximum backlog of a rate on a connection: if the peer reads more slowly than the rate, the deficit is not made up
/// for.
const MOST_QUEUED: u64 = WRITE_BYTES as u64;

/// Data to write; zeros, because only the amount matters.
static BLOCK: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; WRITE_BYTES as usize].into());

/// Interval between checks of a connection: progress, and the allowance of a rate.
const LOOK: Duration = Duration::from_millis(20);

/// Time budget per connection for checks: above 10,000 connections the interval grows, so that checking a million
/// leaves time for transfers.
const LOOK_A_CONNECTION: Duration = Duration::from_micros(2);

/// Maximum number of stalls listed per worker; all are counted.
const STALLS_NAMED: usize = 64;

/// The protocol of `load tcp`: bytes without structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Direction of transfer.
    pub direction: TransferDirection,
    /// Bytes per write, at most [`WRITE_BYTES`], with TLS 256 KiB; the next write follows once the kernel has accepted all of them.
    #[serde(default = "write_bytes")]
    pub write_bytes: u32,
    /// Bytes per second that each connection writes; `None` for no limit.
    pub write_bytes_per_second: Option<u64>,
    /// Maximum drain time in seconds: waits until everything that either end sent has arrived and the server has closed
    /// each connection; `None` for no draining.
    #[serde(default)]
    pub drain_s: Option<f64>,
    /// Seconds without progress after which a connection counts as stalled.
    pub stall_s: f64,
}

/// The transfer of one connection.
#[derive(Debug, Default)]
pub struct Transfer {
    /// Bytes passed to the engine.
    handed: u64,
    /// Of those, bytes accepted by the kernel, as of the last count.
    sent: u64,
    received: u64,
    /// Bytes moved at the last check, and when progress was last made.
    moved: u64,
    progress: Time,
    is_stalled: bool,
    /// The time to write is over.
    is_finishing: bool,
}

/// A connection that made no progress for a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Local address.
    pub local: Option<SocketAddr>,
    /// Remote address.
    pub peer: Remote,
    /// Seconds from the start of the run to the start of the stall.
    pub since_s: f64,
    /// Duration of the stall in seconds; until the end of the run if it did not end.
    pub for_s: f64,
    /// Whether the stall ended.
    pub ended: bool,
    /// Bytes moved before the stall, both directions summed.
    pub bytes: u64,
}

/// Results of a worker's transfers.
#[derive(Debug, Default)]
pub struct Transfers {
    /// When the first connection began to write.
    start: Option<Time>,
    /// When the last known bytes arrived.
    arrived: Option<Time>,
    /// Lag of checks that enforce a rate.
    pub(super) lag: Histogram,
    pub(super) stalls: Vec<Stall>,
    pub(super) stall_count: u64,
    /// Stalled connections.
    pub(super) stalled: u64,
    /// Bytes moved by each connection that was open until the end.
    pub(super) moved: Vec<u64>,
    pub(super) retransmitted: u64,
    pub(super) out_of_order: u64,
}

impl Transfers {
    /// From the first byte sent to the last one received.
    pub(super) fn running(&self) -> Duration {
        let times = self.start.zip(self.arrived);
        times.map_or(Duration::ZERO, |(start, arrived)| arrived.since(start))
    }
}

impl StreamStart for Bytes {
    #[inline(never)]
    fn start(plan: StreamPlan<Self>) -> Result<StreamLoad<Self>, StreamLoadError> {
        StreamLoad::of_plan(plan)
    }
}

impl StreamProtocol for Bytes {
    const NAME: &'static str = "tcp";
    const SCHEMA: &'static str = "corelane/loaded-tcp/1";
    type Traffic = Transfers;
    type Requests = ();
    type Request = ();
    type InFlight = One<()>;
    type Exchange = Transfer;
    type Shared = Transfers;
    type Counts = ();
    type Error = Infallible;

    fn prepare(&self, _: &Timeouts) -> Result<(), Infallible> {
        Ok(())
    }

    fn share((): &(), _: Part) -> Transfers {
        Transfers::default()
    }

    fn choose((): &(), _: &mut Transfers, _: &mut fastrand::Rng) {}

    fn begin(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>, _: Ask) -> Step {
        *turn.deadline = Time::NEVER;
        Step::Wait
    }

    fn receive(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>, bytes: &mut &[u8]) -> Step {
        turn.exchange.received += bytes.len() as u64;
        turn.shared.arrived = Some(turn.now);
        Step::Wait
    }

    fn drained(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>) -> Step {
        turn.write()
    }

    fn expired(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>) -> Step {
        let has_rate = turn.terms.pool.protocol.write_bytes_per_second.is_some();
        if has_rate {
            turn.shared
                .lag
                .record(turn.now.since(*turn.deadline).as_nanos() as u64);
        }
        turn.look();
        *turn.deadline = turn.now + look_interval(turn.terms);
        if has_rate { turn.write() } else { Step::Wait }
    }

    /// The server has closed its side: at the end, everything has arrived at both ends; earlier, nothing more is
    /// expected.
    fn ended(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>, genuine: bool) -> Step {
        if !turn.exchange.is_finishing || !genuine {
            turn.end();
            return Step::Failed(Failure::ClosedEarly);
        }
        if turn.terms.pool.protocol.direction == TransferDirection::Write {
            // The server has received the last byte.
            turn.shared.arrived = Some(turn.now);
        }
        turn.last();
        Step::Complete {
            wrong: None,
            stays: false,
        }
    }
}

impl Traffic<Bytes> for Transfers {
    const LASTS: bool = true;
    const COUNTED: &'static [Metric<LiveStreams>] = LiveStreams::OF_TRANSFERS;
    const TIMED: &'static Metric<Histogram> = &CONNECT;
    const RATE: &'static [Metric<LiveStreams>] = &[LiveStreams::SENT_BYTES, LiveStreams::RECEIVED_BYTES];

    fn times(histograms: &Histograms) -> &Histogram {
        &histograms.connect
    }

    fn start(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>) -> Step {
        turn.shared.start.get_or_insert(turn.now);
        turn.exchange.progress = turn.now;
        *turn.deadline = turn.now + look_interval(turn.terms);
        turn.write()
    }

    /// Closes this side, so that the server closes its own once everything has arrived. Bytes not yet accepted by the
    /// kernel are discarded, except with TLS, which cannot cut a record.
    fn finish(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>) -> Step {
        turn.look();
        (turn.exchange.is_finishing, *turn.deadline) = (true, Time::NEVER);
        turn.shared.arrived = turn.shared.arrived.max(Some(turn.now));
        if turn.terms.pool.protocol.drain_s.is_none() {
            return Step::Wait;
        }
        let is_plain = !turn.out.copies();
        turn.out.end();
        if let Some((ops, id)) = turn.out.engine() {
            if is_plain {
                turn.exchange.handed -= ops.discard(id);
            }
            ops.shutdown(id);
        }
        Step::Wait
    }

    fn left(turn: &mut Turn<'_, Bytes, impl ConnectionOutput>, lasted: bool) -> Step {
        match lasted {
            true => turn.last(),
            false => turn.end(),
        }
        Step::Wait
    }

    fn stalled(shared: &Transfers) -> u64 {
        shared.stalled
    }
}

impl<O: ConnectionOutput> Turn<'_, Bytes, O> {
    /// Writes the next piece, or as much as the rate allows by now.
    fn write(&mut self) -> Step {
        let bytes = &self.terms.pool.protocol;
        let Some(start) = self
            .shared
            .start
            .filter(|_| bytes.direction.writes() && !self.exchange.is_finishing)
        else {
            return Step::Wait;
        };
        let most = match self.out.copies() {
            true => tls::WINDOW,
            false => MOST_QUEUED,
        };
        let block: &'static [u8] = &BLOCK;
        let block = &block[..(bytes.write_bytes as usize).clamp(1, most as usize)];
        let mut due = match bytes.write_bytes_per_second {
            None => {
                self.exchange.handed += block.len() as u64;
                if self.out.write_static(block).is_err() {
                    return Step::Failed(Failure::NoMemory);
                }
                self.out.notify_drained();
                return Step::Wait;
            }
            Some(rate) => {
                let allowed = (rate as f64 * self.now.since(start).as_secs_f64()) as u64;
                allowed.saturating_sub(self.exchange.handed)
            }
        };
        while due > 0 && self.out.queued() < most {
            let piece = usize::try_from(due).map_or(block.len(), |due| due.min(block.len()));
            if self.out.write_static(&block[..piece]).is_err() {
                return Step::Failed(Failure::NoMemory);
            }
            self.exchange.handed += piece as u64;
            due -= piece as u64;
        }
        Step::Wait
    }

    /// Counts the bytes accepted by the kernel; returns all bytes moved, both directions summed.
    fn count(&mut self) -> u64 {
        let queued = match self.out.engine() {
            Some((ops, id)) => ops.unsent(id),
            None => self.out.queued(),
        };
        // Queued records are longer than their plaintext.
        let sent = (self.exchange.handed.saturating_sub(queued)).max(self.exchange.sent);
        self.counts.bytes.sent += sent - self.exchange.sent;
        self.exchange.sent = sent;
        sent + self.exchange.received
    }

    /// Checks for progress.
    fn look(&mut self) {
        let moved = self.count();
        self.exchange.progress = counted_from(
            self.exchange.progress,
            self.now.since(*self.deadline),
            look_interval(self.terms),
        );
        let bytes = &self.terms.pool.protocol;
        // A writer limited by its rate is not stalled.
        let waits = self.out.queued() > 0 || !bytes.direction.writes();
        if moved != self.exchange.moved || !waits {
            (self.exchange.moved, self.exchange.progress) = (moved, self.now);
            self.end_stall();
        } else if !self.exchange.is_stalled
            && self.now.since(self.exchange.progress).as_secs_f64() >= bytes.stall_s
        {
            self.begin_stall();
        }
    }

    fn begin_stall(&mut self) {
        self.exchange.is_stalled = true;
        self.shared.stalled += 1;
        self.shared.stall_count += 1;
        if self.shared.stalls.len() < STALLS_NAMED
            && let (Some((ops, id)), Some(start)) = (self.out.engine(), self.shared.start)
        {
            self.shared.stalls.push(Stall {
                local: ops.local_address(id),
                peer: self.terms.pool.target.clone(),
                since_s: self.exchange.progress.since(start).as_secs_f64(),
                for_s: 0.0,
                ended: false,
                bytes: self.exchange.moved,
            });
        }
    }

    fn end_stall(&mut self) {
        if !std::mem::take(&mut self.exchange.is_stalled) {
            return;
        }
        self.shared.stalled -= 1;
        let (Some((ops, id)), Some(start)) = (self.out.engine(), self.shared.start) else {
            return;
        };
        let local = ops.local_address(id);
        let mut stalls = self.shared.stalls.iter_mut();
        if let Some(stall) = stalls.find(|stall| !stall.ended && stall.local == local) {
            stall.for_s = self.now.since(start).as_secs_f64() - stall.since_s;
            stall.ended = true;
        }
    }

    /// The connection has ended during the run.
    fn end(&mut self) {
        self.end_stall();
        self.count();
    }

    /// The connection was open until the end: records its bytes and `TCP_INFO`.
    fn last(&mut self) {
        let moved = self.count();
        self.shared.moved.push(moved);
        let information = self.out.engine().and_then(|(ops, id)| ops.information(id));
        if let Some(information) = information {
            self.shared.retransmitted += u64::from(information.retransmitted);
            self.shared.out_of_order += u64::from(information.out_of_order);
        }
    }
}

/// From when on a connection without progress since `progress` stands still, when it is looked at `late`: two intervals
/// count at most, because nothing moves while the machine pauses.
fn counted_from(progress: Time, late: Duration, interval: Duration) -> Time {
    progress + late.saturating_sub(interval)
}

/// Interval between checks of a connection.
fn look_interval(terms: &Terms<Bytes>) -> Duration {
    let all = u32::try_from(terms.pool.connections).unwrap_or(u32::MAX);
    LOOK.max(LOOK_A_CONNECTION.saturating_mul(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_machine_is_no_stall() {
        let (progress, interval) = (Time::from_nanoseconds(7), Duration::from_millis(20));
        let counted = |late_ms| {
            let late = Duration::from_millis(late_ms);
            let looked = progress + interval + late;
            looked.since(counted_from(progress, late, interval))
        };
        assert_eq!(counted(0), interval);
        assert_eq!(counted(15), Duration::from_millis(35));
        assert_eq!(counted(3_600_000), 2 * interval);
    }
}
