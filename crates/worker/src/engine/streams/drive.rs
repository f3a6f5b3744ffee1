//! The life cycle of a stream, common to all engines: open, send, settle, end. A [`StreamDriver`] adds the
//! engine-specific part: watching, receiving and sending.

use super::options::ConnectOptions;
use super::{Accepts, FlushedStream, Handle, Phase, Remote, Request, Stream};
use crate::engine::cause::{Cause, Origin};
use crate::engine::id::Id;
use crate::engine::ops::{Notice, Ops};
use crate::engine::{Event, Handler, TURN_DATAGRAMS};
use crate::system::stream;
use crate::time::Time;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Visits between two clock reads. A clock read costs about 30 ns, a visit about 2 µs.
const VISITS_PER_CLOCK: u64 = 8;

/// The retry interval of a listener that found no free descriptor, and of a connection that found a backlog full.
const STARVED: Duration = Duration::from_millis(10);

/// The engine-specific part of handling streams.
pub(crate) trait StreamDriver {
    /// The engine's clock.
    fn now(&self) -> Time;

    /// Starts a connection attempt.
    fn connect(&mut self, to: &Remote, options: ConnectOptions) -> io::Result<Handle> {
        let begun = match to {
            Remote::Ip(to) => stream::connect(*to, options.local, options.free_bind),
            Remote::Unix(path) => stream::connect_unix(path),
        };
        begun.map(Handle::Kernel)
    }

    /// Registers a connection that was accepted or is being opened.
    fn watch(&mut self, ops: &mut Ops, slot: u32) -> io::Result<()>;

    /// Starts or stops, according to `wanted`, receiving on an open connection or accepting on a listener.
    fn apply_stream(&mut self, ops: &mut Ops, slot: u32, wanted: bool) -> io::Result<()>;

    /// Called after changes were applied and before queues are sent.
    fn changes_applied(&mut self) {}

    /// Sends a connection's queue. None while an earlier send is in progress.
    fn send_stream(&mut self, ops: &mut Ops, slot: u32) -> Option<FlushedStream>;

    /// Arranges a call of [`unblocked`] when a blocked connection has room again.
    fn await_stream_room(&mut self, _ops: &mut Ops, _slot: u32) {}

    /// Arranges that bytes received before a reset are lent; the receive after them ends the connection.
    fn lend_rest(&mut self, _slot: u32) {}

    /// Ends this side of a connection (FIN).
    fn shutdown(&mut self, ops: &Ops, slot: u32) {
        if let Some(connection) = ops.streams.at(slot).descriptor() {
            // Fails if the peer has reset the connection; the next receive reports that.
            let _ = stream::shutdown(connection);
        }
    }

    /// Cancels all operations of a stream that ends.
    fn release(&mut self, ops: &mut Ops, slot: u32);

    /// Handles the next event of any stream; returns whether there was one.
    fn visit(&mut self, ops: &mut Ops, now: Time, on: &mut impl Handler) -> bool;
}

/// Applies changes, sends queues and handles expired deadlines.
pub(crate) fn perform(driver: &mut impl StreamDriver, ops: &mut Ops) {
    if !ops.streams.is_idle() {
        apply_changes(driver, ops);
        driver.changes_applied();
        flush_all(driver, ops);
        // A close or shutdown may have waited for these sends.
        apply_changes(driver, ops);
    }
    if !ops.deadlines.is_empty() {
        let now = driver.now();
        while let Some(id) = ops.deadlines.expired(now) {
            passed(driver, ops, id);
        }
    }
}

/// Handles events until there are none, the limit per turn is reached, or the deadline has passed.
pub(crate) fn serve(
    driver: &mut impl StreamDriver,
    ops: &mut Ops,
    mut now: Time,
    deadline: Time,
    on: &mut impl Handler,
) {
    for visits in 0..TURN_DATAGRAMS {
        if visits > 0 && visits % VISITS_PER_CLOCK == 0 {
            now = driver.now();
            if now >= deadline {
                return;
            }
        }
        if !driver.visit(ops, now, on) {
            return;
        }
        flush_all(driver, ops);
    }
}

fn apply_changes(driver: &mut impl StreamDriver, ops: &mut Ops) {
    while let Some(slot) = ops.streams.next_change() {
        let stream = ops.streams.at(slot);
        if stream.closing && (stream.queue.is_empty() || stream.broken.is_some()) {
            end(driver, ops, slot, stream.broken.unwrap_or(Cause::Asked));
        } else if stream.phase == Phase::Connecting {
            if stream.handle.is_none() {
                connect(driver, ops, slot);
            }
        } else {
            let wanted = stream.receiving && !stream.closing;
            match driver.apply_stream(ops, slot, wanted) {
                Ok(()) => settle(driver, ops, slot),
                Err(error) => fail(driver, ops, slot, Cause::from_error(&error)),
            }
        }
    }
}

