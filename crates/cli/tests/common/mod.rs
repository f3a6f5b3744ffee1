//! Helpers shared by the tests of the command line: run the command and read its output.

use corelane_host::bed::Bed;
use corelane_link::capture::CaptureLink;
use corelane_link::{FrameLayout, Link};
use corelane_tests::{namespaces, namespaces_plan, until};
use corelane_worker::engine;
use nix::unistd::Uid;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The folder of saved documents of each kind.
pub const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/documents");

/// Arguments of `corelane`: one line of words without spaces, or a list.
pub trait Arguments {
    fn words(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Arguments for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl Arguments for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> Arguments for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl Arguments for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

/// Whether this engine can be had here; a note says why it cannot.
pub fn has_engine(engine: &str) -> bool {
    let requested = engine.parse().expect("an engine");
    let reason = engine::choose(Some(requested)).reason;
    if let Some(reason) = &reason {
        eprintln!("skipped: {engine}: {reason}");
    }
    reason.is_none()
}

/// The engines that can be had here; a note says why io_uring cannot.
pub fn engines() -> impl Iterator<Item = &'static str> {
    ["epoll", "io_uring"]
        .into_iter()
        .filter(|engine| has_engine(engine))
}

/// The command, with an empty standard input.
pub fn corelane<A: Arguments + ?Sized>(arguments: &A) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelane"));
    command.args(arguments.words()).stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub fn run<A: Arguments + ?Sized>(arguments: &A) -> Output {
    corelane(arguments).output().expect("the command starts")
}

/// Runs the command to its end and parses its standard output as one JSON document.
pub fn run_json<A: Arguments + ?Sized>(arguments: &A) -> Value {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "corelane {}: {error}",
        arguments.words().join(" ")
    );
    parsed(&output)
}

/// The standard output of a command as one JSON document.
pub fn parsed(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|wrong| panic!("no JSON document: {wrong}: {error}"))
}

/// Runs a shell script in a mount namespace of its own; `None`, with a note, if that is not permitted or a mount fails.
pub fn mounting(script: &str) -> Option<Output> {
    unshared("-m", script.split(" && ").next().unwrap_or_default(), script)
}

/// Runs a shell script as root in a namespace of its own, of the kind that `flag` of unshare(1) names; `None`, with a
/// note, if `tried`, a script that runs in another one before, fails.
pub fn unshared(flag: &str, tried: &str, script: &str) -> Option<Output> {
    let run = |users: &[&str], script: &str| {
        let mut unshare = Command::new("unshare");
        unshare
            .args(users)
            .args([flag, "sh", "-c", script])
            .output()
            .expect("unshare starts")
    };
    // In a user namespace root has no rights on the files of other users, such as a checkout that is not its own.
    let ways: [&[&str]; 2] = [&[], &["-r"]];
    let mut failed = Vec::new();
    for users in &ways[usize::from(!Uid::effective().is_root())..] {
        let tried = run(users, tried);
        if tried.status.success() {
            return Some(run(users, script));
        }
        failed = tried.stderr;
    }
    eprintln!("skipped: {}", String::from_utf8_lossy(&failed));
    None
}

/// Runs the command, checks the exit code, and returns its standard error.
pub fn refused<A: Arguments + ?Sized>(arguments: &A, code: i32) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "corelane {}: {error}",
        arguments.words().join(" ")
    );
    assert!(
        output.stdout.is_empty(),
        "a rejected command prints nothing on standard output"
    );
    error
}

/// This machine's `host --json`, changed so that loopback does RSS with this key and table and hashes ports of TCP
/// only.
pub fn host_with_rss(key: &str, table: &[u16]) -> Value {
    let mut document = run_json("host --json");
    let devices = document["devices"].as_array_mut().expect("devices");
    let known = |value: Value| serde_json::json!({ "value": value, "source": "the test" });
    for device in devices.iter_mut() {
        device["rss"] = serde_json::json!({ "value": null, "source": "the test", "absent_because": "none" });
    }
    let loopback = devices.iter_mut().find(|device| device["name"] == "lo");
    let loopback = loopback.expect("loopback is listed");
    loopback["rss"] = known(serde_json::json!({
        "context": 0, "function": "toeplitz", "transforms": [], "key": key, "table": table,
    }));
    let two = ["source_address", "destination_address"];
    let four = [&two[..], &["source_port", "destination_port"]].concat();
    loopback["fields"] = known(serde_json::json!({ "tcp4": four, "udp4": two, "tcp6": four, "udp6": two }));
    document
}

