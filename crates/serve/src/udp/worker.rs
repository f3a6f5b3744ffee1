//! What the threads of a server run: a worker that reads its own socket, a reader that farms out what it reads, and a
//! worker that answers what a reader handed it.
//!
//! In: sockets, mailboxes, a handler. Out: whatever the handler counts; a thread ends when it is told to stop, a farmed
//! worker when its reader has ended and its mailbox is empty.

use super::bucket::BucketHandler;
use super::current::Current;
use super::mailbox::{Inbox, Outbox};
use corelane_rss::{Bucket, Tuple};
use corelane_worker::engine::{
    DatagramOptions, Datagrams, Engine, EngineBody, Event, Handler, Id, Ops, Waker,
};
use corelane_worker::memory::Buffers;
use corelane_worker::{CachePadded, Counter, Time};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The longest that a worker waits before it publishes its counts again: what an idle server tells is no older.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Datagrams taken from a mailbox between two passes of the engine: as many as an engine lends in one pass.
const MAILBOX_BATCH: usize = 256;

/// How a thread is told to stop, and how it tells that it is ready.
pub(super) struct Control {
    pub(super) stop: Arc<AtomicBool>,
    pub(super) ready: mpsc::Sender<Ready>,
}

/// What a thread hands out once it has its engine.
pub(super) struct Ready {
    pub(super) waker: Waker,
    pub(super) buffers: Buffers,
}

impl Control {
    fn tell_ready(&self, engine: &impl Engine) {
        // The starter may have given up already; then `stop` is set as well.
        let _ = self.ready.send(Ready {
            waker: engine.waker(),
            buffers: engine.buffers(),
        });
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// A worker that reads and answers on one socket.
pub(super) struct Serving {
    pub(super) socket: UdpSocket,
    /// Duplicates of every bucket's socket, in order, where answers take them.
    pub(super) by_bucket: Vec<UdpSocket>,
    pub(super) handler: BucketHandler,
    pub(super) control: Control,
}

impl EngineBody<io::Result<()>> for Serving {
    fn run<E: Engine>(mut self, mut engine: E) -> io::Result<()> {
        let ops = engine.ops();
        let own = ops.datagrams(self.socket, DatagramOptions::default())?;
        let answering = self.by_bucket.into_iter();
        let by_bucket: io::Result<Vec<Id>> = answering
            .map(|socket| ops.datagrams(socket, DatagramOptions::without_receiving()))
            .collect();
        self.handler.begin(own, by_bucket?);
        self.control.tell_ready(&engine);
        while self.control.goes_on() {
            engine.turn(engine.now() + LONGEST_WAIT, &mut self.handler)?;
            self.handler.publish(&engine.ops().counters(), false);
        }
        self.handler.publish(&engine.ops().counters(), true);
        Ok(())
    }
}

/// A worker that answers what a reader put into its mailbox.
pub(super) struct Farmed {
    /// On which it answers and never reads.
    pub(super) socket: UdpSocket,
    pub(super) inbox: Inbox,
    pub(super) handler: BucketHandler,
    pub(super) control: Control,
}

impl EngineBody<io::Result<()>> for Farmed {
    fn run<E: Engine>(mut self, mut engine: E) -> io::Result<()> {
        let id = engine
            .ops()
            .datagrams(self.socket, DatagramOptions::without_receiving())?;
        self.control.tell_ready(&engine);
        while !self.inbox.is_finished() {
            // The reader wakes the engine after it posted, so that a datagram posted from here on ends the wait.
            let until = if self.inbox.is_empty() {
                engine.now() + LONGEST_WAIT
            } else {
                Time::default()
            };
            engine.turn(until, &mut self.handler)?;
            for _ in 0..MAILBOX_BATCH {
                let Some(datagram) = self.inbox.take() else { break };
                self.handler.take(engine.ops(), id, &datagram);
            }
            self.handler.publish(&engine.ops().counters(), false);
        }
        self.handler.publish(&engine.ops().counters(), true);
        Ok(())
    }
}

/// A reader's way to one worker.
pub(super) struct Post {
    pub(super) outbox: Outbox,
    pub(super) waker: Waker,
    /// Datagrams that the mailbox had no room for.
    pub(super) full: Arc<CachePadded<Counter>>,
}

/// The thread that reads the one socket of a farm.
pub(super) struct Reading {
    pub(super) socket: UdpSocket,
    pub(super) farming: Farming,
    pub(super) control: Control,
}

impl EngineBody<io::Result<()>> for Reading {
    fn run<E: Engine>(mut self, mut engine: E) -> io::Result<()> {
        engine.ops().datagrams(self.socket, DatagramOptions::default())?;
        self.control.tell_ready(&engine);
        while self.control.goes_on() {
            engine.turn(engine.now() + LONGEST_WAIT, &mut self.farming)?;
        }
        Ok(())
    }
}

/// Hands each datagram to the worker of the bucket that its hash names, so that a flow stays in order.
pub(super) struct Farming {
    address: SocketAddr,
    steerer: Arc<Current>,
    posts: Vec<Post>,
    /// Which workers got something of the batch at hand.
    posted: Vec<bool>,
}

impl Farming {
    /// `posts` has one entry a bucket, in order.
    pub(super) fn new(address: SocketAddr, steerer: Arc<Current>, posts: Vec<Post>) -> Self {
        Self {
            address,
            steerer,
            posted: vec![false; posts.len()],
            posts,
        }
    }

    fn farm_out(&mut self, datagrams: Datagrams<'_>) {
        for datagram in datagrams {
            let tuple = Tuple::new(datagram.peer, self.address);
            let bucket = tuple.map_or(Bucket::new(0), |tuple| self.steerer.bucket_of(&tuple));
            let worker = bucket.index();
            match self.posts[worker].outbox.post(&datagram) {
                Ok(()) => self.posted[worker] = true,
                Err(_) => self.posts[worker].full.add(1),
            }
        }
        for (post, posted) in self.posts.iter().zip(&mut self.posted) {
            if std::mem::take(posted) {
                post.waker.wake();
            }
        }
    }
}

impl Handler for Farming {
    fn event(&mut self, _ops: &mut Ops, _now: Time, _id: Id, event: Event<'_>) {
        if let Event::Datagrams(datagrams) = event {
            self.farm_out(datagrams);
        }
    }
}
