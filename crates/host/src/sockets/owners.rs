//! The processes that hold a socket, and the thread that reads it.
//!
//! Input: the kernel's inode numbers of sockets; `/proc`. Output: the holders of each. A thread is known to read a
//! socket when it waits in a call on it, or on an epoll instance that watches it; `/proc/PID/task/TID/syscall` and
//! `/proc/PID/fdinfo` show both (`proc_pid_syscall(5)`, `proc_pid_fdinfo(5)`) if the caller may trace the process. The
//! descriptors of poll(2) are in its memory. Waits through io_uring are not visible.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::cpus::list;
use crate::tree::{Tree, field};

/// A socket that receives a flow's packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The inode number, as in `/proc/PID/fd`.
    pub inode: u32,
    /// The local address; unspecified if it accepts any.
    pub local: SocketAddr,
    /// The peer; unspecified if it accepts any.
    pub remote: SocketAddr,
    /// Whether it is a listener.
    pub listens: bool,
    /// The processes that hold it, with the threads that wait on it.
    pub holders: Vec<Holder>,
    /// The one CPU that every thread which may read it is pinned to; `None` if there are several or none is known.
    pub cpu: Option<u32>,
    /// How that CPU was determined.
    pub cpu_by: Option<String>,
}

/// A process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process id.
    pub process: u32,
    /// The process name.
    pub name: String,
    /// The descriptors it holds the socket by, ascending.
    pub descriptors: Vec<u32>,
    /// The threads that wait for the socket; empty if none was found waiting.
    pub waiting: Vec<Thread>,
    /// Whether an epoll instance of the process watches it.
    #[serde(default)]
    pub watched: bool,
    /// The CPUs that all its threads may run on.
    pub cpus: Vec<u32>,
}

/// A thread and its affinity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The thread id.
    pub thread: u32,
    /// The thread name.
    pub name: String,
    /// The CPUs it may run on.
    pub cpus: Vec<u32>,
}

/// Calls with the descriptor as first argument in which a reader of a socket waits.
const WAITING_ON_SOCKET: [libc::c_long; 6] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept4,
];

