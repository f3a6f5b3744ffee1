//! Lookups per second: 6 million random keys, half of the queries present, as many per call as a burst of the bridge
//! has.

use crate::ENTRIES;
use crate::keys;
use crate::rounds::{self, Way, print};
use corelane_table::limit::RandomLines;
use corelane_table::post::{PostLock, PostPrefetch, PostTable};
use corelane_table::{
    Address, ExactMap, FlowKey, FlowMap, Lookup, Placement, Prefetch, PrefixMap, Seed, Value,
};
use std::net::Ipv4Addr;

/// Queries per round and way, and in total: between two uses of a query more cache lines are read than the caches hold.
const PIECE: usize = 200_000;
const QUERIES: usize = 64 * PIECE;
const ROUNDS: usize = 41;
/// Cache lines that the limit prefetches before it reads them.
const BATCH: usize = 32;
/// Keys per call: both addresses of a burst of frames.
const CALL: usize = 512;
/// The reference of the other ways: a loop that only prefetches lines, batch by batch, and reads them.
const LIMIT: &str = "limit, batches of 32";
const DISTANCES: [usize; 3] = [16, 32, 64];

pub fn run() {
    let mut random = fastrand::Rng::with_seed(1);
    exact_ipv4(&mut random);
    exact_ipv6(&mut random);
    prefixes(&mut random);
    flows(&mut random);
}

/// A piece of the queries.
fn piece<K>(queries: &[K], number: usize) -> &[K] {
    let first = number % (queries.len() / PIECE) * PIECE;
    &queries[first..first + PIECE]
}

/// Looks a piece up in calls, and prefetches the lines of the next call meanwhile.
fn in_calls<T: Lookup>(table: &T, keys: &[T::Key], prefetch: Prefetch) -> u64 {
    let mut answers = [None; CALL];
    let mut present = 0;
    table.prefetch(&keys[..prefetch.distance().unwrap_or(0)]);
    for first in (0..keys.len()).step_by(CALL) {
        let (call, upcoming) = keys[first..].split_at(CALL.min(keys.len() - first));
        let answers = &mut answers[..call.len()];
        table.lookup_then(call, upcoming, prefetch, answers);
        present += answers.iter().filter(|answer| answer.is_some()).count();
    }
    present as u64
}

/// The ways of reading random cache lines of this much memory.
fn limits<'a>(limit: &'a RandomLines, queries: &'a [Ipv4Addr]) -> Vec<Way<'a>> {
    let rolling = |distance| {
        let name = format!("limit, {distance} ahead");
        Way::new(name, LIMIT, move |number| {
            limit.read(piece(queries, number), Prefetch::Ahead(distance))
        })
    };
    let batches = Way::new(LIMIT, LIMIT, |number| {
        limit.read_in_batches(piece(queries, number), BATCH)
    });
    [16, 32, 64].map(rolling).into_iter().chain([batches]).collect()
}

fn table_ways<'a, T: Lookup>(
    name: &'a str,
    table: &'a T,
    queries: &'a [T::Key],
) -> impl Iterator<Item = Way<'a>> {
    let ahead = DISTANCES.map(Prefetch::Ahead).into_iter();
    [Prefetch::None, Prefetch::default()]
        .into_iter()
        .chain(ahead)
        .map(move |prefetch| {
            let label = format!("{name}, {prefetch:?}");
            Way::new(label, LIMIT, move |number| {
                in_calls(table, piece(queries, number), prefetch)
            })
        })
}

fn exact_map<A: Address>(entries: &[A]) -> ExactMap<A> {
    let mut map =
        ExactMap::with_capacity(entries.len(), Seed::default(), Placement::default()).expect("memory");
    let entries: Vec<_> = entries.iter().map(|key| (*key, Value::MEMBER)).collect();
    map.insert_all(&entries).expect("memory");
    map
}

fn title(name: &str, entries: usize, bytes: usize, pages: impl std::fmt::Debug) -> String {
    let each = bytes as f64 / entries as f64;
    format!(
        "{name}: {entries} entries, {:.1} MiB, {each:.2} bytes an entry, {pages:?} pages; M/s",
        bytes as f64 / 1048576.0
    )
}

