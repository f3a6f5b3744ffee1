//! `corelane steer` on a server without support for it: Debian's nginx with two pinned workers, on loopback and over
//! veth.

use crate::common::{self, corelane, refused, run_json};
use crate::scrape::{self, families};
use corelane_host::bed::Bed;
use corelane_rss::{IndirectionTable, Steering, Tuple, balance};
use corelane_tests::{PATIENCE, until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// nginx in the foreground, stopped when dropped.
struct Nginx {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts two workers on these CPUs; each answers with its process id.
    fn start(cpus: [u32; 2], reuseport: &str) -> Nginx {
        // A port that was free a moment ago may be another's by now: an address of its own.
        static STARTED: AtomicU8 = AtomicU8::new(0);
        let [.., middle, last] = std::process::id().to_be_bytes();
        let own = 100 + STARTED.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from(([127, own, middle, last], 8079));
        let answers = || ask(None, address).is_ok();
        Self::start_at(address, cpus, reuseport, |mut nginx| nginx.spawn(), answers)
    }

    /// Like [`start`](Self::start), in the server's namespace of a bed.
    fn start_in(bed: &Bed, cpus: [u32; 2]) -> Nginx {
        let address = SocketAddr::new(bed.server.address(), 8080);
        let spawn = |mut nginx: Command| bed.server.run(move || nginx.spawn());
        let answers = || bed.client.run(move || ask(None, address).is_ok());
        Self::start_at(address, cpus, "reuseport", spawn, answers)
    }

    fn start_at(
        address: SocketAddr,
        cpus: [u32; 2],
        reuseport: &str,
        spawn: impl FnOnce(Command) -> io::Result<Child>,
        answers: impl Fn() -> bool,
    ) -> Nginx {
        let folder = tempfile::tempdir().unwrap();
        let configuration = configuration(folder.path(), address, cpus, reuseport);
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder.path()).arg("-c").arg(&path);
        command.stderr(Stdio::null());
        let nginx = Nginx {
            process: spawn(command).expect("nginx starts"),
            address,
            _folder: folder,
        };
        until("nginx serves", || answers() && children(nginx.process.id()) == 2);
        nginx
    }

    fn steer(&self, more: &[&str]) -> Vec<String> {
        let (pid, port) = (self.process.id().to_string(), self.address.port().to_string());
        let arguments = [&["steer", "--pid", &pid, "--port", &port], more].concat();
        arguments.into_iter().map(str::to_owned).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master forwards SIGTERM to its workers.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

fn configuration(folder: &Path, address: SocketAddr, cpus: [u32; 2], reuseport: &str) -> String {
    let masks = cpus.map(|cpu| format!("1{}", "0".repeat(cpu as usize)));
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
        .collect();
    format!(
        "daemon off; worker_processes 2; worker_cpu_affinity {} {}; pid {folder}/pid; error_log stderr crit;
         events {{ worker_connections 256; }}
         http {{ access_log off; keepalive_timeout 1h; {temporary}
           server {{ listen {address} {reuseport}; location / {{ return 200 \"$pid\"; }} }} }}",
        masks[0], masks[1]
    )
}

fn children(process: u32) -> usize {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    text.unwrap_or_default().split_whitespace().count()
}

fn connect(source: Option<SocketAddr>, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    if let Some(source) = source {
        // The connection of another run may wait for late packets.
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
    }
    socket.connect(&server.into())?;
    Ok(socket.into())
}

/// Opens one connection, from `source` if given; returns its source address and the process that answered.
fn ask(source: Option<SocketAddr>, server: SocketAddr) -> io::Result<(SocketAddr, u32)> {
    let mut connection = connect(source, server)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let source = connection.local_addr()?;
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let pid = answer.rsplit("\r\n\r\n").next().unwrap_or_default().parse();
    pid.map(|pid| (source, pid)).map_err(io::Error::other)
}

/// Two CPUs that this process may use, or the reason to skip the test.
fn needs() -> Result<[u32; 2], String> {
    let nginx = Command::new("nginx").arg("-v").stderr(Stdio::null()).status();
    nginx.map_err(|error| format!("nginx does not start ({error}): apt-get install nginx"))?;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    let allowed = corelane_host::cpus::list::parse(line.trim()).unwrap();
    match allowed[..] {
        [first, second, ..] => Ok([first, second]),
        _ => Err("one CPU only: two pinned workers need two".to_owned()),
    }
}

macro_rules! needs {
    () => {
        match needs() {
            Ok(cpus) => cpus,
            Err(reason) => {
                eprintln!("skipped: {reason}");
                return;
            }
        }
    };
}

fn json(arguments: &[String]) -> Value {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--json"]).collect();
    run_json(&arguments)
}

/// The process id of the worker that the hash of a connection selects.
fn named(document: &Value, source: SocketAddr, server: SocketAddr) -> u32 {
    let steering: Steering = serde_json::from_value(document["steering"].clone()).unwrap();
    let bucket = steering.steerer().bucket_of(&Tuple::new(source, server).unwrap());
    let members = document["members"].as_array().unwrap();
    let mut of_bucket = members.iter().filter(|member| member["bucket"] == bucket.index());
    let member = of_bucket.next().expect("every bucket has a socket");
    member["workers"][0]["process"].as_u64().unwrap() as u32
}

/// The number of connections, out of `connections`, that reached another worker than the hash selects.
fn misplaced(nginx: &Nginx, document: &Value, connections: u32) -> u32 {
    let mut misplaced = 0;
    for _ in 0..connections {
        let (source, pid) = ask(None, nginx.address).expect("no connection is refused or reset");
        misplaced += u32::from(named(document, source, nginx.address) != pid);
    }
    misplaced
}

/// Attaches and undoes the steering several times while two clients connect continuously; `start` starts the thread of
/// a client. Panics if a connection is refused, reset, or not answered.
fn attach_and_undo_under_load(nginx: &Nginx, start: impl Fn(Box<dyn FnOnce() + Send>) -> JoinHandle<()>) {
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let address = nginx.address;
    let traffic = || -> Box<dyn FnOnce() + Send> {
        let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
        Box::new(move || {
            while !stop.load(Ordering::Relaxed) {
                ask(None, address).expect("no connection is refused or reset");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let clients = [start(traffic()), start(traffic())];
    let more = || {
        let before = answered.load(Ordering::Relaxed);
        let gone = || clients.iter().any(JoinHandle::is_finished);
        until("connections go on", || {
            gone() || answered.load(Ordering::Relaxed) > before + 50
        });
    };
    for _ in 0..5 {
        more();
        assert_eq!(json(&nginx.steer(&[]))["action"], "attached");
        more();
        assert_eq!(json(&nginx.steer(&["--undo"]))["action"], "detached");
    }
    more();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("every connection was answered");
    }
}

#[test]
fn every_new_connection_reaches_the_worker_that_the_hash_names_and_none_is_lost_on_the_way() {
    let cpus = needs!();
    let nginx = Nginx::start(cpus, "reuseport");
    attach_and_undo_under_load(&nginx, thread::spawn);
    let unsteered = json(&nginx.steer(&["--dry-run"]));
    assert_eq!(unsteered["action"], "none");
    assert!(
        misplaced(&nginx, &unsteered, 64) > 0,
        "after undo, the kernel's hash decides"
    );
    let document = json(&nginx.steer(&[]));
    assert_eq!(document["order_is_certain"], true);
    assert_eq!(document["mismatches"], serde_json::json!([]));
    let pinned: Vec<_> = document["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["workers"][0]["cpus"][0].clone())
        .collect();
    assert_eq!(pinned, cpus.map(Value::from));
    assert_eq!(misplaced(&nginx, &document, 300), 0);
}

/// Client addresses from a pool, the same number for each bucket, planned by the document of `steer`.
fn planned_clients(document: &Value, server: SocketAddr) -> Vec<SocketAddr> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steering.json");
    fs::write(&path, document["steering"].to_string()).unwrap();
    let (path, server) = (path.to_str().unwrap(), server.to_string());
    let pool = ["--clients", "10.11.2.2-10.11.2.250", "--flows", "300", "--json"];
    let plan = ["plan", "--server", &server, "--steering", path];
    let planned = run_json(&[&plan[..], &pool].concat());
    let buckets = planned["buckets"].as_array().unwrap().iter();
    let flows = buckets.flat_map(|bucket| bucket["flows"].as_array().unwrap());
    flows
        .map(|flow| flow[0].as_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn over_veth_planned_clients_reach_the_workers_that_they_were_planned_for() {
    let cpus = needs!();
    let Some(bed) = common::bed() else { return };
    let nginx = Nginx::start_in(&bed, cpus);
    attach_and_undo_under_load(&nginx, |client| bed.client.spawn(client).unwrap());
    let document = json(&nginx.steer(&[]));
    assert_eq!(document["mismatches"], serde_json::json!([]));
    let (address, clients) = (nginx.address, planned_clients(&document, nginx.address));
    assert_eq!(clients.len(), 300);
    let reached = |clients: Vec<SocketAddr>| {
        bed.client.run(move || {
            let connect = |source| ask(Some(source), address).expect("no connection is refused or reset");
            clients.into_iter().map(connect).collect::<Vec<_>>()
        })
    };
    let mut of_worker: BTreeMap<u32, u32> = BTreeMap::new();
    for (source, pid) in reached(clients) {
        assert_eq!(pid, named(&document, source, address), "{source}");
        *of_worker.entry(pid).or_default() += 1;
    }
    let shares: Vec<u32> = of_worker.into_values().collect();
    assert_eq!(shares, [150, 150]);
}

#[test]
fn a_document_that_numbers_cpus_otherwise_is_met_socket_by_socket() {
    let cpus = needs!();
    let nginx = Nginx::start(cpus, "reuseport");
    let mut document = json(&nginx.steer(&["--dry-run"]))["steering"].clone();
    document["cpus"] = serde_json::json!([cpus[1], cpus[0]]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steering.json");
    fs::write(&path, document.to_string()).unwrap();
    let steered = json(&nginx.steer(&["--steering", path.to_str().unwrap()]));
    let buckets = [0, 1].map(|member| steered["members"][member]["bucket"].as_u64());
    assert_eq!(buckets, [Some(1), Some(0)]);
    assert_eq!(misplaced(&nginx, &steered, 100), 0);
    // CPUs that no worker is pinned to are rejected, and nothing changes.
    document["cpus"] = serde_json::json!([cpus[0], 4000]);
    fs::write(&path, document.to_string()).unwrap();
    let output = corelane(&[])
        .args(nginx.steer(&["--steering", path.to_str().unwrap()]))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("bucket 1 is CPU 4000's"), "{error}");
    assert_eq!(misplaced(&nginx, &steered, 100), 0);
}

#[test]
fn what_is_no_group_is_refused_by_name() {
    let cpus = needs!();
    let nginx = Nginx::start(cpus, "");
    let steer = nginx.steer(&[]);
    let arguments: Vec<&str> = steer.iter().map(String::as_str).collect();
    let error = refused(&arguments, 1);
    assert!(error.contains("not a group of sockets (1 found)"), "{error}");
    let pid = std::process::id().to_string();
    let error = refused(&["steer", "--pid", &pid, "--port", "1"], 1);
    assert!(error.contains("ss -lntup"), "{error}");
    let error = refused("steer --pid 4194304 --port 80", 1);
    assert!(error.contains("no process 4194304"), "{error}");
}

/// The fullest bucket, of a table whose entries have the loads `weights`, as a multiple of the best assignment's.
fn over_best(table: &IndirectionTable, weights: &[u64]) -> f64 {
    let best = balance::rebalance(table, weights, balance::Options::new(2))
        .unwrap()
        .bound;
    let held = balance::bucket_loads(table, weights, 2);
    *held.iter().max().unwrap() as f64 / best as f64
}

/// The process that answers on an open connection.
fn worker_of(held: &mut TcpStream) -> String {
    held.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 1024]);
    while (answer.split_once("\r\n\r\n")).is_none_or(|(_, body)| body.is_empty()) {
        let length = held.read(&mut piece).expect("the open connection is not reset");
        assert!(length > 0, "the open connection is not closed");
        answer += std::str::from_utf8(&piece[..length]).unwrap();
    }
    answer.rsplit("\r\n\r\n").next().unwrap().to_owned()
}

/// Entries in turns, each as often as its weight says, evenly spread.
fn turns(weights: &[u64]) -> impl FnMut() -> usize {
    let weights: Vec<i64> = weights.iter().map(|weight| *weight as i64).collect();
    let mut owed = vec![0; weights.len()];
    move || {
        owed.iter_mut()
            .zip(&weights)
            .for_each(|(owed, weight)| *owed += weight);
        let entry = (0..owed.len()).max_by_key(|entry| owed[*entry]).unwrap();
        owed[entry] -= weights.iter().sum::<i64>();
        entry
    }
}

/// Client addresses. None comes twice: it could be that of a connection that is still open.
fn clients() -> impl Iterator<Item = SocketAddr> {
    (0..u16::MAX).flat_map(|number| {
        let [third, fourth] = number.to_be_bytes();
        (10_000..32_767).map(move |port| SocketAddr::from(([127, 12, third, fourth], port)))
    })
}

fn open(source: SocketAddr, server: SocketAddr) -> (TcpStream, String) {
    let mut connection = connect(Some(source), server).unwrap();
    let worker = worker_of(&mut connection);
    (connection, worker)
}

/// Whether packets can be sampled here, which takes CAP_NET_RAW.
fn samples_packets() -> bool {
    let opened = Socket::new(Domain::PACKET, Type::DGRAM, None);
    if let Err(error) = &opened {
        eprintln!("skipped: packets cannot be sampled here: {error}");
    }
    opened.is_ok()
}

/// `steer --rebalance` of this server, which writes its steering to `file`, once it has.
fn rebalanced(nginx: &Nginx, file: &Path) -> Child {
    let more = ["--rebalance", "--duration", "1h", "--json"];
    let steering = corelane(&[])
        .args(nginx.steer(&more))
        .arg("--write-steering")
        .arg(file)
        .arg(format!(
            "--metrics=unix:{}",
            file.with_extension("socket").display()
        ))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("steer serves", || file.exists());
    steering
}

#[test]
fn rebalancing_ends_with_the_server_and_leaves_no_program_to_the_next_one() {
    let cpus = needs!();
    if !samples_packets() {
        return;
    }
    let nginx = Nginx::start(cpus, "reuseport");
    let folder = tempfile::tempdir().unwrap();
    let steering = rebalanced(&nginx, &folder.path().join("steering.json"));
    let address = nginx.address;
    drop(nginx);
    let output = steering.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let said = "the server has ended: the program was detached; run steer again";
    assert!(error.contains(said), "{error}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["rebalanced"].is_object(), "{document}");
    // A program, or a socket that outlived the server, would keep a plain socket from its port.
    until("the port is free", || TcpListener::bind(address).is_ok());
}

#[test]
fn under_a_skewed_load_nginx_becomes_level_and_open_connections_stay() {
    let cpus = needs!();
    if !samples_packets() {
        return;
    }
    let nginx = Nginx::start(cpus, "reuseport");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steering.json");
    let steering = rebalanced(&nginx, &file);
    let read = || serde_json::from_str::<Steering>(&fs::read_to_string(&file).unwrap()).unwrap();
    let first = read();
    // By Zipf's law; the entries of bucket 0 come first.
    let rank = |entry: usize| (entry % 2) * 64 + entry / 2 + 1;
    let weights: Vec<u64> = (0..128).map(|entry| 100_000 / rank(entry) as u64).collect();
    assert!(over_best(&first.table, &weights) > 1.4, "the load is skewed");
    let (steerer, mut clients) = (first.steerer(), clients());
    let mut client = |entry| {
        let has_entry = |source: &SocketAddr| {
            let hash = steerer.hash_of(&Tuple::new(*source, nginx.address).unwrap());
            steerer.table().entry(hash) == entry
        };
        clients.find(has_entry).unwrap()
    };
    let mut held: Vec<_> = (0..128).map(|entry| open(client(entry), nginx.address)).collect();
    let mut turn = turns(&weights);
    let mut same_worker = |entry: usize| {
        let (connection, worker) = &mut held[entry];
        assert_eq!(
            worker_of(connection),
            *worker,
            "an open connection stays with its worker"
        );
    };
    let mut checked = (0..128).cycle();
    until("the fullest worker has what the best table gives it", || {
        for _ in 0..64 {
            ask(Some(client(turn())), nginx.address).expect("no connection is refused or reset");
        }
        same_worker(checked.next().unwrap());
        over_best(&read().table, &weights) <= 1.05
    });
    (0..128).for_each(same_worker);
    let endpoint = UnixStream::connect(file.with_extension("socket")).unwrap();
    let exposed = &families(&scrape::get(endpoint, ""))["corelane_steer_rebalance_moved_entries"];
    assert!(exposed.samples.values().sum::<f64>() > 0.0, "{exposed:?}");
    common::signal(steering.id(), "INT");
    let output = steering.wait_with_output().unwrap();
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        document["rebalanced"]["moved"].as_u64().unwrap() > 0,
        "{document}"
    );
    assert_eq!(
        misplaced(&nginx, &document, 200),
        0,
        "new connections follow the last table"
    );
}

#[test]
fn rebalancing_that_cannot_start_attaches_no_program() {
    let cpus = needs!();
    let nginx = Nginx::start(cpus, "reuseport");
    let more = ["--rebalance", "--write-steering", "/nowhere/steering.json"];
    let output = corelane(&[]).args(nginx.steer(&more)).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--write-steering"), "{error}");
    let undone = corelane(&[]).args(nginx.steer(&["--undo"])).output().unwrap();
    let error = String::from_utf8_lossy(&undone.stderr);
    assert!(
        !undone.status.success() && error.contains("no program"),
        "{error}"
    );
}
