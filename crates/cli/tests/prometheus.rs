//! The dashboard over real runs: Debian's Prometheus scrapes servers, generators and a bridge, evaluates every expression
//! of the dashboard, and the results are compared with the reports of the runs.
//!
//! Servers are stopped by a signal while generators start, so that Prometheus sees every count from 0, and again before
//! generators end, so that it has seen their last counts. Closed loops stand still meanwhile.

mod wanted;

use self::wanted::Expected::{AtMost, Increase};
use self::wanted::{Expected, Results, Wanted};
use crate::common;
use crate::scrape::Exposing;
use corelane_host::bed::Bed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than the run: rates over it are the increases since the start, divided by this.
const WINDOW_S: f64 = 120.0;

const SERVE_UDP: &str = "serve udp 127.0.0.1:8001 --buckets 2 --share-cpus --rebalance --watch lo --json";
const SERVE_HTTP: &str = "serve http 127.0.0.1:8002 --buckets 2 --share-cpus --json";
const LOAD_UDP: &str = "load udp 127.0.0.1:8001 --window 4 --flows 8 --duration 60s --json";
/// Its server accepts one connection, and ends then.
const LOAD_FAILING: &str = "load http http://127.0.0.1:8009/ --rate 50 --connections 1 --duration 60s --json";
const LOAD_HTTP: &str = "load http http://127.0.0.1:8002/size/1KiB --connections 4 --duration 60s --json";

/// A running Prometheus, killed when dropped.
struct Prometheus {
    process: Child,
    bed: Arc<Bed>,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts it in the server's namespace, with these instances and their ports.
    fn start(bed: &Arc<Bed>, instances: &[(&str, u16)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let targets: String = instances
            .iter()
            .map(|(name, port)| {
                format!("  - targets: ['127.0.0.1:{port}']\n    labels: {{instance: {name}}}\n")
            })
            .collect();
        let configuration = folder.path().join("prometheus.yml");
        let job =
            "scrape_configs:\n- job_name: corelane\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n";
        fs::write(&configuration, format!("{job}  static_configs:\n{targets}")).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg("--web.listen-address=127.0.0.1:9090")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = bed.server.run(move || command.spawn()).unwrap();
        Self {
            process,
            bed: Arc::clone(bed),
            _folder: folder,
        }
    }

    /// The results of an expression: labels in order, without the job, and value. Empty until Prometheus answers.
    fn query(&self, expression: &str) -> BTreeMap<String, f64> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = self.bed.server.run(move || {
            let mut stream = TcpStream::connect("127.0.0.1:9090").ok()?;
            let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            Some(answer)
        });
        let answer = answer.unwrap_or_default();
        let Some((_, body)) = answer.split_once("\r\n\r\n") else {
            return BTreeMap::new();
        };
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        assert!(body["status"] != "error", "{expression}: {body}");
        let results = body["data"]["result"].as_array().into_iter().flatten();
        let result = |result: &Value| {
            let labels = result["metric"].as_object().unwrap().iter();
            let labels = labels.filter(|(label, _)| !["job", "__name__"].contains(&label.as_str()));
            let values: Vec<&str> = labels.map(|(_, value)| value.as_str().unwrap()).collect();
            (
                values.join(" "),
                result["value"][1].as_str().unwrap().parse::<f64>().unwrap(),
            )
        };
        // A quotient or percentile of no events is not a number.
        let known = results.map(result).filter(|(_, value)| !value.is_nan());
        known.collect()
    }

