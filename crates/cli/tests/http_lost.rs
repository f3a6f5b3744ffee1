//! `load http` whose server is lost during the run: it dies, or answers nothing any more.

use crate::common;
use crate::scrape::Exposing;
use corelane_tests::until;
use serde_json::Value;

/// A run against a server that has answered some of its requests.
fn running(flags: &str) -> (Exposing, Exposing, String) {
    let mut server = Exposing::start("serve http 127.0.0.1:0 --buckets 1");
    let address = server.listening();
    let load = Exposing::start(&format!(
        "load http http://{address}/ --json --workers 1 --connections 4 --duration 1h {flags}"
    ));
    until("requests are answered", || {
        load.sum("corelane_load_ok_requests_total") >= 20.0
    });
    (server, load, address)
}

/// Checks that the server was lost in this way and did not come back, and that the run failed for it.
fn assert_lost(loaded: &Value, code: Option<i32>, address: &str, how: &str, why: &str) {
    let lost = &loaded["lost"];
    assert_eq!(lost.as_array().map(Vec::len), Some(1), "{lost}");
    let lost = &lost[0];
    assert_eq!(
        (&lost["server"], &lost["how"]),
        (&address.into(), &how.into()),
        "{lost}"
    );
    assert!(
        lost["since_s"].as_f64() > Some(0.0) && lost["until_s"].is_null(),
        "{lost}"
    );
    let failed = loaded["failed_because"].as_str().unwrap();
    assert!(failed.starts_with(address) && failed.contains(why), "{failed}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_server_that_died_fails_the_run_and_all_that_was_due_since() {
    let failures = "corelane_load_failed_requests_total";
    for model in ["--rate 500", "--think 10ms"] {
        let (server, load, address) = running(model);
        drop(server);
        until("requests fail", || load.sum(failures) >= 40.0);
        let (loaded, code) = load.interrupt();
        assert_lost(&loaded, code, &address, "gone", "did not come back: refused");
        let requests = &loaded["requests"];
        assert_eq!(requests.get("unsent_waiting"), None, "{model}: {requests}");
        assert!(requests["refused"].as_u64() > Some(20), "{model}: {requests}");
        let outcomes =
            ["ok", "failed", "aborted", "unfinished"].map(|outcome| requests[outcome].as_u64().unwrap());
        assert_eq!(
            requests["begun"],
            outcomes.iter().sum::<u64>(),
            "{model}: {requests}"
        );
    }
}

#[test]
fn a_server_that_was_stopped_is_silent_and_fails_the_run() {
    let (server, load, address) = running("--think 10ms --timeout 1500ms");
    common::signal(server.process.id(), "STOP");
    // Its kernel still accepts connections: each is given up after the time, and opened again.
    let given_up = "corelane_load_failures_by_cause_total";
    until("requests have waited for it three times", || {
        load.sum(given_up) >= 12.0
    });
    let (loaded, code) = load.interrupt();
    assert_lost(&loaded, code, &address, "silent", "has answered nothing since");
}