fn connect(driver: &mut impl StreamDriver, ops: &mut Ops, slot: u32) {
    let Some(request) = ops.streams.at_mut(slot).request.as_mut() else {
        return;
    };
    if let Some(timer) = request.timer.take() {
        ops.deadlines.cancel(timer);
    }
    let (options, is_unix) = (request.options, matches!(request.to, Remote::Unix(_)));
    let begun = driver.connect(&request.to, options).and_then(|handle| {
        ops.streams.at_mut(slot).handle = Some(handle);
        driver.watch(ops, slot)
    });
    match begun {
        Ok(()) => {}
        // Only a full backlog of a Unix socket, for which the kernel waits as little as the descriptor allows (unix(7)).
        Err(error) if is_unix && error.kind() == io::ErrorKind::WouldBlock => {
            return await_backlog(driver, ops, slot);
        }
        Err(error) => return fail(driver, ops, slot, Cause::from_error(&error)),
    }
    if let Some(timeout) = options.timeout {
        let id = ops.streams.id(slot);
        let timer = ops.deadlines.insert(driver.now() + timeout, id);
        if let Some(request) = ops.streams.at_mut(slot).request.as_mut() {
            request.timer = Some(timer);
        }
    }
}

/// Tries to connect again soon, until the timeout.
fn await_backlog(driver: &mut impl StreamDriver, ops: &mut Ops, slot: u32) {
    let (now, id) = (driver.now(), ops.streams.id(slot));
    let Some(request) = ops.streams.at_mut(slot).request.as_mut() else {
        return;
    };
    let timeout = request.options.timeout;
    let until = *(request.until).get_or_insert_with(|| timeout.map_or(Time::NEVER, |timeout| now + timeout));
    if now >= until {
        return fail(driver, ops, slot, Cause::TimedOut);
    }
    request.timer = Some(ops.deadlines.insert((now + STARVED).min(until), id));
}

/// A connection attempt over the kernel has ended.
pub(crate) fn opened(
    driver: &mut impl StreamDriver,
    ops: &mut Ops,
    slot: u32,
    now: Time,
    on: &mut impl Handler,
) {
    match ops.streams.at(slot).descriptor().map(stream::take_error) {
        Some(Ok(())) => connected(ops, slot, now, on),
        Some(Err(error)) => fail(driver, ops, slot, Cause::from_error(&error)),
        None => {}
    }
}

/// A connection attempt has succeeded.
pub(crate) fn connected(ops: &mut Ops, slot: u32, now: Time, on: &mut impl Handler) {
    let Some(request) = connect_done(ops, slot) else {
        return;
    };
    ops.streams.at_mut(slot).phase = Phase::Open(Origin::Connected);
    ops.counters.streams.connected.opened += 1;
    ops.streams.note_waiting(slot);
    ops.streams.note_change(slot);
    let id = ops.streams.id(slot);
    if ops.streams.is_open(id) {
        let (listener, peer) = (None, request.to.address());
        on.event(ops, now, id, Event::Opened { listener, peer });
    }
}

/// Removes a connection's request, and its deadline from the wheel.
fn connect_done(ops: &mut Ops, slot: u32) -> Option<Box<Request>> {
    let request = ops.streams.at_mut(slot).request.take()?;
    if let Some(timer) = request.timer {
        ops.deadlines.cancel(timer);
    }
    Some(request)
}

/// A connection was accepted from a listener that is still open.
pub(crate) fn accepted(
    driver: &mut impl StreamDriver,
    ops: &mut Ops,
    listener: Id,
    (handle, peer): (Handle, Option<SocketAddr>),
    now: Time,
    on: &mut impl Handler,
) {
    ops.streams.at_mut(listener.slot() as u32).accepts = Accepts::Well;
    let id = ops
        .streams
        .insert(Stream::new(Some(handle), Phase::Open(Origin::Accepted)), true);
    let slot = id.slot() as u32;
    if let Err(error) = driver.watch(ops, slot) {
        let failed = &mut ops.counters.streams.accepted.failed;
        failed.add(Cause::from_error(&error), 1);
        retire(ops, slot);
        ops.streams.free(slot);
        return;
    }
    ops.counters.streams.accepted.opened += 1;
    let listener = Some(listener);
    on.event(ops, now, id, Event::Opened { listener, peer });
}

/// An accept failed; returns whether the listener may accept the next connection immediately.
pub(crate) fn accept_failed(
    driver: &mut impl StreamDriver,
    ops: &mut Ops,
    slot: u32,
    cause: Cause,
    now: Time,
) -> bool {
    match cause {
        // The connection was reset before it was accepted, or had a network error: the next may succeed (accept(2)).
        Cause::Reset => ops.counters.streams.accepted.failed.add(cause, 1),
        Cause::Other(libc::EINTR | libc::ECANCELED) => {}
        cause if cause.is_final() => {
            end(driver, ops, slot, cause);
            return false;
        }
        // No descriptor or no memory: the connection waits in the backlog. Only the first failure in a row is reported.
        cause => {
            let id = ops.streams.id(slot);
            ops.counters.streams.accepted.failed.add(cause, 1);
            ops.deadlines.insert(now + STARVED, id);
            let stream = ops.streams.at_mut(slot);
            if std::mem::replace(&mut stream.accepts, Accepts::Rests) == Accepts::Well {
                ops.notify(id, Notice::Failed(cause));
            }
            return false;
        }
    }
    true
}

