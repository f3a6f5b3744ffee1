//! Capture files: written files are read back, by this crate and by tshark, in both formats.

use corelane_link::capture::CaptureLink;
use corelane_link::{FrameLayout, Link, LinkError, LinkSpec, Opener, Wrapped, memory};
use std::path::Path;
use std::process::Command;

fn frames() -> Vec<Vec<u8>> {
    (0..300usize)
        .map(|number| (0..60 + number * 4).map(|index| (index + number) as u8).collect())
        .collect()
}

fn read(path: &Path) -> Result<Vec<(Vec<u8>, usize, u64)>, LinkError> {
    let mut link = CaptureLink::open(Some(path), None, FrameLayout::default())?;
    let mut frames = Vec::new();
    while !link.is_ended() {
        let burst = link.receive(64)?;
        for number in 0..burst.len() {
            let time = burst.time(number).unwrap_or_default();
            frames.push((burst.frame(number).to_vec(), burst.wire_length(number), time));
        }
    }
    Ok(frames)
}

fn written(name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut link = CaptureLink::open(None, Some(&path), FrameLayout::default()).unwrap();
    assert!(link.is_ended(), "nothing is read from it");
    assert_eq!(link.send(frames().iter().map(Vec::as_slice)).unwrap().taken, 300);
    (folder, path)
}

#[test]
fn what_is_written_is_read_again_in_both_formats() {
    for name in ["all.pcap", "all.pcapng"] {
        let (_folder, path) = written(name);
        let read = read(&path).unwrap();
        let bytes: Vec<Vec<u8>> = read.iter().map(|(frame, _, _)| frame.clone()).collect();
        assert_eq!(bytes, frames(), "{name}");
        assert!(read.iter().all(|(frame, wire, _)| frame.len() == *wire), "{name}");
        assert!(
            read[0].2 > 1_600_000_000_000_000_000,
            "{name}: the time is plausible: {}",
            read[0].2
        );
        assert!(read.is_sorted_by_key(|(_, _, time)| *time), "{name}");
    }
}

#[test]
fn merged_frames_are_written_whole_also_with_faults_and_into_a_capture_beside() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (out, seen) = (path("out.pcap"), path("seen.pcapng"));
    let text = format!(
        "pcap:out={},capture={},duplicate=1,faults=sent",
        out.display(),
        seen.display()
    );
    let spec: LinkSpec = text.parse().unwrap();
    let mut link = Opener::new(spec.for_merged().unwrap()).open().unwrap().remove(0);
    let (short, merged) = ([1; 60], vec![2; 65_549]);
    for _ in 0..2 {
        assert_eq!(link.send([&short[..]].into_iter()).unwrap().taken, 1);
        assert_eq!(link.send_merged(&merged, 1400).unwrap().taken, 1);
    }
    assert_eq!((link.tally().sent, link.injected().unwrap().duplicated), (8, 4));
    drop(link);
    let twice = [&short[..], &short, &merged, &merged];
    for file in [out, seen] {
        let layout = FrameLayout::new(64, 65_600, 0).unwrap();
        let mut link = CaptureLink::open(Some(&file), None, layout).unwrap();
        let burst = link.receive(64).unwrap();
        assert_eq!(burst.iter().collect::<Vec<_>>(), [twice, twice].concat());
    }
}

#[test]
fn tshark_reads_the_same_frames_and_times() {
    for name in ["all.pcap", "all.pcapng"] {
        let (_folder, path) = written(name);
        let output = Command::new("tshark")
            .args([
                "-r",
                path.to_str().unwrap(),
                "-T",
                "fields",
                "-e",
                "frame.len",
                "-e",
                "frame.time_epoch",
            ])
            .output();
        let output = match output {
            Err(error) => {
                eprintln!("skipped: tshark: {error}");
                return;
            }
            Ok(output) => String::from_utf8(output.stdout).unwrap(),
        };
        let ours: Vec<(usize, u64)> = read(&path)
            .unwrap()
            .iter()
            .map(|(_, wire, time)| (*wire, *time))
            .collect();
        let theirs: Vec<(usize, u64)> = output
            .lines()
            .map(|line| {
                let (length, time) = line.split_once('\t').unwrap();
                let (seconds, fraction) = time.split_once('.').unwrap();
                let nanoseconds: u64 = format!("{fraction:0<9}").parse().unwrap();
                (
                    length.parse().unwrap(),
                    seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds,
                )
            })
            .collect();
        assert_eq!(theirs, ours, "{name}");
    }
}

#[test]
fn what_a_snap_length_cut_short_keeps_its_length_on_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.pcap");
    let mut file = Vec::new();
    for number in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 68, 1, 17, 5, 68, 1514] {
        file.extend(number.to_be_bytes());
    }
    // Big-endian, so the halves of the version are in the other order.
    file[4..8].copy_from_slice(&[0, 2, 0, 4]);
    file.extend([0xab; 68]);
    std::fs::write(&path, &file).unwrap();
    assert_eq!(read(&path).unwrap(), [(vec![0xab; 68], 1514, 17_000_005_000)]);

    std::fs::write(&path, &file[..file.len() - 1]).unwrap();
    assert_eq!(read(&path).unwrap(), [], "the only frame is cut off");
    let mut link = CaptureLink::open(Some(&path), None, FrameLayout::default()).unwrap();
    assert!(link.receive(1).unwrap().is_empty());
    assert_eq!(link.tally().receive_invalid, 1);
}

#[test]
fn what_is_no_capture_or_of_a_link_layer_that_cannot_be_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    let refusal = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read(&path).unwrap_err().to_string()
    };
    assert!(refusal(b"").contains("too short"));
    assert!(refusal(b"GIF89a and what follows it").contains("neither pcap nor pcapng"));
    let mut wireless = Vec::new();
    for number in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 105] {
        wireless.extend(number.to_le_bytes());
    }
    assert!(refusal(&wireless).contains("link layer IEEE802_11: Ethernet, LINUX_SLL"));
    assert!(read(Path::new("/nonexistent/file.pcap")).is_err());
}

#[test]
fn what_passes_a_link_is_captured_and_counted_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.pcapng");
    let (mut left, right) = memory::pair(FrameLayout::default()).unwrap();
    let writer = corelane_link::capture::CaptureWriter::create(&path).unwrap();
    let mut right = Wrapped::new(right, None, Some(writer));
    left.send([&[1; 60][..], &[2; 61]].into_iter()).unwrap();
    assert_eq!(right.receive(16).unwrap().len(), 2);
    right.send([&[3; 62][..]].into_iter()).unwrap();
    right.check().unwrap();
    let captured: Vec<Vec<u8>> = read(&path)
        .unwrap()
        .into_iter()
        .map(|(frame, _, _)| frame)
        .collect();
    assert_eq!(captured, [vec![1; 60], vec![2; 61], vec![3; 62]]);
    let tally = right.tally();
    assert_eq!(
        (tally.received, tally.received_bytes, tally.sent, tally.sent_bytes),
        (2, 121, 1, 62)
    );
}
