//! The sockets of one address, one a bucket: an address and a steering program in, sockets in bucket order out.

use crate::system::option;
use corelane_rss::steer::Program;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{AttachReusePortCbpf, RcvBuf, RcvBufForce, ReusePort, UdpGroSegment};
use nix::sys::socket::{getsockopt, setsockopt};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// How the sockets of a group are made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GroupSettings {
    /// Bytes of receive buffer for each socket. The kernel doubles it for its own bookkeeping, and without
    /// `CAP_NET_ADMIN` allows `net.core.rmem_max` at most; [`receive_buffer`] tells what there is.
    pub receive_buffer: Option<usize>,
    /// Allows an address that no device has, or not yet (`IP_FREEBIND`).
    pub free_bind: bool,
    /// Receives merged datagrams (`UDP_GRO`). A group needs it on every member or on none: engines that serve the members
    /// must have the same [`gro`](crate::engine::EngineSettings::gro).
    pub gro: bool,
    /// Has an IPv6 group take IPv4 datagrams as well, under mapped addresses. Then the program must know both families.
    pub both_families: bool,
}

/// Why a group could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A group of no sockets receives nothing.
    #[error("a group needs at least one bucket")]
    NoBuckets,
    /// Someone else has the address, be it a single socket or another group.
    #[error(
        "UDP {address} is in use: stop who holds it (ss -ulpn 'sport = {port}' names it), or give another port",
        port = address.port()
    )]
    AddressInUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// No device of this machine has the address.
    #[error("no device has the address {address}: add it to one, or allow foreign addresses (free_bind)")]
    AddressNotHere {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Ports under `net.ipv4.ip_unprivileged_port_start` need a capability.
    #[error("port {port} needs CAP_NET_BIND_SERVICE: give a port of 1024 or more, or run as root")]
    PortForbidden {
        /// The port asked for.
        port: u16,
    },
    /// The process may not open so many descriptors.
    #[error(
        "no descriptor left after {made} of {buckets} sockets: raise the limit of open files (ulimit -n)"
    )]
    NoDescriptors {
        /// Sockets that could be made.
        made: usize,
        /// Sockets wanted.
        buckets: usize,
    },
    /// The kernel limits the memory of a program.
    #[error(
        "a steering program of {instructions} instructions does not fit net.core.optmem_max ({limit} bytes): \
         raise it (sysctl -w net.core.optmem_max=1048576), or use a smaller table"
    )]
    ProgramTooLarge {
        /// Instructions of the program.
        instructions: usize,
        /// The limit's value, or `unknown`.
        limit: String,
    },
    /// Any other refusal of the kernel.
    #[error("cannot {what} for UDP {address}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Makes one UDP socket a bucket, all bound to one address, in bucket order, and attaches the program that steers among
/// them. Without a program the kernel's own hash does. With port 0 the first socket gets a free port and the others share
/// it.
///
/// The first socket is bound alone (without `SO_REUSEPORT`) before the others join it: in a group that existed already the
/// buckets would be off by its members. From then on, until the group is closed, the kernel lets other processes of the
/// same user join; none should. While a member is closed the last one takes its place: close them together.
///
/// The program takes effect when the group is complete. A group of one has nothing to steer and no program.
///
/// # Errors
/// See [`GroupError`].
pub fn udp(
    address: SocketAddr,
    buckets: usize,
    program: Option<&Program>,
    settings: &GroupSettings,
) -> Result<Vec<UdpSocket>, GroupError> {
    if buckets == 0 {
        return Err(GroupError::NoBuckets);
    }
    let making = Making {
        address,
        buckets,
        settings,
    };
    let first = making.socket(0)?;
    making.bind(&first, address)?;
    let first = UdpSocket::from(first);
    let shared = making.check("read the port", first.local_addr())?;
    let mut group = vec![first];
    if buckets == 1 {
        return Ok(group);
    }
    making.share(&group[0])?;
    for made in 1..buckets {
        let socket = making.socket(made)?;
        making.share(&socket)?;
        making.bind(&socket, shared)?;
        group.push(socket.into());
    }
    if let Some(program) = program {
        making.attach(&group[0], program)?;
    }
    Ok(group)
}

