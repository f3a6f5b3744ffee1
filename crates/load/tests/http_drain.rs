//! A run that is stopped while it waits for its last responses ends at once and reports the missing ones.

use corelane_load::Generator;
use corelane_load::http::scenario::{ClientPool, Scenario, UrlEntry};
use corelane_load::http::{HttpLoad, PlannedPhase, Timeouts, Until};
use corelane_load::sources::{Steerings, WorkerRequest};
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[test]
fn who_stops_the_wait_for_the_last_answers_has_waited_enough() {
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
        duration_s: Some(0.05),
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
    let deadline = Instant::now() + Duration::from_secs(60);
    while !load.is_draining() {
        assert!(Instant::now() < deadline, "the run does not end");
        assert!(
            !load.wait(Duration::from_millis(1)),
            "it does not wait for its responses"
        );
    }
    load.stop();
    let requests = load.finish().unwrap().counts.requests;
    assert_eq!((requests.begun, requests.unfinished), (3, 3));
}
