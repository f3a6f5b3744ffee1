//! What measuring the load of each entry costs a UDP server: two echo servers on one CPU, one of which measures, and a
//! client on another CPU that keeps a window of datagrams in transit to each in turn.
//!
//! The result is the CPU time per datagram of the server that measures, over that of the other (target: at most 1.02), as
//! the median of interleaved rounds. The policy moves nothing, so only the measurement is compared.
//!
//! `cargo bench -p corelane-serve --bench rebalancing` takes half a minute. Exit code: 0 if the target is met, 1 if not.

use corelane_host::cpus;
use corelane_rss::balance::Policy;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::Server;
use corelane_serve::udp::{UdpPlan, UdpServer};
use corelane_worker::{WorkerSettings, spawn};
use std::collections::BTreeSet;
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Datagrams in transit, so many that the server never waits for long, and so few that no buffer overflows.
const WINDOW: usize = 256;
const ROUND: Duration = Duration::from_millis(150);
const ROUNDS: usize = 81;
/// The greatest median ratio.
const TARGET: f64 = 1.02;

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let rounds = match std::env::args().any(|argument| argument == "--test") {
        true => 1,
        false => ROUNDS,
    };
    let allowed = cpus::allowed().expect("the CPUs are known").cpus;
    let [server_cpu, .., client_cpu] = allowed[..] else {
        println!("skipped: server and client need a CPU each, and only one is allowed");
        return;
    };
    let measuring = Policy {
        start: f64::INFINITY,
        ..Policy::default()
    };
    let mut servers = [None, Some(measuring)].map(|policy| Bench::start(server_cpu, policy));
    let client = move || {
        let mut ratios: Vec<f64> = (0..rounds)
            .map(|_| {
                let [plain, measured] = [0, 1].map(|server: usize| servers[server].nanoseconds_a_datagram());
                measured / plain
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        [0.25, 0.5, 0.75].map(|part| ratios[(part * (rounds - 1) as f64) as usize])
    };
    let worker =
        spawn(WorkerSettings::new("client".to_owned(), client_cpu), client).expect("the client starts");
    let [low, median, high] = worker.join().expect("every datagram is answered");
    println!(
        "CPU time per datagram with measured loads, over that without: {median:.3} (quartiles {low:.3} to {high:.3}; target: at \
         most {TARGET})"
    );
    std::process::exit(i32::from(rounds > 1 && median > TARGET));
}

/// A server, its threads, and sockets of many flows to it.
struct Bench {
    server: UdpServer,
    threads: Vec<u32>,
    flows: Vec<UdpSocket>,
}

impl Bench {
    fn start(cpu: u32, rebalance: Option<Policy>) -> Bench {
        let before = threads();
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).expect("a table"),
            cpus: vec![cpu; 2],
            generation: 0,
        };
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut plan = UdpPlan::new(address, steering);
        plan.steered.rebalance = rebalance;
        let server = UdpServer::start(plan);
        let server = server.expect("the server starts");
        let flows = (0..WINDOW).map(|_| {
            let socket = UdpSocket::bind(address).expect("a socket");
            socket.connect(server.address()).expect("a route");
            socket
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("a timeout");
            socket
        });
        Bench {
            flows: flows.collect(),
            threads: threads().difference(&before).copied().collect(),
            server,
        }
    }

    /// CPU time of the server's threads per datagram, over one round.
    fn nanoseconds_a_datagram(&mut self) -> f64 {
        let (before, started, mut datagrams) = (self.cpu_time(), Instant::now(), 0);
        while started.elapsed() < ROUND {
            for flow in &self.flows {
                flow.send(&[0; 510]).expect("sent");
            }
            for flow in &self.flows {
                flow.recv(&mut [0; 510]).expect("answered");
            }
            datagrams += self.flows.len();
        }
        self.server.poll().expect("the server runs");
        (self.cpu_time() - before) / datagrams as f64
    }

    /// Nanoseconds that the server's threads have run.
    fn cpu_time(&self) -> f64 {
        let ran = |thread: &u32| {
            let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        };
        self.threads.iter().filter_map(ran).sum()
    }
}

fn threads() -> BTreeSet<u32> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process");
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}
