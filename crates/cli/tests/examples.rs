//! Runs every example that a help text shows, line by line, in namespaces of its own: network, mounts and processes.
//! The network has loopback and two Ethernet devices, eth0 and eth1. What an example needs beside that, a server
//! or a file, is in [`preparation`].

use crate::common::{LAB, host_with_rss, run};
use crate::{infer, verify};
use corelane_rss::HashFields;
use nix::unistd::Uid;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

/// Verbs whose examples only read and compute.
const INSPECTION: &[&str] = &[
    "explain",
    "hash",
    "host",
    "infer",
    "key audit",
    "key generate",
    "plan",
    "report diff",
    "report join",
    "report merge",
    "report show",
    "table build",
    "table lookup",
    "table show",
    "verify",
];

const SERVERS: &[&str] = &[
    "bridge",
    "rss",
    "serve http",
    "serve memcached",
    "serve packets",
    "serve tcp",
    "serve udp",
    "steer",
];

const GENERATORS: &[&str] = &[
    "load http",
    "load memcached",
    "load packets",
    "load tcp",
    "load udp",
];

const SCALING: &[&str] = &[
    "lab scale http",
    "lab scale memcached",
    "lab scale tcp",
    "lab scale udp",
];

const OTHER_EXPERIMENTS: &[&str] = &[
    "lab cache",
    "lab classify",
    "lab engines",
    "lab nic",
    "lab path",
    "lab rebalance",
    "lab simulate",
];

/// The documents of `report join`.
const JOINED: &str = "{ corelane load packets pcap:out=whole.pcap --count 100 --json=load.json
    corelane bridge --link pcap:whole.pcap --link pcap:out=passed.pcap --json=bridge.json
    corelane serve packets pcap:passed.pcap --json=serve.json; } > /dev/null";

/// What the examples of a verb need, in bash.
fn preparation(verb: &str) -> &'static str {
    match verb {
        "bridge" => "echo 192.0.2.1 > blocked.txt; echo 192.0.2.2 > allowed.txt",
        "load http" => "serve http 127.0.0.1:8080",
        "load packets" => "corelane load packets pcap:out=capture.pcapng --count 100 --force > /dev/null",
        "load memcached" => "serve memcached -l 127.0.0.1 -t 1 -U 11211",
        "load tcp" => "serve tcp 127.0.0.1:9000",
        "load udp" => "serve udp 127.0.0.1:8080",
        "report diff" | "report show" => {
            "measure() {
               corelane lab scale udp --models exact --placements aligned --modes sink --duration 100ms --rounds 2 \\
                 \"${@:2}\" --json $1 > /dev/null
             }
             measure before.json --timeline run.jsonl; cp before.json run.json; measure after.json
             measure without.json; measure with.json --gso
             serve http 127.0.0.1:8080
             load() {
               corelane load http http://127.0.0.1:8080/ --duration 1s --connections $1 --json=$2 > /dev/null
             }
             load 2 few.json; load 8 many.json"
        }
        "report join" => JOINED,
        "report merge" => {
            "serve http 127.0.0.1:8080
             load() {
               corelane load http http://127.0.0.1:8080/ --duration 1s --json=$1.json --timeline $1.jsonl > /dev/null
             }
             load one; load two"
        }
        "steer" => {
            "type -P nginx > /dev/null || { echo 'nginx is not installed' >&2; exit 77; }
             mount -t tmpfs tmpfs /run; mkdir www logs
             echo 'worker_processes 2; worker_cpu_affinity auto; pid /run/nginx.pid; error_log stderr; user root;
               events { } http { access_log off; client_body_temp_path logs; proxy_temp_path logs;
               fastcgi_temp_path logs; uwsgi_temp_path logs; scgi_temp_path logs;
               server { listen 127.0.0.1:80 reuseport; root www; } }' > nginx.conf
             nginx -p $PWD -c nginx.conf
             trap 'kill $(cat /run/nginx.pid)' EXIT
             unready() { corelane steer --pid $(cat /run/nginx.pid) --port 80 --dry-run | grep 'no process waits'; }
             while unready > /dev/null; do kill -0 $(cat /run/nginx.pid) || exit 1; sleep 0.01; done"
        }
        "rss" => {
            "command corelane rss --dev eth0 --buckets 1 --dry-run > steering.json
             sudo() { case $* in *--detach) beside_attached \"$@\";; *) \"$@\";; esac; }
             beside_attached() {
               : > ready; env corelane rss --dev eth0 --attach > ready & local program=$!
               until [ -s ready ]; do kill -0 $program || exit 1; sleep 0.01; done
               command \"$@\"; wait $program
             }"
        }
        "lab nic" => "[ -w /dev/net/tun ] || { echo 'no access to /dev/net/tun' >&2; exit 77; }",
        "table build" | "table lookup" => {
            "echo 192.0.2.1 > addresses.txt
             nft() { echo '192.0.2.7'; }
             corelane table build addresses.txt --output blocklist.table > /dev/null"
        }
        _ => "",
    }
}

