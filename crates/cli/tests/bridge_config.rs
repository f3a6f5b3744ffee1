//! `corelane bridge --config`: the file and the flags are one plan, errors name the line, and SIGHUP changes what can change.

use crate::common;
use crate::scrape::Exposing;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_stage::STAGES;
use corelane_tests::{assert_same_fields, until};
use std::fs;
use std::path::Path;

/// A file with every key; keys that exclude each other are separated by what stands behind them.
const EVERYTHING: &str = r#"
link = ["ring:left", "ring:right"]
otherwise = "drop"
not_ip = "drop"
skip_bad = true
reload_every = "2s" # first
no_reload = true # second
workers = 1
cpus = "0"
batch = 64
buckets = 2 # first
hash = "4tuple" # first
key = "intel" # first
table_size = 64 # first
steering = "STEERING" # second

[[table]]
file = "blocked.txt"
set = "blocked"
match = "src"
on_match = "count"

[dispatch]
default = "deferred"
limit = 512
ether = "direct"
ip = "direct/flow"
ip6 = "hybrid/cpu"
arp = "deferred/source"
other = "default/source"
ip_direct = "hybrid"
ip6_direct = "default"

[reassemble]
at = "owner"
overlap_ipv4 = "trim"
overlap_ipv6 = "drop"
memory = "1MiB"
datagrams = 64
fragments = 16
timeout = "5s"

[decapsulate]
kinds = ["gre", "esp"]
nesting = 2
verify = false
link = 0
keys = "keys.toml"

[coalesce]
push = "merge"
acks = "merge"
grouping = "list"

[segment]

[encapsulate]
kind = "vxlan" # first
kind = "gre" # second
vni = 7 # first
key = 7 # second
local = "192.0.2.1"
remote = "192.0.2.2"
source_mac = "02:00:00:00:00:01"
destination_mac = "02:00:00:00:00:02"
dscp = 8
ttl = 9
df = "set"
link = 1

[fragment]
mtu = 1400
"#;

/// The file without the keys of one side.
fn without(side: &str) -> String {
    let lines = EVERYTHING.lines().filter(|line| !line.ends_with(side));
    lines.map(|line| format!("{line}\n")).collect()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_schema_knows_exactly_the_fields_that_there_are() {
    assert_same_fields(
        &EVERYTHING.replace("kind = \"gre\" # second\n", ""),
        "bridge.schema.json",
    );
    for stage in STAGES {
        let section = format!("\n[{}]\n", stage.name);
        assert!(EVERYTHING.contains(&section), "{section}");
    }
    let folder = tempfile::tempdir().unwrap();
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 2).unwrap(),
        cpus: vec![0, 1],
        generation: 0,
    };
    let steering = serde_json::to_string(&steering).unwrap();
    let steering = write(folder.path(), "steering.json", &steering);
    for side in ["# first", "# second"] {
        let text = without(side).replace("STEERING", &steering);
        let file = write(folder.path(), "bridge.toml", &text);
        common::run_json(&format!("bridge --config {file} --dry-run"));
    }
}

#[test]
fn a_file_and_flags_are_one_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "bridge.toml", &without("# second"));
    let of_file = common::run_json(&format!("bridge --config {file} --dry-run"));
    let of_flags = common::run_json(
        "bridge --link ring:left --link ring:right --otherwise drop --not-ip drop --skip-bad --reload-every 2s \
         --workers 1 --cpus 0 --batch 64 --buckets 2 --hash 4tuple --key intel --table-size 64 \
         --table blocked.txt --set blocked --match src --on-match count \
         --dispatch deferred,limit=512,ether=direct,ip=direct/flow,ip6=hybrid/cpu,arp=deferred/source,other=default/source,ip_direct=hybrid,ip6_direct=default \
         --reassemble=at=owner,overlap_ipv4=trim,overlap_ipv6=drop,memory=1MiB,datagrams=64,fragments=16,timeout=5s \
         --decapsulate=kinds=gre+esp,nesting=2,verify=false,link=0,keys=keys.toml --coalesce=push=merge,acks=merge,grouping=list --segment \
         --encapsulate vxlan,vni=7,local=192.0.2.1,remote=192.0.2.2,source_mac=02:00:00:00:00:01,destination_mac=02:00:00:00:00:02,dscp=8,ttl=9,df=set,link=1 \
         --fragment 1400 --dry-run",
    );
    assert_eq!(of_file, of_flags);
}

