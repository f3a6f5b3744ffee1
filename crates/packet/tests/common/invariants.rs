//! Properties of dissection and edits for arbitrary bytes: used by the mutation test and by the fuzz target.

use corelane_packet::ethernet::{self, MacAddress};
use corelane_packet::tunnel::{self, Content, Kind, Tunnel};
use corelane_packet::{Dissection, Editor, Fragment, HashTypes, TransportHeader};
use corelane_rss::{HashFields, Key, Toeplitz, oracle};
use std::sync::LazyLock;

static TOEPLITZ: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(&Key::VERIFICATION));

/// Dissects `frame` in every way, and asserts the documented properties.
pub fn hold_for(frame: &[u8]) {
    assert!(ethernet::vlan_ids(frame).count() <= frame.len() / 4);
    for found in [Dissection::of(frame), Dissection::of_packet(frame)] {
        match found {
            Ok(dissection) => facts_hold(&dissection),
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
    }
    if let Some(Ok(tunnel)) = Tunnel::of_labels(frame) {
        assert_eq!((tunnel.kind(), tunnel.content()), (Kind::Mpls, Content::Packet));
        assert_eq!((tunnel.inside().start - tunnel.start()) % 4, 0);
        assert!(matches!(frame[tunnel.inside().start] >> 4, 4 | 6));
    }
    let whole = Dissection::of_hashed(frame, HashTypes::ALL);
    assert!(whole.is_err() || whole == Dissection::of(frame));
    edits_hold(frame);
    corelane_packet::finish_checksum(&mut frame.to_vec());
}

fn facts_hold(dissection: &Dissection) {
    let frame = dissection.frame();
    assert!(dissection.network_offset() < dissection.transport_offset());
    assert!(dissection.transport_offset() <= frame.len());
    assert!(dissection.network_offset() < dissection.fragment_data());
    assert!(dissection.fragment_data() <= dissection.packet_end());
    assert!(dissection.network_offset() < dissection.packet_end());
    assert!(dissection.packet_end() <= frame.len());
    assert_eq!(dissection.source().is_ipv4(), dissection.destination().is_ipv4());
    if let Fragment::Part(part) = dissection.fragment() {
        assert_eq!(part.offset % 8, 0);
        assert!(part.more || part.offset > 0, "neither first nor last of several");
        let allowed = [TransportHeader::InFirstFragment, TransportHeader::Missing];
        assert!(part.offset == 0 || allowed.contains(&dissection.transport()));
    } else {
        assert_ne!(dissection.transport(), TransportHeader::InFirstFragment);
    }
    let _: bool = dissection.has_wrong_checksum();
    inputs_hold(dissection);
    assert_eq!(Dissection::again(frame, dissection.layout()), *dissection);
    let tunnel = Tunnel::of(dissection).transpose().ok().flatten();
    if let Some(tunnel) = &tunnel {
        assert_eq!(tunnel.start(), dissection.transport_offset());
        let inside = tunnel.inside();
        assert!(tunnel.start() <= inside.start && inside.start <= inside.end);
        assert!(inside.end <= dissection.packet_end());
    }
    if let Some(inner) = tunnel::inner(dissection) {
        assert!(inner.network_offset() >= tunnel.expect("it has this content").inside().start);
        assert!(inner.packet_end() <= dissection.packet_end());
        facts_hold(&inner);
    }
}

fn inputs_hold(dissection: &Dissection) {
    let addresses = if dissection.source().is_ipv4() { 8 } else { 32 };
    for enabled in [
        HashTypes::ALL,
        HashTypes::FOUR_TUPLE,
        HashTypes::DRIVER_DEFAULT,
        HashTypes::TWO_TUPLE,
    ] {
        let input = dissection
            .rss_input(enabled)
            .expect("types for both families are enabled");
        assert!(enabled.contains(input.hash_type()));
        let with_ports = input.hash_type().fields() == HashFields::FourTuple;
        assert!(
            !(with_ports && dissection.is_fragment()),
            "no port of a fragment is hashed"
        );
        assert!(!with_ports || dissection.ports().is_some());
        assert_eq!(input.as_bytes().len(), addresses + if with_ports { 4 } else { 0 });
        let hash = input.hash(&TOEPLITZ);
        assert_eq!(hash.value, oracle::toeplitz(&Key::VERIFICATION, input.as_bytes()));
    }
    assert_eq!(dissection.rss_input(HashTypes::NONE), None);
    let tuple = dissection.tuple();
    assert_eq!(tuple.source().ip(), dissection.source());
    assert_eq!(tuple.destination().ip(), dissection.destination());
}

/// Exchanges both ends of the flow, and asserts that the new values are read back.
fn edits_hold(frame: &[u8]) {
    let mut edited = frame.to_vec();
    let Ok(mut editor) = Editor::of(&mut edited) else {
        return;
    };
    editor.set_ethernet_source(MacAddress([1; 6]));
    editor.set_ethernet_destination(MacAddress([2; 6]));
    editor.set_traffic_class(0xb9);
    assert_eq!(editor.dissection().traffic_class(), 0xb9);
    let (source, destination) = (editor.dissection().source(), editor.dissection().destination());
    let ports = editor.dissection().ports();
    let addresses_set = editor.set_source(destination).is_ok() && editor.set_destination(source).is_ok();
    if let Some(ports) = ports
        && editor.set_source_port(ports.destination).is_ok()
    {
        editor
            .set_destination_port(ports.source)
            .expect("one port could be set");
        let now = editor.dissection().ports().expect("ports keep their position");
        assert_eq!((now.source, now.destination), (ports.destination, ports.source));
    }
    if addresses_set {
        assert_eq!(editor.dissection().source(), destination);
        assert_eq!(editor.dissection().destination(), source);
    }
}