    /// Waits until an expression, which is a condition, has so many results.
    fn wait(&self, expression: &str, results: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.query(expression).len() != results {
            let found = || (self.query(expression), self.query("{job=\"corelane\"}"));
            assert!(Instant::now() < deadline, "{expression}: {:?}", found());
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The expressions of the dashboard: without the selection of instances and the interval, and for all instances since the
/// start.
fn expressions() -> Vec<[String; 2]> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/corelane.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let (instance, interval) = ("{instance=~\"$instance\"}", "[$__rate_interval]");
    expressions
        .map(|expression| {
            let metrics = expression.matches("corelane_").count();
            assert_eq!(expression.matches(instance).count(), metrics, "{expression}");
            let window = format!("[{WINDOW_S}s]");
            [("", ""), ("", window.as_str())].map(|(all, window)| {
                let expression = expression.replace(instance, all);
                expression.replace(interval, window)
            })
        })
        .collect()
}

fn each(report: &Value, field: &str) -> Vec<f64> {
    let buckets = report["buckets"].as_array().unwrap().iter();
    buckets.map(|bucket| number(&bucket[field])).collect()
}

/// The sum of a field over the buckets of a report.
fn sum(report: &Value, field: &str) -> f64 {
    each(report, field).iter().sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Mean over greatest.
fn balance(loads: &[f64]) -> Expected {
    let most = loads.iter().fold(0.0, |most, load| load.max(most));
    Expected::Value(loads.iter().sum::<f64>() / loads.len() as f64 / most, 1e-9)
}

/// Whether the device could be watched: without permission there are no samples.
fn served_locality(report: &Value) -> bool {
    sum(report, "locality_samples") > 0.0
}

/// Counts by name in fields of the buckets of a report, summed over the buckets, by their labels.
fn named(report: &Value, fields: &[&str], labels: impl Fn(&str) -> String) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::<String, f64>::new();
    for bucket in report["buckets"].as_array().unwrap() {
        let counted = fields.iter().filter_map(|field| bucket[field].as_object());
        for (name, count) in counted.flatten() {
            *counts.entry(labels(name)).or_default() += number(count);
        }
    }
    counts
}

/// The rates of a server's buckets, and their sum; `metric` counts what `field` does.
fn add_loads(wanted: &mut Wanted, server: &str, metric: &str, report: &Value, field: &str) {
    wanted.rate("instance", metric, server, Increase(sum(report, field)));
    for (bucket, count) in each(report, field).into_iter().enumerate() {
        let labels = format!("{bucket} {server}");
        wanted.rate("instance, bucket", metric, &labels, Increase(count));
    }
    wanted.add(
        "corelane_serve_balance_ratio",
        server,
        balance(&each(report, field)),
    );
}

fn add_steering(wanted: &mut Wanted, server: &str, report: &Value) {
    let [right, samples] = ["right", "samples"].map(|part| sum(report, &format!("steering_{part}")));
    let rate = |part: &str| format!("sum by (instance) (rate(corelane_serve_steering_{part}_total))");
    let steering = Expected::Value(right / samples, 0.1);
    wanted.add(&format!("{} / {}", rate("ok"), rate("checked")), server, steering);
}

fn add_udp_server(wanted: &mut Wanted, report: &Value) {
    add_loads(wanted, "udp", "serve_received_datagrams_total", report, "seen");
    for (metric, field) in [
        ("answered_datagrams", "answered"),
        ("received_bytes", "seen_bytes"),
    ] {
        let count = Increase(sum(report, field));
        wanted.rate("instance", &format!("serve_{metric}_total"), "udp", count);
    }
    add_steering(wanted, "udp", report);
    for bucket in report["buckets"].as_array().unwrap() {
        let [right, samples] = ["locality_right", "locality_samples"].map(|field| number(&bucket[field]));
        let labels = format!("{} {} udp", bucket["bucket"], bucket["cpu"]);
        // Without permission to watch the device there are no samples.
        if samples > 0.0 {
            let locality = Expected::Value(right / samples, 1e-9);
            wanted.add("corelane_serve_locality_ratio", &labels, locality);
        }
    }
    let rate = "by (instance) (rate(corelane_serve_received_datagrams_total))";
    let Expected::Value(even, _) = balance(&each(report, "seen")) else {
        panic!("a value");
    };
    wanted.add(
        &format!("avg {rate} / max {rate}"),
        "udp",
        Expected::Value(even, 0.1),
    );
    let moved = Expected::Value(number(&report["rebalanced"]["moved"]), 0.0);
    wanted.add("corelane_serve_rebalance_moved_entries_total", "udp", moved);
    let dropped = named(report, &["dropped"], |cause| format!("{cause} udp"));
    wanted.by_name("cause", "serve_dropped_by_cause_total", &dropped, AtMost);
}

fn add_http_server(wanted: &mut Wanted, report: &Value) {
    add_loads(wanted, "http", "serve_requests_total", report, "requests");
    for direction in ["received", "sent"] {
        let count = Increase(sum(report, &format!("bytes_{direction}")));
        wanted.rate(
            "instance",
            &format!("serve_{direction}_bytes_total"),
            "http",
            count,
        );
    }
    let responses = named(report, &["answers"], |status| format!("http {status}"));
    // The first of a status, here of the invalid request, is no increase.
    let increase = |count| {
        if count < 100.0 {
            AtMost(count)
        } else {
            Increase(count)
        }
    };
    wanted.by_name("status", "serve_responses_total", &responses, increase);
    add_steering(wanted, "http", report);
    let causes = ["errors", "broken", "accept_failed"];
    let errors = named(report, &causes, |cause| format!("{cause} http"));
    wanted.by_name("cause", "serve_errors_by_cause_total", &errors, AtMost);
    let open = Expected::Value(sum(report, "open"), 0.0);
    wanted.add(
        "sum by (instance) (corelane_serve_open_connections)",
        "http",
        open,
    );
}

fn add_bridge(wanted: &mut Wanted, report: &Value) {
    for link in report["links"].as_array().unwrap() {
        let labels = format!("bridge {}", link["link"].as_str().unwrap());
        for direction in ["received", "sent"] {
            let metric = format!("bridge_frames_{direction}_total");
            wanted.rate(
                "instance, link",
                &metric,
                &labels,
                Increase(number(&link[direction])),
            );
        }
    }
    for (reason, count) in report["dropped"].as_object().unwrap() {
        let labels = format!("bridge {reason}");
        wanted.rate(
            "instance, reason",
            "bridge_frames_dropped_total",
            &labels,
            Increase(number(count)),
        );
    }
}

fn add_generators(wanted: &mut Wanted, [udp, http, failing]: &[Value; 3]) {
    wanted.rate(
        "instance",
        "load_ok_requests_total",
        "load-failing",
        Expected::Value(0.0, 0.0),
    );
    for (cause, not_opened) in failing["connections"]["failed"].as_object().unwrap() {
        let failed = number(&failing["requests"][cause]);
        for (metric, count) in [("failures", failed), ("not_opened", number(not_opened))] {
            let metric = format!("load_{metric}_by_cause_total");
            let labels = format!("{cause} load-failing");
            wanted.rate("instance, cause", &metric, &labels, AtMost(count));
        }
    }
    let returned = Increase(number(&udp["total"]["returned"]));
    wanted.rate("instance", "load_returned_datagrams_total", "load-udp", returned);
    let ok = Increase(number(&http["requests"]["ok"]));
    wanted.rate("instance", "load_ok_requests_total", "load-http", ok);
    for (share, metric, instance, time) in [
        ("0.5", "latency", "load-http", &http["latency"]["p50_ns"]),
        ("0.99", "latency", "load-http", &http["latency"]["p99_ns"]),
        ("0.99", "round_trip", "load-udp", &udp["round_trip"]["p99_ns"]),
    ] {
        let rate = format!("sum by (instance, le) (rate(corelane_load_{metric}_seconds_bucket))");
        // Within its bucket, whose bounds differ by up to 2.5.
        let time = Expected::Value(number(time) / 1e9, 1.5);
        wanted.add(&format!("histogram_quantile({share}, {rate})"), instance, time);
    }
}

/// The processes of the run, and the Prometheus that scrapes them.
struct Scene {
    bed: Arc<Bed>,
    /// `serve udp` and `serve http`.
    servers: [Exposing; 2],
    bridge: Exposing,
    prometheus: Prometheus,
}

impl Scene {
    fn start(bed: Arc<Bed>, list: &str) -> Self {
        let bridge =
            format!("bridge --link packet:server0 --link ring:dashboard --table {list} --match src --json");
        let bridge = exposing(&bed, &bridge, 9105);
        let servers = [exposing(&bed, SERVE_UDP, 9101), exposing(&bed, SERVE_HTTP, 9103)];
        let ports = [
            ("udp", 9101),
            ("load-udp", 9102),
            ("http", 9103),
            ("load-http", 9104),
            ("bridge", 9105),
            ("load-failing", 9106),
        ];
        let prometheus = Prometheus::start(&bed, &ports);
        prometheus.wait("corelane_serve_table_generation or corelane_bridge_link_up", 4);
        Self {
            bed,
            servers,
            bridge,
            prometheus,
        }
    }

    fn signal_servers(&self, name: &str) {
        for server in &self.servers {
            common::signal(server.process.id(), name);
        }
    }

    /// Opens a connection to the HTTP server and makes a request.
    fn open(&self) -> TcpStream {
        self.bed.server.run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:8002").unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream
        })
    }

