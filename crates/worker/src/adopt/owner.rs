//! The threads that serve a socket. Input: its holders. Output: those that wait on it, and their affinity.
//!
//! Workers created by fork(2) all hold all sockets of the group, so holding is no evidence. Waiting is.

use corelane_host::sockets::Holder;

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
