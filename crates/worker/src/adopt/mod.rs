//! The socket group of a running server. Input: a process and a port. Output: duplicates of its sockets, in group
//! order, and the thread that serves each. The server does not notice and needs no restart.
//!
//! The group's program numbers its members in the order in which they were bound (UDP) or began to listen (TCP). The
//! kernel does not report that order, but it follows from the inode numbers, which grow as sockets are created, and
//! from the kernel's list, to whose front (TCP over IPv6: end) every socket is added. If both agree, the order is
//! certain.

mod listing;
mod owner;

pub use owner::Owner;

use crate::group::Transport;
use crate::program::{self, ProgramError};
use crate::system::foreign;
use corelane_host::counters;
use corelane_host::sockets::{self, Holder};
use corelane_rss::steer::{Families, Program};
use listing::Listed;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{Ipv6V6Only, ReusePort};
use std::collections::BTreeSet;
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
    /// No such process, no group or several, or another error of the kernel.
    #[error("{0}")]
    NotFound(String),
}

impl Adopted {
    /// Finds the group and duplicates its sockets.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub fn find(sought: Sought) -> Result<Adopted, AdoptError> {
        let process = sought.process;
        let Ok(processes) = counters::with_descendants(process) else {
            let text = format!("no process {process}: ps lists the running processes");
            return Err(AdoptError::NotFound(text));
        };
        let (transport, address, listed) = group(&sought, &processes)?;
        let mut by_inode: Vec<u32> = listed.iter().map(|socket| socket.inode).collect();
        by_inode.sort_unstable();
        let by_list = listing::in_group_order(transport, address, &listed);
        let mut members = Vec::new();
        for (inode, holders) in by_inode.iter().zip(sockets::holders(&by_inode, &processes)) {
            let Some(holder) = holders.first() else {
                return Err(sought.not_served());
            };
            let socket = take(holder)?;
            if !matches!(getsockopt(&socket, ReusePort), Ok(true)) || by_inode.len() < 2 {
                let sockets = by_inode.len();
                return Err(AdoptError::NotFound(format!(
                    "{address} is not a group of sockets ({sockets} found): configure the server to open one per \
                     worker (nginx: listen … reuseport)"
                )));
            }
            members.push(Member {
                inode: *inode,
                owners: holders.iter().filter_map(Owner::of).collect(),
                socket,
            });
        }
        let only_v6 = || matches!(getsockopt(&members[0].socket, Ipv6V6Only), Ok(true));
        let families = match address {
            SocketAddr::V4(_) => Families::V4,
            SocketAddr::V6(to) if !to.ip().is_unspecified() || only_v6() => Families::V6,
            SocketAddr::V6(_) => Families::Both,
        };
        Ok(Adopted {
            transport,
            address,
            families,
            order_is_certain: by_list == by_inode,
            members,
        })
    }

    /// Attaches a steering program, whose numbers are positions among the members. Existing connections and queued
    /// datagrams stay where they are.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn attach(&self, program: &Program) -> Result<(), ProgramError> {
        program::attach(&self.members[0].socket, program)
    }

    /// Detaches the program: the kernel's default hash steers the group again.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn detach(&self) -> Result<(), ProgramError> {
        program::detach(&self.members[0].socket)
    }
}

impl Sought {
    fn not_served(&self) -> AdoptError {
        let Sought { process, port, .. } = self;
        AdoptError::NotFound(format!(
            "neither process {process} nor its children serve port {port}: ss -lntup lists listening processes"
        ))
    }
}

/// The selected group.
fn group(sought: &Sought, processes: &[u32]) -> Result<(Transport, SocketAddr, Vec<Listed>), AdoptError> {
    for process in processes {
        let read = fs::read_dir(format!("/proc/{process}/fd"));
        if read.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return Err(AdoptError::NotPermitted { process: *process });
        }
    }
    let listed = listing::serving(sought.process, sought.port)
        .map_err(|error| AdoptError::NotFound(error.to_string()))?;
    let inodes: Vec<u32> = listed.iter().map(|socket| socket.inode).collect();
    let holders = sockets::holders(&inodes, processes);
    let meant = listed.into_iter().zip(holders).filter_map(|(socket, holders)| {
        let fits = !holders.is_empty()
            && sought
                .transport
                .is_none_or(|transport| transport == socket.transport)
            && sought.address.is_none_or(|address| address == socket.address);
        fits.then_some(socket)
    });
    let meant: Vec<Listed> = meant.collect();
    let name = |socket: &Listed| format!("{} {}", socket.transport, socket.address);
    let served: BTreeSet<String> = meant.iter().map(name).collect();
    match served.len() {
        0 => Err(sought.not_served()),
        1 => Ok((meant[0].transport, meant[0].address, meant)),
        _ => Err(AdoptError::NotFound(format!(
            "process {} serves {}: select one (--address, --udp, --tcp)",
            sought.process,
            Vec::from_iter(served).join(" and ")
        ))),
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
        _ => AdoptError::NotFound(format!(
            "cannot take the server's socket (pidfd_getfd, Linux 5.6): {source}"
        )),
    })
}
