//! The document of `corelane lab engines`: what is best on this machine, hashing and moving datagrams.
//!
//! In: what the lab measured, trial by trial. Out: `"schema": "corelane/engines/1"` as JSON, both ways, and the text that
//! a person reads ([`render`]). Medians and ratios follow from the raw trials alone ([`EnginesReport::conclude`]). A
//! ratio is taken within a round, where both were measured next to each other, and the median of the rounds is told.

mod text;

pub use text::render;

use crate::document::Bed;
use crate::document::Tool;
use corelane_measure::statistics::Spread;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/engines/1";

/// The hash that ratios of hashes are to: the sliding-window reference.
pub const ORACLE: &str = "oracle";

/// The way to move datagrams that ratios are to: one `recvfrom` and one `sendto` a datagram.
pub const BASIC: &str = "basic";

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnginesReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// When the run began, in seconds since 1970-01-01 00:00 UTC.
    pub started_unix_s: u64,
    /// The arguments that repeat the run, the program first.
    pub command_line: Vec<String>,
    /// Where datagrams were moved; `None` when none were.
    pub bed: Option<Bed>,
    /// The host's snapshot of what may spoil or explain the result, as that room writes it.
    pub conditions: Value,
    /// What was to be measured.
    pub plan: Plan,
    /// Every way to hash, by tuple, then by way, one at a time before batches.
    pub toeplitz: Vec<ToeplitzWay>,
    /// Every way to move datagrams.
    pub udp: Vec<UdpWay>,
    /// Ways that could not be measured here.
    pub left_out: Vec<LeftOut>,
    /// Every measurement of a hash.
    pub toeplitz_trials: Vec<ToeplitzTrial>,
    /// Every measurement of datagrams, those that give no figure marked.
    pub udp_trials: Vec<UdpTrial>,
    /// Whether the run was ended before its plan.
    #[serde(default)]
    pub interrupted: bool,
}

/// What was to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Ways to hash, by name.
    pub toeplitz: Vec<String>,
    /// Ways to move datagrams, by name.
    pub udp: Vec<String>,
    /// Rounds; every way is measured once in each.
    pub rounds: u32,
    /// Seconds of one measurement of datagrams.
    pub duration_s: f64,
    /// Bytes of payload of a datagram.
    pub payload_bytes: usize,
    /// Datagrams on the way at once.
    pub outstanding: u32,
    /// The CPU that hashes, and on which the server runs.
    pub server_cpu: u32,
    /// The CPU on which the client runs.
    pub client_cpu: u32,
    /// Seed of the order within each round.
    pub seed: u64,
}

/// One way to hash one kind of tuple.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToeplitzWay {
    /// [`ORACLE`], or the way: `gfni`, `clmul`, `tables`.
    pub name: String,
    /// `ipv4-2tuple`, `ipv4-4tuple`, `ipv6-2tuple` or `ipv6-4tuple`.
    pub tuple: String,
    /// Hashes computed by one call.
    pub batch: usize,
    /// Nanoseconds a hash, in throughput: many inputs, none waiting for the hash before.
    pub ns_per_hash: f64,
    /// `ns_per_hash` over the oracle's for the same tuple: 0.05 is a twentieth of its time.
    pub ratio_to_oracle: f64,
    /// The rounds of `ns_per_hash`.
    pub ns_per_hash_spread: Spread,
    /// The rounds of `ratio_to_oracle`.
    pub ratio_to_oracle_spread: Spread,
}

/// One way to move datagrams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpWay {
    /// [`BASIC`], `batch`, `uring`, `gso`, `gro_gso_16` or `gro_gso_64`.
    pub name: String,
    /// What it does, in words.
    pub describe: String,
    /// Datagrams answered a second of the server's CPU time.
    pub datagrams_per_cpu_second: Option<f64>,
    /// `datagrams_per_cpu_second` over that of [`BASIC`]: 15 is fifteen times as many.
    pub ratio_to_basic: Option<f64>,
    /// The rounds of `datagrams_per_cpu_second`.
    pub datagrams_per_cpu_second_spread: Option<Spread>,
    /// The rounds of `ratio_to_basic`.
    pub ratio_to_basic_spread: Option<Spread>,
    /// Why there are no figures, where there are none.
    pub unknown_because: Option<String>,
}

/// A way that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// What it takes that is missing.
    pub because: String,
}

