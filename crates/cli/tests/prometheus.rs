//! The dashboard over real runs: Debian's Prometheus scrapes servers, generators and a bridge, evaluates every expression
//! of the dashboard, and the results are compared with the reports of the runs.
//!
//! Servers are stopped by a signal while generators start, so that Prometheus sees every count from 0, and again before
//! generators end, so that it has seen their last counts. Closed loops stand still meanwhile.

mod reports;
mod scraper;
mod wanted;

use self::reports::{Loads, number};
use self::scraper::Prometheus;
use self::wanted::{Results, Wanted};
use crate::common;
use crate::scrape::Exposing;
use corelane_host::bed::Bed;
use corelane_link::capture::CaptureWriter;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Longer than the run: rates over it are the increases since the start, divided by this.
const WINDOW_S: f64 = 3600.0;

const SERVE_UDP: &str = "serve udp 127.0.0.1:8001 --buckets 2 --share-cpus --rebalance --watch lo --json";
const SERVE_HTTP: &str = "serve http 127.0.0.1:8002 --buckets 2 --share-cpus --json";
const SERVE_TCP: &str = "serve tcp 127.0.0.1:8003 --buckets 2 --share-cpus --json";
const SERVE_PACKETS: &str = "serve packets ring:prometheus --json";
/// Frames that it receives.
const FRAMES: u64 = 3_000;
/// One flow has most datagrams, and some of the others share its bucket, so that the server moves these to the other bucket.
const LOAD_UDP: &str =
    "load udp 127.0.0.1:8001 --window 4 --flows 64 --skew elephant:0.6 --duration 1h --json";
const LOAD_TCP: &str =
    "load tcp 127.0.0.1:8003 --connections 2 --rate-per-connection 10MB/s --duration 1h --json";
/// Its server accepts one connection, and ends then.
const LOAD_FAILING: &str = "load http http://127.0.0.1:8009/ --rate 50 --connections 1 --duration 1h --json \
                            --first-byte-timeout 1h --timeout 1h";
/// Its server may be stopped for long.
const LOAD_HTTP: &str = "load http http://127.0.0.1:8002/size/1KiB --connections 4 --duration 1h --json \
                         --first-byte-timeout 1h --timeout 1h";

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

/// The processes of the run, and the Prometheus that scrapes them.
struct Scene {
    bed: Arc<Bed>,
    /// `serve udp`, `serve http` and `serve tcp`.
    servers: [Exposing; 3],
    receiver: Exposing,
    bridge: Exposing,
    prometheus: Prometheus,
}