    /// Makes the servers reject a request and drop a datagram. Returns the number of datagrams.
    fn provoke(&self) -> f64 {
        self.bed.server.run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:8002").unwrap();
            stream.write_all(b"nonsense\r\n\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            // A peer with the server's own port could be another echo.
            let peer = UdpSocket::bind("127.0.0.2:8001").unwrap();
            peer.send_to(b"refused", "127.0.0.1:8001").unwrap();
        });
        let occurred = "corelane_serve_errors_by_cause_total or corelane_serve_dropped_by_cause_total";
        self.prometheus.wait(occurred, 2);
        1.0
    }

    /// Runs the generators; returns their reports, and adds the results of their expressions.
    fn load(&self, found: &mut Results) -> [Value; 3] {
        self.signal_servers("STOP");
        let listener = self
            .bed
            .server
            .run(|| TcpListener::bind("127.0.0.1:8009"))
            .unwrap();
        let loads = [
            exposing(&self.bed, LOAD_UDP, 9102),
            exposing(&self.bed, LOAD_HTTP, 9104),
            exposing(&self.bed, LOAD_FAILING, 9106),
        ];
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        drop((listener, accepted));
        self.prometheus.wait("corelane_load_info", 3);
        self.signal_servers("CONT");
        let packets = "load packets packet:client0 --count 2k --rate 2k --flows 100 --json";
        let packets = self.bed.client.run(|| common::run_json(packets));
        assert_eq!(packets["sent"], 2_000);
        self.prometheus
            .wait("count_over_time(corelane_load_info[1m]) > 20", 3);
        self.signal_servers("STOP");
        for (times, counts) in [("latency", "ok_requests"), ("round_trip", "returned_datagrams")] {
            let counts = format!("sum by (instance) (corelane_load_{counts}_total)");
            let times = format!("sum by (instance) (corelane_load_{times}_seconds_count)");
            self.prometheus.wait(&format!("{times} == {counts} > 0"), 1);
        }
        found.extend(self.evaluate("corelane_load"));
        let reports = loads.map(Exposing::report);
        self.signal_servers("CONT");
        reports
    }

    /// The results of the dashboard's expressions over metrics with this part in their names.
    fn evaluate(&self, part: &str) -> Results {
        let evaluated = expressions().into_iter().filter(|[name, _]| name.contains(part));
        let result = |[name, expression]: [String; 2]| (name, self.prometheus.query(&expression));
        evaluated.map(result).collect()
    }
}

