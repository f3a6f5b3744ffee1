//! Tests that need a process of their own: enter a user namespace, fall back without privilege, be killed while a bed
//! exists.
//!
//! Without arguments this program is the test; with a role as its argument it is the process under test. It has no
//! harness because only a process with one thread can enter a user namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use corelane_host::bed::{Bed, BedError, BedKind, BedPlan, enter_user_namespace};
use corelane_host::limits;
use corelane_tests::{PATIENCE, until};
use nix::sys::resource::{Resource, setrlimit};

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

type Test = (&'static str, fn() -> Result<(), String>);

const TESTS: [Test; 6] = [
    (
        "without_privilege_a_bed_stands_in_a_user_namespace",
        without_privilege_a_bed_stands_in_a_user_namespace,
    ),
    (
        "in_a_user_namespace_locked_memory_stays_limited",
        in_a_user_namespace_locked_memory_stays_limited,
    ),
    (
        "a_process_with_several_threads_is_told_to_enter_earlier",
        a_process_with_several_threads_is_told_to_enter_earlier,
    ),
    (
        "root_stays_in_the_machines_own_user_namespace",
        root_stays_in_the_machines_own_user_namespace,
    ),
    (
        "without_privilege_or_user_namespace_the_bed_is_loopback_and_says_why",
        without_privilege_or_user_namespace_the_bed_is_loopback_and_says_why,
    ),
    (
        "a_killed_process_leaves_no_namespace_and_no_device",
        a_killed_process_leaves_no_namespace_and_no_device,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = arguments
        .first()
        .and_then(|argument| argument.strip_prefix("role:"))
    {
        play(role);
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in TESTS {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut failed = false;
    for (name, test) in TESTS {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        match std::panic::catch_unwind(test) {
            Ok(Ok(())) => println!("test {name} ... ok"),
            Ok(Err(reason)) => eprintln!("skipped: {name}: {reason}"),
            Err(_) => {
                println!("test {name} ... FAILED");
                failed = true;
            }
        }
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn without_privilege_a_bed_stands_in_a_user_namespace() -> Result<(), String> {
    let lines = output_of(unprivileged("user-namespace"))?;
    assert_eq!(lines, ["entered", "10.11.2.77", "fd00:11:2::77"]);
    Ok(())
}

fn in_a_user_namespace_locked_memory_stays_limited() -> Result<(), String> {
    let lines = output_of(unprivileged("lock-memory"))?;
    assert_eq!(lines, ["entered", "Some(65536)"]);
    Ok(())
}

fn a_process_with_several_threads_is_told_to_enter_earlier() -> Result<(), String> {
    let lines = output_of(unprivileged("two-threads"))?;
    if lines[0].contains("not permitted") {
        return Err(lines.concat());
    }
    assert!(lines[0].contains("single thread"), "{lines:?}");
    Ok(())
}

fn root_stays_in_the_machines_own_user_namespace() -> Result<(), String> {
    if !is_root() {
        return Err("needs root".to_owned());
    }
    permitted()?;
    let lines = output_of(myself("stay"))?;
    assert_eq!(lines, ["stayed", "Namespaces"]);
    Ok(())
}

fn without_privilege_or_user_namespace_the_bed_is_loopback_and_says_why() -> Result<(), String> {
    let lines = output_of(unprivileged("fall-back"))?;
    assert!(
        lines[0].starts_with("the loopback device of this machine: server 127.11.2.1"),
        "{lines:?}"
    );
    assert!(lines[0].contains("cannot make a network namespace"), "{lines:?}");
    assert!(
        lines[1].starts_with("cannot make a network namespace"),
        "{lines:?}"
    );
    Ok(())
}

fn a_killed_process_leaves_no_namespace_and_no_device() -> Result<(), String> {
    let mut child = myself("hold").spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let printed: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    if let Some(reason) = printed[0].strip_prefix("cannot: ") {
        child.wait().unwrap();
        return Err(reason.to_owned());
    }
    let made: BTreeSet<PathBuf> = printed.iter().map(PathBuf::from).collect();
    assert_eq!(made.len(), 2);
    assert!(made.is_subset(&namespaces_in_use()));
    child.kill().unwrap();
    child.wait().unwrap();
    until("the namespaces are gone", || {
        made.is_disjoint(&namespaces_in_use())
    });
    for device in ["server0", "client0"] {
        assert!(!fs::exists(format!("/sys/class/net/{device}")).unwrap());
    }
    Ok(())
}

/// Runs the process under test in a role. It prints its results on standard output, one line per fact, and exits with a
/// line on standard error if it cannot get one.
fn play(role: &str) {
    match role {
        "user-namespace" => {
            if print_entered() {
                for (server, pool, source) in [
                    ("10.11.2.1", "10.11.2.0/24", "10.11.2.77"),
                    ("fd00:11:2::1", "fd00:11:2::/64", "fd00:11:2::77"),
                ] {
                    let bed = Bed::build(&plan(server, pool, false)).unwrap();
                    assert_eq!(bed.kind(), BedKind::UserNamespace);
                    assert_eq!(bed.reason(), Some("not root"));
                    println!("{}", seen_by_the_server(&bed, source.parse().unwrap()));
                }
            }
        }
        "lock-memory" => {
            setrlimit(Resource::RLIMIT_MEMLOCK, 65_536, 65_536).unwrap();
            print_entered();
            println!("{:?}", limits::locked_memory());
        }
        "two-threads" => {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || ended.recv());
            println!("{}", enter_user_namespace().unwrap_err());
            drop(end);
            other.join().unwrap().unwrap_err();
        }
        "stay" => {
            print_entered();
            let bed = Bed::build(&plan("10.11.2.1", "10.11.2.0/24", false)).unwrap();
            println!("{:?}", bed.kind());
        }
        "fall-back" => {
            let bed = Bed::build(&plan("10.11.2.1", "10.11.2.0/24", true)).unwrap();
            println!("{}", bed.describe());
            let refusal = Bed::build(&plan("10.11.2.1", "10.11.2.0/24", false)).unwrap_err();
            println!("{refusal}");
        }
        "hold" => {
            // If this fails, so does the bed, which reports the reason.
            let _ = enter_user_namespace();
            let bed = match Bed::build(&plan("10.11.2.1", "10.11.2.0/24", false)) {
                Err(error @ BedError::Namespace { .. }) => return println!("cannot: {error}"),
                built => built.unwrap(),
            };
            for side in [&bed.server, &bed.client] {
                let namespace = side.run(|| fs::read_link("/proc/thread-self/ns/net").unwrap());
                println!("{}", namespace.display());
            }
            // Standard input stays open until the test kills this process or exits.
            let _ = std::io::stdin().read(&mut [0]);
        }
        other => panic!("no role {other}"),
    }
}

/// Enters a user namespace and prints whether it had to. Returns false if it cannot.
fn print_entered() -> bool {
    let entered = enter_user_namespace();
    match &entered {
        Ok(true) => println!("entered"),
        Ok(false) => println!("stayed"),
        Err(error) => eprintln!("cannot: {error}"),
    }
    entered.is_ok()
}

/// Whether this process may create namespaces as it is; root in a container often may not.
fn permitted() -> Result<(), String> {
    match Bed::build(&plan("10.11.2.1", "10.11.2.0/24", false)) {
        Err(error @ BedError::Namespace { .. }) => Err(error.to_string()),
        built => {
            built.unwrap();
            Ok(())
        }
    }
}

fn plan(server: &str, pool: &str, loopback_ok: bool) -> BedPlan {
    BedPlan {
        loopback_ok,
        ..BedPlan::new(server.parse().unwrap(), vec![pool.parse().unwrap()])
    }
}

/// Sends a datagram from `source` and returns the source address that the server saw.
fn seen_by_the_server(bed: &Bed, source: IpAddr) -> IpAddr {
    let server = SocketAddr::new(bed.server.address(), 5000);
    let listening = bed.server.run(move || UdpSocket::bind(server).unwrap());
    listening.set_read_timeout(Some(PATIENCE)).unwrap();
    bed.client.run(move || {
        let socket = UdpSocket::bind((source, 0)).unwrap();
        socket.send_to(b"x", server).unwrap();
    });
    let (_, from) = listening.recv_from(&mut [0; 8]).unwrap();
    from.ip()
}

/// This program in a role. The link in `/proc` reaches the program even if an unprivileged user may not traverse its
/// path.
fn myself(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(format!("role:{role}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// This program in a role, as a user without privilege.
fn unprivileged(role: &str) -> Command {
    let mut command = myself(role);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// The lines that a process prints, or its reason for failing.
fn output_of(mut command: Command) -> Result<Vec<String>, String> {
    let child: Child = command.stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    if let Some(reason) = errors.strip_prefix("cannot: ") {
        return Err(reason.trim().to_owned());
    }
    assert!(output.status.success(), "{errors}");
    let output = String::from_utf8(output.stdout).unwrap();
    Ok(output.lines().map(str::to_owned).collect())
}

/// The network namespaces of every thread on the machine that this process may inspect.
fn namespaces_in_use() -> BTreeSet<PathBuf> {
    let threads = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|process| fs::read_dir(process.path().join("task")).ok())
        .flat_map(Iterator::flatten);
    threads
        .filter_map(|thread| fs::read_link(thread.path().join("ns/net")).ok())
        .collect()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