#[test]
fn an_unknown_key_is_answered_with_those_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let links = "link = [\"ring:left\", \"ring:right\"]\n";
    for (text, message) in [
        (
            format!("{links}bucket = 2\n"),
            "line 2: there is no 'bucket': did you mean 'buckets'?",
        ),
        (
            format!("{links}[reasemble]\n"),
            "line 2: there is no 'reasemble': did you mean 'reassemble'?",
        ),
        (
            format!("{links}[shape]\n"),
            "line 2: there is no 'shape': there are link, table, otherwise, not_ip, skip_bad, reload_every, no_reload, workers, cpus, \
             batch, buckets, hash, key, table_size, steering, dispatch, reassemble, decapsulate, coalesce, segment, encapsulate, \
             fragment",
        ),
        (
            format!("{links}[fragment]\nbuckets = 2\n"),
            "line 3: unknown field `buckets`, expected `mtu`",
        ),
    ] {
        let file = write(folder.path(), "bridge.toml", &text);
        let refused = common::refused(&format!("bridge --config {file} --dry-run"), 2);
        assert!(refused.contains(message), "{text}: {refused}");
    }
}

#[test]
fn an_error_names_the_line_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let links = "link = [\"ring:left\", \"ring:right\"]\n";
    for (text, message) in [
        (
            format!("{links}\n[fragment]\nmtu = 20\n"),
            "line 4: an MTU of 20 bytes",
        ),
        (
            format!("{links}[coalesce]\npush = \"never\"\n"),
            "line 3: unknown variant `never`",
        ),
        (format!("{links}key = 'zz'\n"), "line 2: "),
        (format!("{links}workers = \n"), "line 2: "),
        (
            format!("{links}[segment]\n"),
            "line 2: segment: there are no merged segments to cut",
        ),
        (
            format!("{links}batch = 5000\n"),
            "line 2: batch: 5000 frames: give 1 to 4096",
        ),
        (
            format!("cpus = 'all'\n{links}"),
            "line 1: cpus: 'all' is no CPU list",
        ),
        (
            "link = ['ring:left']\n".to_owned(),
            "line 1: link: a bridge needs two links or more",
        ),
        (String::new(), "missing field `link`"),
        (
            format!("{links}steering = 's.json'\nbuckets = 2\n"),
            "a steering document has fields, key, table and buckets: give it alone",
        ),
    ] {
        let file = write(folder.path(), "bridge.toml", &text);
        let refused = common::refused(&format!("bridge --config {file} --dry-run"), 2);
        assert!(refused.contains(&format!("--config: {file}: ")), "{refused}");
        assert!(refused.contains(message), "{text}: {refused}");
    }
    let file = write(folder.path(), "bridge.toml", links);
    for flags in [
        "--link ring:other",
        "--reassemble",
        "--buckets 2",
        "--otherwise drop",
    ] {
        let refused = common::refused(&format!("bridge --config {file} {flags}"), 2);
        let flag = flags.split(' ').next().unwrap();
        assert!(
            refused.contains("--config") && refused.contains(flag),
            "{refused}"
        );
    }
}

#[test]
fn sighup_reads_the_file_again_and_a_refused_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = |verdict: &str, more: &str| {
        format!("link = [\"ring:config-a\", \"ring:config-b\"]\notherwise = \"{verdict}\"\n{more}")
    };
    let file = write(folder.path(), "bridge.toml", &text("pass", ""));
    let running = Exposing::start(&format!("bridge --config {file}"));
    let plans = |outcome: &str, number: u32| {
        let line = format!("corelane_bridge_plans_total{{outcome=\"{outcome}\"}} {number}\n");
        until("the plan is read", || running.scrape().contains(&line));
    };
    plans("taken", 0);
    for (number, (outcome, text)) in [
        ("taken", text("drop", "")),
        ("refused", text("drop", "batch = 7\n")),
        ("refused", text("never", "")),
    ]
    .into_iter()
    .enumerate()
    {
        write(folder.path(), "bridge.toml", &text);
        common::signal(running.process.id(), "HUP");
        plans(outcome, number.max(1) as u32);
    }
}
