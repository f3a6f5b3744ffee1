//! The threads that serve a socket. Input: processes and an inode. Output: the threads that wait on it, and their
//! affinity.
//!
//! Workers created by fork(2) all hold all sockets of the group, so holding is no evidence. Waiting is: an epoll
//! instance lists what it watches (`/proc/PID/fdinfo`), and a sleeping thread shows its system call and descriptor
//! (`/proc/PID/task/TID/syscall`); the descriptors of poll(2) are in its memory. Waits through io_uring are not
//! visible.

use corelane_host::cpus::list;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

/// A thread that serves a socket.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Owner {
    /// Its process.
    pub process: u32,
    /// The thread; `None` if several threads of the process are possible.
    pub thread: Option<u32>,
    /// The process's command.
    pub command: String,
    /// Its affinity; if the thread is unknown, that of all threads of the process.
    pub cpus: Vec<u32>,
}

/// A process and its descendants; none if there is no such process.
pub(super) fn with_descendants(process: u32) -> Vec<u32> {
    if !fs::exists(format!("/proc/{process}")).unwrap_or(false) {
        return Vec::new();
    }
    let mut found = vec![process];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        for thread in threads(parent) {
            let path = format!("/proc/{parent}/task/{thread}/children");
            let children = fs::read_to_string(path).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
        at += 1;
    }
    found
}

/// The sockets that a process holds: inode and descriptor.
pub(super) fn sockets_of(process: u32) -> io::Result<Vec<(u64, i32)>> {
    let mut sockets = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        let entry = entry?;
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let inode = target
            .to_str()
            .and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        sockets.extend(inode.zip(number));
    }
    Ok(sockets)
}

/// The threads of these processes that wait on the socket.
pub(super) fn of_socket(processes: &[u32], inode: u64) -> Vec<Owner> {
    let owners = processes.iter().filter_map(|process| owner(*process, inode));
    owners.collect()
}

fn owner(process: u32, inode: u64) -> Option<Owner> {
    let mut descriptors = watching(process, inode);
    let own = sockets_of(process).unwrap_or_default();
    let blocked_on: Vec<i32> = own
        .iter()
        .filter(|(own, _)| *own == inode)
        .map(|(_, number)| *number)
        .collect();
    let threads = threads(process);
    let waiting = |descriptors: &[i32]| -> Vec<u32> {
        let on = |thread: &u32| {
            let waited_on = waits_on(process, *thread);
            waited_on.iter().any(|number| descriptors.contains(number))
        };
        threads.iter().copied().filter(on).collect()
    };
    if descriptors.is_empty() && waiting(&blocked_on).is_empty() {
        return None;
    }
    descriptors.extend(blocked_on);
    // A busy thread is in no system call: if it is the only one of its process, it must be the one.
    let thread = match (&waiting(&descriptors)[..], &threads[..]) {
        ([one], _) | ([], [one]) => Some(*one),
        _ => None,
    };
    let allowed: BTreeSet<u32> = match thread {
        Some(thread) => cpus(process, thread).into_iter().collect(),
        None => threads.iter().flat_map(|thread| cpus(process, *thread)).collect(),
    };
    let command = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Some(Owner {
        process,
        thread,
        command: command.trim_end().to_owned(),
        cpus: allowed.into_iter().collect(),
    })
}

/// The epoll instances of a process that watch a socket. Their lines are like `tfd: 8 events: 2019 data: … ino:4508be
/// …`, with the inode in hexadecimal.
fn watching(process: u32, inode: u64) -> Vec<i32> {
    let wanted = format!("ino:{inode:x}");
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fdinfo")) else {
        return Vec::new();
    };
    let watches = |text: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with("tfd:"));
        lines.any(|line| line.split_whitespace().any(|field| field == wanted))
    };
    let entries = entries.filter_map(Result::ok);
    let watching = entries.filter(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| watches(&text)));
    watching
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The descriptors that a sleeping thread's system call waits on: for poll(2) the list, for others the first argument.
fn waits_on(process: u32, thread: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).unwrap_or_default();
    let mut fields = text.split_whitespace();
    // `running` stands in place of the call's number where the thread does not sleep.
    let Some(call) = fields.next().and_then(|call| call.parse::<i64>().ok()) else {
        return Vec::new();
    };
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let (Some(first), Some(second)) = (argument(), argument()) else {
        return Vec::new();
    };
    if POLLING.contains(&call) {
        return polled(process, first, second).unwrap_or_default();
    }
    i32::try_from(first).into_iter().collect()
}

/// The calls whose first argument is a list of descriptors, and the second its length.
#[cfg(target_arch = "x86_64")]
const POLLING: [i64; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLLING: [i64; 1] = [libc::SYS_ppoll];

/// The maximum number of descriptors read per call: a bucket's worker has fewer.
const MOST_POLLED: u64 = 4096;

/// The descriptors of a `struct pollfd` array in the memory of a process: a number, and as many bytes of events.
fn polled(process: u32, address: u64, count: u64) -> io::Result<Vec<i32>> {
    const POLLFD: usize = 8;
    let memory = fs::File::open(format!("/proc/{process}/mem"))?;
    let mut bytes = vec![0; POLLFD * count.min(MOST_POLLED) as usize];
    memory.read_exact_at(&mut bytes, address)?;
    let descriptor = |one: &[u8]| i32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
    Ok(bytes.chunks_exact(POLLFD).map(descriptor).collect())
}

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn cpus(process: u32, thread: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|cpus| list::parse(cpus.trim())).unwrap_or_default()
}
