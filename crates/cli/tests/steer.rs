//! `corelane steer` on a server that knows nothing of it: Debian's nginx with two pinned workers, on loopback.

mod common;

use common::{corelane, refused, run_json};
use corelane_rss::{Steering, Tuple};
use serde_json::Value;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// nginx in the foreground, ended when dropped.
struct Nginx {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts two workers, pinned to the first two CPUs that this process may use, that answer with their process number.
    fn start(cpus: [u32; 2], reuseport: &str) -> Nginx {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let configuration = configuration(folder.path(), address, cpus, reuseport);
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration).unwrap();
        let process = Command::new("nginx")
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&path)
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let nginx = Nginx {
            process,
            address,
            _folder: folder,
        };
        let started = || ask(nginx.address).is_ok() && children(nginx.process.id()) == 2;
        wait_until("nginx serves", started);
        nginx
    }

    fn steer(&self, more: &[&str]) -> Vec<String> {
        let (pid, port) = (self.process.id().to_string(), self.address.port().to_string());
        let arguments = ["steer", "--pid", &pid, "--port", &port];
        arguments
            .iter()
            .chain(more)
            .map(|argument| (*argument).to_owned())
            .collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, which the master hands on to its workers.
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
         http {{ access_log off; {temporary}
           server {{ listen {address} {reuseport}; location / {{ return 200 \"$pid\"; }} }} }}",
        masks[0], masks[1]
    )
}

fn children(process: u32) -> usize {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    text.unwrap_or_default().split_whitespace().count()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what}: not within half a minute"
        );
        thread::yield_now();
    }
}

/// One connection: where it came from, and the process that answered.
fn ask(server: SocketAddr) -> io::Result<(SocketAddr, u32)> {
    let mut connection = TcpStream::connect(server)?;
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    let source = connection.local_addr()?;
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let pid = answer
        .rsplit("\r\n\r\n")
        .next()
        .and_then(|body| body.parse().ok());
    pid.map(|pid| (source, pid))
        .ok_or_else(|| io::Error::other(answer))
}

/// Two CPUs that this process may use, or why the test cannot run.
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

/// Of so many connections, those that another worker answered than the hash names.
fn misplaced(nginx: &Nginx, document: &Value, connections: u32) -> u32 {
    let steering: Steering = serde_json::from_value(document["steering"].clone()).unwrap();
    let steerer = steering.steerer();
    let mut misplaced = 0;
    for _ in 0..connections {
        let (source, pid) = ask(nginx.address).expect("no connection is refused or reset");
        let bucket = steerer.bucket_of(&Tuple::new(source, nginx.address).unwrap());
        let members = document["members"].as_array().unwrap();
        let member = members
            .iter()
            .find(|member| member["bucket"] == bucket.index())
            .unwrap();
        misplaced += u32::from(member["workers"][0]["process"] != pid);
    }
    misplaced
}

#[test]
fn every_new_connection_reaches_the_worker_that_the_hash_names_and_none_is_lost_on_the_way() {
    let cpus = needs!();
    let nginx = Nginx::start(cpus, "reuseport");
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let traffic = || {
            while !stop.load(Ordering::Relaxed) {
                ask(nginx.address).expect("no connection is refused or reset");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        };
        let clients = [scope.spawn(traffic), scope.spawn(traffic)];
        let more = || {
            let before = answered.load(Ordering::Relaxed);
            let gone = || clients.iter().any(thread::ScopedJoinHandle::is_finished);
            wait_until("connections go on", || {
                gone() || answered.load(Ordering::Relaxed) > before + 50
            });
        };
        let mut document = Value::Null;
        for _ in 0..5 {
            more();
            document = json(&nginx.steer(&[]));
            more();
            assert_eq!(json(&nginx.steer(&["--undo"]))["action"], "detached");
        }
        more();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(document["action"], "attached");
    });
    let unsteered = json(&nginx.steer(&["--dry-run"]));
    assert_eq!(unsteered["action"], "none");
    assert!(
        misplaced(&nginx, &unsteered, 64) > 0,
        "undone, the kernel's hash is not ours"
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
    let buckets: Vec<_> = steered["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["bucket"].clone())
        .collect();
    assert_eq!(buckets, [Value::from(1), Value::from(0)]);
    assert_eq!(misplaced(&nginx, &steered, 100), 0);
    // CPUs that no worker is pinned to are refused, and nothing is changed.
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
    assert!(error.contains("no group of sockets (1 there)"), "{error}");
    let pid = std::process::id().to_string();
    let error = refused(&["steer", "--pid", &pid, "--port", "1"], 1);
    assert!(error.contains("ss -lntup"), "{error}");
    let error = refused(&["steer", "--pid", "4194304", "--port", "80"], 1);
    assert!(error.contains("no process 4194304"), "{error}");
}
