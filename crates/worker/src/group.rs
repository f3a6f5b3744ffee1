//! The sockets of one address, one per bucket: creates sockets or listeners in bucket order and attaches a steering
//! program.

use crate::program::{self, ProgramError};
use crate::system::address::IPV6_PKTINFO_OF_IPV6;
use crate::system::option;
use corelane_measure::words;
use corelane_rss::steer::{Families, Program};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{
    Ipv4PacketInfo, Ipv6RecvPacketInfo, RcvBuf, RcvBufForce, ReusePort, UdpGroSegment,
};
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockFilter, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// How the sockets of a group are made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GroupSettings {
    /// Bytes of receive buffer for each socket. The kernel doubles it for its own bookkeeping, and without
    /// `CAP_NET_ADMIN` allows `net.core.rmem_max` at most.
    pub receive_buffer: Option<usize>,
    /// Allows an address that is not (yet) on any device (`IP_FREEBIND`).
    pub free_bind: bool,
    /// Receives merged datagrams (`UDP_GRO`). A group needs it on every member or on none: engines that serve the
    /// members must have the same [`gro`](crate::engine::EngineSettings::gro). Datagrams only.
    pub gro: bool,
    /// Reports the destination of each datagram (`IP_PKTINFO`, `IPV6_RECVPKTINFO`), for engines with the same
    /// [`destinations`](crate::engine::EngineSettings::destinations). On the wildcard address answers may then leave
    /// from every address that receives, also from one of a prefix that is only routed to this machine. Datagrams only.
    pub destinations: bool,
    /// Leaves IPv4 to other sockets. Otherwise a group on the IPv6 wildcard address accepts both families, and the
    /// program must support both: see [`families`].
    pub ipv6_only: bool,
}

/// An address of its own family: a mapped IPv4 address (`::ffff:0.0.0.0/96`) as the IPv4 address.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // With its scope.
        IpAddr::V6(_) => address,
    }
}

/// The families of the packets that a group on this address receives, for its program. On the IPv6 wildcard address
/// that is both, unless the group is [`ipv6_only`](GroupSettings::ipv6_only): IPv4 packets are then steered by the hash
/// of their IPv4 addresses, although the sockets report their senders as mapped IPv6 addresses.
#[must_use]
pub fn families(address: SocketAddr, ipv6_only: bool) -> Families {
    match address.ip().to_canonical() {
        IpAddr::V4(_) => Families::V4,
        IpAddr::V6(ip) if ip.is_unspecified() && !ipv6_only => Families::Both,
        IpAddr::V6(_) => Families::V6,
    }
}

/// The transport of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Connections.
    Tcp,
}

words!(Transport);

impl Transport {
    /// The ss(8) option that lists the sockets and their holders.
    fn ss_option(self) -> &'static str {
        match self {
            Transport::Udp => "-ulpn",
            Transport::Tcp => "-tlpn",
        }
    }
}

