//! `lab cache`: the same requests give the same document, and policies differ as their papers say.

use corelane_lab::cache::{Cache, CacheReport, Request};
use corelane_lab::document::{Document, Head};
use corelane_lab::experiment::{Experiment, Schedule, run};
use corelane_report::page::Rendered;
use std::sync::atomic::AtomicBool;

fn report(requests: u64, keys: u32, percents: &[u32]) -> CacheReport {
    let request = Request {
        requests,
        keys,
        percents: percents.to_vec(),
        rounds: 1,
        seed: 7,
    };
    let schedule = Schedule::untimed(request.rounds, request.seed);
    let mut cache = Cache::new(request, Head::default());
    let document = cache.begin().unwrap();
    let never = AtomicBool::new(false);
    run(&mut cache, document, schedule, (&never, None), |_| ()).unwrap()
}

/// A hit ratio of a shape at a size.
fn hit_ratio(report: &CacheReport, shape: &str, percent: u32, policy: &str) -> f64 {
    let size = percent.to_string();
    let mut rows = report.rows.iter();
    let row = rows.find(|row| row.labels["shape"] == shape && row.labels["size"] == size);
    let row = row.expect("it was measured");
    report.trials[row.step].figures[&format!("{policy}_hit_ratio")]
}

#[test]
fn the_same_seed_gives_the_same_document_which_is_read_back() {
    let [first, second] = [0, 1].map(|_| report(3_000, 500, &[10, 100]));
    assert_eq!(first, second);
    assert_eq!(first.rows.len(), 22);
    assert_eq!(CacheReport::from_json(&first.to_json().unwrap()).unwrap(), first);
    assert_eq!(first.compared().unwrap().steps.len(), 22);
    assert!(first.page().headline.starts_with("The store misses "));
}

/// Gates see the row in which the store compares worst, whatever its place.
#[test]
fn figures_are_of_the_row_with_the_most_misses() {
    let report = report(3_000, 500, &[10, 100]);
    let misses = report
        .trials
        .iter()
        .filter_map(|trial| trial.figures.get("misses_ratio"));
    let worst = misses.copied().max_by(f64::total_cmp);
    let figures = report.figures();
    let gated = figures.iter().find(|(figure, _)| figure.name == "misses_ratio");
    assert_eq!(gated.expect("it is a figure").1, worst);
    let compared = report.compared().unwrap();
    let key = [("shape", "ETC"), ("size", "10")].map(|(name, label)| (name.to_owned(), label.to_owned()));
    assert_eq!(compared.steps[0].key, key.into());
}

#[test]
fn what_is_read_once_does_not_displace_what_is_read_often() {
    let report = report(60_000, 10_000, &[10]);
    for shape in ["once", "scans", "Zipf 0.8", "shifting"] {
        let of = |policy| hit_ratio(&report, shape, 10, policy);
        let [lru, memcached, sieve, s3_fifo, store] =
            ["lru", "memcached", "sieve", "s3_fifo", "store"].map(of);
        assert!(lru < memcached, "{shape}: {lru} {memcached}");
        assert!(
            memcached < sieve && memcached < s3_fifo && memcached < store,
            "{shape}: {memcached} {sieve} {s3_fifo} {store}"
        );
        assert!(store > s3_fifo - 0.03, "{shape}: {store} {s3_fifo}");
    }
}

/// All that is requested fits, with memcached's bytes per item, too: whatever is evicted, an item misses once, or when it has expired.
#[test]
fn policies_of_objects_are_alike_when_everything_fits() {
    let report = report(20_000, 2_000, &[200]);
    for row in &report.rows {
        let shape = &row.labels["shape"];
        let of = |policy| hit_ratio(&report, shape, 200, policy);
        for policy in ["lru", "sieve", "s3_fifo"] {
            assert_eq!(of(policy), of("memcached"), "{shape}: {policy}");
        }
    }
}