/// A folder that every user may reach, also if the one for temporary files, or the checkout, is below a folder of its
/// owner alone.
pub fn folder_for_anyone() -> tempfile::TempDir {
    folder_for_anyone_in(&[std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()])
}

/// A folder that every user may reach, in the first of these places that every user may reach.
pub fn folder_for_anyone_in(places: &[PathBuf]) -> tempfile::TempDir {
    let open = |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o1 != 0);
    let mut reached = places.iter().filter(|place| place.ancestors().all(open));
    let folder = reached
        .find_map(|place| tempfile::tempdir_in(place).ok())
        .unwrap_or_else(|| panic!("not every user may reach one of {places:?}"));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A folder with a copy of the program that every user may execute.
pub fn program_for_anyone() -> (tempfile::TempDir, PathBuf) {
    let folder = folder_for_anyone();
    let program = folder.path().join("corelane");
    copy(Path::new(env!("CARGO_BIN_EXE_corelane")), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, program)
}

/// Copies a file that is executed afterwards. Another process writes the copy: a child of another test may briefly
/// inherit a descriptor of this process, and a file that is open for writing cannot be executed.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(
        copied.expect("cp starts").success(),
        "{} is copied",
        from.display()
    );
}

/// An address at which no process receives datagrams: the kernel refuses what is sent there. The socket, which keeps the
/// port from others as long as it is held, is connected to somewhere else.
pub fn closed_udp_port() -> (SocketAddr, UdpSocket) {
    let keeper = UdpSocket::bind("127.77.0.1:0").unwrap();
    keeper.connect("127.77.0.2:9").unwrap();
    (keeper.local_addr().unwrap(), keeper)
}

/// An address at which no process takes connections: the kernel refuses them. The socket, which keeps the port from
/// others as long as it is held, is bound and does not listen.
pub fn closed_tcp_port() -> (SocketAddr, Socket) {
    let keeper = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    keeper
        .bind(&SocketAddr::from(([127, 77, 0, 1], 0)).into())
        .unwrap();
    (keeper.local_addr().unwrap().as_socket().unwrap(), keeper)
}

/// Held by a test while it runs a UDP lab on loopback: all of these labs have the same address and port.
pub fn alone_on_loopback() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a signal to a process; `name` is without `SIG`.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(
        sent.expect("kill is installed").success(),
        "SIG{name} reaches {process}"
    );
}

/// A JSON number as `u64`.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Two network namespaces, or `None` after printing why this machine permits none.
pub fn bed() -> Option<Bed> {
    namespaces(&namespaces_plan())
}

/// Checks that a command ended because it lacked permission, and prints that the test is skipped.
pub fn skip_without_permission(ended: Child) {
    let output = ended.wait_with_output().expect("the command ended");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{error}");
    eprintln!("skipped: {error}");
}

/// Every frame of a capture.
pub fn frames(capture: &str) -> Vec<Vec<u8>> {
    let capture = Some(Path::new(capture));
    let mut link = CaptureLink::open(capture, None, FrameLayout::default()).expect("a capture");
    let mut frames = Vec::new();
    while !link.is_ended() {
        let received = link.receive(64).expect("frames");
        frames.extend(received.iter().map(<[u8]>::to_vec));
    }
    frames
}

/// A function for bash that runs an experiment which a page or a help text shows, once more if trials failed: beside
/// other work a server may answer nothing within the tenth of a second that a trial lasts.
pub const LAB: &str = r#"
lab() {
  local more="" turn
  case "$2" in rebalance|scale) more="--max-steal 100%";; esac
  for turn in 1 2 3 4 5; do
    command corelane "$@" $more 2> lab.errors && return || local code=$?
    cat lab.errors >&2
    grep -q 'trials failed; --tolerate' lab.errors || return $code
  done
  return $code
}
"#;