/// Why a group could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The number of buckets is 0.
    #[error("a group needs at least one bucket")]
    NoBuckets,
    /// The address is in use by a single socket or another group.
    #[error(
        "{transport} {address} is in use: stop its holder (see ss {option} 'sport = {port}'), or use another \
         port{or_one_family}",
        option = transport.ss_option(),
        port = address.port(),
        or_one_family = match families {
            Families::Both => ", or IPv6 only (ipv6_only) if the holder serves IPv4",
            _ => "",
        }
    )]
    AddressInUse {
        /// Datagrams or connections.
        transport: Transport,
        /// The requested address.
        address: SocketAddr,
        /// The requested families.
        families: Families,
    },
    /// No device of this machine has the address.
    #[error("no device has the address {address}: add it to one, or allow foreign addresses (free_bind)")]
    AddressNotHere {
        /// The requested address.
        address: SocketAddr,
    },
    /// Ports under `net.ipv4.ip_unprivileged_port_start` need a capability.
    #[error("port {port} needs CAP_NET_BIND_SERVICE: use a port of 1024 or more, or run as root")]
    PortForbidden {
        /// The requested port.
        port: u16,
    },
    /// The descriptor limit was reached.
    #[error(
        "no descriptor left after {made} of {buckets} sockets: raise the limit of open files (ulimit -n)"
    )]
    NoDescriptors {
        /// Sockets created so far.
        made: usize,
        /// Requested sockets.
        buckets: usize,
    },
    /// The kernel limits the memory of a program.
    #[error(transparent)]
    Program(ProgramError),
    /// Any other kernel error.
    #[error("cannot {what} for {transport} {address}: {source}")]
    System {
        /// Datagrams or connections.
        transport: Transport,
        /// The failed step.
        what: &'static str,
        /// The requested address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Creates one UDP socket per bucket, all bound to one address, in bucket order, and attaches the program that steers
/// among them. Without a program the kernel's default hash steers. With port 0 the first socket gets a free port and
/// the others share it. Sockets of a mapped IPv4 address are IPv4 sockets.
///
/// The first socket is bound alone (without `SO_REUSEPORT`) before the others join it: in an existing group the bucket
/// numbers would be shifted by its members. Afterwards, until the group is closed, the kernel lets other processes of
/// the same user join; none should. When a member is closed, the last one takes its place: close them together.
///
/// The group receives nothing until its program is attached: before that the kernel's default hash would steer. What
/// arrives during that time is lost, and counted by [`dropped`]. A group of one has nothing to steer and no program.
///
/// # Errors
/// See [`GroupError`].
pub fn udp(
    address: SocketAddr,
    buckets: usize,
    program: Option<&Program>,
    settings: &GroupSettings,
) -> Result<Vec<UdpSocket>, GroupError> {
    let making = Making::new(Transport::Udp, address, buckets, settings)?;
    let group = making.bound(program.is_some())?;
    making.attach(&group, program)?;
    if program.is_some() {
        making.unblock(&group)?;
    }
    Ok(group.into_iter().map(UdpSocket::from).collect())
}

/// Creates one TCP listener per bucket, all on one address, in bucket order, and attaches the program that steers
/// connections among them. Otherwise as [`udp`]; the backlog of each listener is `backlog`, at most
/// `net.core.somaxconn`.
///
/// The program is attached before the first listener listens. A connection that arrives before all do, and is steered
/// to one that does not yet, is assigned by the kernel's default hash.
///
/// Nagle's algorithm is off: connections inherit this.
///
/// # Errors
/// See [`GroupError`].
pub fn tcp(
    address: SocketAddr,
    buckets: usize,
    program: Option<&Program>,
    backlog: u16,
    settings: &GroupSettings,
) -> Result<Vec<TcpListener>, GroupError> {
    let making = Making::new(Transport::Tcp, address, buckets, settings)?;
    let group = making.bound(false)?;
    making.attach(&group, program)?;
    for socket in &group {
        making.check("turn Nagle's algorithm off", socket.set_tcp_nodelay(true))?;
        if let Err(source) = socket.listen(i32::from(backlog)) {
            return Err(match source.raw_os_error() {
                Some(libc::EADDRINUSE) => making.in_use(),
                _ => making.failed("listen", source),
            });
        }
    }
    Ok(group.into_iter().map(TcpListener::from).collect())
}

/// Creates one more socket on the address of a group, connected to `peer`. From then on it receives that peer's
/// datagrams instead of the group, and the kernel caches route and hash of its transmissions.
///
/// Until it is connected, a moment later, it is the last member of a group on the same address, which no steering
/// program names. Other peers' datagrams may reach it then: of a group without a program some, of a group on the
/// wildcard address all, because the kernel prefers the socket with the more specific address. They stay in its queue,
/// so compare the peer of each datagram before you answer. `settings` are the group's.
///
/// # Errors
/// See [`GroupError`].
pub fn connected(
    address: SocketAddr,
    peer: SocketAddr,
    settings: &GroupSettings,
) -> Result<UdpSocket, GroupError> {
    // Since Linux 6.13 a socket leaves its group when it is connected. A later one that the kernel adds to it, as it is
    // on the same address, is in a group without a program, and receives everything until it is connected. So a connected
    // socket shares no longer; what permits the next bind is that both reuse the address. One at a time: between the two
    // calls below another one would still be added to this one.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let making = Making::new(Transport::Udp, address, 1, settings)?;
    let socket = making.socket(0)?;
    making.share(&socket, true)?;
    making.check("reuse the address", socket.set_reuse_address(true))?;
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    making.bind(&socket, making.address)?;
    making.check("connect a socket", socket.connect(&peer.into()))?;
    making.share(&socket, false)?;
    Ok(socket.into())
}

/// Sets the size of a socket's receive buffer, beyond `net.core.rmem_max` if this process may.
///
/// # Errors
/// The kernel's error.
pub fn set_receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let forced = setsockopt(socket, RcvBufForce, &bytes);
    Ok(forced.or_else(|_| setsockopt(socket, RcvBuf, &bytes))?)
}

