//! Bytes in one or both directions for as long as a run lasts: what each connection writes when, whether it makes progress, and
//! when the last bytes have arrived.

use super::loaded::Stall;
use super::plan::{Direction, WRITE_BYTES};
use crate::failure::Failure;
use crate::streams::{Ask, Context, Step, StreamLoadError, StreamProtocol, Transport};
use corelane_measure::histogram::Histogram;
use corelane_worker::Time;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use std::time::Duration;

/// Bytes that a rate may have queued on a connection: a peer that takes less than its rate is not made up for.
const MOST_QUEUED: u64 = WRITE_BYTES as u64;

/// What is written: zeros, as the measure is how many.
static BLOCK: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; WRITE_BYTES as usize].into());

/// How often a connection is looked at: for progress, and for what a rate allows.
const LOOK: Duration = Duration::from_millis(20);

/// What a look may take of the time, for each connection of the run: with more than 10,000, looks are rarer, so that looking at
/// a million leaves time for moving bytes.
const LOOK_A_CONNECTION: Duration = Duration::from_micros(2);

/// Stalls that one worker names; all are counted.
const STALLS_NAMED: usize = 64;

/// The bytes that connections move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bytes {
    pub(super) direction: Direction,
    /// Of each write.
    pub(super) write_bytes: u32,
    /// Of each connection; `None` for as many as it can.
    pub(super) write_bytes_per_second: Option<u64>,
    /// Without progress for so long a connection stands still.
    pub(super) stall: Duration,
    /// Whether the last bytes are waited for.
    pub(super) drains: bool,
}

/// One connection's transfer.
#[derive(Debug, Default)]
pub(crate) struct Transfer {
    /// Bytes handed to the engine.
    handed: u64,
    /// Of those, bytes that the kernel has taken, as far as they are counted.
    sent: u64,
    received: u64,
    /// Bytes moved when it was last looked at, and when it last made progress.
    seen: u64,
    progress: Time,
    is_stalled: bool,
    /// The time to write is over.
    is_finishing: bool,
}

/// What the transfers of a worker came to.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    /// When the first began to write.
    start: Option<Time>,
    /// When the last bytes arrived that are known of.
    arrived: Option<Time>,
    /// How late looks were that a rate asks for.
    pub(super) lag: Histogram,
    pub(super) stalls: Vec<Stall>,
    pub(super) stall_count: u64,
    /// Connections that stand still.
    pub(super) stalled: u64,
    /// Bytes that each connection moved that was open to the end.
    pub(super) moved: Vec<u64>,
    pub(super) retransmitted: u64,
    pub(super) out_of_order: u64,
}

impl Transfers {
    /// From the first byte to the last that arrived.
    pub(super) fn running(&self) -> Duration {
        let times = self.start.zip(self.arrived);
        times.map_or(Duration::ZERO, |(start, arrived)| arrived.since(start))
    }
}

impl StreamProtocol for Bytes {
    const NAME: &'static str = "tcp";
    const IS_TRANSFER: bool = true;
    type Requests = ();
    type Exchange = Transfer;
    type Shared = Transfers;

    fn prepare(&self) -> Result<(), StreamLoadError> {
        Ok(())
    }

    fn begin(
        _: &mut Transfer,
        _: Ask,
        deadline: &mut Time,
        _: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        *deadline = Time::NEVER;
        Step::Wait
    }

    fn receive(
        transfer: &mut Transfer,
        bytes: &[u8],
        _: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        transfer.received += bytes.len() as u64;
        context.shared.arrived = Some(context.now);
        Step::Wait
    }

    fn drained(
        transfer: &mut Transfer,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        if *deadline == Time::NEVER && !transfer.is_finishing {
            context.shared.start.get_or_insert(context.now);
            transfer.progress = context.now;
            *deadline = context.now + look_interval(context);
        }
        transfer.write(context)
    }

    fn expired(
        transfer: &mut Transfer,
        deadline: &mut Time,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        let has_rate = context.terms.pool.protocol.write_bytes_per_second.is_some();
        if has_rate {
            context
                .shared
                .lag
                .record(context.now.since(*deadline).as_nanos() as u64);
        }
        transfer.look(context);
        *deadline = context.now + look_interval(context);
        if has_rate {
            transfer.write(context)
        } else {
            Step::Wait
        }
    }

    /// The server has ended its side: at the end everything has arrived, there and here; before, nothing more is expected of it.
    fn ended(
        transfer: &mut Transfer,
        _genuine: bool,
        context: &mut Context<'_, Self, impl Transport>,
    ) -> Step {
        if !transfer.is_finishing {
            transfer.end(context);
            return Step::Failed(Failure::ClosedEarly);
        }
        if context.terms.pool.protocol.direction == Direction::Write {
            // The server has taken the last of them.
            context.shared.arrived = Some(context.now);
        }
        transfer.last(context);
        Step::Complete {
            wrong: None,
            stays: false,
        }
    }

