//! bpf(2): loads our programs with their maps, and attaches them to devices by BPF links, which end with their last
//! descriptor.

use crate::program::Instruction;
use nix::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;
const LINK_GET_FD_BY_ID: libc::c_int = 30;
const LINK_DETACH: libc::c_int = 34;

/// The numbers of linux/bpf.h for a kind of program, and for how it is attached.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) program: u32,
    pub(crate) attached: u32,
}

/// Kinds of maps (`enum bpf_map_type` of linux/bpf.h).
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum MapKind {
    Array = 2,
    /// Programs that others go on with.
    Programs = 3,
    /// A value for each CPU.
    ArrayPerCpu = 6,
    /// Of maps like the one with this descriptor.
    ArrayOfMaps = 12,
    Cpus = 16,
    /// AF_XDP sockets.
    Sockets = 17,
}

/// A map of this many places, with values of this many bytes. `like` is a map like those that it holds, for one that holds
/// maps.
pub(crate) fn map(kind: MapKind, value: usize, places: u32, like: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let like = like.map_or(0, AsRawFd::as_raw_fd) as u32;
    // Of `union bpf_attr`: the kind of map, bytes of a key and of a value, places, flags, the inner map.
    let attributes: [u32; 6] = [kind as u32, 4, value as u32, places, 0, like];
    // SAFETY: the attributes are those of the command and hold no addresses.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// `BPF_MAP_LOOKUP_ELEM` and `BPF_MAP_UPDATE_ELEM` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct MapPlace {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Sets a place of a map. The value has the size that the map was made with; of a map of descriptors it is one.
pub(crate) fn update_map(map: &OwnedFd, place: u32, value: &[u8]) -> io::Result<()> {
    let attributes = MapPlace {
        map: map.as_raw_fd() as u32,
        key: (&raw const place) as u64,
        value: value.as_ptr() as u64,
        ..MapPlace::default()
    };
    // SAFETY: the attributes are those of the command; key and value have the map's sizes and outlive the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// The number at a place of a map of 64-bit numbers per CPU, by the number of the CPU; `cpus` are those that are possible.
pub(crate) fn counts_of(map: &OwnedFd, place: u32, cpus: usize) -> io::Result<Vec<u64>> {
    let mut counts = vec![0_u64; cpus];
    let attributes = MapPlace {
        map: map.as_raw_fd() as u32,
        key: (&raw const place) as u64,
        value: counts.as_mut_ptr() as u64,
        ..MapPlace::default()
    };
    // SAFETY: the attributes are those of the command; the kernel writes eight bytes for each possible CPU.
    unsafe { bpf(MAP_LOOKUP_ELEM, &attributes) }?;
    Ok(counts)
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

/// What the kernel reports of a BPF link to a device (`struct bpf_link_info` of linux/bpf.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkInfo {
    kind: u32,
    /// Number of the link.
    pub(crate) link: u32,
    /// Number of the program.
    pub(crate) program: u32,
    padding: u32,
    /// Index of the device; 0 once the link is detached or the device is gone.
    pub(crate) device: u32,
}

/// What the kernel reports of a link.
pub(crate) fn link_info(link: &OwnedFd) -> io::Result<LinkInfo> {
    /// `info` of `union bpf_attr`.
    #[repr(C)]
    struct Inform {
        descriptor: u32,
        bytes: u32,
        information: u64,
    }
    let mut info = LinkInfo::default();
    let attributes = Inform {
        descriptor: link.as_raw_fd() as u32,
        bytes: size_of::<LinkInfo>() as u32,
        information: (&raw mut info) as u64,
    };
    // SAFETY: the attributes are those of the command, and the information outlives the call.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &attributes) }?;
    Ok(info)
}

/// Detaches the link with this number, whoever holds it.
pub(crate) fn detach(link: u32) -> io::Result<()> {
    // SAFETY: both commands take a number, and no addresses.
    let link = unsafe { bpf_descriptor(LINK_GET_FD_BY_ID, &link) }?;
    // SAFETY: as above.
    unsafe { bpf(LINK_DETACH, &(link.as_raw_fd() as u32)) }.map(drop)
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

/// Runs a program over a frame, without a device: what it returned.
#[cfg(test)]
pub(crate) fn test_run(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    test_runs(program, frame, 1, 0)
}

/// Runs a program over a frame so many times in one go, as if it came from the loopback device, and does what it says.
#[cfg(test)]
pub(crate) fn test_live(program: &OwnedFd, frame: &[u8], times: u32) -> io::Result<()> {
    /// `BPF_F_TEST_XDP_LIVE_FRAMES` of linux/bpf.h.
    const LIVE_FRAMES: u32 = 1 << 1;
    test_runs(program, frame, times, LIVE_FRAMES).map(drop)
}

#[cfg(test)]
fn test_runs(program: &OwnedFd, frame: &[u8], repeat: u32, flags: u32) -> io::Result<u32> {
    const PROG_TEST_RUN: libc::c_int = 10;
    /// `test` of `union bpf_attr`.
    #[repr(C)]
    #[derive(Default)]
    struct TestRun {
        program: u32,
        returned: u32,
        bytes_in: u32,
        bytes_out: u32,
        frame_in: u64,
        frame_out: u64,
        repeat: u32,
        duration: u32,
        context_bytes: [u32; 2],
        contexts: [u64; 2],
        flags: u32,
        cpu: u32,
        batch: u32,
        padding: u32,
    }
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        bytes_in: frame.len() as u32,
        frame_in: frame.as_ptr() as u64,
        repeat,
        flags,
        ..TestRun::default()
    };
    let at = &raw mut attributes;
    // SAFETY: the kernel reads the frame, and writes what the program returned into the attributes, which outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, at, size_of::<TestRun>()) };
    Errno::result(result)?;
    Ok(attributes.returned)
}
