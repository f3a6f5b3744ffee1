//! `corelane bridge` with buckets, end to end: what is printed, and what is refused.

use crate::common;
use crate::scrape::Exposing;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};

fn capture(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("in.pcap").display().to_string();
    let out = format!("pcap:out={path}");
    common::run_json(&[
        "load",
        "packets",
        &out,
        "--count",
        "2k",
        "--sources",
        "10.0.0.0/24",
        "--json",
    ]);
    path
}

#[test]
fn every_frame_is_dispatched_once_and_the_tables_are_those_of_netstat() {
    let folder = tempfile::tempdir().unwrap();
    let input = capture(&folder);
    let output = folder.path().join("out.pcap").display().to_string();
    let links = format!("--link pcap:{input} --link pcap:out={output}");
    let bridged = common::run_json(&format!(
        "bridge {links} --buckets 4 --dispatch limit=4096 --json --force"
    ));
    assert_eq!(common::frames(&output).len(), 2000);
    let dispatch = &bridged["dispatch"];
    let streams = dispatch["workstreams"].as_array().unwrap();
    assert_eq!(streams.len(), 4 * 7);
    let sum = |protocol: &str, count: &str| -> u64 {
        let of = streams.iter().filter(|stream| stream["protocol"] == protocol);
        of.map(|stream| stream[count].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("ether", "dispatched"), sum("ip", "handled")), (2000, 2000));
    assert_eq!(sum("ip", "hybrid") + sum("ip", "queued"), 2000);
    assert!(
        streams
            .iter()
            .filter(|stream| stream["protocol"] == "ip")
            .all(|stream| stream["handled"] != 0)
    );
    assert_eq!(
        (&bridged["passed"], &bridged["dropped"]["queue_full"]),
        (&Value::from(2000), &Value::from(0))
    );

    let run = common::run(&format!(
        "bridge {links} --buckets 2 --dispatch direct,arp=deferred/source --force"
    ));
    let text = String::from_utf8(run.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in [
        "Configuration: Setting Current Limit Thread count 1 1 Default queue limit 256 10240 Dispatch policy direct n/a",
        "Protocols: Name Proto QLimit Policy Dispatch Flags ether 1 256 cpu direct C--",
        "arp 4 256 source deferred --- other 5 256 source default ---",
        "Workstreams: WSID CPU Name Len WMark Disp'd HDisp'd QDrops Queued Handled 0",
        "ip 0 0 2,000 0 0 0 2,000",
    ] {
        assert!(words.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn what_was_dispatched_is_also_printed_while_the_bridge_runs() {
    let links = "--link ring:stats-left --link ring:stats-right";
    let mut bridge = Exposing::start(&format!("bridge {links} --buckets 2 --stats"));
    let _load = Exposing::start("load packets ring:stats-left --rate 1k --duration 5m");
    let lines = BufReader::new(bridge.process.stdout.take().unwrap()).lines();
    let lines = lines.map(|line| line.unwrap());
    let mut lines = lines.skip_while(|line| !line.starts_with("received "));
    for title in ["Configuration:", "Protocols:", "Workstreams:"] {
        assert!(lines.any(|line| line == title), "{title}");
    }
    let rows = lines.by_ref().take_while(|line| !line.is_empty()).count();
    assert_eq!(rows, 1 + 2 * 7);
    assert!(lines.next().unwrap().starts_with("received "));
    common::signal(bridge.process.id(), "INT");
    assert!(lines.any(|line| line == "Workstreams:"));
}

#[test]
fn what_cannot_be_is_refused_with_what_to_give() {
    let links = "--link ring:left --link ring:right --duration 1ms";
    for (flags, message) in [
        (
            "--dispatch lazy",
            "unknown variant `lazy`, expected one of `direct`, `deferred`, `hybrid`",
        ),
        (
            "--dispatch hybrid,ip=direct/random",
            "'random': give source, flow or cpu",
        ),
        (
            "--dispatch limit=20000",
            "a queue limit of 20000: give 1 to 10240",
        ),
        ("--dispatch hybrid,direct", "'default' is given twice"),
        ("--buckets 0", "--buckets"),
        ("--buckets 4 --table-size 2", "--table-size and --buckets"),
        ("--hash 5tuple", "2tuple, 4tuple, driver, all"),
        ("--buckets 2 --steering some.json", "cannot be used with"),
        ("--table-size 5000", "--table-size and --buckets"),
        (
            "--reassemble=at=owner",
            "--reassemble: without buckets no fragment is brought to its owner",
        ),
        ("--match src", "--table <FILE>"),
        ("--on-match drop", "--table <FILE>"),
        ("--set blocked", "--table <FILE>"),
        ("--skip-bad", "--table <FILE>"),
        ("--no-reload", "--table <FILE>"),
        ("--reload-every 1s", "--table <FILE>"),
        (
            "--encapsulate ipip,local=2001:db8::1,remote=2001:db8::2,df=set",
            "--encapsulate: df: only a tunnel over IPv4 has it",
        ),
    ] {
        let refused = common::refused(&format!("bridge {links} {flags}"), 2);
        assert!(refused.contains(message), "{flags}: {refused}");
    }
    let plan = common::run_json(&format!("bridge {links} --table-size 8 --dry-run"));
    assert_eq!(plan["buckets"]["table"].as_array().unwrap().len(), 8);
}

#[test]
fn a_capture_of_whole_datagrams_changes_no_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let input = capture(&folder);
    let explained = common::run_json(&format!("bridge --explain pcap:{input} --buckets 4 --json"));
    assert_eq!(explained["schema"], "corelane/bridge-explain/1");
    assert_eq!(
        (&explained["frames"], &explained["arrived"]),
        (&2000.into(), &2000.into())
    );
    let fields = explained["fields"].as_array().unwrap();
    let names: Vec<_> = fields.iter().map(|row| row["fields"].as_str().unwrap()).collect();
    assert_eq!(names, ["2tuple", "driver", "4tuple"]);
    assert!(fields.iter().all(|row| row["change"] == 0), "{explained}");
    let error = common::refused("bridge --explain ring:none", 2);
    assert!(error.contains("--explain: give a capture"), "{error}");

    let path = |name: &str| folder.path().join(name).display().to_string();
    common::run(&format!(
        "bridge --explain pcap:{input} --buckets 4 --json={}",
        path("explained.json")
    ));
    let shown = |more: &str| common::run(&format!("report show {} {more}", path("explained.json"))).stdout;
    let printed = common::run(&format!("bridge --explain pcap:{input} --buckets 4")).stdout;
    assert_eq!(shown(""), printed);
    shown(&format!("--html {}", path("explained.html")));
    assert!(
        fs::read_to_string(path("explained.html"))
            .unwrap()
            .contains("2,000 frames of ")
    );
}

#[test]
fn a_capture_is_explained_by_the_file_of_a_bridge() {
    let folder = tempfile::tempdir().unwrap();
    let input = capture(&folder);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    let tunnel = "--encapsulate ipip,local=192.0.2.1,remote=192.0.2.2,df=unset --fragment 1000";
    common::run(&format!(
        "bridge --link pcap:{input} --link pcap:out={} {tunnel}",
        path("tunnel.pcap")
    ));
    let stages = "buckets = 4\nhash = '4tuple'\n[decapsulate]\nkinds = ['gre']\nlink = 1\n[reassemble]\nfragments = 7\n";
    write(
        "bridge.toml",
        &format!("link = ['xdp:eth0', 'tap:t0']\nbatch = 64\n{stages}[coalesce]\n[segment]\n"),
    );
    let explain = format!("bridge --explain pcap:{}", path("tunnel.pcap"));
    let of_file = common::run(&format!("{explain} --config {} --json", path("bridge.toml")));
    let of_flags = common::run(&format!(
        "{explain} --buckets 4 --hash 4tuple --decapsulate=kinds=gre --reassemble=fragments=7 --json"
    ));
    assert_eq!(of_file.stdout, of_flags.stdout);
    let document: Value = serde_json::from_slice(&of_file.stdout).unwrap();
    // IP in IP stays closed.
    assert_eq!(
        (&document["buckets"], &document["from_tunnels"]),
        (&4.into(), &0.into())
    );
    let error = String::from_utf8(of_file.stderr).unwrap();
    assert!(
        error.contains("--explain does not use batch, coalesce, link, segment"),
        "{error}"
    );
}

#[test]
fn what_is_not_explained_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    let explain = format!("bridge --explain pcap:{}", capture(&folder));
    write("owner.toml", "link = []\n[reassemble]\nat = 'owner'\n");
    write(
        "keys.toml",
        &format!("link = []\n[decapsulate]\nkeys = '{}'\n", path("absent")),
    );
    for (flags, message) in [
        ("--coalesce".to_owned(), "--coalesce"),
        ("--segment".to_owned(), "--segment"),
        ("--fragment 1000".to_owned(), "--fragment"),
        ("--encapsulate ipip".to_owned(), "--encapsulate"),
        ("--dispatch deferred".to_owned(), "--dispatch"),
        ("--link ring:a".to_owned(), "--link"),
        ("--table list".to_owned(), "--table"),
        ("--otherwise drop".to_owned(), "--otherwise"),
        ("--workers 2".to_owned(), "--workers"),
        ("--stats".to_owned(), "--stats"),
        (
            "--reassemble=at=owner".to_owned(),
            "--reassemble: at=owner: --explain makes datagrams whole where",
        ),
        (
            format!("--config {}", path("owner.toml")),
            "owner.toml: line 2: reassemble: at=owner",
        ),
        (
            "--decapsulate=kinds=gre,keys=keys.toml".to_owned(),
            "--decapsulate: keys are for esp, which is not among the kinds",
        ),
        (
            format!("--decapsulate=keys={}", path("absent")),
            "--decapsulate: ",
        ),
        (
            format!("--config {}", path("keys.toml")),
            "keys.toml: line 2: decapsulate: ",
        ),
    ] {
        let refused = common::refused(&format!("{explain} {flags}"), 2);
        assert!(refused.contains(message), "{flags}: {refused}");
    }
    let refused = common::refused(&format!("{explain},drop=1%"), 2);
    assert!(
        refused.contains("--explain: give a capture without options"),
        "{refused}"
    );
}
