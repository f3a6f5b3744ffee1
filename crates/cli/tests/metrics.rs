//! `--metrics` end to end: what each verb exposes, that it is documented, and that it is what the report counts.

use crate::common;
use crate::scrape::{self, Exposing, families};
use corelane_link::capture::CaptureWriter;
use corelane_tests::{undisturbed, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Verbs with the endpoint, which need no peer.
const ALONE: [&str; 3] = [
    "serve packets ring:metrics-a",
    "bridge --link ring:metrics-b --link ring:metrics-c",
    "load packets ring:metrics-d --rate 10 --duration 60s",
];

/// The servers, and the generators that load them.
const PAIRS: [(&str, &str); 4] = [
    ("serve udp 127.0.0.1:0", "load udp {} --rate 100 --duration 60s"),
    (
        "serve tcp 127.0.0.1:0",
        "load tcp {} --connections 1 --rate 1kB/s --duration 60s",
    ),
    (
        "serve http 127.0.0.1:0",
        "load http http://{}/ --rate 100 --duration 60s",
    ),
    (
        "serve memcached -l 127.0.0.1:0 -t 1",
        "load memcached {} --keys 1k --rate 100 --duration 60s",
    ),
];

/// What each verb exposes.
fn exposed() -> Vec<(String, String)> {
    let verb = |line: &str| {
        let words = line
            .split(' ')
            .take_while(|word| word.chars().all(char::is_lowercase));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut exposed: Vec<(String, String)> = ALONE
        .iter()
        .map(|line| (verb(line), Exposing::start(*line).scrape()))
        .collect();
    for (serve, load) in PAIRS {
        let mut server = Exposing::start(serve);
        let load = load.replace("{}", &server.listening());
        exposed.push((verb(&load), Exposing::start(&load).scrape()));
        exposed.push((verb(serve), server.scrape()));
    }
    exposed
}

#[test]
fn the_documentation_lists_what_each_verb_exposes() {
    let mut rows = BTreeMap::<(String, String, String), Vec<String>>::new();
    for (verb, text) in exposed() {
        for (name, family) in families(&text) {
            let end = match family.kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let key = (format!("{name}{end}"), family.kind, family.about);
            rows.entry(key).or_default().push(verb.clone());
        }
    }
    let head = "| metric | type | of | meaning |\n|---|---|---|---|\n";
    let table = rows.iter_mut().map(|((name, kind, about), verbs)| {
        verbs.sort();
        format!("| `{name}` | {kind} | {} | {about} |\n", verbs.join(", "))
    });
    let table = head.to_owned() + &table.collect::<String>();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/METRICS.md");
    let text = fs::read_to_string(&page).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let (before, after) = text.split_once(head).unwrap();
        let after = after.split_once("\n\n").map_or("", |(_, after)| after);
        fs::write(&page, format!("{before}{table}\n{after}")).unwrap();
        return;
    }
    assert!(
        text.contains(&format!("\n\n{table}\n")),
        "docs/METRICS.md lacks this table; if meant, run with UPDATE_GOLDEN=1:\n{table}"
    );
}

#[test]
fn series_grow_with_buckets_as_documented_and_not_with_flows() {
    for (serve, load) in [
        ("serve udp", "load udp {} --count 2k --window 64 --flows 64"),
        ("serve tcp", "load tcp {} --connections 64 --duration 1s"),
        ("serve http", "load http http://{}/ --connections 64 --count 2k"),
    ] {
        for buckets in [2, 16] {
            let mut server = Exposing::start(&format!(
                "{serve} 127.0.0.1:0 --buckets {buckets} --share-cpus --rebalance"
            ));
            let load = load.replace("{}", &server.listening());
            assert!(
                common::corelane(&load).output().unwrap().status.success(),
                "{load}"
            );
            let text = server.scrape();
            let series = text.lines().filter(|line| !line.starts_with('#')).count();
            assert!(
                series <= 40 + 16 * buckets,
                "{serve}: {series} of {buckets} buckets"
            );
        }
    }
}

/// The value of one sample.
fn sample(text: &str, name: &str) -> f64 {
    let families = families(text);
    let found = families.values().find_map(|family| family.samples.get(name));
    *found.unwrap_or_else(|| panic!("{name}: {text}"))
}

#[test]
fn a_server_exposes_the_counts_of_each_bucket_that_its_report_has() {
    undisturbed(|| {
        let rule = "--buckets 2 --share-cpus";
        let mut server = Exposing::start(&format!("serve udp 127.0.0.1:0 {rule} --json=/dev/stderr"));
        let address = server.listening();
        let loaded = common::run_json(&format!(
            "load udp {address} --count 1k --window 8 --flows 16 --loss-timeout 10s --json"
        ));
        let sent = common::number(&loaded["total"]["sent"]);
        let name = |bucket: usize, text: &str| {
            let label = format!("_total{{bucket=\"{bucket}\",");
            let mut lines = text.lines().filter(|line| line.contains(&label));
            let line = lines.find(|line| line.starts_with("corelane_serve_received_datagrams"));
            line.unwrap().rsplit_once(' ').unwrap().0.to_owned()
        };
        let (mut text, mut seen) = (String::new(), [0.0; 2]);
        until("the server has counted what was sent", || {
            text = server.scrape();
            seen = [0, 1].map(|bucket| sample(&text, &name(bucket, &text)));
            seen.iter().sum::<f64>() >= sent as f64
        });
        common::signal(server.process.id(), "INT");
        let mut error = String::new();
        std::io::Read::read_to_string(server.process.stderr.as_mut().unwrap(), &mut error).unwrap();
        let served: Value = serde_json::from_str(&error[error.find('{').unwrap()..]).unwrap();
        let buckets = served["buckets"].as_array().unwrap();
        let counted: Vec<f64> = buckets
            .iter()
            .map(|bucket| bucket["seen"].as_f64().unwrap())
            .collect();
        assert_eq!(counted, seen, "{text}");
        let most = seen[0].max(seen[1]);
        assert_eq!(
            sample(&text, "corelane_serve_balance_ratio"),
            sent as f64 / 2.0 / most
        );
    });
}

/// The failures by cause that a generator exposes, once there are so many.
fn failures(load: &Exposing, all: f64) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    until("the failures are counted", || {
        let mut families = families(&load.scrape());
        found = families
            .remove("corelane_load_failures_by_cause")
            .unwrap()
            .samples;
        found.values().sum::<f64>() == all
    });
    let cause = |sample: &str| sample.split('"').nth(1).unwrap().to_owned();
    let found = found.into_iter();
    found.map(|(sample, count)| (cause(&sample), count)).collect()
}