/// The help of a verb.
fn help(verb: &str) -> String {
    let output = run(&format!("{verb} --help"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands in a help text. What follows three spaces in a line describes it.
fn examples(help: &str) -> Vec<&str> {
    let lines = help
        .lines()
        .skip_while(|line| !line.starts_with("Example"))
        .skip(1);
    lines
        .take_while(|line| line.starts_with("  "))
        .map(|line| line.trim().split("   ").next().unwrap_or_default())
        .collect()
}

/// A bash script that runs these commands. It stops at the first that fails, and names it. What runs until it is
/// interrupted is interrupted after its first line of output; a server before a command of another program runs beside
/// it. A virtual device has no indirection table: there, `verify --dev` has to say so. Experiments accept that a hypervisor
/// withholds CPU time, which is no matter of the examples.
fn script(verb: &str, commands: &[&str]) -> String {
    let mut script = format!(
        "set -eu
         ip link set lo up
         for end in 0 1; do ip link add eth$end type veth peer name wire$end
         ip link set eth$end up; ip link set wire$end up; done
         sudo() {{ \"$@\"; }}
         corelane() {{
           case \" $* \" in
             *:eth[01]*|*tap:*|*\" --attach \"*) until_interrupted \"$@\";;
             *\" --dev eth0 --duration \"*) without_table \"$@\";;
             *\" lab \"*--dry-run*) command corelane \"$@\";;
             \" lab \"*) lab \"$@\";;
             \" load \"*) generate \"$@\";;
             *) command corelane \"$@\";;
           esac
         }}
         {LAB}
         until_interrupted() {{
           : > output; env corelane \"$@\" > output 2>&1 & local program=$!
           until [ -s output ] || ! kill -0 $program 2> /dev/null; do sleep 0.01; done
           kill -INT $program || cat output >&2
           wait $program
         }}
         # The ports of the run before are free once its ends of connections are gone, and none waits for late packets.
         echo 0 > /proc/sys/net/ipv4/tcp_max_tw_buckets
         generate() {{
           local looks=0
           while ss -Htn exclude listening sport != :8080 and sport != :9000 and sport != :11211 | grep . > left; do
             [ $((looks += 1)) -lt 6000 ] || {{ cat left >&2; exit 1; }}; sleep 0.02; done
           command corelane \"$@\"
         }}
         without_table() {{ command corelane \"$@\" 2>&1 | grep \"the device's table cannot be read\"; }}
         listens() {{ until ss -Hlntu sport = :${{1##*:}} | grep -q .; do kill -0 $! || exit 1; sleep 0.01; done; }}
         serve() {{
           command corelane serve \"$@\" --write-steering steering.json > /dev/null &
           until [ -s steering.json ]; do kill -0 $! || exit 1; sleep 0.01; done
         }}
         {}\n",
        preparation(verb)
    );
    for (index, command) in commands.iter().enumerate() {
        let beside = commands
            .get(index + 1)
            .is_some_and(|next| next.starts_with("curl"));
        let started = if beside && command.starts_with("corelane serve") {
            format!(
                "{command} & listens {}",
                command.split(' ').nth(3).unwrap_or_default()
            )
        } else {
            (*command).to_owned()
        };
        script.push_str(&format!(
            "echo {} >&2\n{started}\n",
            quoted(&format!("$ {command}"))
        ));
    }
    script
}

/// A word for bash.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Files that no command of the program writes.
fn write_files(folder: &Path) {
    let mut random = fastrand::Rng::with_seed(7);
    let mut end = || SocketAddrV4::new(random.u32(..).into(), random.u16(..));
    let flows = std::iter::repeat_with(|| [end(), end()]).take(500);
    verify::write_hashed(&folder.join("capture.pcapng"), HashFields::FourTuple, flows);
    let key = corelane_rss::Key::VERIFICATION;
    fs::write(folder.join("samples.txt"), infer::samples(&key, 0, 300, true)).unwrap();
    let mut host = host_with_rss(&key.to_string(), &[0, 1, 2, 3].repeat(32));
    let devices = host["devices"].as_array_mut().unwrap();
    devices.retain(|device| device["name"] == "lo");
    let device = &mut devices[0];
    device["name"] = "eth0".into();
    device["fields"]["value"]["udp4"] = device["fields"]["value"]["tcp4"].clone();
    fs::write(folder.join("host.json"), host.to_string()).unwrap();
}

fn try_examples(verbs: &[&str]) {
    let program = Path::new(env!("CARGO_BIN_EXE_corelane")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for verb in verbs {
        let help = help(verb);
        let commands = examples(&help);
        assert!(!commands.is_empty(), "{verb} shows no example");
        let folder = tempfile::tempdir().unwrap();
        write_files(folder.path());
        let mut command = Command::new("unshare");
        if !Uid::effective().is_root() {
            command.arg("--map-root-user");
        }
        let output = command
            .args([
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "bash",
                "-c",
            ])
            .arg(script(verb, &commands))
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) || error.starts_with("unshare:") {
            eprintln!("skipped: examples of {verb}: {error}");
            continue;
        }
        assert!(output.status.success(), "{verb}: {}\n{error}", output.status);
    }
}

/// The verbs that do something themselves: those whose help text is no list of other verbs.
fn verbs() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help");
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let verbs = names.map(|name| name.trim_end_matches(".txt").replace('-', " "));
    verbs
        .filter(|verb| verb != "corelane" && !help(verb).contains("\nCommands:\n"))
        .collect()
}

#[test]
fn every_verb_has_examples_that_are_run() {
    let run = [INSPECTION, SERVERS, GENERATORS, SCALING, OTHER_EXPERIMENTS].concat();
    let run: BTreeSet<String> = run.into_iter().map(str::to_owned).collect();
    assert_eq!(run, verbs());
}

#[test]
fn every_example_of_inspection_works() {
    try_examples(INSPECTION);
}

#[test]
fn every_example_of_servers_works() {
    try_examples(SERVERS);
}

#[test]
fn every_example_of_generators_works() {
    try_examples(GENERATORS);
}

#[test]
fn every_example_of_scaling_works() {
    try_examples(SCALING);
}

#[test]
fn every_example_of_the_other_experiments_works() {
    try_examples(OTHER_EXPERIMENTS);
}