/// The same on an epoll instance.
const WAITING_ON_EPOLL: [libc::c_long; 2] = [libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: [libc::c_long; 2] = [libc::SYS_accept, libc::SYS_epoll_wait];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [libc::c_long; 0] = [];

/// Calls that wait on a list of descriptors: its address comes first, then its length.
#[cfg(target_arch = "x86_64")]
const WAITING_ON_LIST: [libc::c_long; 2] = [libc::SYS_ppoll, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const WAITING_ON_LIST: [libc::c_long; 1] = [libc::SYS_ppoll];

/// Maximum length of such a list: the worker of a bucket has few sockets, or uses epoll.
const MOST_LISTED: u64 = 4096;

/// Adds holders, and the CPU if it is determined, to each of `owners`, which are sorted by descriptor if one process
/// holds them all.
pub(super) fn hold(tree: &Tree, owners: &mut [Owner]) {
    let processes = tree.numbers("/proc", "").unwrap_or_default();
    find_holders(tree, owners, processes.iter().copied());
    if owners.iter().any(|owner| owner.holders.is_empty()) {
        let holding = owners.iter().flat_map(|owner| &owner.holders);
        let holding: BTreeSet<u32> = holding.map(|holder| holder.process).collect();
        let processes = if holding.is_empty() { processes } else { holding };
        for process in processes {
            hold_by_threads(tree, process, owners);
        }
    }
    owners.sort_by_key(|owner| {
        let first = owner.holders.first();
        first.map(|holder| (holder.process, holder.descriptors.clone()))
    });
    settle(owners);
    settle_by_order(tree, owners);
}

/// Adds the holders among some processes to each of `owners`.
pub(super) fn find_holders(tree: &Tree, owners: &mut [Owner], processes: impl IntoIterator<Item = u32>) {
    let places = places(owners);
    for process in processes {
        hold_by(tree, process, &places, owners);
    }
}

/// The index of each owner by the target of a descriptor of its socket.
fn places(owners: &[Owner]) -> BTreeMap<String, usize> {
    let name = |(place, owner): (usize, &Owner)| (format!("socket:[{}]", owner.inode), place);
    owners.iter().enumerate().map(name).collect()
}

/// Adds the threads of a process that hold a socket in a table of descriptors of their own (`unshare(2)` with
/// `CLONE_FILES`), as the workers of `corelane serve` do. No other thread can use such a descriptor.
pub(super) fn hold_by_threads(tree: &Tree, process: u32, owners: &mut [Owner]) {
    let directory = format!("/proc/{process}");
    let descriptors = |table: &str| tree.numbers(table, "").unwrap_or_default();
    let (places, shared) = (places(owners), descriptors(&format!("{directory}/fd")));
    for thread in threads(tree, &directory) {
        let table = format!("{directory}/task/{}/fd", thread.thread);
        if thread.thread == process || descriptors(&table) == shared {
            continue;
        }
        for (place, descriptors) in held(tree, &table, &places).0 {
            let holders = &mut owners[place].holders;
            // The table of the process may have it too, from before.
            holders.retain(|holder| holder.process != process || !holder.waiting.is_empty());
            holders.push(Holder {
                process,
                name: tree.text(&format!("{directory}/comm")).unwrap_or_default(),
                descriptors: descriptors.into_iter().collect(),
                waiting: vec![thread.clone()],
                watched: false,
                cpus: thread.cpus.clone(),
            });
        }
    }
}

/// The sockets that a table of descriptors has, each with its descriptors, and the epoll instances. A table that may not
/// be read, or whose process has ended, has none.
fn held(
    tree: &Tree,
    table: &str,
    places: &BTreeMap<String, usize>,
) -> (BTreeMap<usize, BTreeSet<u32>>, Vec<u32>) {
    let (mut held, mut epolls) = (BTreeMap::<usize, BTreeSet<u32>>::new(), Vec::new());
    for descriptor in tree.numbers(table, "").unwrap_or_default() {
        let target = tree.link(&format!("{table}/{descriptor}")).unwrap_or_default();
        let target = target.to_string_lossy();
        if let Some(place) = places.get(target.as_ref()) {
            held.entry(*place).or_default().insert(descriptor);
        } else if target == "anon_inode:[eventpoll]" {
            epolls.push(descriptor);
        }
    }
    (held, epolls)
}

/// Scans the descriptors of a process.
fn hold_by(tree: &Tree, process: u32, places: &BTreeMap<String, usize>, owners: &mut [Owner]) {
    let directory = format!("/proc/{process}");
    let (held, epolls) = held(tree, &format!("{directory}/fd"), places);
    if held.is_empty() {
        return;
    }
    let threads = threads(tree, &directory);
    let name = tree.text(&format!("{directory}/comm")).unwrap_or_default();
    let cpus: BTreeSet<u32> = threads.iter().flat_map(|thread| &thread.cpus).copied().collect();
    let mut holders: Vec<(usize, Holder, Vec<u32>)> = Vec::new();
    for (place, descriptors) in held {
        let mut watching = epolls.clone();
        watching.retain(|epoll| watches(tree, &directory, *epoll, &descriptors));
        let holder = Holder {
            process,
            name: name.clone(),
            waiting: Vec::new(),
            watched: !watching.is_empty(),
            cpus: cpus.iter().copied().collect(),
            descriptors: descriptors.into_iter().collect(),
        };
        holders.push((place, holder, watching));
    }
    await_readers(tree, &directory, &threads, &mut holders);
    for (place, mut holder, _) in holders {
        // The only thread of a process that watches the socket must be the one.
        if holder.waiting.is_empty() && holder.watched && threads.len() == 1 {
            holder.waiting.clone_from(&threads);
        }
        owners[place].holders.push(holder);
    }
}

/// Adds the threads that wait for the sockets of holders, each with the epoll instances that watch its socket. A thread that runs is
/// in no call: it is looked at again, as most wait soon.
fn await_readers(
    tree: &Tree,
    directory: &str,
    threads: &[Thread],
    holders: &mut [(usize, Holder, Vec<u32>)],
) {
    for _ in 0..READINGS {
        let (calls, all_wait) = calls(tree, directory, threads);
        for (_, holder, watching) in &mut *holders {
            let waits = |thread: &&Thread| {
                calls
                    .get(&thread.thread)
                    .is_some_and(|call| call.is_on(&holder.descriptors, watching))
            };
            let found: Vec<Thread> = threads.iter().filter(waits).cloned().collect();
            holder.waiting.extend(found);
            holder.waiting.sort_by_key(|thread| thread.thread);
            holder.waiting.dedup();
        }
        if all_wait || holders.iter().all(|(_, holder, _)| !holder.waiting.is_empty()) {
            break;
        }
        thread::yield_now();
    }
}

/// Whether an epoll instance watches one of some descriptors: it has one line `tfd: 5 events: …` per watched
/// descriptor.
fn watches(tree: &Tree, directory: &str, epoll: u32, descriptors: &BTreeSet<u32>) -> bool {
    let text = tree
        .text(&format!("{directory}/fdinfo/{epoll}"))
        .unwrap_or_default();
    let mut watched = text.lines().filter_map(|line| {
        let number = line.strip_prefix("tfd:")?.split_whitespace().next();
        number?.parse().ok()
    });
    watched.any(|watched| descriptors.contains(&watched))
}

/// The threads of a process, ascending.
fn threads(tree: &Tree, directory: &str) -> Vec<Thread> {
    let numbers = tree.numbers(&format!("{directory}/task"), "").unwrap_or_default();
    let thread = |thread| {
        let status = tree
            .text(&format!("{directory}/task/{thread}/status"))
            .unwrap_or_default();
        let cpus = field(&status, "Cpus_allowed_list").and_then(list::parse);
        Thread {
            thread,
            name: field(&status, "Name").unwrap_or_default().to_owned(),
            cpus: cpus.unwrap_or_default(),
        }
    };
    numbers.into_iter().map(thread).collect()
}

/// Readings of what threads wait for, at most.
const READINGS: usize = 20;

/// The call that a thread sleeps in, with the descriptors that it waits on.
enum Call {
    Socket(u32),
    Epoll(u32),
    Either(u32),
    List(Vec<u32>),
}

impl Call {
    /// Whether it waits for one of these descriptors, or on an epoll instance that watches them.
    fn is_on(&self, descriptors: &[u32], watching: &[u32]) -> bool {
        match self {
            Call::Socket(first) => descriptors.contains(first),
            Call::Epoll(first) => watching.contains(first),
            Call::Either(first) => descriptors.contains(first) || watching.contains(first),
            Call::List(listed) => listed.iter().any(|listed| descriptors.contains(listed)),
        }
    }
}

/// The call of each thread that waits in one, and whether no thread ran.
fn calls(tree: &Tree, directory: &str, threads: &[Thread]) -> (BTreeMap<u32, Call>, bool) {
    let mut all_wait = true;
    let call = |thread: &Thread| {
        let text = tree
            .text(&format!("{directory}/task/{}/syscall", thread.thread))
            .ok()?;
        all_wait &= text.trim() != "running";
        let mut words = text.split_whitespace();
        let call = words.next()?.parse().ok()?;
        let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let first = argument()?;
        let descriptor = u32::try_from(first);
        let call = match call {
            call if WAITING_ON_LIST.contains(&call) => {
                Call::List(listed(tree, directory, first, argument()?)?)
            }
            call if WAITING_ON_SOCKET.contains(&call) => Call::Socket(descriptor.ok()?),
            call if WAITING_ON_EPOLL.contains(&call) => Call::Epoll(descriptor.ok()?),
            call if OLDER.contains(&call) => Call::Either(descriptor.ok()?),
            _ => return None,
        };
        Some((thread.thread, call))
    };
    let calls = threads.iter().filter_map(call).collect();
    (calls, all_wait)
}

/// The descriptors of a `struct pollfd` array in the memory of a process: a number, and four bytes of events.
fn listed(tree: &Tree, directory: &str, address: u64, length: u64) -> Option<Vec<u32>> {
    const POLLFD: usize = 8;
    let bytes = POLLFD * length.min(MOST_LISTED) as usize;
    let bytes = tree.part(&format!("{directory}/mem"), address, bytes).ok()?;
    let descriptor = |one: &[u8]| u32::from_ne_bytes([one[0], one[1], one[2], one[3]]);
    Some(bytes.chunks_exact(POLLFD).map(descriptor).collect())
}

/// The CPU, if every possible reader of the socket is pinned to the same one.
fn settle(owners: &mut [Owner]) {
    for owner in owners {
        let waiting = owner.holders.iter().flat_map(|holder| &holder.waiting);
        let waiting: BTreeSet<u32> = waiting.flat_map(|thread| &thread.cpus).copied().collect();
        let may_read = owner.holders.iter().flat_map(|holder| &holder.cpus).copied();
        let (cpus, by) = match waiting.len() {
            1 => (waiting, "the thread that waits for it is pinned to it"),
            _ => (may_read.collect(), "all threads of its holder are pinned to it"),
        };
        if cpus.len() == 1 {
            owner.cpu = cpus.first().copied();
            owner.cpu_by = Some(by.to_owned());
        }
    }
}

/// If one process holds a group of sockets and has as many threads, each pinned to one CPU, the first socket is assumed
/// to belong to the first thread, and so on: servers open sockets and start threads in the same order. What is known of some
/// of them has to agree.
fn settle_by_order(tree: &Tree, owners: &mut [Owner]) {
    let holder = |owner: &Owner| match &owner.holders[..] {
        [holder] => Some(holder.process),
        _ => None,
    };
    let [first, _, ..] = &*owners else {
        return;
    };
    let Some(process) =
        holder(first).filter(|process| owners.iter().all(|own| holder(own) == Some(*process)))
    else {
        return;
    };
    let mut bound = threads(tree, &format!("/proc/{process}"));
    bound.retain(|thread| thread.cpus.len() == 1);
    let agrees = |(owner, thread): (&Owner, &Thread)| owner.cpu.is_none_or(|cpu| thread.cpus == [cpu]);
    if bound.len() == owners.len() && owners.iter().zip(&bound).all(agrees) {
        let unknown = owners
            .iter_mut()
            .zip(&bound)
            .filter(|(owner, _)| owner.cpu.is_none());
        for (owner, thread) in unknown {
            owner.cpu = thread.cpus.first().copied();
            let by = format!(
                "thread {} ({}) is pinned to it, by its position among the threads",
                thread.thread, thread.name
            );
            owner.cpu_by = Some(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(holders: Vec<Holder>) -> Owner {
        Owner {
            inode: 1,
            local: "0.0.0.0:1".parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            listens: false,
            holders,
            cpu: None,
            cpu_by: None,
        }
    }

    fn holder(waiting: &[&[u32]], cpus: &[u32]) -> Holder {
        let thread = |cpus: &&[u32]| Thread {
            thread: 7,
            name: String::new(),
            cpus: cpus.to_vec(),
        };
        Holder {
            process: 7,
            name: String::new(),
            descriptors: vec![3],
            waiting: waiting.iter().map(thread).collect(),
            watched: false,
            cpus: cpus.to_vec(),
        }
    }

    #[test]
    fn who_waits_settles_the_cpu_before_who_could_read() {
        let cases = [
            (holder(&[&[1]], &[0, 1]), Some(1)),
            (holder(&[], &[1]), Some(1)),
            (holder(&[], &[0, 1]), None),
            (holder(&[&[0], &[1]], &[0, 1]), None),
        ];
        for (holder, cpu) in cases {
            let mut owners = [owner(vec![holder.clone()])];
            settle(&mut owners);
            assert_eq!(owners[0].cpu, cpu, "{holder:?}");
        }
        let mut shared = [owner(vec![holder(&[&[0]], &[0]), holder(&[&[1]], &[1])])];
        settle(&mut shared);
        assert_eq!(shared[0].cpu, None);
    }
}
