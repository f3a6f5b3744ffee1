//! Dissection agrees with `tshark` on every frame of a corpus of captures.
//!
//! The captures are built here and kept in `captures/` with the output of tshark for them, which replaces tshark if it
//! is not installed.

use crate::common::frames::{self, V4, V6};
use corelane_packet::{Dissection, Fragment, TransportHeader, ethernet, tunnel};
use pcap_file::Endianness;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A frame, and its length before the capture truncated it.
struct Captured {
    frame: Vec<u8>,
    original: usize,
}

fn whole(frames: Vec<Vec<u8>>) -> Vec<Captured> {
    frames
        .into_iter()
        .map(|frame| Captured {
            original: frame.len(),
            frame,
        })
        .collect()
}

fn udp() -> Vec<u8> {
    frames::udp(2794, 1766, b"payload")
}

fn tcp() -> Vec<u8> {
    frames::tcp(2794, 1766, 1, b"data")
}

fn v4(protocol: u8) -> V4<'static> {
    V4 {
        protocol,
        ..V4::SUITE
    }
}

/// The captures by name.
fn corpus() -> Vec<(&'static str, Vec<Captured>)> {
    vec![
        ("ipv4", whole(over_v4())),
        ("ipv6", whole(over_v6())),
        ("fragments", whole(fragments())),
        ("tunnels", whole(tunnels())),
        ("cut", cut()),
    ]
}

fn over_v4() -> Vec<Vec<u8>> {
    let packet = V4::SUITE.packet(&udp());
    let options = V4 {
        options: &[7, 7, 4, 1, 2, 3, 4, 1],
        ..v4(6)
    };
    let mut padded = v4(17).frame(&udp());
    padded.resize(60, 0);
    let (_, mut authentication) = frames::authentication();
    authentication.splice(..0, [17, 4]);
    vec![
        v4(17).frame(&udp()),
        v4(6).frame(&tcp()),
        options.frame(&tcp()),
        frames::ethernet(&[(0x8100, 0x6064)], 0x0800, &packet),
        frames::ethernet(&[(0x8100, 100), (0x8100, 200)], 0x0800, &packet),
        frames::ethernet(&[(0x9100, 1), (0x8100, 2), (0x8100, 3)], 0x0800, &packet),
        padded,
        v4(132).frame(&frames::sctp(2794, 1766)),
        v4(50).frame(&[0xee; 40]),
        v4(51).frame(&[authentication, udp()].concat()),
        v4(1).frame(&[8, 0, 0, 0, 0, 1, 0, 1]),
        frames::ethernet(
            &[],
            0x0806,
            &[
                0, 1, 8, 0, 6, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        ),
    ]
}

fn over_v6() -> Vec<Vec<u8>> {
    let behind = |extensions, protocol, payload: &[u8]| V6::suite(extensions, protocol).frame(payload);
    let mobile = vec![
        frames::hop_by_hop(),
        frames::routing_type_2("2001:db8::2"),
        frames::home_address("2001:db8::1"),
    ];
    vec![
        behind(vec![], 17, &udp()),
        behind(vec![], 6, &tcp()),
        behind(vec![frames::hop_by_hop()], 17, &udp()),
        behind(vec![frames::home_address("2001:db8::1")], 6, &tcp()),
        behind(vec![frames::routing_type_2("2001:db8::2")], 17, &udp()),
        behind(mobile, 17, &udp()),
        behind(vec![frames::authentication()], 17, &udp()),
        behind(vec![], 132, &frames::sctp(2794, 1766)),
        behind(vec![], 50, &[0xee; 40]),
        behind(vec![frames::hop_by_hop()], 59, &[]),
        behind(vec![], 58, &[128, 0, 0, 0, 0, 1, 0, 1]),
        frames::ethernet(&[(0x8100, 100)], 0x86dd, &V6::suite(vec![], 17).packet(&udp())),
    ]
}

fn fragments() -> Vec<Vec<u8>> {
    let part = |fragment| V4 {
        fragment,
        identification: 0x1234,
        ..V4::SUITE
    };
    let header = |offset, more| vec![frames::fragment_header(offset, more, 0xabcd_ef01)];
    let unfragmentable = [vec![frames::routing_type_2("2001:db8::2")], header(0, true)].concat();
    vec![
        part(0x2000).frame(&udp()),
        part(0x2002).frame(&udp()),
        part(0x00b9).frame(&udp()),
        part(0x4000).frame(&udp()),
        V6::suite(header(0, true), 17).frame(&udp()),
        V6::suite(header(16, true), 17).frame(&udp()),
        V6::suite(header(1480, false), 17).frame(&udp()),
        V6::suite(header(0, false), 17).frame(&udp()),
        V6::suite(unfragmentable, 17).frame(&udp()),
    ]
}

fn tunnels() -> Vec<Vec<u8>> {
    let outer = |protocol, payload: &[u8]| {
        let header = V4 {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            ..v4(protocol)
        };
        header.frame(payload)
    };
    let (inner_v4, inner_v6) = (V4::SUITE.packet(&udp()), V6::suite(vec![], 17).packet(&udp()));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0], &V4::SUITE.frame(&udp())[..]].concat();
    let geneve = [
        &[1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 0, 0, 0],
        &V4::SUITE.frame(&udp())[..],
    ]
    .concat();
    vec![
        outer(4, &inner_v4),
        outer(41, &inner_v6),
        outer(47, &[&[0, 0, 8, 0], &inner_v4[..]].concat()),
        outer(
            47,
            &[&[0x30, 0, 0x86, 0xdd, 0, 0, 0, 1, 0, 0, 0, 2], &inner_v6[..]].concat(),
        ),
        outer(17, &frames::udp(40000, 4789, &vxlan)),
        outer(17, &frames::udp(40000, 6081, &geneve)),
    ]
}