/// One measurement of a hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToeplitzTrial {
    /// The way.
    pub name: String,
    /// What was hashed.
    pub tuple: String,
    /// Hashes computed by one call.
    pub batch: usize,
    /// The round, from 0.
    pub round: u32,
    /// Nanoseconds a hash: the median of repetitions within the round.
    pub ns_per_hash: f64,
}

/// One measurement of datagrams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpTrial {
    /// The way.
    pub name: String,
    /// The round, from 0.
    pub round: u32,
    /// Datagrams that the server answered.
    pub answered: u64,
    /// CPU time of the server's process meanwhile, nanoseconds.
    pub server_cpu_ns: u64,
    /// Seconds during which the client sent.
    pub sending_s: f64,
    /// Datagrams sent by the client and not returned.
    pub lost: u64,
    /// Why it gives no figure; `None` when it does.
    pub why: Option<String>,
}

impl UdpTrial {
    /// Datagrams a second of the server's CPU time; `None` when the trial gives no figure.
    #[must_use]
    pub fn datagrams_per_cpu_second(&self) -> Option<f64> {
        let measured = self.why.is_none() && self.answered > 0 && self.server_cpu_ns > 0;
        measured.then(|| self.answered as f64 * 1e9 / self.server_cpu_ns as f64)
    }
}

impl EnginesReport {
    /// Draws medians and ratios from the trials so far.
    pub fn conclude(&mut self, describe: impl Fn(&str) -> String) {
        self.toeplitz = toeplitz_ways(&self.toeplitz_trials);
        let ways = self.plan.udp.iter();
        self.udp = ways
            .map(|name| udp_way(name, describe(name), &self.udp_trials))
            .collect();
    }

    /// The document as indented JSON, ending in a newline.
    ///
    /// # Errors
    /// Never for a document made by this program: every key is text.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When the text is not JSON of this shape.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// One sentence: the fastest way of each kind.
    #[must_use]
    pub fn conclusion(&self) -> String {
        let fastest = |tuple: &str| {
            let ways = self.toeplitz.iter().filter(|way| way.tuple == tuple);
            ways.min_by(|one, other| one.ns_per_hash.total_cmp(&other.ns_per_hash))
        };
        let mut parts = Vec::new();
        if let Some(way) = fastest("ipv4-4tuple") {
            let batched = if way.batch > 1 {
                format!(" in batches of {}", way.batch)
            } else {
                String::new()
            };
            parts.push(format!(
                "hash by {}{batched} ({:.2} ns for an ipv4-4tuple, {:.0} times as fast as the oracle)",
                way.name,
                way.ns_per_hash,
                1.0 / way.ratio_to_oracle
            ));
        }
        let rated = self.udp.iter().filter(|way| way.ratio_to_basic.is_some());
        let ratio = |way: &&UdpWay| way.ratio_to_basic.unwrap_or(0.0);
        if let Some(way) = rated.max_by(|one, other| ratio(one).total_cmp(&ratio(other))) {
            parts.push(format!(
                "move datagrams by {} ({:.1} times one at a time)",
                way.name,
                ratio(&way)
            ));
        }
        match parts.as_slice() {
            [] => "Nothing was measured.".to_owned(),
            parts => format!("Best here: {}.", parts.join("; ")),
        }
    }
}

