//! Frames of a capture that are longer than the link takes: the report says what merged them.

use crate::common::run;
use corelane_link::capture::CaptureWriter;
use serde_json::Value;
use std::fs;

#[test]
fn a_replay_says_what_merged_the_frames_that_its_link_does_not_take() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (captured, json) = (file("captured.pcap"), file("run.json"));
    let mut writer = CaptureWriter::create(captured.as_ref()).unwrap();
    for (time, length) in [(0, 60), (1, 4_000), (2, 4_000)] {
        writer.write(time, length, &vec![0; length as usize]).unwrap();
    }
    writer.flush().unwrap();
    let (link, to_json) = (format!("pcap:out={}", file("out.pcap")), format!("--json={json}"));
    let output = run(&["load", "packets", &link, "--replay", &captured, &to_json]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let note = document["notes"][0].as_str().unwrap();
    assert_eq!(
        note,
        format!(
            "not sent to {link}: 2 frames longer than it takes: they were merged on receive, or not yet segmented by their \
             sender: `ethtool -K DEVICE gro off lro off`, and `ethtool -K DEVICE tso off gso off` for the sender's"
        )
    );
    let text = String::from_utf8(output.stdout).unwrap().replace('\n', " ");
    assert!(text.contains("note: not sent to pcap:out="), "{text}");
}