/// The receive buffer of a socket in bytes, as the kernel counts: twice what was asked for, or what it allowed.
///
/// # Errors
/// What the kernel says.
pub fn receive_buffer(socket: &UdpSocket) -> io::Result<usize> {
    Ok(getsockopt(socket, RcvBuf)?)
}

/// Datagrams that this socket dropped since it was made, most of them because its receive buffer was full. The kernel
/// counts in 32 bits and begins again at 0 (`SO_MEMINFO`, Linux 4.12).
///
/// # Errors
/// What the kernel says.
pub fn dropped(socket: &UdpSocket) -> io::Result<u32> {
    // `linux/sock_diag.h`: SK_MEMINFO_DROPS is the last of nine words.
    let words: [u32; 9] = option::get_words(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    Ok(words[8])
}

/// What every step of making a group needs to explain its failure.
struct Making<'a> {
    address: SocketAddr,
    buckets: usize,
    settings: &'a GroupSettings,
}

impl Making<'_> {
    fn socket(&self, made: usize) -> Result<Socket, GroupError> {
        let socket = match Socket::new(Domain::for_address(self.address), Type::DGRAM, None) {
            Ok(socket) => socket,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                let buckets = self.buckets;
                return Err(GroupError::NoDescriptors { made, buckets });
            }
            Err(source) => return Err(self.failed("open a socket", source)),
        };
        if let Some(bytes) = self.settings.receive_buffer {
            let forced = setsockopt(&socket, RcvBufForce, &bytes);
            let set = forced.or_else(|_| setsockopt(&socket, RcvBuf, &bytes));
            self.check("set the receive buffer", set.map_err(io::Error::from))?;
        }
        if self.address.is_ipv6() {
            let only = !self.settings.both_families;
            self.check("choose the families", socket.set_only_v6(only))?;
        }
        if self.settings.free_bind {
            let free = match self.address {
                SocketAddr::V4(_) => socket.set_freebind_v4(true),
                SocketAddr::V6(_) => socket.set_freebind_v6(true),
            };
            self.check("allow a foreign address", free)?;
        }
        let merged = setsockopt(&socket, UdpGroSegment, &self.settings.gro);
        self.check("set UDP_GRO", merged.map_err(io::Error::from))?;
        Ok(socket)
    }

    fn bind(&self, socket: &Socket, address: SocketAddr) -> Result<(), GroupError> {
        let Err(source) = socket.bind(&address.into()) else {
            return Ok(());
        };
        let address = self.address;
        Err(match source.raw_os_error() {
            Some(libc::EADDRINUSE) => GroupError::AddressInUse { address },
            Some(libc::EADDRNOTAVAIL) => GroupError::AddressNotHere { address },
            Some(libc::EACCES) => GroupError::PortForbidden { port: address.port() },
            _ => self.failed("bind", source),
        })
    }

    fn share(&self, socket: &impl AsFd) -> Result<(), GroupError> {
        let shared = setsockopt(socket, ReusePort, &true);
        self.check("share the port", shared.map_err(io::Error::from))
    }

    fn attach(&self, member: &UdpSocket, program: &Program) -> Result<(), GroupError> {
        let mut filter: Vec<libc::sock_filter> = program
            .instructions()
            .iter()
            .map(|instruction| libc::sock_filter {
                code: instruction.code,
                jt: instruction.jt,
                jf: instruction.jf,
                k: instruction.k,
            })
            .collect();
        let attached = libc::sock_fprog {
            len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
            filter: filter.as_mut_ptr(),
        };
        match setsockopt(member, AttachReusePortCbpf, &attached) {
            Ok(()) => Ok(()),
            Err(Errno::ENOMEM) => Err(GroupError::ProgramTooLarge {
                instructions: filter.len(),
                limit: optmem_max(),
            }),
            Err(errno) => Err(self.failed("attach the steering program", errno.into())),
        }
    }

    fn check<T>(&self, what: &'static str, result: io::Result<T>) -> Result<T, GroupError> {
        result.map_err(|source| self.failed(what, source))
    }

    fn failed(&self, what: &'static str, source: io::Error) -> GroupError {
        GroupError::System {
            what,
            address: self.address,
            source,
        }
    }
}

fn optmem_max() -> String {
    std::fs::read_to_string("/proc/sys/net/core/optmem_max")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