fn cut() -> Vec<Captured> {
    let cut = |frame: Vec<u8>, to: usize| Captured {
        original: frame.len(),
        frame: frame[..to].to_vec(),
    };
    vec![
        cut(v4(6).frame(&tcp()), 14 + 20 + 4),
        cut(v4(6).frame(&tcp()), 14 + 20),
        cut(v4(6).frame(&tcp()), 14 + 8),
        cut(
            V6::suite(vec![frames::hop_by_hop()], 17).frame(&udp()),
            14 + 40 + 8 + 4,
        ),
        cut(
            V6::suite(vec![frames::home_address("2001:db8::1")], 17).frame(&udp()),
            14 + 40,
        ),
        cut(v4(17).frame(&udp()), 14),
    ]
}

/// The facts about a frame that both report; empty where a fact is absent.
#[derive(Debug, Default, PartialEq)]
struct Facts {
    tags: String,
    addresses: String,
    /// Protocol and ports, or index.
    transport: String,
    /// Offset in units of 8 bytes, whether more follow, and identification of a packet with a fragment header.
    fragment: String,
    home_address: String,
    routed_destination: String,
}

fn ours(frame: &[u8]) -> Facts {
    let tags: Vec<_> = ethernet::vlan_ids(frame).map(|id| id.to_string()).collect();
    let Ok(dissection) = Dissection::of(frame) else {
        return Facts {
            tags: tags.join(","),
            ..Facts::default()
        };
    };
    let text =
        |address: Option<std::net::Ipv6Addr>| address.map_or_else(String::new, |address| address.to_string());
    Facts {
        tags: tags.join(","),
        addresses: format!("{} {}", dissection.source(), dissection.destination()),
        transport: transport(&dissection),
        fragment: match dissection.fragment() {
            Fragment::Whole => String::new(),
            Fragment::Atomic { identification } => format!("0 false {identification:#x}"),
            Fragment::Part(part) => format!("{} {} {:#x}", part.offset / 8, part.more, part.identification),
        },
        home_address: text(dissection.home_address()),
        routed_destination: text(dissection.routed_destination()),
    }
}

fn transport(dissection: &Dissection) -> String {
    let (name, ports) = match dissection.transport() {
        TransportHeader::Tcp(ports) => ("tcp", ports),
        TransportHeader::Udp(ports) => ("udp", ports),
        TransportHeader::Sctp(ports) => ("sctp", ports),
        TransportHeader::Esp { spi } => return format!("esp {spi:#010x}"),
        TransportHeader::Other | TransportHeader::InFirstFragment | TransportHeader::Missing => {
            return String::new();
        }
    };
    format!("{name} {} {}", ports.source, ports.destination)
}

/// The fields requested from tshark, in the order in which `theirs` reads them.
const FIELDS: [&str; 20] = [
    "vlan.id",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "udp.srcport",
    "udp.dstport",
    "sctp.srcport",
    "sctp.dstport",
    "esp.spi",
    "ip.frag_offset",
    "ip.flags.mf",
    "ip.id",
    "ipv6.fraghdr.offset",
    "ipv6.fraghdr.more",
    "ipv6.fraghdr.ident",
    "ipv6.opt.mipv6.home_address",
    "ipv6.routing.mipv6.home_address",
];

/// Which of several occurrences of a field in nested packets is used: the outer packet's or the inner's.
#[derive(Clone, Copy, PartialEq)]
enum Occurrence {
    First,
    Last,
}

