//! The socket on which an answer is sent: takes the receiving socket and the sender's address, returns a socket and, if
//! required, a peer.
//!
//! The four ways to answer differ in this choice, and in how the transmit queue is selected (see [`Answers`]).

use super::counters::BucketCounters;
use super::plan::Common;
use crate::udp::Answers;
use corelane_worker::CachePadded;
use corelane_worker::engine::{Id, Ops};
use corelane_worker::group;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, mpsc};

/// Maximum number of flows per worker with their own socket; each uses two descriptors, of an assumed limit of 20,000
/// per process. Further flows are answered on the bucket's socket, and counted.
const MOST_CONNECTED: usize = 1_024;

/// A socket opened by a worker for one flow, and the worker's index.
pub(super) type Connected = (usize, UdpSocket);

/// How a worker answers.
pub(super) struct Answering {
    pub(super) common: Arc<Common>,
    pub(super) counters: Arc<CachePadded<BucketCounters>>,
    pub(super) worker: usize,
    /// Receives the sockets opened for single flows.
    pub(super) opened: mpsc::Sender<Connected>,
    /// The worker's own socket, on which new flows arrive; `None` before it is registered.
    pub(super) own: Option<Id>,
    /// One socket per bucket, in order, if the worker selects by its own hash.
    pub(super) by_bucket: Vec<Id>,
    /// Flows with their own socket.
    pub(super) by_peer: HashMap<SocketAddr, Id>,
}

impl Answering {
    /// The socket for an answer to `peer`, whose datagram arrived on `socket`; with the peer unless it is connected.
    pub(super) fn way(&mut self, ops: &mut Ops, socket: Id, peer: SocketAddr) -> (Id, Option<SocketAddr>) {
        match self.common.plan.answers {
            Answers::PerSend | Answers::Received => (socket, Some(peer)),
            Answers::Caller => (self.of_bucket(peer).unwrap_or(socket), Some(peer)),
            Answers::Connected if self.own != Some(socket) => (socket, None),
            Answers::Connected => match self.of_flow(ops, peer) {
                Some(socket) => (socket, None),
                None => {
                    self.counters.answered_unconnected.add(1);
                    (socket, Some(peer))
                }
            },
        }
    }

    /// The socket of the bucket selected by the flow's hash.
    fn of_bucket(&self, peer: SocketAddr) -> Option<Id> {
        let bucket = self.common.bucket_of(peer)?;
        self.by_bucket.get(bucket.index()).copied()
    }

    /// The flow's own socket.
    fn of_flow(&mut self, ops: &mut Ops, peer: SocketAddr) -> Option<Id> {
        if let Some(id) = self.by_peer.get(&peer) {
            return Some(*id);
        }
        if self.by_peer.len() >= MOST_CONNECTED {
            return None;
        }
        let id = self.open(ops, peer).ok()?;
        self.by_peer.insert(peer, id);
        Some(id)
    }

    fn open(&self, ops: &mut Ops, peer: SocketAddr) -> io::Result<Id> {
        let settings = self.common.plan.socket_settings();
        let socket = group::connected(self.common.address, peer, &settings).map_err(io::Error::other)?;
        let counted = socket.try_clone()?;
        let id = ops.datagrams(socket)?;
        // Fails when the server is being stopped, and counts no longer matter.
        let _ = self.opened.send((self.worker, counted));
        Ok(id)
    }

    /// Removes a closed socket.
    pub(super) fn closed(&mut self, socket: Id) {
        self.by_peer.retain(|_, id| *id != socket);
    }
}
