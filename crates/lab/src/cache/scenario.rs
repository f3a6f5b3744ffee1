//! The request and the document of `corelane lab cache`: a case is a shape and a size. A trial gives all policies the same requests.

use super::policies::{Made, POLICIES};
use super::policy::{bytes, hit_ratio};
use super::requests::{CacheRequest, requests};
use super::shapes::{SHAPES, Shape};
use crate::cases::{Asked, Case, Figures, Report, Row, Scenario, Trial, figure};
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Requests of each trial.
    pub requests: u64,
    /// Keys, apart from those that come once.
    pub keys: u32,
    /// Sizes of the caches, in percent of the bytes of all items that are requested.
    pub percents: Vec<u32>,
    /// Trials of each shape and size.
    pub rounds: u32,
    /// The seed of all draws.
    pub seed: u64,
}

/// The whole document.
pub type CacheReport = Report<Request>;

impl Asked for Request {
    const SCHEMA: &'static str = "corelane/cache/1";

    fn subject(&self) -> String {
        "Hit ratios of caches".to_owned()
    }

    fn title(&self) -> String {
        "Hit ratios".to_owned()
    }

    fn turns(&self) -> (u32, u64) {
        (self.rounds, self.seed)
    }

    fn scenario(&self) -> &'static Scenario<Self> {
        &SCENARIO
    }

    fn main(&self) -> &'static Metric<Trial> {
        &MISSES
    }

    /// That in which the store compares worst.
    fn of_whole<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        let misses = |row: &Row| MISSES.of(row).unwrap_or(0.0);
        rows.iter()
            .max_by(|row, other| misses(row).total_cmp(&misses(other)))
    }
}

static SCENARIO: Scenario<Request> = Scenario {
    traffic: |request| {
        let [requests, keys] = [request.requests, request.keys.into()].map(quantity::count);
        format!("{requests} requests per trial over {keys} keys")
    },
    labels: &[("shape", ""), ("size", "%")],
    #[rustfmt::skip]
    metrics: &[
        &figure!(more, "memcached_hit_ratio", "memcached", Show::Share)
            .about("Reads that hit with the segmented LRU of memcached, the reference."),
        &figure!(more, "store_hit_ratio", "store", Show::Share).about("Reads that hit in the store of this project."),
        &MISSES,
        &figure!(more, "s3_fifo_hit_ratio", "S3-FIFO", Show::Share).about("Reads that hit with S3-FIFO."),
        &figure!(more, "sieve_hit_ratio", "SIEVE", Show::Share).about("Reads that hit with SIEVE."),
        &figure!(more, "lru_hit_ratio", "LRU", Show::Share).about("Reads that hit if the least recently used item is evicted."),
    ],
    in_text: 6,
    legend: "Share of reads that hit, in percent. size: of the bytes of all items that are requested. memcached: its segmented LRU \
        with the 67 bytes that it needs per item, the reference. store: the store with all that it needs of the same memory; the others are \
        charged 48 bytes per item. A store of less than 512 KiB has fewer segments than a large one.",
    cases: |request| {
        let case = |shape: &'static Shape, percent: u32| {
            let request = request.clone();
            Case {
                labels: vec![shape.name.to_owned(), percent.to_string()],
                published: None,
                run: Box::new(move |_, seed| Ok(run(&request, shape, percent, seed))),
            }
        };
        let of_shape = |shape| request.percents.iter().map(move |percent| case(shape, *percent));
        Ok(SHAPES.iter().flat_map(of_shape).collect())
    },
    conclude: |rows| result(rows).into_iter().collect(),
};

static MISSES: Metric<Trial> = figure!(less, "misses_ratio", "misses", Show::Fixed(2))
    .unit("x memcached")
    .about("Misses of the store divided by those of memcached's policy.");

fn run(request: &Request, shape: &Shape, percent: u32, seed: u64) -> Trial {
    let requests = requests(shape, request.keys, request.requests as usize, seed);
    let footprint = footprint(&requests);
    let limit = footprint * u64::from(percent) / 100;
    let name = |policy: &str| format!("{policy}_hit_ratio");
    let of_policy =
        |(policy, make): &(&str, Made)| (name(policy), hit_ratio(make(limit).as_mut(), &requests));
    let mut figures: Figures = POLICIES.iter().map(of_policy).collect();
    let [store, memcached] = ["store", "memcached"].map(|policy| 1.0 - figures[&name(policy)]);
    figures.insert("footprint_bytes".to_owned(), footprint as f64);
    if memcached > 0.0 {
        figures.insert(MISSES.name.to_owned(), store / memcached);
    }
    Trial::from(figures)
}

/// Bytes of all items that are requested.
fn footprint(requests: &[CacheRequest]) -> u64 {
    let mut seen = HashSet::new();
    let first = requests.iter().filter(|request| seen.insert(request.key));
    first.map(bytes).sum()
}

/// Misses of the store by those of the reference, over all rows.
fn result(rows: &[Row]) -> Option<String> {
    let mut misses: Vec<f64> = rows.iter().filter_map(|row| MISSES.of(row)).collect();
    misses.sort_by(f64::total_cmp);
    let [least, median, most] = [misses.first()?, &misses[misses.len() / 2], misses.last()?]
        .map(|misses| Show::Fixed(2).cell(*misses));
    Some(format!(
        "The store misses {median} times as often as memcached's policy in the same memory, {least} to {most} by shape and size."
    ))
}
