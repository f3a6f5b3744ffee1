//! Every kind of capture that is read, each as a file in `tests/formats`: its frames, what tshark says of it, and the same
//! file cut off at every byte. `UPDATE_GOLDEN=1` writes the files anew.

use crate::capture_files::{BIG, Frame, LITTLE, Part, TIME, bytes, expected, files, frames, pcap, whole};
use corelane_link::capture::{CaptureAccount, CaptureReader};
use corelane_packet::Dissection;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/formats")
        .join(name)
}

fn read(path: &Path) -> (Vec<Frame>, CaptureAccount) {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(Frame {
            data: frame.data.to_vec(),
            wire_length: frame.wire_length,
            time: frame.time,
            hash: frame.hash,
            queue: frame.queue,
        });
    }
    (frames, reader.account())
}

#[test]
fn every_kind_of_capture_is_read() {
    for (name, parts) in files() {
        let path = kept(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, bytes(&parts)).unwrap();
        }
        assert_eq!(
            fs::read(&path).unwrap(),
            bytes(&parts),
            "{name} is not the file kept"
        );
        let (frames, account) = read(&path);
        assert_eq!(frames, expected(&parts), "{name}");
        assert!(!account.cut_off, "{name}");
        let not_read: Vec<_> = account
            .not_read
            .iter()
            .map(|(layer, count)| (&layer[..], *count))
            .collect();
        let expected: &[(&str, u64)] = match name {
            "sll.pcap" => &[("LINUX_SLL", 2)],
            "sll2.pcap" => &[("LINUX_SLL2", 2)],
            "null-little.pcap" | "null-big.pcap" => &[("NULL", 1)],
            "loop.pcap" => &[("LOOP", 1)],
            "interfaces.pcapng" => &[("USB_LINUX", 1)],
            _ => &[],
        };
        assert_eq!(not_read, expected, "{name}");
    }
}

/// Time, source address and source port of each frame with an IP packet.
fn facts(frames: &[Frame]) -> Vec<String> {
    let fact = |frame: &Frame| {
        let dissection = Dissection::of(&frame.data).ok()?;
        let port = dissection
            .ports()
            .map_or(String::new(), |ports| ports.source.to_string());
        Some(format!("{} {} {port}", frame.time, dissection.source()))
    };
    frames.iter().filter_map(fact).collect()
}

#[test]
fn tshark_reads_the_same_packets_of_every_kind() {
    const FIELDS: [&str; 4] = ["frame.time_epoch", "ip.src", "ipv6.src", "udp.srcport"];
    for (name, parts) in files() {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(kept(name)).args(["-T", "fields"]);
        tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]));
        let output = match tshark.output() {
            Err(error) => {
                eprintln!("skipped: tshark: {error}");
                return;
            }
            Ok(output) => String::from_utf8(output.stdout).unwrap(),
        };
        let theirs: Vec<String> = output
            .lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split('\t').collect();
                let [time, v4, v6, port] = fields[..] else {
                    panic!("{name}: {line}");
                };
                let (seconds, fraction) = time.split_once('.').unwrap_or(("0", "0"));
                let seconds: u64 = seconds.parse().unwrap();
                let nanoseconds: u64 = format!("{fraction:0<9}").parse().unwrap();
                let time = seconds * 1_000_000_000 + nanoseconds;
                (!v4.is_empty() || !v6.is_empty()).then(|| format!("{time} {v4}{v6} {port}"))
            })
            .collect();
        assert_eq!(facts(&expected(&parts)), theirs, "{name}");
    }
}

#[test]
fn of_a_file_cut_off_at_any_byte_all_whole_frames_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, parts) in files() {
        let (path, bytes) = (folder.path().join(name), bytes(&parts));
        let ends: Vec<usize> = parts
            .iter()
            .scan(0, |end, (part, _)| {
                *end += part.len();
                Some(*end)
            })
            .collect();
        for length in ends[0]..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            let (frames, account) = read(&path);
            let whole = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(frames, expected(&parts[..whole]), "{name} cut to {length}");
            assert_eq!(account.cut_off, !ends.contains(&length), "{name} cut to {length}");
        }
    }
}

#[test]
fn a_large_block_is_passed_over_and_frames_with_check_sequences_are_ethernet() {
    let folder = tempfile::tempdir().unwrap();
    let [v4, _] = frames();
    let large = vec![
        LITTLE.section(),
        LITTLE.interface(1, 0, &[]),
        (LITTLE.block(0x0bad, &vec![0; 9_000_000]), None),
        // Names and statistics that contradict themselves hold no frame.
        (LITTLE.block(4, &[0xff; 16]), None),
        (LITTLE.block(5, &[0xff; 4]), None),
        LITTLE.enhanced(0, TIME / 1_000, &v4, &[], whole(&v4, TIME)),
    ];
    let checked = pcap(BIG, 0xa1b2_c3d4, 123_456, 0x2400_0001);
    for (name, parts) in [("large.pcapng", large), ("checked.pcap", checked)] {
        let path = folder.path().join(name);
        fs::write(&path, bytes(&parts)).unwrap();
        assert_eq!(
            read(&path),
            (expected(&parts), CaptureAccount::default()),
            "{name}"
        );
    }
}

#[test]
fn a_damaged_file_is_read_up_to_the_damage_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    let error = |parts: &[Part], name: &str, number: u32| {
        let mut bytes = bytes(parts);
        bytes.extend(LITTLE.u32s(&[6, number, 0, 0, 0, 0, 0, 0]));
        fs::write(&path, bytes).unwrap();
        let mut reader = CaptureReader::open(&path).unwrap();
        while let Ok(Some(_)) = reader.next_frame() {}
        assert!(reader.is_ended(), "{name}");
        let mut reader = CaptureReader::open(&path).unwrap();
        let frames = std::iter::from_fn(|| reader.next_frame().map(|frame| frame.map(drop)).transpose());
        let ends: Vec<_> = frames.collect();
        ends.last().unwrap().as_ref().unwrap_err().to_string()
    };
    let ng = [LITTLE.section(), LITTLE.interface(1, 0, &[])];
    for (length, expected) in [
        (10, "frame 1: the file is damaged: a block of 10 bytes"),
        (13, "frame 1: the file is damaged: a block of 13 bytes"),
        (
            16,
            "frame 1: the file is damaged: a block of 16 bytes whose end says 0",
        ),
        (
            0xf000_0000,
            "frame 1: the file is damaged: a record of 4026531828 bytes",
        ),
    ] {
        let error = error(&ng, "block", length);
        assert!(error.ends_with(expected), "{error}");
    }
}
