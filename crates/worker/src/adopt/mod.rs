//! The socket group of a running server. Input: a process and a port. Output: duplicates of its sockets, in group
//! order, and the thread that serves each. The server does not notice and needs no restart.
//!
//! The group's program numbers its members in the order in which they were bound (UDP) or began to listen (TCP). The
//! kernel does not report that order, but it follows from the inode numbers, which grow as sockets are created, and
//! from the kernel's list, to whose front (TCP over IPv6: end) every socket is added. If both agree, the order is
//! certain.

mod load;
mod owner;

pub use load::SampledLoads;
pub use owner::Owner;

use crate::group::{Transport, families};
use crate::program::{self, ProgramError};
use crate::steered::SteeredGroup;
use crate::system::foreign;
use corelane_host::sockets::{self, Holder};
use corelane_host::{HostError, counters};
use corelane_rss::steer::{Families, Program};
use corelane_rss::{Protocol, Steering};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{Ipv6V6Only, ReusePort};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};

/// A group of sockets of another process.
#[derive(Debug)]
pub struct Adopted {
    /// Datagrams or connections.
    pub transport: Transport,
    /// What the sockets are bound to.
    pub address: SocketAddr,
    /// Which packets reach them.
    pub families: Families,
    /// In the order of the group, as far as it is certain.
    pub members: Vec<Member>,
    /// Whether inode numbers and the kernel's list agree on the order.
    pub order_is_certain: bool,
    process: OwnedFd,
}

/// One socket.
#[derive(Debug)]
pub struct Member {
    /// Its inode number, as `ss -e` and `/proc/PID/fd` show it.
    pub inode: u32,
    /// The thread that waits on it, if visible.
    pub owners: Vec<Owner>,
    socket: OwnedFd,
}

/// Selects a group of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sought {
    /// The serving process, or the parent of the serving processes.
    pub process: u32,
    /// The port that it serves.
    pub port: u16,
    /// The transport, if the process serves both.
    pub transport: Option<Transport>,
    /// The address, if the process serves several.
    pub address: Option<SocketAddr>,
}

/// Why no group was adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The kernel protects the process.
    #[error(
        "process {process} may not be inspected: run as root or as its user (kernel.yama.ptrace_scope is 0 or 1)"
    )]
    NotPermitted {
        /// The process.
        process: u32,
    },
    /// No such process.
    #[error("no process {0}: ps lists the running processes")]
    NoProcess(u32),
    /// Neither the process nor its children serve the port.
    #[error("neither process {0} nor its children serve port {1}: ss -lntup lists listening processes")]
    NotServed(u32, u16),
    /// One socket, or sockets without `SO_REUSEPORT`.
    #[error(
        "{0} is not a group of sockets ({1} found): configure the server to open one per worker (nginx: \
         listen … reuseport)"
    )]
    NoGroup(SocketAddr, usize),
    /// The process has several groups.
    #[error("process {0} serves {1}: select one (--address, --udp, --tcp)")]
    SeveralGroups(u32, String),
    /// The kernel does not list the sockets.
    #[error("{0}")]
    Sockets(HostError),
    /// The kernel does not duplicate a socket.
    #[error("cannot take the server's socket (pidfd_getfd, Linux 5.6): {0}")]
    Take(io::Error),
    /// The load of the entries cannot be observed.
    #[error("the loads are unknown: {0}")]
    Loads(String),
}