fn exact_ipv4(random: &mut fastrand::Rng) {
    let entries: Vec<_> = (0..ENTRIES).map(|_| keys::ipv4(random)).collect();
    let queries = keys::queries(random, QUERIES, &entries, keys::ipv4);
    let map = exact_map(&entries);
    let limit = RandomLines::new(map.memory_bytes(), Placement::default()).expect("memory");
    let posts = PostTable::BUCKETS.map(|buckets| PostTable::new(buckets, &entries));
    let mut ways = limits(&limit, &queries);
    ways.extend(table_ways("exact IPv4", map.table(), &queries));
    let batches = |batch, prefetch| PostOrder::Batches { batch, prefetch };
    let orders = [
        batches(1, PostPrefetch::None),
        batches(4, PostPrefetch::Head),
        batches(32, PostPrefetch::HeadAndArray),
        PostOrder::Rolling { distance: 16 },
        PostOrder::Rolling { distance: 32 },
    ];
    for post in &posts {
        for order in orders {
            let name = format!("post {} {}", post.memory_bytes() >> 20, describe(order));
            let queries = &queries;
            ways.push(Way::new(name, "exact IPv4, Ahead(32)", move |number| {
                // This way does not know the keys of the next call, so calls are long.
                let mut answers = [None; 16 * CALL];
                let mut present = 0;
                for keys in piece(queries, number).chunks(answers.len()) {
                    let answers = &mut answers[..keys.len()];
                    look_up(post, order, keys, answers);
                    present += answers.iter().filter(|answer| answer.is_some()).count();
                }
                present as u64
            }));
        }
    }
    rounds::run(&mut ways, ROUNDS, PIECE);
    print(
        &title("exact IPv4", map.len(), map.memory_bytes(), map.table().pages()),
        &ways,
    );
    let best = |start: &str| {
        let medians = ways
            .iter()
            .filter(|way| way.name.starts_with(start))
            .map(Way::median);
        medians.fold(0.0, f64::max)
    };
    let posts = |order: &str| {
        let named = ways
            .iter()
            .filter(|way| way.name.starts_with("post") && way.name.contains(order));
        named.map(Way::median).fold(0.0, f64::max)
    };
    println!(
        "best settings, exact IPv4: {:.2} of the limit, {:.2} times the post's table as the post asked it, {:.2} times rolling",
        best("exact") / best(LIMIT),
        best("exact") / posts("batch"),
        best("exact") / posts("rolling"),
    );
}

/// How the lookups of a call overlap.
#[derive(Clone, Copy)]
enum PostOrder {
    Batches { batch: usize, prefetch: PostPrefetch },
    Rolling { distance: usize },
}

fn look_up(post: &PostTable, order: PostOrder, keys: &[Ipv4Addr], answers: &mut [Option<Value>]) {
    match order {
        PostOrder::Batches { batch, prefetch } => {
            for (keys, answers) in keys.chunks(batch).zip(answers.chunks_mut(batch)) {
                post.lookup_batch(keys, prefetch, PostLock::None, answers);
            }
        }
        PostOrder::Rolling { distance } => {
            post.lookup_rolling(keys, distance, PostLock::None, answers);
        }
    }
}

fn describe(order: PostOrder) -> String {
    match order {
        PostOrder::Batches { batch, prefetch } => format!("MiB, batch {batch}, {prefetch:?}"),
        PostOrder::Rolling { distance } => format!("MiB, rolling {distance}"),
    }
}

fn exact_ipv6(random: &mut fastrand::Rng) {
    let entries: Vec<_> = (0..ENTRIES).map(|_| keys::ipv6(random)).collect();
    let queries = keys::queries(random, QUERIES, &entries, keys::ipv6);
    let lines: Vec<_> = (0..QUERIES).map(|_| keys::ipv4(random)).collect();
    let map = exact_map(&entries);
    let limit = RandomLines::new(map.memory_bytes(), Placement::default()).expect("memory");
    let mut ways = limits(&limit, &lines);
    ways.extend(table_ways("exact IPv6", map.table(), &queries));
    rounds::run(&mut ways, ROUNDS, PIECE);
    print(
        &title("exact IPv6", map.len(), map.memory_bytes(), map.table().pages()),
        &ways,
    );
}

fn prefixes(random: &mut fastrand::Rng) {
    let prefixes = keys::internet(random);
    let mut map = PrefixMap::with_capacity(prefixes.len(), Placement::default()).expect("memory");
    for prefix in &prefixes {
        map.insert(*prefix, Value::MEMBER).expect("memory");
    }
    let present: Vec<_> = (0..QUERIES / 2)
        .map(|_| {
            let prefix = prefixes[random.usize(..prefixes.len())];
            keys::within(random, prefix)
        })
        .collect();
    let queries = keys::queries(random, QUERIES, &present, keys::ipv4);
    let lines: Vec<_> = (0..QUERIES).map(|_| keys::ipv4(random)).collect();
    let limit = RandomLines::new(map.memory_bytes(), Placement::default()).expect("memory");
    let mut ways = limits(&limit, &lines);
    ways.extend(table_ways("longest match IPv4", map.table(), &queries));
    rounds::run(&mut ways, ROUNDS, PIECE);
    print(
        &title(
            "longest match IPv4",
            map.len(),
            map.memory_bytes(),
            map.table().pages(),
        ),
        &ways,
    );
}

fn flows(random: &mut fastrand::Rng) {
    /// Number of flows on a busy server.
    const FLOWS: usize = 1_000_000;
    let flow = |random: &mut fastrand::Rng| FlowKey::<2>::from([random.u64(..), random.u64(..) >> 24]);
    let entries: Vec<_> = (0..FLOWS).map(|_| flow(random)).collect();
    let queries = keys::queries(random, QUERIES, &entries, flow);
    let lines: Vec<_> = (0..QUERIES).map(|_| keys::ipv4(random)).collect();
    let mut map = FlowMap::with_capacity(FLOWS, Seed::default(), Placement::default()).expect("memory");
    for (number, key) in entries.iter().enumerate() {
        map.insert(*key, number as u32).expect("memory");
    }
    let limit = RandomLines::new(map.memory_bytes(), Placement::default()).expect("memory");
    let mut ways = limits(&limit, &lines);
    ways.extend(table_ways("flows IPv4", map.table(), &queries));
    rounds::run(&mut ways, ROUNDS, PIECE);
    print(
        &title("flows IPv4", map.len(), map.memory_bytes(), map.table().pages()),
        &ways,
    );
}
