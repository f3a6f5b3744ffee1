//! quick
use corelane_table::*;
use std::net::*;
use std::time::Instant;
fn run<A: Address>(keys: Vec<A>, qs: Vec<A>) {
    let t = Instant::now();
    let mut map = ExactMap::<A>::with_capacity(keys.len(), Seed::default(), Placement::default()).unwrap();
    let e: Vec<(A, Value)> = keys.iter().map(|k| (*k, Value::new(7).unwrap())).collect();
    map.insert_all(&e).unwrap();
    println!(
        "built in {:?} {} entries {:.2} B/entry {:?}",
        t.elapsed(),
        map.len(),
        map.memory_bytes() as f64 / map.len() as f64,
        map.table().pages()
    );
    let mut r = map.reader();
    for d in [
        Prefetch::None,
        Prefetch::Ahead(16),
        Prefetch::Ahead(32),
        Prefetch::Ahead(48),
        Prefetch::Ahead(64),
    ] {
        let mut best: Vec<f64> = vec![];
        for c in qs.chunks(400_000) {
            let mut out = vec![None; 32];
            let mut hits = 0;
            let t = Instant::now();
            let table = r.table();
            for (i, b) in c.chunks_exact(32).enumerate() {
                table.lookup_then(b, &c[(i + 1) * 32..], d, &mut out);
                hits += out.iter().filter(|x| x.is_some()).count();
            }
            best.push(c.len() as f64 / t.elapsed().as_secs_f64() / 1e6);
            std::hint::black_box(hits);
        }
        best.sort_by(f64::total_cmp);
        println!(
            "{d:?} median {:.1} max {:.1} M/s",
            best[best.len() / 2],
            best[best.len() - 1]
        );
    }
}
fn main() {
    let n = 6_000_000;
    let mut g = fastrand::Rng::with_seed(1);
    let k: Vec<u32> = (0..n).map(|_| g.u32(..)).collect();
    let q: Vec<u32> = (0..16_000_000)
        .map(|_| if g.bool() { k[g.usize(..n)] } else { g.u32(..) })
        .collect();
    run::<Ipv4Addr>(
        k.iter().map(|x| Ipv4Addr::from_bits(*x)).collect(),
        q.iter().map(|x| Ipv4Addr::from_bits(*x)).collect(),
    );
    let f = |x: u32| Ipv6Addr::from_bits((x as u128).wrapping_mul(0x9e3779b97f4a7c15f39cc0605cedc835));
    run::<Ipv6Addr>(
        k.iter().map(|x| f(*x)).collect(),
        q.iter().map(|x| f(*x)).collect(),
    );
}
