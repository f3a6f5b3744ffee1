//! What servers reach in a time. These tests run one at a time, and are repeated while other programs disturb them.

#[allow(dead_code, reason = "helpers of the other test program")]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "helpers of the other test program")]
#[path = "../rebalancing/levelling.rs"]
mod levelling;

use common::engines;
use corelane_rss::balance::Policy;
use corelane_tests::measured;
use std::time::{Duration, Instant};

/// The time within which the default policy makes a table level.
const LEVEL_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn by_default_a_udp_server_is_level_within_ten_seconds() {
    for engine in engines() {
        measured(|| {
            let started = Instant::now();
            levelling::udp(engine, Policy::default(), |_| started.elapsed() < LEVEL_WITHIN);
        });
    }
}

#[test]
fn by_default_a_tcp_server_is_level_within_ten_seconds() {
    for engine in engines() {
        measured(|| {
            let started = Instant::now();
            levelling::tcp(engine, Policy::default(), |_| started.elapsed() < LEVEL_WITHIN);
        });
    }
}