/// Datagrams dropped by this socket since it was created, because its receive buffer was full or for a bad checksum;
/// `UdpCounters::bad_checksums` separates them. The kernel counts in 32 bits and wraps (`SO_MEMINFO`, Linux 4.12).
///
/// # Errors
/// The kernel's error.
pub fn dropped(socket: &UdpSocket) -> io::Result<u32> {
    // `linux/sock_diag.h`: SK_MEMINFO_DROPS is the last of nine words.
    let words: [u32; 9] = option::get_words(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(words[8])
}

/// The context that every step needs for its error.
struct Making<'a> {
    transport: Transport,
    address: SocketAddr,
    buckets: usize,
    settings: &'a GroupSettings,
}

impl<'a> Making<'a> {
    fn new(
        transport: Transport,
        address: SocketAddr,
        buckets: usize,
        settings: &'a GroupSettings,
    ) -> Result<Self, GroupError> {
        if buckets == 0 {
            return Err(GroupError::NoBuckets);
        }
        Ok(Self {
            transport,
            // `::ffff:0.0.0.0` is a wildcard address, but not an unspecified one, and no IPv6 option applies to it.
            address: canonical(address),
            buckets,
            settings,
        })
    }

    /// Sockets that share the address, in order. Blocked ones receive nothing yet.
    fn bound(&self, blocked: bool) -> Result<Vec<Socket>, GroupError> {
        let make = |made| {
            let socket = self.socket(made)?;
            if blocked {
                // BPF_RET with a constant: 0 bytes of each packet are passed on, so none is.
                let filter = [SockFilter::new(6, 0, 0, 0)];
                self.check("block a socket", socket.attach_filter(&filter))?;
            }
            Ok(socket)
        };
        let first = make(0)?;
        self.bind(&first, self.address)?;
        let mut shared = self.address;
        let bound = self.check("read the port", first.local_addr())?;
        shared.set_port(bound.as_socket().map_or(0, |bound| bound.port()));
        if self.buckets > 1 {
            self.share(&first, true)?;
        }
        let mut group = vec![first];
        for made in 1..self.buckets {
            let socket = make(made)?;
            self.share(&socket, true)?;
            self.bind(&socket, shared)?;
            group.push(socket);
        }
        Ok(group)
    }

