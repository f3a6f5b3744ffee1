//! `--memory` and `--buffer-memory`: a missing node is rejected, and in a guest with two nodes the buffers of every
//! worker lie where the policy puts them.

use crate::common::{alone_on_loopback, corelane, refused, run, run_json, signal, with_figures};
use crate::stream_server;
use corelane_guest::{GuestPlan, boot};
use corelane_tests::{guest_parts, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Bucket 0 is on node 0, bucket 1 on node 1; payloads span several pages, so that interleaving shows within one
/// datagram. Huge pages are off, because one huge page would hold everything that a few datagrams touch. NUMA balancing
/// marks pages from the start, not only after a second of CPU time: kernels 6.1 to 6.4 hide such pages from
/// move_pages(2).
const SCRIPT: &str = r#"
mount -t debugfs none /sys/kernel/debug
balancing=/sys/kernel/debug/sched/numa_balancing
for name in scan_delay_ms scan_period_min_ms scan_period_max_ms; do
  echo 10 > $balancing/$name || echo "NUMA balancing is as slow as ever"
done
serve() {
  port=$1; shift
  corelane serve udp 127.0.0.1:$port --cpus 0,2 --json "$@" > /tmp/served 2> /tmp/error &
  server=$!
  until grep -qi ":$(printf %04X $port) " /proc/net/udp; do
    kill -0 $server 2>/dev/null || { cat /tmp/error; return; }
    usleep 20000
  done
  corelane load udp 127.0.0.1:$port --cpus 1,3 --sockets 32 --window 4 --size 16KiB --count 640 > /dev/null 2> /tmp/loading || cat /tmp/loading
  kill -INT $server
  wait $server
  echo "case $*"
  cat /tmp/served
}
serve 8000
serve 8001 --memory local
serve 8002 --memory interleave
serve 8003 --memory node:0
serve 8004 --memory node:1
serve 8005 --memory node:0 --buffer-memory node:1
serve 8006 --buffer-memory interleave
serve 8007 --memory node:1 --engine io_uring
"#;

/// Page counts by node, one map per bucket, in bucket order.
type Pages = Vec<BTreeMap<u32, u64>>;

/// The cases in the script's output, keyed by the flags of each.
fn cases(output: &str) -> BTreeMap<&str, Pages> {
    let parts = output.split("case ").skip(1);
    parts
        .map(|part| {
            let (flags, document) = part.split_once('\n').unwrap_or((part, ""));
            let document: Value =
                serde_json::from_str(document).unwrap_or_else(|error| panic!("{flags}: {error}:\n{output}"));
            let buckets = document["buckets"].as_array().expect("buckets");
            let pages = buckets.iter().map(|bucket| {
                let memory = &bucket["memory"];
                serde_json::from_value(memory["buffer_pages_by_node"].clone())
                    .unwrap_or_else(|error| panic!("{flags}: {error} in {memory}"))
            });
            (flags, pages.collect())
        })
        .collect()
}

fn nodes(pages: &Pages) -> Vec<Vec<u32>> {
    pages
        .iter()
        .map(|bucket| bucket.keys().copied().collect())
        .collect()
}

#[test]
fn buffers_lie_where_the_policy_says_on_a_machine_of_two_nodes() {
    let Some(parts) = guest_parts() else { return };
    let plan = GuestPlan {
        cpus: 4,
        nodes: 2,
        programs: vec![PathBuf::from(env!("CARGO_BIN_EXE_corelane"))],
        kernel_arguments: vec!["transparent_hugepage=never".to_owned()],
        limit: Duration::from_secs(1_200),
        ..GuestPlan::new(SCRIPT)
    };
    let guest = boot(&plan, &parts).unwrap_or_else(|error| panic!("{error}"));
    assert!(!guest.output.contains("as slow as ever"), "{}", guest.output);
    let cases = cases(&guest.output);
    let own = vec![vec![0], vec![1]];
    let both = vec![vec![0, 1], vec![0, 1]];
    let expected = [
        ("", own.clone()),
        ("--memory local", own),
        ("--memory interleave", both.clone()),
        ("--memory node:0", vec![vec![0], vec![0]]),
        ("--memory node:1", vec![vec![1], vec![1]]),
        ("--memory node:0 --buffer-memory node:1", vec![vec![1], vec![1]]),
        ("--buffer-memory interleave", both),
        ("--memory node:1 --engine io_uring", vec![vec![1], vec![1]]),
    ];
    let found: Vec<_> = expected
        .iter()
        .map(|(flags, _)| (*flags, cases.get(flags).map(nodes).unwrap_or_default()))
        .collect();
    assert_eq!(found, expected, "{}", guest.output);
}

#[test]
fn a_node_that_is_not_there_is_refused_by_flag_and_number() {
    for (verb, target) in [("serve", "127.0.0.1:0"), ("load", "127.0.0.1:9")] {
        for (flag, protocol) in [
            ("--memory", "udp"),
            ("--buffer-memory", "udp"),
            ("--memory", "tcp"),
        ] {
            let error = refused(&[verb, protocol, target, flag, "node:999", "--dry-run"], 2);
            assert!(error.contains(&format!("{flag}: node 999")), "{error}");
        }
    }
    let error = refused("lab scale udp --bed loopback --memory node:999", 2);
    assert!(error.contains("--memory: node 999"), "{error}");
    let error = refused("serve udp --memory remote", 2);
    assert!(
        error.contains("first-touch, local, interleave or node:N"),
        "{error}"
    );
}

/// On any machine with NUMA in its kernel: `numa_maps` names the policy of each mapping.
#[test]
fn generators_of_streams_place_their_buffers_where_they_are_told() {
    if !PathBuf::from("/proc/self/numa_maps").exists() {
        eprintln!("skipped: this kernel does not report NUMA policies");
        return;
    }
    for (protocol, target) in [("http", "/size/64"), ("tcp", "")] {
        let server = stream_server::Server::start(protocol, "");
        let url = server.url(target);
        let target = match protocol {
            "http" => &url,
            _ => url.trim_start_matches("http://"),
        };
        let command =
            format!("load {protocol} {target} --connections 2 --buffer-memory node:0 --duration 1h --json");
        let load = corelane(&command).stdout(Stdio::piped()).spawn().unwrap();
        let maps = PathBuf::from(format!("/proc/{}/numa_maps", load.id()));
        until("buffers are bound to node 0", || {
            fs::read_to_string(&maps).unwrap().contains(" bind")
        });
        signal(load.id(), "INT");
        load.wait_with_output().unwrap();
    }
}

#[test]
fn every_trial_and_step_tells_where_the_buffers_lay() {
    let _alone = alone_on_loopback();
    let report = run_json(
        "lab scale udp --max-steal 100% --bed loopback --buckets 1 --share-cpus --duration \
20ms --rounds 1 --memory local --json",
    );
    assert_eq!(report["plan"]["memory"], "local");
    for part in ["trials", "steps"] {
        for one in report[part].as_array().unwrap() {
            for bucket in one["per_bucket"].as_array().unwrap() {
                let memory = &bucket["memory"];
                assert_eq!(memory["policy"], "local", "{part}: {memory}");
                let is_known = memory["buffer_pages_by_node"].is_object();
                assert_ne!(is_known, memory["unknown"].is_string(), "{part}: {memory}");
            }
        }
    }
}

#[test]
fn streams_tell_where_the_workers_buffers_and_each_sides_memory_lay() {
    let _alone = alone_on_loopback();
    let lab = "lab scale tcp --modes sink --size 1KiB --models exact --bed loopback --buckets 1 --share-cpus --duration 500ms \
               --rounds 1 --max-steal 100%";
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["run.json", "run.html"].map(|name| folder.path().join(name));
    let files = format!("--json={} --html {}", json.display(), html.display());
    let mut text = String::new();
    let report = with_figures(|| {
        let output = run(&format!("{lab} --memory local --connections 1k {files}"));
        assert!(output.status.success(), "{output:?}");
        text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap()
    });
    let page = fs::read_to_string(html).unwrap();
    assert_eq!(report["plan"]["memory"], "local");
    for part in ["trials", "steps"] {
        for one in report[part].as_array().unwrap() {
            let worker = &one["worker_memory"][0];
            assert_eq!(worker["policy"], "local", "{part}: {one}");
            let is_known = worker["buffer_pages_by_node"].is_object();
            assert_ne!(is_known, worker["unknown"].is_string(), "{part}: {worker}");
            if !is_known {
                eprintln!("skipped: {}", worker["unknown"]);
                continue;
            }
            for shown in [&text, &page] {
                assert!(shown.contains("memory local; pages of buffers: "), "{shown}");
                assert!(shown.matches("on node 0").count() >= 3, "{shown}");
            }
            let nodes = one["memory"]["nodes"].as_array().unwrap();
            for side in ["client_user_bytes", "server_user_bytes"] {
                let bytes: u64 = nodes.iter().map(|node| node[side].as_u64().unwrap()).sum();
                assert!(bytes > 0, "{side}: {one}");
            }
        }
    }
    let unasked = with_figures(|| run_json(&format!("{lab} --json")));
    assert_eq!(
        unasked["steps"][0]["worker_memory"][0]["policy"], "first-touch",
        "{unasked}"
    );
}

#[test]
fn generators_of_streams_tell_where_the_buffers_of_each_worker_lay() {
    for protocol in ["http", "tcp"] {
        let server = stream_server::Server::start(protocol, "");
        let target = server.url("");
        let target = target.trim_start_matches(if protocol == "tcp" { "http://" } else { "" });
        let flags = "--connections 2 --cpus 0 --memory local --duration 1s --json";
        let loaded = run_json(&format!("load {protocol} {target} {flags}"));
        let memory = &loaded["workers"][0]["memory"];
        assert_eq!(memory["policy"], "local", "{loaded}");
        let is_known = memory["buffer_pages_by_node"].is_object();
        assert_ne!(is_known, memory["unknown"].is_string(), "{memory}");
    }
}
