//! tshark agrees about ESP.

use super::esp::{KEYS, Sender, outer};
use super::{frames, packets};
use corelane_link::capture::CaptureWriter;
use std::path::Path;
use std::process::Command;

/// The lines of these fields that tshark shows of a capture, if it is here: one for each frame. Associations are by index, each
/// with its key and the upper half of its sequence numbers, if it has one.
fn decrypted(path: &Path, associations: &[(u32, &str, Option<u32>)], fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", path.to_str().unwrap(), "-T", "fields"]);
    command.args(["-o", "esp.enable_encryption_decode:TRUE"]);
    for family in ["IPv4", "IPv6"] {
        for (spi, key, upper) in associations {
            let numbers = match upper {
                None => "\"32-bit\",\"\"".to_owned(),
                Some(upper) => format!("\"64-bit\",\"{upper:#x}\""),
            };
            let algorithm = "AES-GCM with 16 octet ICV [RFC4106]";
            command.arg("-o").arg(format!(
                "uat:esp_sa:\"{family}\",\"*\",\"*\",\"{spi:#x}\",\"{algorithm}\",\"0x{key}\",\"NULL\",\"\",{numbers}"
            ));
        }
    }
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    match command.output() {
        Err(error) => {
            eprintln!("skipped: tshark: {error}");
            None
        }
        Ok(output) => {
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            let text = String::from_utf8(output.stdout).unwrap();
            Some(text.lines().map(str::to_owned).collect())
        }
    }
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for (number, frame) in (0..).zip(frames) {
        writer.write(number, frame.len() as u32, frame).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn tshark_decrypts_what_the_tests_seal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("esp.pcap");
    for (key, upper) in KEYS
        .iter()
        .flat_map(|key| [None, Some(0), Some(7)].map(|upper| (key, upper)))
    {
        let mut sender = Sender::new(0x100, key, upper.is_some());
        sender.sequence += u64::from(upper.unwrap_or(0)) << 32;
        let mut sealed = Vec::new();
        for (ether_type, inner) in packets() {
            let next = if ether_type == 0x0800 { 4 } else { 41 };
            for in_udp in [false, true] {
                let esp = sender.seal(next, &inner);
                let outer = match in_udp {
                    false => outer(50, &esp),
                    true => outer(17, &frames::udp(4500, 4500, &esp)),
                };
                sealed.extend(outer.map(|(outer_type, packet)| frames::ethernet(&[], outer_type, &packet)));
            }
        }
        write(&path, &sealed);
        let Some(lines) = decrypted(&path, &[(0x100, key, upper)], &["udp.payload"]) else {
            return;
        };
        let payload: String = b"payload".iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(lines.len(), sealed.len());
        for line in lines {
            assert!(line.ends_with(&payload), "{line}");
        }
    }
}
