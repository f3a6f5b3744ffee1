//! `lab scale udp`: what skew costs.

use crate::common::{run_json, with_figures};
use corelane_tests::measured;
use serde_json::Value;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn skew_overloads_the_fullest_bucket_and_the_report_says_what_that_costs() {
    measured(|| {
        let lab = "lab scale udp --duration 100ms --rounds 1 --max-steal 100% --bed namespaces --models exact,shared --skew \
                   elephant:0.6 --placements aligned --json";
        let report = with_figures(|| run_json(lab));
        let steps = report["steps"].as_array().unwrap();
        let skewed: Vec<&Value> = steps
            .iter()
            .filter(|step| step["skew"] == "elephant:0.6")
            .collect();
        assert_eq!(skewed.len(), 3, "echo of both models, and exact as a sink");
        let all = steps
            .iter()
            .map(|step| step["buckets_active"].as_u64().unwrap())
            .max()
            .unwrap();
        if all < 2 {
            eprintln!("skipped: skew over buckets needs two CPUs");
            return;
        }
        // 8 flows per bucket: the elephant and 7 of the others land on the first.
        let others = 0.4 / (all as f64 * 8.0 - 1.0);
        let expected = (0.6 + 7.0 * others) * all as f64;
        for step in skewed {
            assert_eq!(step["buckets_active"], all);
            let imbalance = number(&step["imbalance"]);
            assert!(
                (imbalance / expected - 1.0).abs() < 0.2,
                "{imbalance}, not {expected}"
            );
            assert!(number(&step["rate_of_plain"]) > 0.0);
        }
        let verdict = report["limit"]["sentence"].as_str().unwrap();
        assert!(verdict.contains("Under elephant:0.6"), "{verdict}");
    });
}
