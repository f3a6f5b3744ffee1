//! The answers of `stats`, over all workers: from the counts that each has published.

use super::counters::{Events, Snapshot, named};
use super::shared::{START, Shared, VERSION};
use super::watchers::DETAIL;
use super::worker::Worker;
use corelane_measure::counters::Counters;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::control::Stats;
use corelane_proto::memcached::listing::{END, stat};
use std::fmt::Display;
use std::sync::atomic::Ordering;

/// Answers with these statistics.
pub(super) fn put(stats: Stats, worker: &Worker, out: &mut impl Output) {
    let shared = &*worker.shared;
    let workers: Vec<Snapshot> = shared.snapshots().collect();
    let mut put = |name: &str, value: &dyn Display| stat(name, value, out);
    match stats {
        Stats::General => general(worker, &workers, &mut put),
        Stats::Settings => settings(shared, &mut put),
        Stats::Items => items(&workers, &mut put),
        Stats::Slabs => slabs(&workers, &mut put),
        Stats::Sizes => put("sizes_status", &"disabled"),
        Stats::Corelane => corelane(shared, &workers, &mut put),
        Stats::Reset => {
            shared.reset();
            return out.put(b"RESET\r\n");
        }
        // These have been answered, or are refused in datagrams.
        Stats::Connections | Stats::Detail(_) | Stats::DetailDump | Stats::CacheDump { .. } => {}
    }
    out.put(END.as_bytes());
}

/// Takes one of the statistics: name and value.
type Put<'a> = &'a mut dyn FnMut(&str, &dyn Display);

fn sum(workers: &[Snapshot], count: impl Fn(&Snapshot) -> u64) -> u64 {
    workers.iter().map(count).sum()
}

fn general(worker: &Worker, workers: &[Snapshot], put: Put<'_>) {
    let (shared, now) = (&*worker.shared, worker.clock.now);
    put("pid", &std::process::id());
    put("uptime", &(now - START));
    put("time", &worker.clock.epoch.saturating_add(now));
    put("version", &VERSION);
    put("pointer_size", &usize::BITS);
    let plan = &shared.plan;
    put("max_connections", &plan.connections);
    put("curr_connections", &shared.open.load(Ordering::Relaxed));
    put("total_connections", &sum(workers, |worker| worker.accepted));
    let events = Events::sum(workers.iter().map(|worker| worker.events));
    put("rejected_connections", &events.rejected_connections);
    for (place, (name, _)) in named(&workers[0].commands).iter().enumerate() {
        put(name, &sum(workers, |worker| named(&worker.commands)[place].1));
    }
    put("idle_kicks", &events.idle_kicks);
    put("cmd_flush", &events.flushes);
    put("get_expired", &sum(workers, |worker| worker.store.found_expired));
    put("get_flushed", &sum(workers, |worker| worker.store.found_flushed));
    put("auth_cmds", &0);
    put("auth_errors", &0);
    put("bytes_read", &sum(workers, |worker| worker.bytes_read));
    put("bytes_written", &sum(workers, |worker| worker.bytes_written));
    put("limit_maxbytes", &shared.memory_limit.load(Ordering::Relaxed));
    put("accepting_conns", &1);
    put("listen_disabled_num", &0);
    put("threads", &plan.workers());
    put("conn_yields", &events.pauses);
    let buckets = sum(workers, |worker| worker.store.buckets);
    put("hash_power_level", &buckets.max(1).ilog2());
    put(
        "hash_bytes",
        &sum(workers, |worker| {
            worker.store.index_segments * worker.store.segment_bytes
        }),
    );
    put("hash_is_expanding", &0);
    let lines = &shared.watchers.counts;
    put(
        "log_worker_dropped",
        &sum(workers, |worker| worker.store.evictions_not_kept),
    );
    put("log_watcher_skipped", &lines.skipped.load(Ordering::Relaxed));
    put("log_watcher_sent", &lines.sent.load(Ordering::Relaxed));
    put("log_watchers", &shared.watchers.count());
    put("bytes", &sum(workers, |worker| worker.store.item_bytes));
    put("curr_items", &sum(workers, |worker| worker.store.items));
    put("total_items", &sum(workers, |worker| worker.store.stored));
    put(
        "expired_unfetched",
        &sum(workers, |worker| worker.store.expired_unread),
    );
    put(
        "evicted_unfetched",
        &sum(workers, |worker| worker.store.evicted_unread),
    );
    put("evictions", &sum(workers, |worker| worker.store.evicted));
    put("reclaimed", &sum(workers, |worker| worker.store.expired));
}