/// The non-zero counts of an object in a report, with this prefix to their names.
fn named(prefix: &str, counts: &Value) -> BTreeMap<String, f64> {
    let counts = counts.as_object().unwrap().iter();
    let counts = counts.filter_map(|(name, count)| Some((format!("{prefix}{name}"), count.as_f64()?)));
    counts.filter(|(_, count)| *count > 0.0).collect()
}

#[test]
fn failures_of_datagrams_have_the_causes_and_counts_of_the_report() {
    undisturbed(|| {
        let (closed, _keeper) = common::closed_udp_port();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The second datagram of each is due in 100 s.
        let load = |address| {
            Exposing::start(&format!(
                "load udp {address} --rate 0.01 --duration 300s --workers 1 --json"
            ))
        };
        let (unanswered, answered) = (load(closed), load(server.local_addr().unwrap()));
        let mut request = [0; 2_048];
        let (length, from) = server.recv_from(&mut request).unwrap();
        for answer in [
            &request[..length],
            &b"nonsense"[..],
            &b"nonsense"[..],
            &request[..length],
        ] {
            server.send_to(answer, from).unwrap();
        }
        let expected = BTreeMap::from([("network_refused".to_owned(), 1.0)]);
        assert_eq!(failures(&unanswered, 1.0), expected);
        let report = unanswered.report();
        assert_eq!(named("network_", &report["total"]["network_errors"]), expected);
        let found = failures(&answered, 3.0);
        let total = &answered.report()["total"];
        let expected = BTreeMap::from(
            ["corrupted", "duplicated"].map(|cause| (cause.to_owned(), total[cause].as_f64().unwrap())),
        );
        assert_eq!(
            (found, &total["corrupted"]),
            (expected, &Value::from(2)),
            "{total}"
        );
    });
}

#[test]
fn frames_that_are_not_sent_have_the_causes_and_counts_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("frames.pcap");
    let mut writer = CaptureWriter::create(&file).unwrap();
    // The last one is due in 100 s.
    for (time, length) in [(0, 60), (1, 4_000), (2, 4_000), (100_000_000_000, 60)] {
        writer.write(time, length, &vec![0; length as usize]).unwrap();
    }
    writer.flush().unwrap();
    let load = format!("load packets ring:metrics-e --replay {} --json", file.display());
    let load = Exposing::start(&load);
    let found = failures(&load, 2.0);
    let report = load.report();
    assert_eq!(found, named("", &report["dropped"]));
    assert_eq!(found, BTreeMap::from([("oversized".to_owned(), 2.0)]));
}

#[test]
fn a_socket_file_serves_either_format_and_is_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    let arguments = format!("serve udp 127.0.0.1:0 --metrics unix:{}", path.display());
    let process = common::corelane(&arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn();
    let mut server = common::Server::of(process.unwrap());
    let get = |fields: &str| scrape::get(UnixStream::connect(&path).unwrap(), fields);
    assert!(families(&get("")).contains_key("corelane_serve"));
    let text = get("Accept: text/plain\r\n");
    assert!(
        text.starts_with("# TYPE corelane_serve_info gauge\n") && !text.contains("# EOF"),
        "{text}"
    );
    server.signal("INT");
    assert!(server.wait().success());
    assert!(!path.exists());
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for verb in [
        "serve udp 127.0.0.1:0",
        "load udp 127.0.0.1:9",
        "bridge --link ring:taken-a --link ring:taken-b",
    ] {
        let error = common::refused(&format!("{verb} --metrics {address}"), 2);
        assert!(error.contains("--metrics") && error.contains("in use"), "{error}");
    }
    assert!(TcpStream::connect(address).is_ok());
}