/// A deadline has passed: a connection attempt fails, or a listener retries.
fn passed(driver: &mut impl StreamDriver, ops: &mut Ops, id: Id) {
    if !ops.streams.is_current(id) {
        return;
    }
    let slot = id.slot() as u32;
    match ops.streams.at(slot).phase {
        Phase::Connecting if ops.streams.at(slot).handle.is_none() => ops.streams.note_change(slot),
        Phase::Connecting => fail(driver, ops, slot, Cause::TimedOut),
        Phase::Listening => {
            let accepts = &mut ops.streams.at_mut(slot).accepts;
            if *accepts == Accepts::Rests {
                *accepts = Accepts::Retries;
            }
            ops.streams.note_change(slot);
        }
        Phase::Open(_) => {}
    }
}

/// Sends the queues of all connections that are not blocked.
fn flush_all(driver: &mut impl StreamDriver, ops: &mut Ops) {
    while let Some(slot) = ops.streams.next_waiting() {
        let stream = ops.streams.at(slot);
        if !matches!(stream.phase, Phase::Open(_)) || stream.blocked {
            ops.outgoing.keep(&stream.queue);
        } else if let Some(sent) = driver.send_stream(ops, slot) {
            flushed(driver, ops, slot, sent);
        }
    }
}

/// Handles the result of sending a connection's queue.
pub(crate) fn flushed(driver: &mut impl StreamDriver, ops: &mut Ops, slot: u32, sent: FlushedStream) {
    let stream = ops.streams.at_mut(slot);
    match sent {
        FlushedStream::All => {
            if stream.closing || stream.ending || stream.notify_drained {
                ops.streams.note_change(slot);
            }
        }
        FlushedStream::Blocked => {
            stream.blocked = true;
            driver.await_stream_room(ops, slot);
        }
        FlushedStream::Broken(cause) => {
            stream.broken = Some(cause);
            if cause == Cause::Reset && stream.receiving && !stream.closing && !stream.over {
                driver.lend_rest(slot);
            } else {
                end(driver, ops, slot, cause);
            }
        }
    }
}

/// The peer has ended its side. If the connection is broken, this was the rest to be lent.
pub(crate) fn peer_ended(
    driver: &mut impl StreamDriver,
    ops: &mut Ops,
    slot: u32,
    now: Time,
    on: &mut impl Handler,
) {
    let id = ops.streams.id(slot);
    ops.streams.at_mut(slot).over = true;
    match ops.streams.at(slot).broken {
        Some(cause) => end(driver, ops, slot, cause),
        None if ops.streams.is_open(id) => on.event(ops, now, id, Event::PeerClosed),
        None => {}
    }
}

/// A blocked connection has room again.
pub(crate) fn unblocked(ops: &mut Ops, slot: u32) {
    ops.streams.at_mut(slot).blocked = false;
    ops.streams.note_waiting(slot);
}

/// If the queue is empty: notifies the owner and ends this side, if requested.
fn settle(driver: &mut impl StreamDriver, ops: &mut Ops, slot: u32) {
    let stream = ops.streams.at_mut(slot);
    if !matches!(stream.phase, Phase::Open(_)) || !stream.queue.is_empty() {
        return;
    }
    let drained = std::mem::take(&mut stream.notify_drained);
    if stream.ending && !std::mem::replace(&mut stream.ended, true) {
        driver.shutdown(ops, slot);
    }
    if drained {
        ops.notify(ops.streams.id(slot), Notice::Drained);
    }
}

/// A connection could not be opened, or a stream could not be registered.
pub(crate) fn fail(driver: &mut impl StreamDriver, ops: &mut Ops, slot: u32, cause: Cause) {
    if ops.streams.at(slot).phase == Phase::Connecting {
        ops.counters.streams.connected.failed.add(cause, 1);
    }
    end(driver, ops, slot, cause);
}

/// Ends a stream.
pub(crate) fn end(driver: &mut impl StreamDriver, ops: &mut Ops, slot: u32, cause: Cause) {
    driver.release(ops, slot);
    connect_done(ops, slot);
    if let Phase::Open(origin) = ops.streams.at(slot).phase {
        ops.counters.streams.count_end(origin, cause);
    }
    ops.notify(ops.streams.id(slot), Notice::Closed(cause));
    retire(ops, slot);
}

/// Drops the stream in a slot with its descriptor and queue.
fn retire(ops: &mut Ops, slot: u32) {
    let stream = ops.streams.retire(slot);
    ops.outgoing.abandon(&mut stream.queue);
    stream.handle = None;
}