impl Adopted {
    /// Finds the group and duplicates its sockets.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub fn find(sought: Sought) -> Result<Adopted, AdoptError> {
        let process = sought.process;
        let (Ok(processes), Ok(opened)) = (
            counters::with_descendants(process),
            foreign::open_process(process),
        ) else {
            return Err(AdoptError::NoProcess(process));
        };
        let (transport, address, mut sockets) = group(&sought, &processes)?;
        let by_list = in_group_order(transport, address, &sockets);
        sockets.sort_unstable_by_key(|socket| socket.inode);
        let mut members = Vec::new();
        for sockets::Owner { inode, holders, .. } in &sockets {
            let socket = take(&holders[0])?;
            if !matches!(getsockopt(&socket, ReusePort), Ok(true)) || sockets.len() < 2 {
                let sockets = sockets.len();
                return Err(AdoptError::NoGroup(address, sockets));
            }
            members.push(Member {
                inode: *inode,
                owners: holders.iter().filter_map(Owner::of).collect(),
                socket,
            });
        }
        let ipv6_only = matches!(getsockopt(&members[0].socket, Ipv6V6Only), Ok(true));
        Ok(Adopted {
            transport,
            address,
            families: families(address, ipv6_only),
            order_is_certain: sockets.iter().map(|socket| socket.inode).eq(by_list),
            members,
            process: opened,
        })
    }

    /// Whether the server's process has ended. Its port stays in use until this group is dropped: [`Adopted::detach`] first,
    /// or a server that starts before that joins a group with the program of the old one.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        foreign::has_ended(&self.process)
    }

    /// Whether these are the same sockets, in the same order.
    #[must_use]
    pub fn has_members_of(&self, other: &Adopted) -> bool {
        let inodes = |group: &Adopted| {
            group
                .members
                .iter()
                .map(|member| member.inode)
                .collect::<Vec<_>>()
        };
        inodes(self) == inodes(other)
    }

    /// Attaches a steering program, whose numbers are positions among the members. Existing connections and queued
    /// datagrams stay where they are.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn attach(&self, program: &Program) -> Result<(), ProgramError> {
        program::attach(&self.members[0].socket, program)
    }

    /// The group as one whose table can be changed, once the program of `steering` is attached: bucket *i* is the member
    /// `places[i]`.
    ///
    /// # Errors
    /// If a descriptor cannot be duplicated.
    pub fn steered(&self, steering: Steering, places: Vec<u16>) -> io::Result<SteeredGroup> {
        let (member, members) = (&self.members[0].socket, self.members.len());
        Ok(SteeredGroup::new(member, members, self.families, steering)?.placed(places))
    }

    /// Detaches the program: the kernel's default hash steers the group again.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn detach(&self) -> Result<(), ProgramError> {
        program::detach(&self.members[0].socket)
    }
}

/// The sockets of the selected group, which have holders, in the kernel's order.
fn group(
    sought: &Sought,
    processes: &[u32],
) -> Result<(Transport, SocketAddr, Vec<sockets::Owner>), AdoptError> {
    for process in processes {
        let read = fs::read_dir(format!("/proc/{process}/fd"));
        if read.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return Err(AdoptError::NotPermitted { process: *process });
        }
    }
    let mut groups = BTreeMap::new();
    for (transport, protocol) in [(Transport::Tcp, Protocol::Tcp), (Transport::Udp, Protocol::Udp)] {
        let serving = sockets::serving(sought.process, protocol, sought.port, processes)
            .map_err(AdoptError::Sockets)?;
        for socket in serving.into_iter().filter(|socket| {
            !socket.holders.is_empty()
                && sought.transport.is_none_or(|sought| sought == transport)
                // The kernel lists no zone.
                && (sought.address.map(|address| (address.ip(), address.port())))
                    .is_none_or(|address| address == (socket.local.ip(), socket.local.port()))
        }) {
            let name = format!("{transport} {}", socket.local);
            let group = groups.entry(name).or_insert((transport, Vec::new()));
            group.1.push(socket);
        }
    }
    if groups.len() > 1 {
        let groups = Vec::from_iter(groups.into_keys()).join(" and ");
        return Err(AdoptError::SeveralGroups(sought.process, groups));
    }
    let (_, (transport, sockets)) = groups
        .pop_first()
        .ok_or(AdoptError::NotServed(sought.process, sought.port))?;
    Ok((transport, sockets[0].local, sockets))
}

/// The inodes of a group's sockets in group order. New sockets are added to the front of the list, except TCP over IPv6
/// to its end (`inet_hash` in `net/ipv4/inet_hashtables.c`, `udp_lib_get_port` in `net/ipv4/udp.c`).
fn in_group_order(transport: Transport, address: SocketAddr, listed: &[sockets::Owner]) -> Vec<u32> {
    let inodes = listed.iter().map(|socket| socket.inode);
    match (transport, address) {
        (Transport::Tcp, SocketAddr::V6(_)) => inodes.collect(),
        _ => inodes.rev().collect(),
    }
}

fn take(holder: &Holder) -> Result<OwnedFd, AdoptError> {
    let descriptor = holder.descriptors[0] as RawFd;
    let process = foreign::open_process(holder.process);
    let taken = process.and_then(|process| foreign::duplicate(&process, descriptor));
    taken.map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => AdoptError::NotPermitted {
            process: holder.process,
        },
        _ => AdoptError::Take(source),
    })
}
