//! `lab engines`: what each way to move datagrams is worth.

use crate::common::run_json;
use corelane_tests::measured;

#[test]
fn merged_datagrams_take_less_than_half_the_cpu_time_of_single_ones() {
    measured(|| {
        let report = run_json("lab engines --ways udp --max-steal 100% --rounds 2 --json");
        for way in report["udp"].as_array().unwrap() {
            let ratio = way["ratio_to_basic"].as_f64().unwrap();
            assert!(ratio > 0.0, "{way}");
            // Not a target, only a lower bound: merged datagrams share system calls that single ones do not.
            let is_merged = way["name"].as_str().unwrap().starts_with("gro_gso");
            assert!(!is_merged || ratio > 2.0, "{way}");
        }
    });
}
