//! Captures as people have them: cut short, cut off, of several link layers.

use crate::common::{parsed, run, run_json};
use crate::verify::frame;
use corelane_rss::{HashFields, Key, Toeplitz, Tuple};
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

/// Frames of a capture.
const FRAMES: u16 = 300;

/// Ends of the flow with this number, over UDP.
fn ends(number: u16) -> [SocketAddrV4; 2] {
    let mut random = fastrand::Rng::with_seed(number.into());
    [(); 2].map(|()| SocketAddrV4::new(random.u32(..).into(), random.u16(..)))
}

fn tuple(ends: [SocketAddrV4; 2]) -> Tuple {
    Tuple::new(ends[0].into(), ends[1].into()).unwrap()
}

fn hash(tuple: &Tuple) -> u32 {
    Toeplitz::new(&Key::VERIFICATION).hash(tuple, HashFields::FourTuple)
}

/// Writes a capture of a device that hashes another tuple than that of the frame.
pub fn write_mixed(path: &Path, mixed: impl Fn(&Tuple) -> Tuple) {
    std::fs::write(path, pcapng_of(usize::MAX, mixed)).unwrap();
}

/// Bytes of a pcapng file with one Ethernet interface: the frames' first `snap` bytes, and the hash and queue of a device
/// with four queues that hashes ports.
fn pcapng(snap: usize) -> Vec<u8> {
    pcapng_of(snap, |tuple| *tuple)
}

/// As [`pcapng`], of a device that hashes the tuple that `hashed` gives.
fn pcapng_of(snap: usize, hashed: impl Fn(&Tuple) -> Tuple) -> Vec<u8> {
    let mut file = block(
        0x0a0d_0d0a,
        &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[255; 8]].concat(),
    );
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0]));
    for number in 0..FRAMES {
        let ends = ends(number);
        let hash = hash(&hashed(&tuple(ends)));
        let frame = frame(ends);
        let captured = &frame[..frame.len().min(snap)];
        let mut body: Vec<u8> = [0, 0, 0, captured.len() as u32, frame.len() as u32]
            .iter()
            .flat_map(|word: &u32| word.to_le_bytes())
            .collect();
        body.extend(captured);
        body.resize(body.len().next_multiple_of(4), 0);
        // epb_hash, epb_queue, opt_endofopt.
        body.extend([3, 0, 5, 0, 5]);
        body.extend(hash.to_be_bytes());
        body.extend([0, 0, 0, 6, 0, 4, 0]);
        body.extend((hash % 4).to_le_bytes());
        body.extend([0; 4]);
        file.extend(block(6, &body));
    }
    file
}

fn written(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn verify(path: &Path) -> Vec<&str> {
    let path = path.to_str().unwrap();
    vec!["verify", "--pcap", path, "--queues", "4", "--hash", "4tuple"]
}

#[test]
fn frames_captured_without_their_ports_are_counted_and_not_misplaced() {
    let folder = tempfile::tempdir().unwrap();
    let without = written(&folder, "without.pcapng", &pcapng(14 + 20 + 3));
    let output = run(&verify(&without));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(77), "{error}");
    assert!(error.contains("300 frames captured too short"), "{error}");
    let document = run(&[&verify(&without)[..], &["--json"]].concat());
    let document = parsed(&document);
    assert_eq!(
        (&document["misplaced"], &document["cut_short"]),
        (&0.into(), &300.into())
    );

    let with = written(&folder, "with.pcapng", &pcapng(14 + 20 + 4));
    let document = run_json(&[&verify(&with)[..], &["--json"]].concat());
    let counts = ["frames", "misplaced", "cut_short"].map(|name| document[name].as_u64());
    assert_eq!(counts, [Some(300), Some(0), Some(0)]);

    // Some of each: the others are checked, and the text states how many were not.
    let mut both = pcapng(14 + 20 + 3);
    both.extend(pcapng(usize::MAX));
    let both = written(&folder, "both.pcapng", &both);
    let output = run(&verify(&both));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("not checked: 300 frames captured too short"),
        "{text}"
    );
    assert!(text.contains("0 of 600 frames misplaced"), "{text}");
}

#[test]
fn infer_and_audit_skip_frames_captured_without_their_ports() {
    let folder = tempfile::tempdir().unwrap();
    let mut both = pcapng(usize::MAX);
    both.extend(pcapng(14 + 20 + 3));
    let both = written(&folder, "both.pcapng", &both);
    let path = both.to_str().unwrap();
    let document = run_json(&[
        "infer",
        "--pcap",
        path,
        "--key",
        &Key::VERIFICATION.to_string(),
        "--json",
    ]);
    assert_eq!(document["verdict"], "settled", "{document}");
    assert_eq!(document["cut_short"], 300);
    assert_eq!(document["relation"], "same");
    let document = run_json(&["key", "audit", "--pcap", path, "--buckets", "4", "--json"]);
    assert_eq!(document["imbalance"]["flows"], 300);
    assert_eq!(document["cut_short"], 300);
    // Addresses are all that a 2-tuple needs.
    let document = run_json(&[
        "key",
        "audit",
        "--pcap",
        path,
        "--buckets",
        "4",
        "--hash",
        "2tuple",
        "--json",
    ]);
    assert_eq!(document["cut_short"], 0);
}

