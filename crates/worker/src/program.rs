//! Attaches steering programs to groups of sockets.
//!
//! The kernel replaces a group's program atomically (`reuseport_attach_prog` in `net/core/sock_reuseport.c`): every
//! packet is steered by the old or the new program.

use crate::system::option;
use corelane_rss::steer::Program;
use nix::errno::Errno;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::AttachReusePortCbpf;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `SO_DETACH_REUSEPORT_BPF` of `asm-generic/socket.h`, Linux 5.3.
const DETACH_REUSEPORT_PROGRAM: i32 = 68;

/// Why the kernel rejected a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The kernel limits the memory of a program.
    #[error(
        "a steering program of {instructions} instructions does not fit net.core.optmem_max ({limit} bytes): \
         raise it (sysctl -w net.core.optmem_max=1048576), or use a smaller table"
    )]
    TooLarge {
        /// Instructions of the program.
        instructions: usize,
        /// The limit's value, or `unknown`.
        limit: String,
    },
    /// There is no program to detach.
    #[error("the group has no program: the kernel's own hash steers it already")]
    None,
    /// Any other kernel error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Makes the kernel choose among a group's sockets by this program. `member` is any socket of the group.
///
/// # Errors
/// See [`ProgramError`].
pub fn attach(member: &impl AsFd, program: &Program) -> Result<(), ProgramError> {
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
        Err(Errno::ENOMEM) => Err(ProgramError::TooLarge {
            instructions: filter.len(),
            limit: optmem_max(),
        }),
        Err(errno) => Err(io::Error::from(errno).into()),
    }
}

/// The same by a program that bpf(2) has loaded: of the kind of socket filters, which answers the index of a socket. It stays
/// attached when its descriptor is closed. Replacing one of the other kind is atomic, too.
///
/// # Errors
/// The kernel's.
pub fn attach_loaded(member: &impl AsFd, program: &impl AsFd) -> Result<(), ProgramError> {
    let program = program.as_fd().as_raw_fd() as u32;
    Ok(option::set(
        member,
        libc::SOL_SOCKET,
        libc::SO_ATTACH_REUSEPORT_EBPF,
        program,
    )?)
}

/// Detaches the program: the kernel's default hash steers the group again.
///
/// # Errors
/// If it has no program, or the kernel is older than 5.3.
pub fn detach(member: &impl AsFd) -> Result<(), ProgramError> {
    match option::set(member, libc::SOL_SOCKET, DETACH_REUSEPORT_PROGRAM, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Err(ProgramError::None),
        result => Ok(result?),
    }
}

fn optmem_max() -> String {
    std::fs::read_to_string("/proc/sys/net/core/optmem_max")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
