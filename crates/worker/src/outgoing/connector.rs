//! Opens connections whose replies are steered to the buckets of the calling worker.

use super::{Lease, PortPool, Release, Source, on_device_of};
use crate::Time;
use crate::engine::{ConnectOptions, Id, Ops};
use corelane_measure::counters;
use corelane_rss::{Bucket, Steering};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Opens TCP connections and connected UDP sockets from the ports of one worker, each from a port to which the server's
/// packets are steered to one of the worker's buckets.
///
/// If no such port is left, the connection is opened from a port that the kernel chooses, and counted as
/// [`unaligned`](ConnectorCounts::unaligned): its replies may be steered to another worker.
///
/// ```
/// use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
/// use corelane_worker::{Time, outgoing::{Connector, Lease, Release}};
///
/// let steering = Steering {
///     key: Key::VERIFICATION,
///     hash_fields: HashFields::FourTuple,
///     table: IndirectionTable::round_robin(128, 4)?,
///     cpus: vec![0, 1, 2, 3],
///     generation: 0,
/// };
/// let server = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
/// let own = Bucket::new(2);
/// let mut connector = Connector::new(&[Lease::of("127.0.0.1".parse()?)], &steering, &[own]);
/// let (socket, source) = connector.udp(server, Time::now())?;
/// let reply = Tuple::new(server, socket.local_addr()?)?;
/// assert_eq!(steering.steerer().bucket_of(&reply), own);
/// drop(socket);
/// connector.release(source, Release::Free, Time::now());
/// assert_eq!(connector.counts().aligned, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connector {
    aligned: PortPool,
    /// The addresses of the leases, with ports that the kernel chooses.
    others: PortPool,
    counts: ConnectorCounts,
}

/// A source of a [`Connector`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectorSource {
    source: Source,
    aligned: bool,
}

counters! {
    /// Sources that a [`Connector`] picked.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct ConnectorCounts {
        /// With replies steered to the worker's buckets.
        pub aligned: u64,
        /// Chosen by the kernel, because no aligned one was left.
        pub unaligned: u64,
        /// Released because another socket held the port.
        pub taken: u64,
    }
}

impl Connector {
    /// A connector from these leases, of a worker that serves `buckets` of the machine's own `steering`: for replies
    /// that a device steers, that is the device's key and table, and its queues are the buckets. If the table changes, make
    /// a new one: the ports of this one stay aligned by the table that it was made with.
    #[must_use]
    pub fn new(leases: &[Lease], steering: &Steering, buckets: &[Bucket]) -> Self {
        let other = |lease: &Lease| Lease {
            ports: super::Ports::Kernel,
            connections: usize::MAX,
            ..lease.clone()
        };
        Self {
            aligned: PortPool::aligned(leases, steering, buckets),
            others: PortPool::new(&leases.iter().map(other).collect::<Vec<_>>()),
            counts: ConnectorCounts::default(),
        }
    }

    /// A source for a connection to `to`; `None` if no lease has an address of its family.
    pub fn source(&mut self, to: SocketAddr, now: Time) -> Option<ConnectorSource> {
        let aligned = self.aligned.take(to, now);
        let source = aligned.or_else(|| self.others.take(to, now))?;
        self.counts.aligned += u64::from(aligned.is_some());
        self.counts.unaligned += u64::from(aligned.is_none());
        Some(ConnectorSource {
            source,
            aligned: aligned.is_some(),
        })
    }

    /// The address to bind for a source; `None`: chosen by the kernel.
    #[must_use]
    pub fn address(&self, source: ConnectorSource) -> Option<SocketAddr> {
        match source.aligned {
            true => self.aligned.address(source.source),
            false => self.others.address(source.source),
        }
    }

    /// Opens a TCP connection through an engine, see [`Ops::connect`]; `options.local` is replaced. `None` if no lease
    /// has an address of its family.
    ///
    /// The caller releases the source after the connection's [`Event::Closed`](crate::engine::Event::Closed). If it never
    /// opened, and the cause is [`AddressInUse`](crate::engine::Cause::AddressInUse), or
    /// [`NoAddress`](crate::engine::Cause::NoAddress) for an address that this machine has, another socket holds the port:
    /// it is released as [`Release::Taken`], and the caller may connect again.
    pub fn tcp(
        &mut self,
        ops: &mut Ops,
        to: SocketAddr,
        options: ConnectOptions,
        now: Time,
    ) -> Option<(Id, ConnectorSource)> {
        let source = self.source(to, now)?;
        let mut options = options;
        options.local = self.address(source);
        Some((ops.connect(to, options), source))
    }

    /// Opens a UDP socket connected to `to`. The caller releases the source when it has closed the socket.
    ///
    /// # Errors
    /// The kernel's error, and `AddrNotAvailable` if no lease has an address of its family. Ports that other sockets
    /// hold are skipped.
    pub fn udp(&mut self, to: SocketAddr, now: Time) -> io::Result<(UdpSocket, ConnectorSource)> {
        loop {
            let none = || io::Error::from(io::ErrorKind::AddrNotAvailable);
            let source = self.source(to, now).ok_or_else(none)?;
            let opened = self.open(to, source);
            match opened {
                Ok(socket) => return Ok((socket, source)),
                Err(error) if source.aligned && error.kind() == io::ErrorKind::AddrInUse => {
                    self.release(source, Release::Taken, now);
                }
                Err(error) => {
                    self.release(source, Release::Free, now);
                    return Err(error);
                }
            }
        }
    }

    fn open(&self, to: SocketAddr, source: ConnectorSource) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None)?;
        if let Some(local) = self.address(source) {
            socket.bind(&on_device_of(to, local).into())?;
        }
        socket.connect(&to.into())?;
        Ok(socket.into())
    }

    /// Takes back a source whose connection has ended.
    pub fn release(&mut self, source: ConnectorSource, how: Release, now: Time) {
        let taken = how == Release::Taken;
        self.counts.taken += u64::from(taken);
        // A port that could not be used was not picked.
        self.counts.aligned -= u64::from(taken && source.aligned);
        self.counts.unaligned -= u64::from(taken && !source.aligned);
        match source.aligned {
            true => self.aligned.release(source.source, how, now),
            false => self.others.release(source.source, how, now),
        }
    }

    /// What was picked so far.
    #[must_use]
    pub fn counts(&self) -> ConnectorCounts {
        self.counts
    }
}
