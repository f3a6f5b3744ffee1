//! tshark and the kernel agree about ESP.

use super::esp::{KEYS, Sender, outer};
use super::{frames, packets, run};
use crate::common::tshark;
use corelane_guest::boot;
use corelane_link::capture::{CaptureReader, CaptureWriter};
use corelane_packet::Dissection;
use corelane_stage::decapsulation::{Counts, Decapsulation, Keys, Plan};
use corelane_stage::esp::Associations;
use corelane_tests::guest_with_tunnels;
use std::path::Path;
use std::sync::Arc;

/// The lines of these fields that tshark shows of a capture, if it is here: one for each frame. Associations are by index, each
/// with its key and the upper half of its sequence numbers, if it has one.
fn decrypted(path: &Path, associations: &[(u32, &str, Option<u32>)], fields: &[&str]) -> Option<Vec<String>> {
    let mut options = vec!["-o".to_owned(), "esp.enable_encryption_decode:TRUE".to_owned()];
    for family in ["IPv4", "IPv6"] {
        for (spi, key, upper) in associations {
            let numbers = match upper {
                None => "\"32-bit\",\"\"".to_owned(),
                Some(upper) => format!("\"64-bit\",\"{upper:#x}\""),
            };
            let algorithm = "AES-GCM with 16 octet ICV [RFC4106]";
            options.push("-o".to_owned());
            options.push(format!(
                "uat:esp_sa:\"{family}\",\"*\",\"*\",\"{spi:#x}\",\"{algorithm}\",\"0x{key}\",\"NULL\",\"\",{numbers}"
            ));
        }
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    tshark(path, &options, fields)
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

/// Pings through ESP that nothing answers: what leaves is captured. Of the associations, by index: IPv4 in IPv4; IPv6 in IPv6,
/// whose sequence numbers go beyond 32 bits; IPv4 in IPv4 in UDP; IPv6 in IPv4, with the longer key.
const SCRIPT: &str = r#"
ip() { /bin/ip "$@"; } # not busybox's
set -e
mkdir -p /run
ip netns add far
ip link add veth0 type veth peer name veth1 netns far
ip link set veth0 up; ip -n far link set veth1 up
ip address add 192.0.2.1/24 dev veth0; ip address add 2001:db8::1/64 dev veth0 nodad
mac=$(ip -n far link show veth1 | awk '/ether/ { print $2 }')
ip neighbour add 192.0.2.2 lladdr $mac dev veth0; ip neighbour add 2001:db8::2 lladdr $mac dev veth0
ip netns exec far dumpcap -q -P -c 16 -i veth1 -f 'esp or udp port 4500' -w /tmp/esp.pcap 2>/tmp/dumpcap &
until grep -qs File: /tmp/dumpcap; do kill -0 $!; sleep 0.1; done
# INDEX NEAR FAR INSIDE OUTSIDE KEY, and what else the association has.
esp() {
  spi=$1 near=$2 far=$3 inside=$4 outside=$5 key=$6; shift 6
  ip address add $inside dev lo
  ip route add $outside via $via dev veth0 src $inside
  ip xfrm state add src $near dst $far proto esp spi $spi reqid $((spi)) mode tunnel "$@" aead 'rfc4106(gcm(aes))' $key 128
  ip xfrm policy add src $inside dst $outside dir out tmpl src $near dst $far proto esp reqid $((spi)) mode tunnel
  ping -c 4 -W 1 -s 100 $outside >/tmp/ping || true
}
via=192.0.2.2
esp 0x100 192.0.2.1 192.0.2.2 10.90.0.1 10.90.0.2 0xKEY0
esp 0x102 192.0.2.1 192.0.2.2 10.91.0.1 10.91.0.2 0xKEY0 encap espinudp 4500 4500 0.0.0.0
via=2001:db8::2
esp 0x101 2001:db8::1 2001:db8::2 fd00:90::1 fd00:90::2 0xKEY0 replay-window 64 replay-oseq 0xfffffffd flag esn
esp 0x103 192.0.2.1 192.0.2.2 fd00:91::1 fd00:91::2 0xKEY1 flag af-unspec
wait
od -An -v -tx1 /tmp/esp.pcap
"#;

/// The destination of an echo, and its number.
fn echo(frame: &[u8]) -> (String, u16) {
    let packet = Dissection::of(frame).unwrap();
    let message = &frame[packet.transport_offset()..packet.packet_end()];
    assert_eq!(message.len(), 8 + 100);
    let number = u16::from_be_bytes([message[6], message[7]]);
    (packet.destination().to_string(), number)
}

#[test]
fn what_the_kernel_seals_comes_out() {
    let script = SCRIPT.replace("KEY0", KEYS[0]).replace("KEY1", KEYS[1]);
    let Some((mut plan, parts)) = guest_with_tunnels(&script) else {
        return;
    };
    let dumpcap = Path::new("/usr/bin/dumpcap");
    if !dumpcap.is_file() {
        eprintln!("skipped: there is no dumpcap: apt-get install wireshark-common");
        return;
    }
    plan.programs.push(dumpcap.to_owned());
    let guest = boot(&plan, &parts).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(guest.status, 0, "{}", guest.output);
    let byte = |digits| u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{}", guest.output));
    let capture: Vec<u8> = guest.output.split_whitespace().map(byte).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("esp.pcap");
    std::fs::write(&path, capture).unwrap();

    let association = |(spi, destination, key, esn): (u32, &str, &str, bool)| {
        format!(
            "[[association]]\nspi = {spi}\ndestination = \"{destination}\"\nkey = \"{key}\"\nesn = {esn}\n"
        )
    };
    let associations = [
        (0x100, "192.0.2.2", KEYS[0], false),
        (0x101, "2001:db8::2", KEYS[0], true),
        (0x102, "192.0.2.2", KEYS[0], false),
        (0x103, "192.0.2.2", KEYS[1], false),
    ];
    let keys = Keys {
        associations: Arc::new(Associations::parse(&associations.map(association).concat()).unwrap()),
        ..Keys::default()
    };
    let plan = Plan {
        keys: Some(keys),
        ..Plan::default()
    };
    let counts = Arc::new(Counts::default());
    let mut stage = Decapsulation::new(plan, 7, Arc::clone(&counts));
    let mut reader = CaptureReader::open(&path).unwrap();
    let mut echoes = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        let left = run(&mut stage, frame.data);
        echoes.push(echo(&left.unwrap_or_else(|| panic!("{counts:?}"))));
    }
    let of = |destination: &str| [0, 1, 2, 3].map(|number| (destination.to_owned(), number));
    let destinations = ["10.90.0.2", "10.91.0.2", "fd00:90::2", "fd00:91::2"];
    assert_eq!(echoes, destinations.map(of).concat());
    assert_eq!(counts.esp.get(), 16);

    let associations = associations.map(|(spi, _, key, extended)| (spi, key, extended.then_some(0)));
    let Some(lines) = decrypted(&path, &associations, &["icmp.type", "icmpv6.type"]) else {
        return;
    };
    let types: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    assert_eq!(types, [["8"; 8], ["128"; 8]].concat());
}