/// One line of tshark's output as the facts that both report.
fn theirs(line: &str, occurrence: Occurrence) -> Facts {
    let values: Vec<Vec<&str>> = line.split('\t').map(|field| field.split(',').collect()).collect();
    let value = |name: &str| {
        let column = FIELDS
            .iter()
            .position(|field| *field == name)
            .expect("a requested field");
        let values = &values[column];
        match occurrence {
            Occurrence::First => values[0],
            Occurrence::Last => values[values.len() - 1],
        }
    };
    let both = |a: &str, b: &str| match (value(a), value(b)) {
        ("", _) | (_, "") => String::new(),
        (a, b) => format!("{a} {b}"),
    };
    let v4 = both("ip.src", "ip.dst");
    let v6 = both("ipv6.src", "ipv6.dst");
    let transports = ["tcp", "udp", "sctp"].map(|name| {
        let ports = both(&format!("{name}.srcport"), &format!("{name}.dstport"));
        if ports.is_empty() {
            ports
        } else {
            format!("{name} {ports}")
        }
    });
    let spi = value("esp.spi");
    let esp = if spi.is_empty() {
        String::new()
    } else {
        format!("esp {spi}")
    };
    Facts {
        tags: values[0].join(","),
        addresses: if v4.is_empty() { v6 } else { v4 },
        transport: transports
            .into_iter()
            .find(|ports| !ports.is_empty())
            .unwrap_or(esp),
        fragment: fragment(value),
        home_address: value("ipv6.opt.mipv6.home_address").to_owned(),
        routed_destination: value("ipv6.routing.mipv6.home_address").to_owned(),
    }
}

fn fragment<'a>(value: impl Fn(&str) -> &'a str) -> String {
    let hexadecimal = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let (offset, more) = (value("ip.frag_offset"), value("ip.flags.mf"));
    if !offset.is_empty() && (offset != "0" || more == "1") {
        return format!("{offset} {} {:#x}", more == "1", hexadecimal(value("ip.id")));
    }
    match value("ipv6.fraghdr.ident") {
        "" => String::new(),
        identification => {
            let (offset, more) = (value("ipv6.fraghdr.offset"), value("ipv6.fraghdr.more"));
            format!("{offset} {} {:#x}", more == "1", hexadecimal(identification))
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// The bytes of a capture.
fn written(packets: &[Captured]) -> Vec<u8> {
    let header = PcapHeader {
        // The captures kept are the same on every machine.
        endianness: Endianness::Little,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (number, captured) in (0..).zip(packets) {
        let original = captured.original as u32;
        let packet = PcapPacket::new(Duration::from_millis(number), original, &captured.frame);
        writer.write_packet(&packet).unwrap();
    }
    writer.into_writer()
}

/// The output of tshark for a capture, one line per frame; `None` if tshark is not installed.
fn tshark(capture: &Path) -> Option<String> {
    let mut command = Command::new("tshark");
    command
        .args([
            "-n",
            "-T",
            "fields",
            "-E",
            "separator=/t",
            "-E",
            "occurrence=a",
            "-r",
        ])
        .arg(capture);
    for preference in ["ip.defragment:FALSE", "ipv6.defragment:FALSE"] {
        command.args(["-o", preference]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().ok()?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "tshark: {complaint}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_captures_kept_are_those_built() {
    let mut changed = Vec::new();
    for (name, packets) in corpus() {
        let path = folder().join(format!("{name}.pcap"));
        let content = written(&packets);
        if fs::read(&path).ok().as_deref() != Some(&content) {
            fs::write(&path, &content).unwrap();
            if let Some(printed) = tshark(&path) {
                fs::write(path.with_extension("tsv"), printed).unwrap();
            }
            changed.push(name);
        }
    }
    assert!(
        changed.is_empty(),
        "rewritten: check the changes and commit them: {changed:?}"
    );
}

/// The frames of a kept capture, and tshark's line for each, printed now or when the capture was made.
fn printed(name: &str) -> Vec<(Vec<u8>, String)> {
    let path = folder().join(format!("{name}.pcap"));
    let printed = tshark(&path).unwrap_or_else(|| {
        eprintln!("skipped: no tshark here (apt-get install tshark), {name}.tsv stands for what it prints");
        fs::read_to_string(path.with_extension("tsv")).unwrap()
    });
    let mut reader = PcapReader::new(fs::File::open(path).unwrap()).unwrap();
    let mut lines = printed.lines();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let line = lines.next().expect("one line per frame");
        frames.push((packet.unwrap().data.into_owned(), line.to_owned()));
    }
    assert_eq!(lines.next(), None);
    frames
}

#[test]
fn tshark_says_the_same_of_every_frame() {
    for (name, packets) in corpus().into_iter().filter(|(name, _)| *name != "tunnels") {
        let frames = printed(name);
        assert_eq!(frames.len(), packets.len());
        for (number, (frame, line)) in (1..).zip(frames) {
            assert_eq!(
                ours(&frame),
                theirs(&line, Occurrence::First),
                "{name}.pcap, frame {number}"
            );
        }
    }
}

#[test]
fn tshark_finds_the_same_inside_tunnels() {
    for (number, (frame, line)) in (1..).zip(printed("tunnels")) {
        let outer = Dissection::of(&frame).unwrap();
        assert_eq!(
            ours(&frame).addresses,
            theirs(&line, Occurrence::First).addresses,
            "frame {number}"
        );
        let inner = tunnel::inner(&outer).unwrap_or_else(|| panic!("nothing inside frame {number}"));
        let line = theirs(&line, Occurrence::Last);
        let family = if inner.source().is_ipv4() {
            IpAddr::is_ipv4
        } else {
            IpAddr::is_ipv6
        };
        assert!(family(&inner.destination()));
        assert_eq!(transport(&inner), line.transport, "frame {number}");
    }
}