/// Starts a command in the server's namespace, with its endpoint on this port.
fn exposing(bed: &Bed, line: &str, port: u16) -> Exposing {
    let line = format!("{line} --metrics 127.0.0.1:{port}");
    bed.server.run(move || Exposing::of(common::corelane(&line)))
}

#[test]
fn every_expression_of_the_dashboard_gives_what_the_reports_count() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        eprintln!("skipped: the prometheus command is missing (apt install prometheus)");
        return;
    }
    let Some(bed) = common::bed().map(Arc::new) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list").display().to_string();
    fs::write(&list, "198.18.0.0/17\n").unwrap();
    let scene = Scene::start(bed, &list);
    // A status has a series once it occurred.
    drop(scene.open());
    scene.prometheus.wait("corelane_serve_responses_total > 0", 1);
    let mut found = Results::new();
    let refused = scene.provoke();
    let loads = scene.load(&mut found);
    let sent = number(&loads[0]["total"]["sent"]) + refused;
    let received = "sum by (instance) (corelane_serve_received_datagrams_total)";
    scene.prometheus.wait(&format!("{received} == {sent}"), 1);
    // The server closes connections that are idle for long.
    let open = scene.open();
    scene
        .prometheus
        .wait("sum by (instance) (corelane_serve_open_connections) == 1", 1);
    found.extend(scene.evaluate("corelane_serve"));
    found.extend(scene.evaluate("corelane_bridge"));
    let Scene { servers, bridge, .. } = scene;
    let [udp, http] = servers.map(Exposing::report);
    drop(open);
    let mut wanted = Wanted::default();
    add_udp_server(&mut wanted, &udp);
    add_http_server(&mut wanted, &http);
    add_bridge(&mut wanted, &bridge.report());
    add_generators(&mut wanted, &loads);
    if !served_locality(&udp) {
        found.remove("corelane_serve_locality_ratio");
    }
    wanted.compare(found);
}
