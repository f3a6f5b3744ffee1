//! Steers the datagrams of a memcached to the sockets of the workers that own their keys: an eBPF program for a group of
//! `SO_REUSEPORT` sockets, one per worker, in their order.
//!
//! Input: the seed of the hash of keys, the number of workers, and the program that steers datagrams without a readable key.
//! Output: the program, which [`AsFd`] shows, to be attached to the group (`corelane_worker::program::attach_loaded`).

mod classic;

use crate::error::LinkError;
use crate::program::{self, Instruction};
use crate::system::bpf::{self, Kind, MapKind};
use corelane_rss::steer::Program;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// `BPF_PROG_TYPE_SOCKET_FILTER` of linux/bpf.h, which is attached to sockets by their options.
const SOCKET: Kind = Kind {
    program: 1,
    attached: 0,
};

/// Bytes of `struct key_rule` of `bpf/key.h`.
const RULE: usize = 2 * size_of::<u64>();

/// A loaded program. Once it is dropped, datagrams without a readable key reach the first socket.
#[derive(Debug)]
pub struct KeySteering {
    program: OwnedFd,
    /// The program of the datagrams without a key: the kernel empties the map with its last descriptor.
    otherwise: OwnedFd,
}

impl KeySteering {
    /// Loads the program for keys with this seed and so many workers. `otherwise` steers datagrams without a readable key.
    ///
    /// # Errors
    /// If a privilege is missing, or the kernel (Linux 5.3) lacks what is needed.
    pub fn load(seed: u64, workers: usize, otherwise: &Program) -> Result<Self, LinkError> {
        if cfg!(target_endian = "big") {
            let hint = "its program is compiled for little-endian machines";
            return Err(LinkError::unsupported("UDP", "steering by keys", hint));
        }
        let loaded = Self::loaded(seed, workers as u64).map_err(|cause| failed(&cause))?;
        loaded.change(otherwise)?;
        Ok(loaded)
    }

    fn loaded(seed: u64, workers: u64) -> io::Result<Self> {
        let rule = bpf::map(MapKind::Array, RULE, 1, None)?;
        bpf::update_map(&rule, 0, [seed, workers].map(u64::to_ne_bytes).as_flattened())?;
        let otherwise = bpf::map(MapKind::Programs, size_of::<RawFd>(), 1, None)?;
        let program = program::key([rule.as_raw_fd(), otherwise.as_raw_fd()]);
        Ok(Self {
            program: load(b"corelane_key\0\0\0\0", &program)?,
            otherwise,
        })
    }

    /// Replaces the program that steers datagrams without a readable key.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn change(&self, otherwise: &Program) -> Result<(), LinkError> {
        let set = || {
            let program = load(b"corelane_steer\0\0", &classic::translated(otherwise))?;
            bpf::update_map(&self.otherwise, 0, &program.as_raw_fd().to_ne_bytes())
        };
        set().map_err(|cause: io::Error| failed(&cause))
    }
}

impl AsFd for KeySteering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

fn load(name: &[u8; 16], program: &[Instruction]) -> io::Result<OwnedFd> {
    bpf::load(SOCKET, name, program)
}

fn failed(cause: &io::Error) -> LinkError {
    match cause.raw_os_error() {
        Some(libc::EPERM) => LinkError::Unavailable(
            "steering by keys: not permitted to load the program: it needs CAP_BPF (before Linux 5.8 CAP_SYS_ADMIN) outside of \
             user namespaces; run as root"
                .to_owned(),
        ),
        Some(libc::ENOSYS) => LinkError::unsupported("UDP", "steering by keys", "it needs Linux 5.3 with eBPF"),
        _ => LinkError::Failed(format!("steering by keys: loading its program: {cause}")),
    }
}

#[cfg(test)]
mod tests;
