//! A run that is stopped while it waits for its last responses ends at once and reports the missing ones.

use corelane_load::Generator;
use corelane_load::http::scenario::{ClientPool, Scenario, UrlEntry};
use corelane_load::http::{HttpLoad, PlannedPhase, Timeouts, Until};
use corelane_load::sources::{Steerings, WorkerRequest};
use corelane_tests::until;
use std::net::TcpListener;
use std::time::Duration;

/// The requests that a run of this duration has begun and not finished when it is stopped.
fn stopped_after(seconds: f64) -> (u64, u64) {
    // The kernel accepts the connection and the request, and no process answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hour = Duration::from_secs(3_600).as_secs_f64();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let client = ClientPool {
        connections: 3,
        ..ClientPool::default()
    };
    let mut scenario = Scenario::of_url(&url.parse().unwrap(), client, UrlEntry::default());
    scenario.phase = vec![PlannedPhase::hold(Until {
        duration_s: Some(seconds),
        ..Until::default()
    })];
    let workers = WorkerRequest {
        steering: Steerings::default(),
        buckets: None,
        cpus: vec![corelane_host::cpus::allowed().unwrap().cpus[0]],
        descriptor_limit: 1_024,
    };
    let timeouts = Timeouts {
        connect_s: hour,
        continue_s: hour,
        first_byte_s: hour,
        request_s: hour,
        drain_s: hour,
    };
    let mut load = HttpLoad::start(scenario.plan(&workers, timeouts).unwrap()).unwrap();
    until("the run waits for its responses", || {
        assert!(
            !load.wait(Duration::from_millis(1)),
            "it does not wait for its responses"
        );
        load.is_draining()
    });
    load.stop();
    let requests = load.finish().unwrap().counts.requests;
    (requests.begun, requests.unfinished)
}

#[test]
fn who_stops_the_wait_for_the_last_answers_has_waited_enough() {
    // Longer if the connections are not open by then, on a busy machine.
    let mut counts = [0.05, 0.5, 5.0, 50.0].into_iter().map(stopped_after);
    let all_begun = counts.find(|(begun, unfinished)| {
        assert_eq!(begun, unfinished);
        *begun == 3
    });
    assert!(all_begun.is_some());
}