    /// Ends this side, so that the server ends its own once everything has arrived. What the kernel has not taken is not sent
    /// any more.
    fn finish(transfer: &mut Transfer, deadline: &mut Time, context: &mut Context<'_, Self, impl Transport>) {
        transfer.look(context);
        (transfer.is_finishing, *deadline) = (true, Time::NEVER);
        context.shared.arrived = context.shared.arrived.max(Some(context.now));
        if context.terms.pool.protocol.drains
            && let Some((ops, id)) = context.out.engine()
        {
            transfer.handed -= ops.discard(id);
            ops.shutdown(id);
        }
    }

    fn left(transfer: &mut Transfer, lasted: bool, context: &mut Context<'_, Self, impl Transport>) {
        if lasted {
            transfer.last(context);
        } else {
            transfer.end(context);
        }
    }

    fn stalled(shared: &Transfers) -> u64 {
        shared.stalled
    }
}

impl Transfer {
    /// Writes the next piece, or what its rate has allowed by now.
    fn write(&mut self, context: &mut Context<'_, Bytes, impl Transport>) -> Step {
        let bytes = &context.terms.pool.protocol;
        let Some(start) = context
            .shared
            .start
            .filter(|_| bytes.direction.writes() && !self.is_finishing)
        else {
            return Step::Wait;
        };
        let block: &'static [u8] = &BLOCK;
        let block = &block[..(bytes.write_bytes as usize).clamp(1, block.len())];
        let mut due = match bytes.write_bytes_per_second {
            None => {
                self.handed += block.len() as u64;
                if context.out.write_static(block).is_err() {
                    return Step::Failed(Failure::NoMemory);
                }
                context.out.notify_drained();
                return Step::Wait;
            }
            Some(rate) => {
                let allowed = (rate as f64 * context.now.since(start).as_secs_f64()) as u64;
                allowed.saturating_sub(self.handed)
            }
        };
        while due > 0 && context.out.queued() < MOST_QUEUED {
            let piece = usize::try_from(due).map_or(block.len(), |due| due.min(block.len()));
            if context.out.write_static(&block[..piece]).is_err() {
                return Step::Failed(Failure::NoMemory);
            }
            self.handed += piece as u64;
            due -= piece as u64;
        }
        Step::Wait
    }

    /// Counts what the kernel has taken; all bytes moved, both ways.
    fn count(&mut self, context: &mut Context<'_, Bytes, impl Transport>) -> u64 {
        let sent = self.handed - context.out.queued().min(self.handed);
        context.counts.bytes.sent += sent - self.sent;
        self.sent = sent;
        sent + self.received
    }

    /// Looks whether it has made progress.
    fn look(&mut self, context: &mut Context<'_, Bytes, impl Transport>) {
        let moved = self.count(context);
        let bytes = &context.terms.pool.protocol;
        // A writer that its rate holds back does not stand still.
        let waits = context.out.queued() > 0 || !bytes.direction.writes();
        if moved != self.seen || !waits {
            (self.seen, self.progress) = (moved, context.now);
            self.end_stall(context);
        } else if !self.is_stalled && context.now.since(self.progress) >= bytes.stall {
            self.begin_stall(context);
        }
    }

    fn begin_stall(&mut self, context: &mut Context<'_, Bytes, impl Transport>) {
        self.is_stalled = true;
        context.shared.stalled += 1;
        context.shared.stall_count += 1;
        if context.shared.stalls.len() < STALLS_NAMED
            && let (Some((ops, id)), Some(start)) = (context.out.engine(), context.shared.start)
        {
            context.shared.stalls.push(Stall {
                local: ops.local_address(id),
                peer: context.terms.pool.target,
                since_s: self.progress.since(start).as_secs_f64(),
                for_s: 0.0,
                ended: false,
                bytes: self.seen,
            });
        }
    }

    fn end_stall(&mut self, context: &mut Context<'_, Bytes, impl Transport>) {
        if !std::mem::take(&mut self.is_stalled) {
            return;
        }
        context.shared.stalled -= 1;
        let (Some((ops, id)), Some(start)) = (context.out.engine(), context.shared.start) else {
            return;
        };
        let local = ops.local_address(id);
        let mut stalls = context.shared.stalls.iter_mut();
        if let Some(stall) = stalls.find(|stall| !stall.ended && stall.local == local) {
            stall.for_s = context.now.since(start).as_secs_f64() - stall.since_s;
            stall.ended = true;
        }
    }

    /// The connection has ended during the run.
    fn end(&mut self, context: &mut Context<'_, Bytes, impl Transport>) {
        self.end_stall(context);
        self.count(context);
    }

    /// The connection was open to the end: what it moved, and what the kernel reports of it.
    fn last(&mut self, context: &mut Context<'_, Bytes, impl Transport>) {
        let moved = self.count(context);
        context.shared.moved.push(moved);
        let information = context.out.engine().and_then(|(ops, id)| ops.information(id));
        if let Some(information) = information {
            context.shared.retransmitted += u64::from(information.retransmitted);
            context.shared.out_of_order += u64::from(information.out_of_order);
        }
    }
}

/// From one look at a connection to the next.
fn look_interval(context: &Context<'_, Bytes, impl Transport>) -> Duration {
    let all = u32::try_from(context.terms.pool.connections).unwrap_or(u32::MAX);
    LOOK.max(LOOK_A_CONNECTION.saturating_mul(all))
}