/// Whether `lab scale` of this protocol can create namespaces here; prints the reason if it cannot.
pub fn namespaces_for(protocol: &str) -> bool {
    let output = run(&["lab", "scale", protocol, "--bed", "namespaces", "--dry-run"]);
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Runs an experiment, saves its document, and checks that the document shows the same text and page again. Returns the
/// text and the result of comparing the document with itself.
pub fn told_again<A: Arguments + ?Sized>(experiment: &A) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, html, again) = (file("run.json"), file("run.html"), file("again.html"));
    let text = |output: Output| String::from_utf8(output.stdout).expect("text");
    let first = text(run(&[
        &experiment.words()[..],
        &["--json", &json, "--html", &html],
    ]
    .concat()));
    assert_eq!(first, text(run(&["report", "show", &json])));
    let paged = run(&["report", "show", &json, "--html", &again]);
    assert!(paged.status.success());
    let page = |path: &str| fs::read_to_string(path).expect("the page was written");
    assert_eq!(page(&again), page(&html));
    (first, text(run(&["report", "diff", &json, &json])))
}

/// The report of a scale experiment that is run again while a step has no figures because the generator was the limit of all
/// its trials: it stood still, as a machine that pauses does.
pub fn with_figures(mut experiment: impl FnMut() -> Value) -> Value {
    let mut report = Value::Null;
    until("the generator is not the limit of all trials of a step", || {
        report = experiment();
        let (steps, rounds) = (report["steps"].as_array().unwrap(), &report["plan"]["rounds"]);
        assert!(rounds.is_u64(), "{}", report["plan"]);
        let is_limited = |step: &Value| step["trials"] == 0 && step["generator_limited_trials"] == *rounds;
        !steps.iter().any(is_limited)
    });
    report
}

/// Runs a generator until its timeline, in this file, has so many lines, and interrupts it.
pub fn load_for_lines<A: Arguments + ?Sized>(load: &A, timeline: &Path, lines: usize) -> Output {
    let mut command = corelane(load);
    command.args(["--duration", "5m", "--timeline"]).arg(timeline);
    let mut load = command.stdout(Stdio::piped()).spawn().unwrap();
    until("the timeline has its lines, or the generator has ended", || {
        newlines(timeline) >= lines || load.try_wait().unwrap().is_some()
    });
    signal(load.id(), "INT");
    load.wait_with_output().unwrap()
}

/// The number of whole lines in a file that is being written.
pub fn newlines(file: &Path) -> usize {
    let text = fs::read(file).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// A server in the background, stopped when dropped.
pub struct Server {
    process: Child,
    /// The address on which it listens.
    pub address: String,
    /// The steering document of its plan, as JSON; empty for [`of`](Self::of).
    pub steering: String,
    /// The line that it printed when it was ready.
    pub ready: String,
}

impl Server {
    /// Starts `corelane serve udp ADDRESS …` and waits until it reports that it listens.
    pub fn start<A: Arguments + ?Sized>(arguments: &A) -> Self {
        let words = [&["serve", "udp"], &arguments.words()[..]].concat();
        let mut command = corelane(&words);
        let plan = run_json(&[&words[..], &["--dry-run"]].concat());
        let mut server = Self::of(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
        server.steering = plan["steering"].to_string();
        server
    }

    /// Waits until a server, which was started with standard output piped, reports that it listens.
    pub fn of(process: Child) -> Self {
        let mut server = Self {
            process,
            address: String::new(),
            steering: String::new(),
            ready: String::new(),
        };
        let output = server.process.stdout.as_mut().expect("standard output is piped");
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(rest) = line.strip_prefix("listening on ") {
                server.address = rest.split(',').next().unwrap_or_default().to_owned();
                server.ready = line;
                return server;
            }
        }
        panic!("the server ended without printing its address");
    }
}

impl Server {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the server has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().expect("the server is a child")
    }

    /// Sends a signal to the server; `name` is without `SIG`.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Closes the reading end of its standard output.
    pub fn close_output(&mut self) {
        self.process.stdout = None;
    }

    /// The lines that the server prints from now on, until it ends.
    pub fn lines(&mut self) -> impl Iterator<Item = String> {
        let output = self.process.stdout.as_mut().expect("standard output is piped");
        BufReader::new(output).lines().map_while(Result::ok)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