fn settings(shared: &Shared, put: Put<'_>) {
    let (plan, behaviour) = (&shared.plan, &shared.plan.behaviour);
    let on = |is_on| if is_on { "yes" } else { "no" };
    let address = plan.listening.socket.address;
    put("maxbytes", &shared.memory_limit.load(Ordering::Relaxed));
    put("maxconns", &plan.connections);
    put("tcpport", &if plan.tcp { address.port() } else { 0 });
    put("udpport", &plan.udp.first().map_or(0, |address| address.port()));
    put("inter", &address.ip());
    put("verbosity", &shared.verbosity.load(Ordering::Relaxed));
    put("evictions", &if behaviour.no_evictions { "off" } else { "on" });
    let unix = plan.unix.as_ref();
    put(
        "domain_socket",
        &unix.map_or("NULL".into(), |unix| unix.path.display().to_string()),
    );
    put("umask", &format!("{:o}", unix.map_or(0o700, |unix| unix.mode)));
    put("shutdown_command", &on(behaviour.shutdown));
    put("num_threads", &plan.workers());
    put("num_threads_per_udp", &plan.workers());
    put("stat_key_prefix", &char::from(shared.delimiter));
    put("detail_enabled", &on(shared.watchers.observed() & DETAIL != 0));
    put("cas_enabled", &on(!behaviour.no_cas));
    put("tcp_backlog", &plan.listening.backlog);
    put("binding_protocol", &"ascii");
    put("auth_enabled_sasl", &"no");
    put("auth_enabled_ascii", &"no");
    put("item_size_max", &plan.largest_item);
    put("maxconns_fast", &"yes");
    put("lru_crawler", &on(shared.allowed().crawler));
    put("flush_enabled", &on(!behaviour.no_flush));
    put("dump_enabled", &on(!behaviour.no_dump));
    put("hash_algorithm", &"xxh64");
    put("idle_timeout", &behaviour.idle_timeout.unwrap_or(0));
    put("ssl_enabled", &on(plan.tls.is_some()));
    put("client_flags_size", &4);
}

/// There are no classes by size: all items are of class 1.
fn items(workers: &[Snapshot], put: Put<'_>) {
    let items = sum(workers, |worker| worker.store.items);
    if items == 0 {
        return;
    }
    put("items:1:number", &items);
    put(
        "items:1:mem_requested",
        &sum(workers, |worker| worker.store.item_bytes),
    );
    put("items:1:evicted", &sum(workers, |worker| worker.store.evicted));
    put(
        "items:1:evicted_unfetched",
        &sum(workers, |worker| worker.store.evicted_unread),
    );
    put(
        "items:1:outofmemory",
        &sum(workers, |worker| worker.commands.no_memory),
    );
    put("items:1:reclaimed", &sum(workers, |worker| worker.store.expired));
    put(
        "items:1:expired_unfetched",
        &sum(workers, |worker| worker.store.expired_unread),
    );
}

/// Segments are what slab pages are.
fn slabs(workers: &[Snapshot], put: Put<'_>) {
    let Some(first) = workers.first() else { return };
    let segments = sum(workers, |worker| worker.store.segments);
    let free = sum(workers, |worker| worker.store.free_segments);
    put("1:chunk_size", &1);
    put("1:chunks_per_page", &first.store.segment_bytes);
    let withheld = sum(workers, |worker| worker.store.withheld_segments);
    put("1:total_pages", &(segments - free - withheld));
    put("1:used_chunks", &sum(workers, |worker| worker.store.item_bytes));
    put("1:free_chunks", &(free * first.store.segment_bytes));
    put("1:get_hits", &sum(workers, |worker| worker.commands.get_hits));
    put("1:cmd_set", &sum(workers, |worker| worker.commands.sets));
    put("active_slabs", &1);
    put("total_malloced", &(segments * first.store.segment_bytes));
}

/// Which worker owns which keys, and how often that was another one than the one asked.
fn corelane(shared: &Shared, workers: &[Snapshot], put: Put<'_>) {
    put("hash", &"xxh64");
    put("seed", &shared.seed);
    put("partitions", &shared.plan.workers());
    put("partition_of_hash", &"(hash >> 32) * partitions >> 32");
    let steering = shared.steering.load();
    put("steering_generation", &steering.generation);
    put("steering_key", &steering.key);
    put("steering_fields", &steering.hash_fields);
    let table: Vec<String> = steering
        .table
        .entries()
        .iter()
        .map(|bucket| bucket.index().to_string())
        .collect();
    put("steering_table", &table.join(","));
    for (number, listens) in shared.listens.get().into_iter().flatten().enumerate() {
        put(&format!("listen:{number}"), listens);
    }
    if let Some(steering) = shared.plan.udp_steering() {
        put("udp_steering", &steering);
    }
    let events = Events::sum(workers.iter().map(|worker| worker.events));
    for (cause, count) in events.unanswered() {
        put(&format!("udp_unanswered_{cause}"), &count);
    }
    for (cause, count) in events.not_read_by_cause() {
        put(&format!("not_read_{cause}"), &count);
    }
    put(
        "reservations_evicted",
        &sum(workers, |worker| worker.store.reservations_evicted),
    );
    for (index, worker) in workers.iter().enumerate() {
        put(&format!("{index}:cpu"), &steering.cpus[index]);
        put(&format!("{index}:items"), &worker.store.items);
        put(&format!("{index}:local"), &worker.events.local);
        put(&format!("{index}:read_directly"), &worker.events.read_directly);
        put(&format!("{index}:handed_over"), &worker.events.handed_over);
        put(&format!("{index}:taken_over"), &worker.events.taken_over);
        put(
            &format!("{index}:handoffs_refused"),
            &worker.handoffs.handoffs_refused,
        );
        put(
            &format!("{index}:handoffs_timed"),
            &worker.handoffs.handoffs_timed,
        );
        put(
            &format!("{index}:handoffs_timed_ns"),
            &worker.handoffs.handoffs_timed_ns,
        );
        put(
            &format!("{index}:handoff_queue_percent"),
            &worker.handoff_queue_percent,
        );
    }
}
