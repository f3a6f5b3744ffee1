//! Requests about the whole server that one worker answers alone.

use super::shared::VERSION;
use super::worker::Worker;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::control::Action;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::sync::atomic::Ordering;

/// Answers a request that concerns no other worker.
pub(super) fn answer(action: Action, worker: &mut Worker, out: &mut impl Output) {
    let line = match action {
        Action::Version => {
            out.put(b"VERSION ");
            out.put(VERSION.as_bytes());
            "\r\n"
        }
        Action::Crawler(allowed) => {
            worker.shared.crawler.store(allowed, Ordering::Relaxed);
            "OK\r\n"
        }
        Action::Shutdown { .. } => {
            // As a signal of the system would; its handler ends the server.
            let _ = signal::kill(Pid::this(), Signal::SIGTERM);
            return;
        }
        Action::Verbosity(level) => {
            worker.shared.verbosity.store(level, Ordering::Relaxed);
            "OK\r\n"
        }
        Action::MemoryLimit { mebibytes }
            if u64::from(mebibytes) << 20 <= worker.shared.plan.memory_bytes =>
        {
            let bytes = u64::from(mebibytes) << 20;
            worker.shared.memory_limit.store(bytes, Ordering::Relaxed);
            "OK\r\n"
        }
        Action::MemoryLimit { .. } => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
        action => action.answer().unwrap_or("ERROR\r\n"),
    };
    out.put(line.as_bytes());
}
