//! The answers of `stats`.

use super::counters::named;
use super::shared::{START, VERSION};
use super::worker::Worker;
use corelane_proto::memcached::commands::Output;
use std::fmt::Display;

/// Answers `stats` with this argument.
pub(super) fn answer(argument: Option<&[u8]>, worker: &mut Worker, out: &mut impl Output) {
    match argument {
        None => general(worker, out),
        Some(b"reset") => return out.put(b"RESET\r\n"),
        Some(_) => return out.put(b"ERROR\r\n"),
    }
    out.put(b"END\r\n");
}

fn put(name: &str, value: impl Display, out: &mut impl Output) {
    out.put(format!("STAT {name} {value}\r\n").as_bytes());
}

fn general(worker: &mut Worker, out: &mut impl Output) {
    let now = worker.clock.now;
    put("pid", std::process::id(), out);
    put("uptime", now - START, out);
    put("time", worker.clock.epoch.saturating_add(now), out);
    put("version", VERSION, out);
    put("pointer_size", usize::BITS, out);
    let snapshot = worker.snapshot();
    for (name, count) in named(&snapshot.commands) {
        put(name, count, out);
    }
    put("cmd_flush", snapshot.events.flushes, out);
    put("threads", worker.shared.plan.workers(), out);
    put("limit_maxbytes", worker.shared.plan.memory_bytes, out);
    put("bytes", snapshot.store.item_bytes, out);
    put("curr_items", snapshot.store.items, out);
    put("total_items", snapshot.store.stored, out);
    put("evictions", snapshot.store.evicted, out);
    put("reclaimed", snapshot.store.expired, out);
}