    fn socket(&self, made: usize) -> Result<Socket, GroupError> {
        let kind = match self.transport {
            Transport::Udp => Type::DGRAM,
            Transport::Tcp => Type::STREAM,
        };
        let socket = match Socket::new(Domain::for_address(self.address), kind, None) {
            Ok(socket) => socket,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                let buckets = self.buckets;
                return Err(GroupError::NoDescriptors { made, buckets });
            }
            Err(source) => return Err(self.failed("open a socket", source)),
        };
        if let Some(bytes) = self.settings.receive_buffer {
            self.check("set the receive buffer", set_receive_buffer(&socket, bytes))?;
        }
        if self.address.is_ipv6() {
            self.check("choose the families", socket.set_only_v6(self.settings.ipv6_only))?;
        }
        let is_wildcard = self.address.ip().is_unspecified();
        if self.settings.free_bind || self.settings.destinations && is_wildcard {
            let free = match self.address {
                SocketAddr::V4(_) => socket.set_freebind_v4(true),
                SocketAddr::V6(_) => socket.set_freebind_v6(true),
            };
            self.check("allow a foreign address", free)?;
        }
        match self.transport {
            Transport::Udp => {
                let merged = setsockopt(&socket, UdpGroSegment, &self.settings.gro);
                self.check("set UDP_GRO", merged.map_err(io::Error::from))?;
                self.report_destinations(&socket)?;
            }
            // Connections of an earlier server in TIME_WAIT do not block the address; a listener still does.
            Transport::Tcp => self.check("reuse the address", socket.set_reuse_address(true))?,
        }
        Ok(socket)
    }

    /// On a socket of both families each family reports its own destinations: one control message per datagram costs
    /// less than two, and only `IP_PKTINFO` reports that a datagram was a broadcast.
    fn report_destinations(&self, socket: &Socket) -> Result<(), GroupError> {
        let report = self.settings.destinations;
        let v4 = || Ok(setsockopt(socket, Ipv4PacketInfo, &report)?);
        let reported = match (self.address, self.settings.ipv6_only) {
            (SocketAddr::V4(_), _) => v4(),
            (SocketAddr::V6(_), true) => {
                setsockopt(socket, Ipv6RecvPacketInfo, &report).map_err(io::Error::from)
            }
            (SocketAddr::V6(_), false) => option::set(
                socket,
                libc::IPPROTO_IPV6,
                IPV6_PKTINFO_OF_IPV6,
                u32::from(report),
            )
            .and_then(|()| v4()),
        };
        self.check("set IP_PKTINFO", reported)
    }

    fn bind(&self, socket: &Socket, address: SocketAddr) -> Result<(), GroupError> {
        let Err(source) = socket.bind(&address.into()) else {
            return Ok(());
        };
        let address = self.address;
        Err(match source.raw_os_error() {
            Some(libc::EADDRINUSE) => self.in_use(),
            Some(libc::EADDRNOTAVAIL) => GroupError::AddressNotHere { address },
            Some(libc::EACCES) => GroupError::PortForbidden { port: address.port() },
            _ => self.failed("bind", source),
        })
    }

    fn share(&self, socket: &impl AsFd, shared: bool) -> Result<(), GroupError> {
        let shared = setsockopt(socket, ReusePort, &shared);
        self.check("share the port", shared.map_err(io::Error::from))
    }

    fn attach(&self, group: &[Socket], program: Option<&Program>) -> Result<(), GroupError> {
        let (Some(program), [member, _, ..]) = (program, group) else {
            return Ok(());
        };
        program::attach(member, program).map_err(|error| match error {
            ProgramError::System(source) => self.failed("attach the steering program", source),
            error => GroupError::Program(error),
        })
    }

    /// Lets blocked sockets receive.
    fn unblock(&self, group: &[Socket]) -> Result<(), GroupError> {
        group
            .iter()
            .try_for_each(|socket| self.check("unblock a socket", socket.detach_filter()))
    }

    fn check<T>(&self, what: &'static str, result: io::Result<T>) -> Result<T, GroupError> {
        result.map_err(|source| self.failed(what, source))
    }

    fn in_use(&self) -> GroupError {
        GroupError::AddressInUse {
            transport: self.transport,
            address: self.address,
            families: families(self.address, self.settings.ipv6_only),
        }
    }

    fn failed(&self, what: &'static str, source: io::Error) -> GroupError {
        GroupError::System {
            transport: self.transport,
            what,
            address: self.address,
            source,
        }
    }
}
