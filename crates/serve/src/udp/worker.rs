//! Services of the server's threads: a worker that reads its own socket, a reader that distributes datagrams, and a
//! worker that answers datagrams from its mailbox.
//!
//! In: sockets, mailboxes, a handler. Out: the handler's counts; a farmed worker ends once its reader has ended and its
//! mailbox is empty.

use super::bucket::BucketHandler;
use super::common::Common;
use super::service::DatagramService;
use crate::service::Service;
use corelane_rss::Bucket;
use corelane_worker::crew::ReadyCell;
use corelane_worker::engine::{Datagram, Event, Handler, Id, Ops};
use corelane_worker::mailbox::{Full, Inbox, Outbox};
use corelane_worker::{CachePadded, Counter, Time};
use std::io;
use std::iter;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Datagrams taken from a mailbox between two passes of the engine: as many as an engine provides in one pass.
const MAILBOX_BATCH: usize = 256;

/// A datagram in a mailbox, without its payload.
pub(super) type Head = Datagram<'static>;

/// A worker that reads and answers on its own socket, which is the first one passed in. If its answers require them,
/// duplicates of every bucket's socket follow, in order.
impl<S: DatagramService> Service for BucketHandler<S> {
    fn begin(&mut self, ops: &mut Ops, _now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        let mut sockets = sockets.into_iter().map(UdpSocket::from);
        let own = sockets.next().expect("a worker has a socket");
        let own = ops.datagrams(own)?;
        self.answering.own = Some(own);
        self.answering.by_bucket = sockets
            .map(|socket| {
                let id = ops.datagrams(socket)?;
                ops.receive(id, false);
                Ok(id)
            })
            .collect::<io::Result<_>>()?;
        Ok(())
    }
}

/// A worker that answers the datagrams in its mailbox.
pub(super) struct Farmed<S> {
    pub(super) inbox: Inbox<Head>,
    pub(super) handler: BucketHandler<S>,
    /// The socket for answers, never read; `None` before the start.
    pub(super) socket: Option<Id>,
}

impl<S: DatagramService> Handler for Farmed<S> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self.handler.event(ops, now, id, event);
    }
}

impl<S: DatagramService> Service for Farmed<S> {
    fn begin(&mut self, ops: &mut Ops, _now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        for socket in sockets.into_iter().map(UdpSocket::from) {
            let id = ops.datagrams(socket)?;
            ops.receive(id, false);
            self.socket = Some(id);
        }
        Ok(())
    }

    fn next_due(&self) -> Time {
        // The reader wakes the engine after posting, so a datagram posted from here on ends the wait.
        if self.inbox.is_empty() {
            Time::NEVER
        } else {
            Time::default()
        }
    }

    fn turned(&mut self, ops: &mut Ops, now: Time) {
        let Some(socket) = self.socket else { return };
        for _ in 0..MAILBOX_BATCH {
            let Some((head, payload)) = self.inbox.take() else {
                break;
            };
            let datagram = Datagram { payload, ..head };
            self.handler.serve(ops, now, socket, iter::once(datagram));
        }
    }

    fn is_done(&self, _stopping: bool) -> bool {
        self.inbox.is_finished()
    }
}

/// Reads the only socket of a farm, and passes each datagram to the worker of the bucket that its hash selects, so that
/// flows stay in order.
pub(super) struct Farming {
    pub(super) common: Arc<Common>,
    /// To one worker per bucket, in order.
    pub(super) posts: Vec<Post>,
}

/// The way from the reader to one worker.
pub(super) struct Post {
    outbox: Outbox<Head>,
    worker: ReadyCell,
    /// Datagrams that did not fit.
    pub(super) full: Arc<CachePadded<Counter>>,
    /// Whether the current batch has datagrams for the worker.
    posted: bool,
}

impl Post {
    pub(super) fn new(outbox: Outbox<Head>, worker: ReadyCell) -> Post {
        Post {
            outbox,
            worker,
            full: Arc::default(),
            posted: false,
        }
    }
}

impl Handler for Farming {
    fn event(&mut self, _ops: &mut Ops, _now: Time, _id: Id, event: Event<'_>) {
        let Event::Datagrams(datagrams) = event else {
            return;
        };
        for datagram in datagrams {
            let tuple = self.common.tuple(&datagram);
            let bucket = tuple.map_or(Bucket::new(0), |tuple| self.common.bucket_of(&tuple));
            let post = &mut self.posts[bucket.index()];
            match post.outbox.post(datagram.head(), datagram.payload) {
                Ok(()) => post.posted = true,
                Err(Full) => post.full.add(1),
            }
        }
        for post in &mut self.posts {
            // A worker that is not ready yet checks its mailbox before it waits.
            if std::mem::take(&mut post.posted)
                && let Some(ready) = post.worker.get()
            {
                ready.waker.wake();
            }
        }
    }
}

impl Service for Farming {
    fn begin(&mut self, ops: &mut Ops, _now: Time, sockets: Vec<OwnedFd>) -> io::Result<()> {
        let mut sockets = sockets.into_iter().map(UdpSocket::from);
        sockets.try_for_each(|socket| ops.datagrams(socket).map(drop))
    }
}