fn toeplitz_ways(trials: &[ToeplitzTrial]) -> Vec<ToeplitzWay> {
    let mut kinds: Vec<(&str, &str, usize)> = Vec::new();
    for trial in trials {
        let kind = (trial.tuple.as_str(), trial.name.as_str(), trial.batch);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let way = |(tuple, name, batch): (&str, &str, usize)| {
        let of = |name: &str, batch: usize, round: Option<u32>| {
            let same = |trial: &&ToeplitzTrial| {
                (trial.tuple.as_str(), trial.name.as_str(), trial.batch) == (tuple, name, batch)
                    && round.is_none_or(|round| trial.round == round)
            };
            trials.iter().filter(same).collect::<Vec<_>>()
        };
        let own = of(name, batch, None);
        let times: Vec<f64> = own.iter().map(|trial| trial.ns_per_hash).collect();
        let ratios: Vec<f64> = own
            .iter()
            .filter_map(|trial| {
                let oracle = *of(ORACLE, 1, Some(trial.round)).first()?;
                Some(trial.ns_per_hash / oracle.ns_per_hash)
            })
            .collect();
        let (times, ratios) = (Spread::of(&times)?, Spread::of(&ratios)?);
        Some(ToeplitzWay {
            name: name.to_owned(),
            tuple: tuple.to_owned(),
            batch,
            ns_per_hash: times.median,
            ratio_to_oracle: ratios.median,
            ns_per_hash_spread: times,
            ratio_to_oracle_spread: ratios,
        })
    };
    kinds.into_iter().filter_map(way).collect()
}

fn udp_way(name: &str, describe: String, trials: &[UdpTrial]) -> UdpWay {
    let own: Vec<&UdpTrial> = trials.iter().filter(|trial| trial.name == name).collect();
    let rates: Vec<f64> = own
        .iter()
        .filter_map(|trial| trial.datagrams_per_cpu_second())
        .collect();
    let ratio = |trial: &&UdpTrial| {
        let same_round = |other: &&UdpTrial| other.name == BASIC && other.round == trial.round;
        let basic = trials.iter().find(same_round)?.datagrams_per_cpu_second()?;
        Some(trial.datagrams_per_cpu_second()? / basic)
    };
    let ratios: Vec<f64> = own.iter().filter_map(ratio).collect();
    let (rates, ratios) = (Spread::of(&rates), Spread::of(&ratios));
    let unknown_because = match (rates, own.iter().find_map(|trial| trial.why.clone())) {
        (Some(_), _) if ratios.is_some() => None,
        (Some(_), _) => Some(format!("no round gave a figure for it and for {BASIC}")),
        (None, Some(why)) => Some(why),
        (None, None) => Some("no trial was complete".to_owned()),
    };
    UdpWay {
        name: name.to_owned(),
        describe,
        datagrams_per_cpu_second: rates.map(|spread| spread.median),
        ratio_to_basic: ratios.map(|spread| spread.median),
        datagrams_per_cpu_second_spread: rates,
        ratio_to_basic_spread: ratios,
        unknown_because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(name: &str, batch: usize, round: u32, ns_per_hash: f64) -> ToeplitzTrial {
        ToeplitzTrial {
            name: name.to_owned(),
            tuple: "ipv4-4tuple".to_owned(),
            batch,
            round,
            ns_per_hash,
        }
    }

    fn moved(name: &str, round: u32, answered: u64, why: Option<&str>) -> UdpTrial {
        UdpTrial {
            name: name.to_owned(),
            round,
            answered,
            server_cpu_ns: 1_000_000_000,
            sending_s: 1.0,
            lost: 0,
            why: why.map(str::to_owned),
        }
    }

    fn report() -> EnginesReport {
        let mut report = EnginesReport {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: "corelane".to_owned(),
                version: "0".to_owned(),
            },
            started_unix_s: 0,
            command_line: vec!["corelane".to_owned()],
            bed: None,
            conditions: Value::Null,
            plan: Plan {
                toeplitz: vec!["oracle".to_owned(), "tables".to_owned()],
                udp: vec!["basic".to_owned(), "batch".to_owned(), "uring".to_owned()],
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
            interrupted: false,
        };
        report.conclude(|name| format!("what {name} does"));
        report
    }

    #[test]
    fn ratios_are_taken_within_a_round_so_that_drift_of_the_machine_cancels() {
        let report = report();
        let tables = report.toeplitz.iter().find(|way| way.name == "tables").unwrap();
        assert_eq!((tables.ns_per_hash, tables.ratio_to_oracle), (7.5, 0.1));
        assert_eq!(tables.ratio_to_oracle_spread.relative, 0.0);
        let ratios: Vec<_> = report.udp.iter().map(|way| way.ratio_to_basic).collect();
        assert_eq!(ratios, [Some(1.0), Some((1.2 + 1.1) / 2.0), None]);
        assert_eq!(report.udp[0].datagrams_per_cpu_second, Some(150.0));
    }

    #[test]
    fn a_way_without_figures_says_why() {
        let report = report();
        assert_eq!(report.udp[2].unknown_because.as_deref(), Some("too few"));
        assert!(render(&report).contains("uring: too few"));
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
        let words = render(&report()).replace('\n', " ");
        let last = "Best here: hash by tables (7.50 ns for an ipv4-4tuple, 10 times as fast as the oracle); \
            move datagrams by batch (1.1 times one at a time). ";
        assert!(words.ends_with(last), "{words}");
    }
}
