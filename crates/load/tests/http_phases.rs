//! Phases that end by a count end at exactly that count, over all workers and pools.

use corelane_load::Generator;
use corelane_load::http::scenario::{ClientPool, Scenario, UrlEntry};
use corelane_load::http::{HttpLoad, HttpLoadReport, Model, PlannedPhase, Timeouts, Until};
use corelane_load::sources::{Steerings, WorkerRequest};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A server that gives every request this response; returns its address and the number of requests so far.
fn server(response: &'static str) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, served) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&served);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counted = Arc::clone(&counted);
            thread::spawn(move || answer(stream, response, &counted));
        }
    });
    (address, served)
}

/// Answers each head, one at a time, as clients without a pipeline send them.
fn answer(mut stream: TcpStream, response: &str, served: &AtomicU64) {
    let (mut head, mut piece) = (Vec::new(), [0; 4_096]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        head.extend_from_slice(&piece[..length]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            served.fetch_add(1, Ordering::SeqCst);
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// The report of a run through these phases, with a closed loop of some connections and an open loop beside it.
fn run(address: SocketAddr, connections: u64, phases: &[Until]) -> HttpLoadReport {
    let url = format!("http://{address}/");
    let client = ClientPool {
        connections,
        ..ClientPool::default()
    };
    let mut scenario = Scenario::of_url(&url.parse().unwrap(), client, UrlEntry::default());
    scenario.phase = phases.iter().map(|until| PlannedPhase::hold(*until)).collect();
    let workers = WorkerRequest {
        steering: Steerings::default(),
        buckets: None,
        cpus: corelane_host::cpus::allowed().unwrap().cpus,
        descriptor_limit: 1_024,
    };
    let timeouts = Timeouts {
        connect_s: 3_600.0,
        first_byte_s: 3_600.0,
        request_s: 3_600.0,
        drain_s: 3_600.0,
        ..Timeouts::default()
    };
    let mut plan = scenario.plan(&workers, timeouts).unwrap();
    if connections > 1 {
        let mut steady = plan.pools[0].clone();
        steady.model = Model::Open { per_second: 2_000.0 };
        plan.pools.push(steady);
        for worker in &mut plan.workers {
            worker.shares.push(worker.shares[0].clone());
        }
    }
    HttpLoad::start(plan).unwrap().finish().unwrap()
}

#[test]
fn a_phase_begins_as_many_requests_as_it_has() {
    let (address, served) = server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let numbers = [10, 1, 7, 1_000];
    let until = numbers.map(|requests| Until {
        requests: Some(requests),
        ..Until::default()
    });
    let report = run(address, 8, &until);
    let phases: Vec<_> = (report.phases.iter())
        .map(|phase| (phase.begun, phase.ok, phase.failed))
        .collect();
    assert_eq!(phases, numbers.map(|number| (Some(number), number, 0)));
    let requests = report.counts.requests;
    assert_eq!((requests.begun, requests.ok, requests.unsent), (1_018, 1_018, 0));
    assert_eq!(served.load(Ordering::SeqCst), 1_018);
}

#[test]
fn a_phase_begins_no_request_after_the_last_failure() {
    let (address, served) = server("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    let failures = [5, 3].map(|failures| Until {
        failures: Some(failures),
        ..Until::default()
    });
    let report = run(address, 1, &failures);
    let failed: Vec<u64> = report.phases.iter().map(|phase| phase.failed).collect();
    assert_eq!((failed, served.load(Ordering::SeqCst)), (vec![5, 3], 8));
}