#[test]
fn the_log_of_a_driver_is_verified_as_it_stands() {
    const LOG: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../rss/tests/vectors/post-wrong-ring.log"
    );
    let output = run(&["verify", "--log", LOG, "--queues", "4"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("9 of 9 frames misplaced"), "{text}");
    assert!(
        text.contains("not read: 9 lines of the log have no hash and queue"),
        "{text}"
    );
}

/// A block of pcapng in little-endian order.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let total = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes(), &total[..], &body, &total].concat()
}

/// The capture of [`pcapng`] with a frame of another interface before each frame, of a link layer that cannot be read; and
/// the pairs of all frames as a log, those of the other interface wrong.
fn with_foreign_frames() -> (Vec<u8>, String) {
    let file = pcapng(usize::MAX);
    // The section, the interface, then equal blocks.
    let (head, blocks) = file.split_at(28 + 20);
    let size = blocks.len() / usize::from(FRAMES);
    let mut mixed = [head, &block(1, &[189, 0, 0, 0, 0, 0, 0, 0])].concat();
    let mut log = String::new();
    let foreign: Vec<u8> = [1_u32, 0, 0, 4, 4, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    for (number, frame) in (0..).zip(blocks.chunks(size)) {
        mixed.extend(block(6, &foreign));
        mixed.extend(frame);
        let hash = hash(&tuple(ends(number)));
        log.push_str(&format!("0x00000001 0\n{hash:#010x} {}\n", hash % 4));
    }
    (mixed, log)
}

#[test]
fn frames_that_cannot_be_read_are_counted_and_the_others_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (mixed, log) = with_foreign_frames();
    let cut_off = &mixed[..mixed.len() - 1];
    let path = written(&folder, "mixed.pcapng", cut_off);
    let document = run_json(&[&verify(&path)[..], &["--json"]].concat());
    let counts = ["frames", "misplaced"].map(|name| document[name].as_u64());
    assert_eq!(counts, [Some(299), Some(0)]);
    assert_eq!(document["unread"]["not_read"]["USB_LINUX"], 300);
    assert_eq!(document["unread"]["cut_off"], true);
    let text = String::from_utf8(run(&verify(&path)).stdout).unwrap();
    for line in [
        "not read: 300 frames of link layer USB_LINUX\n",
        "not read: the last frame, within which the capture is cut off",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // A log has a pair of every frame, of those that cannot be read too.
    let log = written(&folder, "pairs", log.as_bytes());
    let document = run_json(&[&verify(&path)[..], &["--log", log.to_str().unwrap(), "--json"]].concat());
    assert_eq!(
        (&document["frames"], &document["misplaced"]),
        (&299.into(), &0.into())
    );
    // The other readers of captures.
    let link = format!("pcap:{}", path.display());
    let received = run_json(&["serve", "packets", &link, "--json"]);
    assert_eq!(
        (&received["received"], &received["receive_invalid"]),
        (&299.into(), &301.into())
    );
    let text = String::from_utf8(run(&["serve", "packets", &link]).stdout).unwrap();
    assert!(
        text.contains("301 frames, too long, of a link layer that cannot be read, or cut off"),
        "{text}"
    );
    let copy = format!("pcap:out={}", folder.path().join("copy.pcap").display());
    let bridged = run_json(&["bridge", "--link", &link, "--link", &copy, "--json"]);
    assert_eq!(bridged["passed"], 299);
    assert_eq!(bridged["links"][0]["receive_invalid"], 301);
    let again = format!("pcap:out={}", folder.path().join("again.pcap").display());
    let replay = [
        "load",
        "packets",
        &again,
        "--replay",
        path.to_str().unwrap(),
        "--speed",
        "flood",
        "--json",
    ];
    let sent = run_json(&replay);
    assert_eq!(
        (&sent["sent"], &sent["dropped"]["not_read"]),
        (&299.into(), &301.into())
    );
}

#[test]
fn packets_of_a_cooked_capture_are_read() {
    let folder = tempfile::tempdir().unwrap();
    // LINUX_SLL, as `tcpdump -i any` writes it.
    let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, 113];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for number in 0..FRAMES {
        let packet = &frame(ends(number))[14..];
        let length = 16 + packet.len() as u32;
        file.extend([0, 0, length, length].iter().flat_map(|word| word.to_le_bytes()));
        file.extend([0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 8, 0]);
        file.extend(packet);
    }
    let path = written(&folder, "any.pcap", &file);
    let path = path.to_str().unwrap();
    let document = run_json(&["key", "audit", "--pcap", path, "--buckets", "4", "--json"]);
    assert_eq!(document["imbalance"]["flows"], 300);
}
