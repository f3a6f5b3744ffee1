//! The threads that serve a socket. Input: its holders. Output: those that wait on it, and their affinity.
//!
//! Workers created by fork(2) all hold all sockets of the group, so holding is no evidence. Waiting is.

use corelane_host::sockets::Holder;
use std::fs;

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

impl Owner {
    /// The thread of a holder, if the holder waits on the socket.
    pub(super) fn of(holder: &Holder) -> Option<Self> {
        if holder.waiting.is_empty() && !holder.watched {
            return None;
        }
        let one = match &holder.waiting[..] {
            [one] => Some(one),
            _ => None,
        };
        Some(Self {
            process: holder.process,
            thread: one.map(|one| one.thread),
            command: holder.name.clone(),
            cpus: one.map_or(&holder.cpus, |one| &one.cpus).clone(),
        })
    }
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

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}
