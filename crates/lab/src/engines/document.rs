//! The document of `corelane lab engines`: what is best on this machine, hashing and moving datagrams.
//!
//! Medians and ratios follow from the raw trials alone ([`EnginesReport::summarise`]). A ratio is taken within a round,
//! where both were measured next to each other, and the document has the median of the rounds.

#![allow(missing_docs, reason = "each declaration says what it is")]

use super::ways::{BASIC, LeftOut, ORACLE, Plan, UdpWay as Way};
use crate::document::{Head, document};
use crate::trial::{Trial, TrialHead, number, trial};
use corelane_measure::metric::{Measured, Metric, Show, Values};
use corelane_measure::statistics;
use serde::{Deserialize, Serialize};

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/engines/1";

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EnginesReport {
    /// What all documents begin with; without a bed where no datagrams were moved.
    #[serde(flatten)]
    pub head: Head,
    /// The plan.
    pub plan: Plan,
    /// Every way to hash, by tuple, then by way, one at a time before batches.
    pub toeplitz: Vec<ToeplitzWay>,
    /// Every way to move datagrams.
    pub udp: Vec<UdpWay>,
    /// Ways skipped on this machine.
    pub left_out: Vec<LeftOut>,
    /// Every measurement of a hash.
    pub toeplitz_trials: Vec<ToeplitzTrial>,
    /// Every measurement of datagrams, those that give no figure marked.
    pub udp_trials: Vec<UdpTrial>,
}

document!(EnginesReport, [SCHEMA]);

/// One way to hash one kind of tuple.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToeplitzWay {
    /// [`ORACLE`], or the way: `gfni`, `clmul`, `tables`.
    pub name: String,
    /// `ipv4-2tuple`, `ipv4-4tuple`, `ipv6-2tuple` or `ipv6-4tuple`.
    pub tuple: String,
    /// Hashes computed by one call.
    pub batch: usize,
    /// The metrics.
    #[serde(flatten)]
    pub values: Values,
}

/// One way to move datagrams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpWay {
    /// [`BASIC`], `batch`, `uring`, `gso`, `gro_gso_16` or `gro_gso_64`.
    pub name: String,
    /// Description.
    pub describe: String,
    /// Why there are no results, if there are none.
    pub unknown_because: Option<String>,
    /// The metrics.
    #[serde(flatten)]
    pub values: Values,
}

impl Measured for ToeplitzWay {
    fn values(&self) -> &Values {
        &self.values
    }
}

impl Measured for UdpWay {
    fn values(&self) -> &Values {
        &self.values
    }
}

/// One measurement of a hash.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToeplitzTrial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// The way.
    pub name: String,
    /// What was hashed.
    pub tuple: String,
    /// Hashes computed by one call.
    pub batch: usize,
    /// Nanoseconds per hash: the median of repetitions within the round.
    pub ns_per_hash: f64,
}

/// One measurement of datagrams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UdpTrial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// The way.
    pub name: String,
    /// Datagrams that the server answered.
    pub answered: u64,
    /// CPU time of the server's process meanwhile, nanoseconds.
    pub server_cpu_ns: u64,
    /// Seconds during which the client sent.
    pub sending_s: f64,
    /// Datagrams sent by the client and not returned.
    pub lost: u64,
}

trial!(ToeplitzTrial, named: name);
trial!(UdpTrial, named: name);

impl ToeplitzTrial {
    fn kind(&self) -> (&str, &str, usize) {
        (&self.tuple, &self.name, self.batch)
    }
}

impl UdpTrial {
    /// Datagrams per second of the server's CPU time; `None` when the trial gives no figure.
    pub(crate) fn datagrams_per_cpu_second(&self) -> Option<f64> {
        let measured = self.head.is_result() && self.answered > 0 && self.server_cpu_ns > 0;
        measured.then(|| self.answered as f64 * 1e9 / self.server_cpu_ns as f64)
    }
}

/// What the hashes that are compared are computed of.
const COMPARED: &str = "ipv4-4tuple";

impl EnginesReport {
    /// Computes medians and ratios from the trials so far.
    pub fn summarise(&mut self) {
        self.toeplitz = toeplitz_ways(&self.toeplitz_trials);
        let ways = self.plan.udp.iter();
        self.udp = ways.map(|way| udp_way(*way, &self.udp_trials)).collect();
    }

    /// The fastest way to hash the usual tuple of TCP over IPv4.
    pub(crate) fn fastest_hash(&self) -> Option<&ToeplitzWay> {
        let ways = self.toeplitz.iter().filter(|way| way.tuple == COMPARED);
        let timed = ways.filter_map(|way| Some((way, NS_PER_HASH.of(way)?)));
        let fastest = timed.min_by(|(_, one), (_, other)| one.total_cmp(other));
        fastest.map(|(way, _)| way)
    }

