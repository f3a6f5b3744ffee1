//! The time to plan 100,000 flows as a multiple of the time to hash their tuples. Medians of interleaved rounds; the
//! reference hashes the tuples of the plan one by one. Target: at most 2.
//! `cargo bench -p corelane-rss --bench plan`

use corelane_rss::plan::{Ends, Shape, flows};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering, Toeplitz, Tuple};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;

const FLOWS: usize = 100_000;
const ROUNDS: usize = 31;

fn main() {
    println!("{FLOWS} flows, 8 buckets of 128 entries, microseconds (median of {ROUNDS} rounds)");
    println!(
        "{:44} {:>7} {:>7} {:>6}",
        "ends and shape", "hash", "plan", "ratio"
    );
    for fields in [HashFields::FourTuple, HashFields::TwoTuple] {
        for (clients, v4) in [(254, true), (65_000, true), (254, false)] {
            for shape in ["balanced", "skewed:1.1", "one:3"] {
                compare(fields, clients, v4, shape);
            }
        }
    }
}

fn compare(fields: HashFields, count: u32, v4: bool, shape: &str) {
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: fields,
        table: IndirectionTable::round_robin(128, 8).expect("8 buckets fit 128 entries"),
        cpus: (0..8).collect(),
        generation: 0,
    };
    let (clients, servers) = ends(count, v4);
    let ends = Ends {
        clients: &clients,
        servers: &servers,
        ports: 1024..=65535,
    };
    let wanted = shape
        .parse::<Shape>()
        .expect("a shape")
        .wanted(&steering.table, FLOWS);
    let planned = flows(&steering, &ends, &wanted).expect("the ends can talk");
    assert!(planned.short.is_empty(), "{shape}: {:?}", planned.short);
    let tuples: Vec<Tuple> = planned
        .buckets
        .iter()
        .flatten()
        .map(|flow| ends.tuple(flow))
        .collect();
    let toeplitz = Toeplitz::new(&steering.key);
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let sum = tuples.iter().fold(0, |sum: u32, tuple| {
            sum.wrapping_add(toeplitz.hash(tuple, fields))
        });
        black_box(sum);
        times[0].push(start.elapsed().as_secs_f64() * 1e6);

        let start = Instant::now();
        black_box(flows(&steering, &ends, &wanted).expect("as before"));
        times[1].push(start.elapsed().as_secs_f64() * 1e6);
    }
    let [hash, plan] = times.map(median);
    let family = if v4 { "IPv4" } else { "IPv6" };
    let name = format!("{fields}, {count} clients of {family}, {shape}");
    println!("{name:44} {hash:>7.0} {plan:>7.0} {:>6.2}", plan / hash);
}

/// `count` clients and four servers.
fn ends(count: u32, v4: bool) -> (Vec<IpAddr>, Vec<SocketAddr>) {
    let address = |net: u32, host: u32| -> IpAddr {
        match v4 {
            true => Ipv4Addr::from(net << 16 | host).into(),
            false => Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(net) << 32 | u128::from(host)).into(),
        }
    };
    let clients = (1..=count).map(|host| address(0x0a0b, host));
    let servers = (1..=4).map(|host| SocketAddr::new(address(0x0a0c, host), 8080));
    (clients.collect(), servers.collect())
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
