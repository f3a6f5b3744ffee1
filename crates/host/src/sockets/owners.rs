//! The processes that hold a socket, and the thread that reads it.
//!
//! Input: the kernel's inode numbers of sockets; `/proc`. Output: the holders of each. A thread is known to read a
//! socket when it waits in a call on it, or on an epoll instance that watches it; `/proc/PID/task/TID/syscall` and
//! `/proc/PID/fdinfo` show both (`proc_pid_syscall(5)`, `proc_pid_fdinfo(5)`) if the caller may trace the process.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Owner;
use crate::cpus::list;
use crate::tree::{Tree, field};

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

/// Adds holders, and the CPU if it is determined, to each of `owners`, which are sorted by descriptor if one process
/// holds them all.
pub(super) fn hold(tree: &Tree, owners: &mut [Owner]) {
    let numbers: BTreeMap<String, usize> = owners
        .iter()
        .enumerate()
        .map(|(index, owner)| (format!("socket:[{}]", owner.inode), index))
        .collect();
    for process in tree.numbers("/proc", "").unwrap_or_default() {
        hold_by(tree, process, &numbers, owners);
    }
    owners.sort_by_key(|owner| {
        let first = owner.holders.first();
        first.map(|holder| (holder.process, holder.descriptors.clone()))
    });
    settle(owners);
    settle_by_order(tree, owners);
}

/// Scans the descriptors of a process.
fn hold_by(tree: &Tree, process: u32, numbers: &BTreeMap<String, usize>, owners: &mut [Owner]) {
    let directory = format!("/proc/{process}");
    let mut held: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    let mut epolls: Vec<u32> = Vec::new();
    // Not permitted, or ended: no visible holder.
    for descriptor in tree.numbers(&format!("{directory}/fd"), "").unwrap_or_default() {
        let target = tree
            .link(&format!("{directory}/fd/{descriptor}"))
            .unwrap_or_default();
        let target = target.to_string_lossy();
        if let Some(index) = numbers.get(target.as_ref()) {
            held.entry(*index).or_default().insert(descriptor);
        } else if target == "anon_inode:[eventpoll]" {
            epolls.push(descriptor);
        }
    }
    if held.is_empty() {
        return;
    }
    let threads = threads(tree, &directory);
    let waiting = threads
        .iter()
        .filter_map(|own| Some((own.thread, call(tree, &directory, own.thread)?)));
    let calls: BTreeMap<u32, (libc::c_long, u32)> = waiting.collect();
    let name = tree.text(&format!("{directory}/comm")).unwrap_or_default();
    let cpus: BTreeSet<u32> = threads.iter().flat_map(|thread| &thread.cpus).copied().collect();
    for (index, descriptors) in held {
        let mut watching = epolls.clone();
        watching.retain(|epoll| watches(tree, &directory, *epoll, &descriptors));
        let waits = |thread: &&Thread| {
            calls.get(&thread.thread).is_some_and(|(call, first)| {
                let on_socket = WAITING_ON_SOCKET.contains(call) || OLDER.contains(call);
                let on_epoll = WAITING_ON_EPOLL.contains(call) || OLDER.contains(call);
                on_socket && descriptors.contains(first) || on_epoll && watching.contains(first)
            })
        };
        owners[index].holders.push(Holder {
            process,
            name: name.clone(),
            waiting: threads.iter().filter(waits).cloned().collect(),
            cpus: cpus.iter().copied().collect(),
            descriptors: descriptors.into_iter().collect(),
        });
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

/// The call that a thread waits in, and its first argument; `None` if it runs.
fn call(tree: &Tree, directory: &str, thread: u32) -> Option<(libc::c_long, u32)> {
    let text = tree.text(&format!("{directory}/task/{thread}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let call = words.next()?.parse().ok()?;
    let first = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    Some((call, u32::try_from(first).ok()?))
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
/// to belong to the first thread, and so on: servers open sockets and start threads in the same order.
fn settle_by_order(tree: &Tree, owners: &mut [Owner]) {
    let holder = |owner: &Owner| match &owner.holders[..] {
        [holder] if owner.cpu.is_none() => Some(holder.process),
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
    if bound.len() == owners.len() {
        for (owner, thread) in owners.iter_mut().zip(&bound) {
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