    /// The fastest hash of one round.
    pub(crate) fn fastest_trial(&self, round: usize) -> Option<&ToeplitzTrial> {
        let trials = self
            .toeplitz_trials
            .iter()
            .filter(|trial| trial.head.round == round && trial.head.is_result() && trial.tuple == COMPARED);
        trials.min_by(|one, other| one.ns_per_hash.total_cmp(&other.ns_per_hash))
    }

    /// The way to move datagrams that takes the least of the server's CPU time.
    pub(crate) fn cheapest_udp(&self) -> Option<&UdpWay> {
        let rated = self.udp.iter();
        let rated = rated.filter_map(|way| Some((way, RATIO_TO_BASIC.of(way)?)));
        let cheapest = rated.max_by(|(_, one), (_, other)| one.total_cmp(other));
        cheapest.map(|(way, _)| way)
    }

    /// One sentence: the fastest way of each kind.
    pub(crate) fn conclusion(&self) -> String {
        let hash = self.fastest_hash().and_then(|way| {
            let (time, ratio) = (NS_PER_HASH.of(way)?, RATIO_TO_ORACLE.of(way)?);
            let batched = match way.batch {
                1 => String::new(),
                batch => format!(" in batches of {batch}"),
            };
            Some(format!(
                "hash by {}{batched} ({time:.2} ns for an ipv4-4tuple, {:.0} times as fast as the oracle)",
                way.name,
                1.0 / ratio
            ))
        });
        let udp = self.cheapest_udp().and_then(|way| {
            let (name, ratio) = (&way.name, RATIO_TO_BASIC.of(way)?);
            Some(format!(
                "move datagrams by {name} ({ratio:.1} times one at a time)"
            ))
        });
        let parts: Vec<String> = hash.into_iter().chain(udp).collect();
        match parts.is_empty() {
            true => "Nothing was measured.".to_owned(),
            false => format!("Best here: {}.", parts.join("; ")),
        }
    }
}