impl Scene {
    fn start(bed: Arc<Bed>, list: &str) -> Self {
        let bridge =
            format!("bridge --link packet:server0 --link ring:dashboard --table {list} --match src --json");
        let bridge = exposing(&bed, &bridge, 9105);
        let servers = [(SERVE_UDP, 9101), (SERVE_HTTP, 9103), (SERVE_TCP, 9107)];
        let servers = servers.map(|(line, port)| exposing(&bed, line, port));
        let receiver = exposing(&bed, SERVE_PACKETS, 9109);
        let ports = [
            ("udp", 9101),
            ("load-udp", 9102),
            ("http", 9103),
            ("load-http", 9104),
            ("bridge", 9105),
            ("load-failing", 9106),
            ("tcp", 9107),
            ("load-tcp", 9108),
            ("packets", 9109),
            ("load-packets", 9110),
        ];
        let prometheus = Prometheus::start(&bed, &ports);
        let all = "corelane_serve_table_generation or corelane_serve_received_frames_total or corelane_bridge_link_up";
        prometheus.wait(all, 6);
        Self {
            bed,
            servers,
            receiver,
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

    /// Sends frames to the bridge.
    fn bridge(&self) {
        let packets = "load packets packet:client0 --count 2k --rate 2k --flows 100 --json";
        let packets = self.bed.client.run(|| common::run_json(packets));
        assert_eq!(packets["sent"], 2_000);
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

    /// Runs the generators; returns their reports, and the one of frames, whose receiver ends with it. Adds the results of
    /// their expressions.
    fn load(&self, frames: &Path, found: &mut Results) -> (Loads, Exposing) {
        self.signal_servers("STOP");
        let listener = self
            .bed
            .server
            .run(|| TcpListener::bind("127.0.0.1:8009"))
            .unwrap();
        let loads = [
            ("load-udp", LOAD_UDP, 9102),
            ("load-http", LOAD_HTTP, 9104),
            ("load-failing", LOAD_FAILING, 9106),
            ("load-tcp", LOAD_TCP, 9108),
        ];
        let loads = loads.map(|(instance, line, port)| (instance, exposing(&self.bed, line, port)));
        let replay = format!(
            "load packets ring:prometheus --replay {} --json",
            frames.display()
        );
        let sender = exposing(&self.bed, &replay, 9110);
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        drop((listener, accepted));
        self.prometheus.wait("corelane_load_info", 5);
        self.signal_servers("CONT");
        self.prometheus
            .wait("count_over_time(corelane_load_info[1m]) > 20", 5);
        self.signal_servers("STOP");
        for (times, counts) in [("latency", "ok_requests"), ("round_trip", "returned_datagrams")] {
            let counts = format!("sum by (instance) (corelane_load_{counts}_total)");
            let times = format!("sum by (instance) (corelane_load_{times}_seconds_count)");
            self.prometheus.wait(&format!("{times} == {counts} > 0"), 1);
        }
        let written = "corelane_load_sent_bytes_total{instance=\"load-tcp\"}";
        self.prometheus
            .wait(&format!("sum(increase({written}[3s])) == 0"), 1);
        for counted in ["load_sent", "serve_received"] {
            let counted = format!("sum(corelane_{counted}_frames_total) == {FRAMES}");
            self.prometheus.wait(&counted, 1);
        }
        let moment = self.prometheus.moment("load-.*", 5);
        found.extend(self.evaluate("corelane_load", moment));
        let reports = loads.map(|(instance, load)| (instance, load.report()));
        self.signal_servers("CONT");
        (Loads::from(reports), sender)
    }

    /// Waits until Prometheus knows that the servers have received what was sent.
    fn wait_received(&self, datagrams: f64, bytes: f64) {
        let received = "sum by (instance) (corelane_serve_received_";
        let datagrams = format!("{received}datagrams_total) == {datagrams}");
        self.prometheus.wait(&datagrams, 1);
        let bytes = format!("{received}bytes_total{{instance=\"tcp\"}}) == {bytes}");
        self.prometheus.wait(&bytes, 1);
        let closed = "sum(corelane_serve_open_connections{instance=\"tcp\"}) == 0";
        self.prometheus.wait(closed, 1);
    }

    /// The results of the dashboard's expressions over metrics with this part in their names, at one moment.
    fn evaluate(&self, part: &str, moment: f64) -> Results {
        let evaluated = expressions().into_iter().filter(|[name, _]| name.contains(part));
        let result = |[name, expression]: [String; 2]| (name, self.prometheus.query_at(&expression, moment));
        evaluated.map(result).collect()
    }
}

/// Writes a capture of [`FRAMES`] frames, one per millisecond, of two that are too long for any link, and of one that
/// is due long after the run.
fn write_frames(path: &Path) {
    let mut writer = CaptureWriter::create(path).unwrap();
    let mut write = |millisecond: u64, bytes: usize| {
        let time = millisecond * 1_000_000;
        writer.write(time, bytes as u32, &vec![0; bytes]).unwrap();
    };
    (0..FRAMES).for_each(|number| write(number, 60));
    [4_000, 4_000].into_iter().for_each(|bytes| write(FRAMES, bytes));
    write(1_000_000, 60);
    writer.flush().unwrap();
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
    let frames = folder.path().join("frames.pcap");
    write_frames(&frames);
    let scene = Scene::start(bed, &list);
    // A status has a series once it occurred.
    drop(scene.open());
    scene.prometheus.wait("corelane_serve_responses_total > 0", 1);
    let mut found = Results::new();
    let refused = scene.provoke();
    scene.bridge();
    let (mut loads, sender) = scene.load(&frames, &mut found);
    let [datagrams, bytes] = [("load-udp", "sent"), ("load-tcp", "sent_bytes")]
        .map(|(load, sent)| number(&loads[load]["total"][sent]));
    scene.wait_received(datagrams + refused, bytes);
    // The server closes connections that are idle for long.
    let open = scene.open();
    scene
        .prometheus
        .wait("sum by (instance) (corelane_serve_open_connections) == 1", 1);
    let moment = scene.prometheus.moment("udp|http|tcp|packets|bridge", 5);
    found.extend(scene.evaluate("corelane_serve", moment));
    found.extend(scene.evaluate("corelane_bridge", moment));
    let queues = (scene.prometheus).query_at("corelane_serve_received_frames_total", moment);
    let Scene {
        servers,
        receiver,
        bridge,
        prometheus,
        ..
    } = scene;
    let receiver = receiver.report();
    loads.insert("load-packets", sender.report());
    let [udp, http, tcp] = servers.map(Exposing::report);
    drop(open);
    let mut wanted = Wanted::default();
    reports::add_udp_server(&mut wanted, &udp);
    reports::add_http_server(&mut wanted, &http);
    reports::add_tcp_server(&mut wanted, &tcp);
    reports::add_packet_server(&mut wanted, &receiver, &queues);
    reports::add_bridge(&mut wanted, &bridge.report());
    reports::add_generators(&mut wanted, &loads, &prometheus);
    wanted.compare(found);
}
