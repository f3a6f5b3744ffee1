//! A server under test, managed by the lab: Debian's nginx, and servers that do not start.

use crate::common;
use corelane_host::bed::Bed;
use corelane_host::counters::Family;
use corelane_host::cpus;
use corelane_lab::child::{ServerProcess, Subject, SubjectPlan};
use corelane_tests::{PATIENCE, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const PORT: u16 = 8080;

fn plan(bed: &Bed, command: &str) -> SubjectPlan {
    SubjectPlan {
        command: command.to_owned(),
        address: SocketAddr::new(bed.server.address(), PORT),
        cpus: vec![*cpus::allowed().unwrap().cpus.last().unwrap()],
        ready_within_ms: PATIENCE.as_millis() as u64,
    }
}

fn start(bed: &Bed, plan: &SubjectPlan) -> Result<ServerProcess<Subject>, String> {
    let program = Path::new(env!("CARGO_BIN_EXE_corelane"));
    let started = ServerProcess::<Subject>::start(program, &bed.server, plan, &AtomicBool::new(false));
    started.map_err(|error| error.to_string())
}

/// The command for nginx with its files in `folder`; `None` after printing that it is not installed.
fn nginx(folder: &Path, daemon: &str) -> Option<String> {
    if !Path::new("/usr/sbin/nginx").exists() {
        eprintln!("skipped: nginx is not installed (tests/prepare.sh)");
        return None;
    }
    let place = folder.display();
    let configuration = format!(
        "daemon {daemon}; worker_processes 2; pid {place}/pid; error_log {place}/errors;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; client_body_temp_path {place}; proxy_temp_path {place};\n\
         fastcgi_temp_path {place}; uwsgi_temp_path {place}; scgi_temp_path {place};\n\
         server {{ listen 8080; return 200 pong; }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), configuration).unwrap();
    Some(format!("nginx -e {place}/errors -c {place}/nginx.conf"))
}

/// The processes of the subject, without its keeper.
fn members(subject: &ServerProcess<Subject>) -> BTreeSet<u32> {
    let members: BTreeSet<u32> = Family::below(subject.pid())
        .unwrap()
        .members
        .into_keys()
        .collect();
    assert!(!members.contains(&subject.pid()));
    members
}

fn get(bed: &Bed) -> String {
    let server = bed.server.address();
    bed.client.run(move || {
        let mut stream = TcpStream::connect((server, PORT)).unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

/// The CPUs that a process may use; `None` if it has ended, as one does that starts its master behind itself.
fn cpus_of(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = status.lines();
    let cpus = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Some(cpus.unwrap().trim().to_owned())
}

fn lives(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn nginx_answers_on_the_cpus_it_was_given_and_ends_with_its_workers_in_front_or_behind() {
    for daemon in ["off", "on"] {
        let folder = tempfile::tempdir().unwrap();
        let (Some(bed), Some(command)) = (common::bed(), nginx(folder.path(), daemon)) else {
            return;
        };
        let plan = plan(&bed, &command);
        let subject = start(&bed, &plan).unwrap();
        assert!(get(&bed).ends_with("pong"));
        let (mut members, cpu) = (BTreeSet::new(), plan.cpus[0].to_string());
        until("a master and two workers run", || {
            members = self::members(&subject);
            let allowed: Vec<String> = members.iter().filter_map(|member| cpus_of(*member)).collect();
            assert!(allowed.iter().all(|cpus| *cpus == cpu), "{allowed:?}");
            allowed.len() >= 3
        });
        let family = Family::below(subject.pid()).unwrap();
        assert!(family.cpu_ns() > 0 && family.memory_bytes().unwrap() > 0);
        drop(subject);
        assert!(!members.iter().any(|member| lives(*member)), "daemon {daemon}");
        assert!(
            !folder.path().join("pid").exists(),
            "the signal ended it, without a kill"
        );
    }
}

#[test]
fn a_keeper_that_is_killed_takes_the_subject_along() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(bed), Some(command)) = (common::bed(), nginx(folder.path(), "on")) else {
        return;
    };
    let subject = start(&bed, &plan(&bed, &command)).unwrap();
    let members = members(&subject);
    common::signal(subject.pid(), "KILL");
    until("everything that the subject started has ended", || {
        !members.iter().any(|member| lives(*member))
    });
}

#[test]
fn a_subject_that_does_not_start_is_told_in_its_own_words() {
    let Some(bed) = common::bed() else { return };
    let error_of = |command: &str| start(&bed, &plan(&bed, command)).err().unwrap();
    let gone = error_of("echo cannot open the door >&2; exit 3");
    assert!(
        gone.contains("ended before it listened on 10.11.2.1:8080"),
        "{gone}"
    );
    assert!(
        gone.contains("exit code 3") && gone.contains("cannot open the door"),
        "{gone}"
    );
    let missing = error_of("exec no-such-server-anywhere");
    assert!(
        missing.contains("exit code 127") && missing.contains("not found"),
        "{missing}"
    );
    let killed = error_of("kill -9 $$");
    assert!(killed.contains("signal SIGKILL"), "{killed}");
}

#[test]
fn a_probe_of_a_port_that_nothing_listens_on_does_not_connect_to_itself() {
    const ONLY: u16 = 40_000;
    let Some(bed) = common::bed() else { return };
    // Every connection of this namespace has the server's port as its own.
    let range = "/proc/sys/net/ipv4/ip_local_port_range";
    if let Err(error) = bed.server.run(move || fs::write(range, format!("{ONLY} {ONLY}"))) {
        eprintln!("skipped: {range}: {error}");
        return;
    }
    let plan = SubjectPlan {
        address: SocketAddr::new(bed.server.address(), ONLY),
        ready_within_ms: 5_000,
        ..plan(&bed, "echo waiting for a key; exec sleep 1000")
    };
    let error = start(&bed, &plan).err().unwrap();
    assert!(error.contains("accepts nothing on 10.11.2.1:40000"), "{error}");
    assert!(error.contains("it said: waiting for a key"), "{error}");
}

#[test]
fn a_trial_that_is_lost_fails_the_run_unless_that_is_tolerated() {
    if !common::namespaces_for("http") {
        return;
    }
    let program = env!("CARGO_BIN_EXE_corelane");
    for (tolerate, code) in [(None, 1), (Some("--tolerate"), 0)] {
        let folder = tempfile::tempdir().unwrap();
        let flag = folder.path().join("served").display().to_string();
        let subject = format!(
            "test -e {flag} && {{ echo out of licences; exit 3; }}; touch {flag}; \
             exec {program} serve http $CORELANE_ADDRESS:$CORELANE_PORT --share-cpus"
        );
        let lab = "lab scale http --max-steal 100% --duration 1s --rounds 2 --active 1 --connections 8 --bed \
                   namespaces --subject";
        let words = lab.split_whitespace().chain([subject.as_str()]).chain(tolerate);
        let output = common::run(&words.collect::<Vec<_>>());
        let [text, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert_eq!(output.status.code(), Some(code), "{error}\n{text}");
        assert!(text.contains("out of licences"), "{text}");
        assert_eq!(error.contains("1 of 2 trials failed"), code == 1, "{error}");
    }
}

#[test]
fn a_subject_that_dies_in_the_first_trial_leaves_a_report_that_names_it() {
    if !common::namespaces_for("http") {
        return;
    }
    // It is killed as soon as the first connection is established.
    let subject = format!(
        "{} serve http $CORELANE_ADDRESS:$CORELANE_PORT --share-cpus & \
         until grep -q ':1F90 .* 01 ' /proc/net/tcp; do sleep 0.01; done; kill -9 $!; wait $!; echo out of licences; exit 3",
        env!("CARGO_BIN_EXE_corelane")
    );
    let lab = "lab scale http --max-steal 100% --duration 5s --rounds 1 --active 1 --connections 8 --bed \
               namespaces --json --subject";
    let words = lab.split_whitespace().chain([subject.as_str()]);
    let output = common::run(&words.collect::<Vec<_>>());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let ended = "the subject ended by itself (exit code 3); it said: ";
    assert!(error.contains(ended), "{error}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let trials = report["trials"].as_array().unwrap();
    assert_eq!((trials.len(), &trials[0]["status"]), (1, &"failed".into()));
    let why = trials[0]["why"].as_str().unwrap();
    assert!(why.contains(ended) && why.ends_with("out of licences"), "{why}");
}

#[test]
fn a_subject_that_listens_elsewhere_is_given_up_and_ended() {
    let Some(bed) = common::bed() else { return };
    let plan = SubjectPlan {
        ready_within_ms: 5_000,
        ..plan(
            &bed,
            "echo listening on $CORELANE_ADDRESS:1, $CORELANE_CPUS CPU; exec sleep 1000",
        )
    };
    let error = start(&bed, &plan).err().unwrap();
    assert!(error.contains("accepts nothing on 10.11.2.1:8080"), "{error}");
    assert!(
        error.contains("it said: listening on 10.11.2.1:1, 1 CPU"),
        "{error}"
    );
}

#[test]
fn a_subject_that_listens_on_another_port_is_named_with_it() {
    let Some(bed) = common::bed() else { return };
    let program = env!("CARGO_BIN_EXE_corelane");
    let command = format!("exec {program} serve tcp $CORELANE_ADDRESS:1234 --share-cpus");
    let plan = plan(&bed, &command);
    let error = start(&bed, &plan).err().unwrap();
    assert!(
        error.contains("the subject listens on 10.11.2.1:1234, not on 10.11.2.1:8080"),
        "{error}"
    );
}
