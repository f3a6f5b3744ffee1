//! The socket on which an answer is sent: takes the receiving socket and a datagram, returns a socket and, if required, a
//! peer.
//!
//! The four ways to answer differ in this choice, and in how the transmit queue is selected (see [`Answers`]).

use super::common::Common;
use super::counters::BucketCounters;
use super::model::Answers;
use corelane_worker::CachePadded;
use corelane_worker::engine::{Datagram, Id, Ops};
use corelane_worker::group::{self, GroupSettings};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, mpsc};

/// Maximum number of flows per worker with their own socket; each uses two descriptors, of an assumed limit of 20,000
/// per process. Further flows are answered on the bucket's socket, and counted.
const MOST_CONNECTED: usize = 1_024;

/// A socket opened by a worker for one flow, and the worker's index.
pub(super) type Connected = (usize, UdpSocket);

/// A peer, with an address that is not a mapped one, and the address that it asks.
pub(super) type Flow = (SocketAddr, SocketAddr);

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
    pub(super) by_flow: HashMap<Flow, Id>,
}

impl Answering {
    /// The socket for an answer to a datagram that arrived on `socket`; with the peer unless it is connected.
    pub(super) fn way(
        &mut self,
        ops: &mut Ops,
        socket: Id,
        datagram: &Datagram<'_>,
    ) -> (Id, Option<SocketAddr>) {
        let peer = Some(datagram.peer);
        match self.common.plan.answers {
            Answers::PerSend | Answers::Received => (socket, peer),
            Answers::Caller => (self.of_bucket(datagram).unwrap_or(socket), peer),
            // Not simply on the socket that received it: before that was connected, it may have received another
            // peer's datagrams, of flows of other workers.
            Answers::Connected => match self.of_flow(ops, socket, datagram) {
                Some(connected) => (connected, None),
                None => {
                    self.counters.answered_unconnected.add(1);
                    (self.own.unwrap_or(socket), Some(self.on_own(datagram.peer)))
                }
            },
        }
    }

    /// The socket of the bucket selected by the flow's hash.
    fn of_bucket(&self, datagram: &Datagram<'_>) -> Option<Id> {
        let bucket = self.common.bucket_of(&self.common.tuple(datagram)?);
        self.by_bucket.get(bucket.index()).copied()
    }

    /// A peer's address on the worker's own socket, which takes mapped addresses if it serves both families.
    fn on_own(&self, peer: SocketAddr) -> SocketAddr {
        match (peer, self.common.address) {
            (SocketAddr::V4(peer), SocketAddr::V6(_)) => (peer.ip().to_ipv6_mapped(), peer.port()).into(),
            _ => peer,
        }
    }

    /// The flow's own socket, opened if it has none yet and the datagram arrived where new flows do.
    fn of_flow(&mut self, ops: &mut Ops, socket: Id, datagram: &Datagram<'_>) -> Option<Id> {
        // The worker's own socket reports IPv4 peers with mapped addresses if it serves both families; theirs does not.
        let peer = group::canonical(datagram.peer);
        let flow = (peer, self.common.destination(datagram)?);
        if let Some(id) = self.by_flow.get(&flow) {
            return Some(*id);
        }
        if self.by_flow.len() >= MOST_CONNECTED || self.own != Some(socket) {
            return None;
        }
        let id = self.open(ops, flow).ok()?;
        self.by_flow.insert(flow, id);
        Some(id)
    }

    fn open(&self, ops: &mut Ops, (peer, asked): Flow) -> io::Result<Id> {
        let settings = GroupSettings {
            // What is asked may be an address of a prefix that is routed to this machine.
            free_bind: true,
            ..self.common.plan.socket_settings()
        };
        let socket = group::connected(asked, peer, &settings).map_err(io::Error::other)?;
        let counted = socket.try_clone()?;
        let id = ops.datagrams(socket)?;
        // Fails when the server is being stopped, and counts no longer matter.
        let _ = self.opened.send((self.worker, counted));
        Ok(id)
    }

    /// Removes a closed socket.
    pub(super) fn closed(&mut self, socket: Id) {
        self.by_flow.retain(|_, id| *id != socket);
    }
}
