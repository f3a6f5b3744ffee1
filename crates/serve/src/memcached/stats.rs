//! The answers of `stats`, over all workers: from the counts that each has published.

use super::absent;
use super::counters::{Events, Snapshot, named};
use super::shared::{START, Shared, VERSION};
use super::watchers::DETAIL;
use super::worker::{SIZE_STEP, Worker};
use corelane_measure::counters::Counters;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::control::Stats;
use corelane_proto::memcached::listing::{END, stat};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
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
        Stats::Sizes if shared.plan.behaviour.track_sizes => sizes(shared, &mut put),
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

/// Adds up a count of all workers.
fn sums(workers: &[Snapshot]) -> impl Fn(fn(&Snapshot) -> u64) -> u64 {
    move |count| workers.iter().map(count).sum()
}

fn general(worker: &Worker, workers: &[Snapshot], put: Put<'_>) {
    let (shared, now, all) = (&*worker.shared, worker.clock.now, sums(workers));
    put("pid", &std::process::id());
    put("uptime", &(now - START));
    put("time", &worker.clock.epoch.saturating_add(now));
    put("version", &VERSION);
    put("libevent", &"none");
    put("pointer_size", &usize::BITS);
    usage(put);
    let plan = &shared.plan;
    put("max_connections", &plan.connections);
    let open = shared.open.load(Ordering::Relaxed);
    put("curr_connections", &open);
    put("connection_structures", &open);
    put("total_connections", &all(|of| of.accepted));
    let events = Events::sum(workers.iter().map(|worker| worker.events));
    put("rejected_connections", &events.rejected_connections);
    for (place, (name, _)) in named(&workers[0].commands).iter().enumerate() {
        let counts = workers.iter().map(|worker| named(&worker.commands)[place].1);
        put(name, &counts.sum::<u64>());
    }
    put("idle_kicks", &events.idle_kicks);
    put("cmd_flush", &events.flushes);
    put("get_expired", &all(|of| of.store.found_expired));
    put("get_flushed", &all(|of| of.store.found_flushed));
    put("auth_cmds", &0);
    put("auth_errors", &0);
    put("bytes_read", &all(|of| of.bytes_read));
    put("bytes_written", &all(|of| of.bytes_written));
    put("limit_maxbytes", &shared.memory_limit.load(Ordering::Relaxed));
    put("accepting_conns", &1);
    put("listen_disabled_num", &0);
    put("threads", &plan.workers());
    put("conn_yields", &events.pauses);
    let buckets = all(|of| of.store.buckets);
    put("hash_power_level", &buckets.max(1).ilog2());
    put(
        "hash_bytes",
        &all(|of| of.store.index_segments * of.store.segment_bytes),
    );
    put("hash_is_expanding", &0);
    let lines = &shared.watchers.counts;
    put("log_worker_dropped", &all(|of| of.store.evictions_not_kept));
    put("log_watcher_skipped", &lines.skipped.load(Ordering::Relaxed));
    put("log_watcher_sent", &lines.sent.load(Ordering::Relaxed));
    put("log_watchers", &shared.watchers.count());
    put("bytes", &all(|of| of.store.item_bytes));
    put("curr_items", &all(|of| of.store.items));
    put("total_items", &all(|of| of.store.stored));
    put("expired_unfetched", &all(|of| of.store.expired_unread));
    put("evicted_unfetched", &all(|of| of.store.evicted_unread));
    put("evictions", &all(|of| of.store.evicted));
    put("reclaimed", &all(|of| of.store.expired));
    put("slab_reassign_last_busy_status", &"none");
    absent::GENERAL.iter().for_each(|name| put(name, &0));
}

fn usage(put: Put<'_>) {
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let seconds = |time: TimeVal| format!("{}.{:06}", time.tv_sec(), time.tv_usec());
        put("rusage_user", &seconds(usage.user_time()));
        put("rusage_system", &seconds(usage.system_time()));
    }
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
    put("track_sizes", &on(behaviour.track_sizes));
    put("client_flags_size", &4);
    absent::SETTINGS.iter().for_each(|(name, value)| put(name, value));
}

