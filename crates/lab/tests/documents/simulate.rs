//! The document of `lab simulate` and its text.

use corelane_lab::document::{Document, Head, Tool};
use corelane_lab::simulate::document::{IMBALANCE, LARGEST_FLOW, REBALANCED_IMBALANCE, THROUGHPUT_SHARE};
use corelane_lab::simulate::{LeftOut, Plan, Request, SCHEMA, SimulateReport, Step, Trial};
use corelane_lab::trial::TrialHead;
use corelane_load::udp::Skew;
use corelane_report::page::Rendered;
use corelane_rss::HashFields;
use serde_json::Value;

const DATAGRAMS: u64 = 1_000_000;

/// A round in which the fullest bucket gets `thousandths` of its share, and at least 1,020 after rebalancing.
fn trial((table_size, buckets): (usize, usize), round: usize, thousandths: u64) -> Trial {
    let share = DATAGRAMS / buckets as u64;
    Trial {
        table_size,
        buckets,
        head: TrialHead::new(0, round, 0.0),
        datagrams: DATAGRAMS,
        fullest_datagrams: share * thousandths / 1000,
        random_fullest_datagrams: share * 1100 / 1000,
        rebalanced_fullest_datagrams: share * thousandths.min(1020) / 1000,
        moves: buckets / 2,
        least_fullest_datagrams: share,
        largest_flow_datagrams: 500,
    }
}

fn report() -> SimulateReport {
    let pairs = [(128, 2), (128, 64), (4096, 2), (4096, 1024)];
    let trials: Vec<Trial> = pairs
        .into_iter()
        .flat_map(|pair| [1010, 1250, 1600].map(|thousandths| (pair, thousandths)))
        .zip((0..3).cycle())
        .map(|((pair, thousandths), round)| trial(pair, round, thousandths))
        .collect();
    let steps = trials.chunks(3).map(|rounds| {
        let rounds: Vec<&Trial> = rounds.iter().collect();
        Step::of(&rounds, Vec::new()).unwrap()
    });
    SimulateReport {
        head: Head {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: "corelane".to_owned(),
                version: "0.1.0".to_owned(),
            },
            command_line: ["corelane", "lab", "simulate"].map(str::to_owned).to_vec(),
            ..Head::default()
        },
        plan: Plan {
            request: Request {
                buckets: vec![2, 64, 1024],
                table_sizes: vec![128, 4096],
                flows: 10_000,
                datagrams: DATAGRAMS,
                sizes: Skew::Zipf { exponent: 1.1 },
                hash_fields: HashFields::FourTuple,
                key: "6d5a".repeat(20).parse().unwrap(),
                clients: "172.16.0.0/12".parse().unwrap(),
                server: "10.11.2.1:8080".parse().unwrap(),
                seed: 1,
                rounds: 3,
                tolerance: 0.02,
                list_flows: false,
            },
            left_out: vec![LeftOut {
                table_size: 128,
                buckets: 1024,
            }],
        },
        steps: steps.collect(),
        trials,
        flows: Vec::new(),
        conclusions: vec!["128 entries: far.".to_owned(), "No flow is too large.".to_owned()],
    }
}

#[test]
fn the_text_tells_the_whole_simulation_in_100_columns() {
    let expected = include_str!("expected/simulate.txt");
    let text = report().page().to_text();
    assert!(text == expected, "the text is now:\n{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_run_that_was_ended_early_says_so() {
    let mut ended = report();
    assert!(!ended.page().to_text().contains("ended early"));
    ended.head.interrupted = true;
    assert!(ended.page().to_text().contains("ended early"));
}

#[test]
fn imbalance_is_the_fullest_over_the_mean_and_the_share_its_inverse() {
    let trials = [
        trial((128, 4), 0, 1250),
        trial((128, 4), 1, 1000),
        trial((128, 4), 2, 2000),
    ];
    let step = Step::of(&trials.each_ref(), Vec::new()).unwrap();
    let imbalance = IMBALANCE.range(&step).unwrap();
    assert_eq!(
        (imbalance.median, imbalance.minimum, imbalance.maximum),
        (1.25, 1.0, 2.0)
    );
    assert_eq!(THROUGHPUT_SHARE.of(&step), Some(0.8));
    assert_eq!(REBALANCED_IMBALANCE.of(&step), Some(1.02));
    assert_eq!(LARGEST_FLOW.of(&step), Some(0.002));
    assert_eq!(Step::of(&[], Vec::new()), None);
}

#[test]
fn a_document_comes_back_as_it_was_written() {
    let text = report().to_json().unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], "corelane/simulate/1");
    assert_eq!(document["steps"][1]["imbalance"]["count"], 3);
    assert_eq!(SimulateReport::from_json(&text).unwrap(), report());
}
