//! bpf(2): loads our programs, and attaches them to devices by BPF links, which end with their last descriptor.

use crate::program::Instruction;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

/// `BPF_MAP_TYPE_XSKMAP` of linux/bpf.h.
const XSKMAP: u32 = 17;

/// The numbers of linux/bpf.h for a kind of program, and for how it is attached.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) program: u32,
    pub(crate) attached: u32,
}

/// A map of AF_XDP sockets with this many places.
pub(crate) fn socket_map(places: u32) -> io::Result<OwnedFd> {
    // Of `union bpf_attr`: the kind of map, bytes of a key and of a value, places, flags.
    let attributes: [u32; 5] = [XSKMAP, 4, 4, places, 0];
    // SAFETY: the attributes are those of the command and hold no addresses.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// `BPF_MAP_UPDATE_ELEM` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Puts a socket into the map at the place of its queue.
pub(crate) fn update_map(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        ..MapUpdate::default()
    };
    // SAFETY: the attributes are those of the command; key and value have the map's sizes and outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// `BPF_PROG_LOAD` of `union bpf_attr`, up to what is used.
#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
}

/// Loads a program.
pub(crate) fn load(kind: Kind, name: &[u8; 16], instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = ProgramLoad {
        kind: kind.program,
        instructions_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        name: *name,
        attach_kind: kind.attached,
        ..ProgramLoad::default()
    };
    // SAFETY: the attributes are those of the command; instructions and license outlive the call and are as long as said.
    unsafe { bpf_descriptor(PROG_LOAD, &attributes) }
}

/// Attaches a program to a device for as long as the returned BPF link is open.
pub(crate) fn attach(kind: Kind, program: &OwnedFd, device: u32, flags: u32) -> io::Result<OwnedFd> {
    // Of `union bpf_attr`: the program, where to, how, flags.
    let attributes: [u32; 4] = [program.as_raw_fd() as u32, device, kind.attached, flags];
    // SAFETY: the attributes are those of the command and hold no addresses.
    unsafe { bpf_descriptor(LINK_CREATE, &attributes) }
}

/// A command of bpf(2) that makes a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the attributes.
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: the command made the descriptor for us, and nobody else closes it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// bpf(2). The kernel treats attributes that are shorter than its own as if zeros followed.
///
/// # Safety
/// The attributes are those of the command, and the addresses in them point to what the command reads.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<i64> {
    // SAFETY: the kernel reads as many bytes as the attributes have, and the caller vouches for their content.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    Ok(Errno::result(result)?)
}