/// There are no classes by size: all items are of class 1.
fn items(workers: &[Snapshot], put: Put<'_>) {
    let all = sums(workers);
    let items = all(|of| of.store.items);
    if items == 0 {
        return;
    }
    put("items:1:number", &items);
    put("items:1:mem_requested", &all(|of| of.store.item_bytes));
    put("items:1:evicted", &all(|of| of.store.evicted));
    put("items:1:evicted_unfetched", &all(|of| of.store.evicted_unread));
    put("items:1:outofmemory", &all(|of| of.commands.no_memory));
    put("items:1:reclaimed", &all(|of| of.store.expired));
    put("items:1:expired_unfetched", &all(|of| of.store.expired_unread));
    for name in absent::ITEMS {
        put(&format!("items:1:{name}"), &0);
    }
}

/// How many items have each size, rounded up.
fn sizes(shared: &Shared, put: Put<'_>) {
    let sizes = (0usize..).step_by(SIZE_STEP).zip(shared.sizes());
    for (size, items) in sizes.filter(|(_, items)| *items > 0) {
        put(&size.to_string(), &items);
    }
}

/// Segments are what slab pages are.
fn slabs(workers: &[Snapshot], put: Put<'_>) {
    let (Some(first), all) = (workers.first(), sums(workers)) else {
        return;
    };
    let segments = all(|of| of.store.segments);
    let free_segments = all(|of| of.store.free_segments);
    let (used, free) = (
        all(|of| of.store.item_bytes),
        free_segments * first.store.segment_bytes,
    );
    put("1:chunk_size", &1);
    put("1:chunks_per_page", &first.store.segment_bytes);
    let withheld = all(|of| of.store.withheld_segments);
    put("1:total_pages", &(segments - free_segments - withheld));
    put("1:total_chunks", &(used + free));
    put("1:used_chunks", &used);
    put("1:free_chunks", &free);
    put("1:free_chunks_end", &0);
    put("1:get_hits", &all(|of| of.commands.get_hits));
    put("1:cmd_set", &all(|of| of.commands.sets));
    put("1:delete_hits", &all(|of| of.commands.delete_hits));
    put("1:incr_hits", &all(|of| of.commands.incr_hits));
    put("1:decr_hits", &all(|of| of.commands.decr_hits));
    put("1:cas_hits", &all(|of| of.commands.cas_hits));
    put("1:cas_badval", &all(|of| of.commands.cas_badval));
    put("1:touch_hits", &all(|of| of.commands.touch_hits));
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
    for (cause, count) in events.closed_by_cause() {
        put(&format!("closed_{cause}"), &count);
    }
    for (cause, count) in events.unanswered() {
        put(&format!("udp_unanswered_{cause}"), &count);
    }
    for (cause, count) in events.not_read_by_cause() {
        put(&format!("not_read_{cause}"), &count);
    }
    let reservations = sums(workers)(|of| of.store.reservations_evicted);
    put("reservations_evicted", &reservations);
    for (index, worker) in workers.iter().enumerate() {
        put(&format!("{index}:cpu"), &steering.cpus[index]);
        put(&format!("{index}:items"), &worker.store.items);
        put(&format!("{index}:local"), &worker.events.local);
        put(&format!("{index}:read_directly"), &worker.events.read_directly);
        put(&format!("{index}:handed_over"), &worker.events.handed_over);
        put(&format!("{index}:taken_over"), &worker.events.taken_over);
        for (name, count) in worker.handoffs.named() {
            put(&format!("{index}:{name}"), &count);
        }
        let percent = worker.handoff_queue_percent;
        put(&format!("{index}:handoff_queue_percent"), &percent);
    }
}
