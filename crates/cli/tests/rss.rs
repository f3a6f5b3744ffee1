//! `corelane rss` on a veth pair: other verbs know it, its table changes while it runs, and it is gone however it ends.

use crate::common::{bed, corelane, parsed, refused, signal, skip_without_permission, unshared};
use corelane_host::bed::{Bed, Side};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_tests::until;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::thread;

/// Runs the command in a side of the bed.
fn in_side(side: &Side, arguments: &str) -> Value {
    let mut command = corelane(arguments);
    parsed(&side.run(move || command.output().unwrap()))
}

fn host(bed: &Bed) -> Value {
    let all = in_side(&bed.server, &format!("host --dev {} --json", bed.server.device()));
    all["devices"][0].clone()
}

/// `rss --attach` on the server's end; killed when dropped.
struct Attached {
    process: Option<Child>,
    output: BufReader<ChildStdout>,
}

impl Attached {
    /// Waits until it is attached; `None` after printing why this machine does not permit it.
    fn start(bed: &Bed, more: &str) -> Option<Attached> {
        let mut command = corelane(&format!("rss --dev {} --attach {more}", bed.server.device()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = bed.server.run(move || command.spawn().unwrap());
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut ready = String::new();
        output.read_line(&mut ready).unwrap();
        if ready.is_empty() {
            skip_without_permission(process);
            return None;
        }
        assert!(
            ready.contains("steers by 4tuple, 128 entries, 2 buckets"),
            "{ready}"
        );
        Some(Attached {
            process: Some(process),
            output,
        })
    }

    fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Waits until it ends: its code, what it printed, what it logged.
    fn end(mut self) -> (Option<i32>, String, String) {
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).unwrap();
        let ended = self.process.take().unwrap().wait_with_output().unwrap();
        (
            ended.status.code(),
            printed,
            String::from_utf8(ended.stderr).unwrap(),
        )
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn steering(entries: &[u16], cpus: [u32; 2], generation: u64) -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::from_entries(entries.iter().map(|entry| Bucket::new(*entry)).collect())
            .unwrap(),
        cpus: cpus.to_vec(),
        generation,
    }
}

fn write(path: &Path, steering: &Steering) {
    fs::write(path, serde_json::to_string(steering).unwrap()).unwrap();
}

/// The first and the last CPU that this process may use.
fn two_cpus() -> [u32; 2] {
    let allowed = corelane_host::cpus::allowed().unwrap().cpus;
    [allowed[0], allowed[allowed.len() - 1]]
}

/// Sends a megabyte to the server's side and back, in segments that the sender leaves to the device to cut.
fn echoed(bed: &Bed) {
    let address = SocketAddr::new(bed.server.address(), 0);
    let listener = bed.server.run(move || TcpListener::bind(address).unwrap());
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let copied = std::io::copy(&mut &stream, &mut &stream);
        copied.unwrap()
    });
    let mut stream = bed.client.run(move || TcpStream::connect(address).unwrap());
    let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number >> 3) as u8).collect();
    let (mut writing, bytes) = (stream.try_clone().unwrap(), sent.clone());
    let writer = thread::spawn(move || {
        writing.write_all(&bytes).unwrap();
        writing.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writer.join().unwrap();
    assert_eq!(server.join().unwrap(), sent.len() as u64);
    assert!(received == sent, "{} bytes came back", received.len());
}

/// `verify` finds frames on the CPU that the rule names.
fn is_verified(bed: &Bed, rule: &Steering) {
    let mut command = corelane(&format!("verify --dev {} --count 40 --json", bed.server.device()));
    let mut verify = bed
        .server
        .run(move || command.stdout(Stdio::piped()).spawn().unwrap());
    let to = SocketAddr::new(bed.server.address(), 9);
    until("frames are verified", || {
        // Refused by the server, if it says so in time.
        let from = SocketAddr::new(bed.client.address(), 0);
        let client = bed.client.run(move || UdpSocket::bind(from).unwrap());
        client.send_to(&[0; 20], to).unwrap();
        verify.try_wait().unwrap().is_some()
    });
    let output = verify.wait_with_output().unwrap();
    let document = parsed(&output);
    assert!(output.status.success(), "{document}");
    assert_eq!(
        (&document["misplaced"], &document["frames"]),
        (&json!(0), &json!(40))
    );
    assert_eq!(document["rule_from"]["software_rss"]["steering"], json!(rule));
}

/// `explain` names the CPU that the rule does, of a flow and of its fragments.
fn is_explained(bed: &Bed, rule: &Steering) {
    let ends = [
        "10.11.2.9:4000".parse().unwrap(),
        SocketAddr::new(bed.server.address(), 80),
    ];
    let tuple = Tuple::new(ends[0], ends[1]).unwrap();
    let arguments = format!(
        "explain {} {} --dev {} --json",
        ends[0],
        ends[1],
        bed.server.device()
    );
    let path = &in_side(&bed.server, &arguments)["directions"][0];
    let hash = rule.steerer().hash_of(&tuple);
    let cpu = |rule: &Steering| rule.cpus[rule.steerer().bucket_of(&tuple).index()];
    assert_eq!(path["hash"], format!("0x{hash:08x}"));
    assert_eq!(path["entry"], rule.table.entry(hash));
    assert_eq!(
        (&path["cpu"], &path["cpu_confidence"]),
        (&json!(cpu(rule)), &json!("certain"))
    );
    let of_fragments = Steering {
        hash_fields: HashFields::TwoTuple,
        ..rule.clone()
    };
    assert_eq!(path["fragments"]["cpu"], cpu(&of_fragments));
}

#[test]
fn other_verbs_know_the_steering_which_changes_and_is_gone_after_sigkill() {
    let Some(bed) = bed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steering.json");
    let cpus = two_cpus();
    write(&file, &steering(&[0, 1].repeat(64), cpus, 0));
    let Some(attached) = Attached::start(&bed, &format!("--steering {}", file.display())) else {
        return;
    };
    echoed(&bed);
    let own = |device: &Value| device["software_rss"].clone();
    let known = own(&host(&bed));
    assert_eq!(known["process"], attached.id());
    assert_eq!(known["steering"]["cpus"], json!(cpus));
    let rule = steering(&[0, 1].repeat(64), cpus, 0);
    is_explained(&bed, &rule);
    is_verified(&bed, &rule);

    // All entries of bucket 1.
    write(&file, &steering(&[1; 128], cpus, 1));
    signal(attached.id(), "HUP");
    until("the table is changed", || {
        own(&host(&bed))["steering"]["generation"] == 1
    });
    is_explained(&bed, &steering(&[1; 128], cpus, 1));
    echoed(&bed);

    signal(attached.id(), "KILL");
    until("the program is gone", || {
        let device = host(&bed);
        device["link"]["xdp"].is_null() && own(&device).is_null()
    });
    echoed(&bed);
}

#[test]
fn counts_are_reported_at_the_end_also_when_another_process_detaches() {
    let Some(bed) = bed() else { return };
    let cpus = two_cpus();
    let cpus = format!("--cpus {},{} --share-cpus --buckets 2", cpus[0], cpus[1]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rss.json");
    let more = format!("{cpus} --inner --json={}", file.display());
    let Some(attached) = Attached::start(&bed, &more) else {
        return;
    };
    echoed(&bed);
    let mut detach = corelane(&format!("rss --dev {} --detach", bed.server.device()));
    let detached = bed.server.run(move || detach.output().unwrap());
    assert!(detached.status.success(), "{detached:?}");
    let (code, printed, logged) = attached.end();
    assert_eq!(code, Some(0), "{logged}");
    assert!(logged.contains("the program was detached"), "{logged}");
    assert!(
        printed.contains("lost as the queue of their CPU was full 0"),
        "{printed}"
    );
    let document: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(document["schema"], "corelane/rss/1");
    assert_eq!(document["inner"], true);
    let sum = |counts: Vec<&Value>| counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>();
    let sent = sum(document["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["frames"])
        .collect());
    let arrived = sum(document["arrived"].as_object().unwrap().values().collect());
    assert!(sent > 0);
    assert_eq!((sent - arrived, &document["queue_full"]), (0, &json!(0)));
    assert!(host(&bed)["link"]["xdp"].is_null());
}

#[test]
fn a_device_that_vanishes_ends_it_with_an_error() {
    let Some(bed) = bed() else { return };
    let Some(attached) = Attached::start(&bed, "--buckets 2 --share-cpus") else {
        return;
    };
    let device = bed.server.device().to_owned();
    let gone = bed.server.run(move || {
        let mut ip = std::process::Command::new("ip");
        ip.args(["link", "delete", &device]).status().unwrap()
    });
    assert!(gone.success());
    let (code, _, logged) = attached.end();
    assert_eq!(code, Some(1), "{logged}");
    assert!(logged.contains("is gone"), "{logged}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for (arguments, code, reason) in [
        ("rss --dev lo", 2, "--attach"),
        ("rss --dev lo --attach --detach", 2, "cannot be used with"),
        ("rss --dev lo --detach --buckets 2", 2, "--buckets"),
        ("rss --dev lo --detach --inner", 2, "--inner"),
        ("rss --dev lo --detach --json", 2, "--json"),
        (
            "rss --dev lo --attach --steering steering.json --share-cpus",
            2,
            "--share-cpus",
        ),
        ("rss --dev lo --attach --to xsk", 2, "xsk_rcv_check"),
        (
            "rss --dev no-such-device --attach",
            2,
            "there is no device no-such-device",
        ),
        ("rss --dev no-such-device --detach", 2, "no-such-device"),
        ("rss --dev lo --detach", 2, "it has no program"),
        (
            "rss --dev lo --attach --buckets 5000 --share-cpus",
            2,
            "--buckets",
        ),
    ] {
        let error = refused(arguments, code);
        assert!(error.contains(reason), "{arguments}: {error}");
    }
    let program = env!("CARGO_BIN_EXE_corelane");
    // In a user namespace, root may not load programs.
    let script = format!("unshare -rn {program} rss --dev lo --attach --buckets 1");
    let Some(output) = unshared("-n", "unshare -rn true", &script) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(77), "{error}");
    assert!(error.contains("CAP_BPF and CAP_NET_ADMIN"), "{error}");
}

#[test]
fn a_document_with_a_cpu_that_is_not_online_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steering.json");
    write(&file, &steering(&[0, 1], [0, 4000], 0));
    let error = refused(
        &format!("rss --dev lo --dry-run --steering {}", file.display()),
        2,
    );
    assert!(error.contains("CPU 4000 is not online here"), "{error}");
}