/// The medians of a metric, and of its quotient to the reference of the same round.
fn values<T: Trial>(metrics: &[&'static Metric<T>], own: &[&T], reference: &[&T]) -> Values {
    let mut values = Values::default();
    values.fill(metrics, own);
    let number = |trial: &&T| {
        let number = metrics[0].of_trial(trial);
        trial.head().in_round(number)
    };
    let quotients =
        statistics::within_rounds(own.iter().filter_map(number), reference.iter().filter_map(number));
    values.set_spread(metrics[1], quotients);
    values
}

fn toeplitz_ways(trials: &[ToeplitzTrial]) -> Vec<ToeplitzWay> {
    let results = || trials.iter().filter(|trial| trial.head.is_result());
    let mut kinds: Vec<(&str, &str, usize)> = Vec::new();
    for trial in results() {
        if !kinds.contains(&trial.kind()) {
            kinds.push(trial.kind());
        }
    }
    let of = |kind: (&str, &str, usize)| -> Vec<&ToeplitzTrial> {
        results().filter(|trial| trial.kind() == kind).collect()
    };
    let way = |kind: (&str, &str, usize)| {
        let (tuple, name, batch) = kind;
        ToeplitzWay {
            name: name.to_owned(),
            tuple: tuple.to_owned(),
            batch,
            values: values(HASH_METRICS, &of(kind), &of((tuple, ORACLE, 1))),
        }
    };
    kinds.into_iter().map(way).collect()
}

fn udp_way(way: Way, trials: &[UdpTrial]) -> UdpWay {
    let of = |name: &str| -> Vec<&UdpTrial> { trials.iter().filter(|trial| trial.name == name).collect() };
    let name = way.to_string();
    let own = of(&name);
    let values = values(UDP_METRICS, &own, &of(BASIC));
    let unknown_because = match own.iter().find_map(|trial| trial.head.why.clone()) {
        _ if RATIO_TO_BASIC.of(&values).is_some() => None,
        _ if PER_CPU_SECOND.of(&values).is_some() => {
            Some(format!("no round gave a figure for it and for {BASIC}"))
        }
        Some(why) => Some(why),
        None => Some("no trial was complete".to_owned()),
    };
    UdpWay {
        name,
        describe: way.describe().to_owned(),
        unknown_because,
        values,
    }
}

/// Of a way to hash.
pub static HASH_METRICS: &[&Metric<ToeplitzTrial>] = &[&NS_PER_HASH, &RATIO_TO_ORACLE];

/// Of a way to move datagrams.
pub static UDP_METRICS: &[&Metric<UdpTrial>] = &[&PER_CPU_SECOND, &RATIO_TO_BASIC];

pub static NS_PER_HASH: Metric<ToeplitzTrial> = Metric::less("ns_per_hash", "one at a time", Show::Fixed(2))
    .about("Nanoseconds per hash, as throughput: many independent inputs.")
    .read(|trial: &ToeplitzTrial| number(Some(trial.ns_per_hash)))
    .unit("ns/hash")
    .spread("ns_per_hash_spread");

pub static RATIO_TO_ORACLE: Metric<ToeplitzTrial> = Metric::less("ratio_to_oracle", "time", Show::Ratio)
    .about("Nanoseconds per hash, divided by the oracle's for the same tuple.")
    .unit("of oracle")
    .spread("ratio_to_oracle_spread");

pub static PER_CPU_SECOND: Metric<UdpTrial> =
    Metric::more("datagrams_per_cpu_second", "datagrams", Show::Prefixed)
        .about("Datagrams answered per second of the server's CPU time.")
        .read(|trial: &UdpTrial| number(trial.datagrams_per_cpu_second()))
        .unit("/CPU s")
        .spread("datagrams_per_cpu_second_spread");

pub static RATIO_TO_BASIC: Metric<UdpTrial> = Metric::more("ratio_to_basic", "rate", Show::Ratio)
    .about("Datagrams answered per second of CPU time, divided by those of one at a time.")
    .unit("x basic")
    .spread("ratio_to_basic_spread");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use corelane_report::page::Rendered;

    fn hashed(name: &str, batch: usize, round: usize, ns_per_hash: f64) -> ToeplitzTrial {
        ToeplitzTrial {
            head: TrialHead::new(0, round, 1.0),
            name: name.to_owned(),
            tuple: "ipv4-4tuple".to_owned(),
            batch,
            ns_per_hash,
        }
    }

    fn moved(name: &str, round: usize, answered: u64, why: Option<&str>) -> UdpTrial {
        let mut head = TrialHead::new(0, round, 1.0);
        head.why = why.map(str::to_owned);
        UdpTrial {
            head,
            name: name.to_owned(),
            answered,
            server_cpu_ns: 1_000_000_000,
            sending_s: 1.0,
            lost: 0,
        }
    }

    fn report() -> EnginesReport {
        let mut report = EnginesReport {
            head: Head {
                schema: SCHEMA.to_owned(),
                ..Head::default()
            },
            plan: Plan {
                toeplitz: vec!["oracle".to_owned(), "tables".to_owned()],
                udp: vec![Way::Basic, Way::Batch, Way::Uring],
                rounds: 3,
                duration_s: 1.0,
                payload_bytes: 510,
                outstanding: 512,
                server_cpu: 0,
                client_cpu: 0,
                seed: 1,
            },
            toeplitz: Vec::new(),
            udp: Vec::new(),
            left_out: Vec::new(),
            toeplitz_trials: vec![
                hashed("tables", 1, 0, 5.0),
                hashed("oracle", 1, 0, 50.0),
                hashed("oracle", 1, 1, 100.0),
                hashed("tables", 1, 1, 10.0),
            ],
            udp_trials: vec![
                moved("basic", 0, 100, None),
                moved("batch", 0, 120, None),
                moved("batch", 1, 220, None),
                moved("basic", 1, 200, None),
                moved("uring", 0, 5, Some("too few")),
            ],
        };
        report.summarise();
        report
    }

    #[test]
    fn ratios_are_taken_within_a_round_so_that_drift_of_the_machine_cancels() {
        let report = report();
        let tables = report.toeplitz.iter().find(|way| way.name == "tables").unwrap();
        assert_eq!(
            (NS_PER_HASH.of(tables), RATIO_TO_ORACLE.of(tables)),
            (Some(7.5), Some(0.1))
        );
        assert_eq!(RATIO_TO_ORACLE.range(tables).unwrap().relative, 0.0);
        let ratios: Vec<_> = report.udp.iter().map(|way| RATIO_TO_BASIC.of(way)).collect();
        assert_eq!(ratios, [Some(1.0), Some((1.2 + 1.1) / 2.0), None]);
        assert_eq!(PER_CPU_SECOND.of(&report.udp[0]), Some(150.0));
    }

    #[test]
    fn a_way_without_figures_says_why() {
        let report = report();
        assert_eq!(report.udp[2].unknown_because.as_deref(), Some("too few"));
        assert!(report.page().to_text().contains("uring: too few"));
    }

    #[test]
    fn the_document_is_read_back_as_written() {
        let report = report();
        assert_eq!(
            EnginesReport::from_json(&report.to_json().unwrap()).unwrap(),
            report
        );
    }

    #[test]
    fn the_last_line_names_the_best_ways() {
        let words = report().page().to_text().replace('\n', " ");
        let last = "Best here: hash by tables (7.50 ns for an ipv4-4tuple, 10 times as fast as the oracle); \
            move datagrams by batch (1.1 times one at a time). ";
        assert!(words.ends_with(last), "{words}");
    }
}
