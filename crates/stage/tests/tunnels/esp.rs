//! ESP in tunnel mode: what was sealed comes out, whatever else is dropped under its cause, and no key is shown.

use super::frames::{self, V4, V6};
use super::{TAGS, packets, run};
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, IndirectionTable, Key, Toeplitz};
use corelane_stage::counts::{Count, StageCounts};
use corelane_stage::decapsulation::{Counts, Decapsulation, Keys, Plan};
use corelane_stage::dispatch::{Policy, Spread};
use corelane_stage::esp::Associations;
use corelane_stage::{Context, StagePlans, TableStage, Verdict, Way, WayCounts, reassembly};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::path::PathBuf;
use std::sync::Arc;

/// Keys with their salts, of both lengths.
pub const KEYS: [&str; 2] = [
    "000102030405060708090a0b0c0d0e0f10111213",
    "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3",
];

/// Outer destinations of tests.
pub const DESTINATIONS: [&str; 2] = ["192.0.2.2", "2001:db8::2"];

/// Protocols in the trailer.
const IPV4: u8 = 4;
const IPV6: u8 = 41;

/// The sending end of an association.
pub struct Sender {
    key: LessSafeKey,
    salt: Vec<u8>,
    pub spi: u32,
    pub extended: bool,
    /// The number of the next packet.
    pub sequence: u64,
}

impl Sender {
    pub fn new(spi: u32, key: &str, extended: bool) -> Sender {
        let bytes: Vec<u8> = (0..key.len() / 2)
            .map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let (key, salt) = bytes.split_at(bytes.len() - 4);
        let algorithm = if key.len() == 16 {
            &AES_128_GCM
        } else {
            &AES_256_GCM
        };
        Sender {
            key: LessSafeKey::new(UnboundKey::new(algorithm, key).unwrap()),
            salt: salt.to_vec(),
            spi,
            extended,
            sequence: 1,
        }
    }

    /// A packet of ESP around this, padding and trailer included.
    pub fn seal_all(&mut self, plain: &[u8]) -> Vec<u8> {
        let (spi, sequence) = (self.spi.to_be_bytes(), self.sequence.to_be_bytes());
        let authenticated = match self.extended {
            true => [&spi[..], &sequence].concat(),
            false => [&spi[..], &sequence[4..]].concat(),
        };
        let nonce: [u8; 12] = [&self.salt[..], &sequence].concat().try_into().unwrap();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut sealed = plain.to_vec();
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&authenticated), &mut sealed);
        self.sequence += 1;
        [
            &spi[..],
            &sequence[4..],
            &sequence,
            &sealed,
            tag.unwrap().as_ref(),
        ]
        .concat()
    }

    /// A packet of ESP around content of this protocol, padded to words.
    pub fn seal(&mut self, next: u8, content: &[u8]) -> Vec<u8> {
        let padding = ((4 - (content.len() + 2) % 4) % 4) as u8;
        let trailer: Vec<u8> = (1..=padding).chain([padding, next]).collect();
        self.seal_all(&[content, &trailer].concat())
    }
}

/// The outer packet of both families.
pub fn outer(protocol: u8, payload: &[u8]) -> [(u16, Vec<u8>); 2] {
    let [v4, v6] = DESTINATIONS;
    let v4 = V4 {
        source: [192, 0, 2, 1].into(),
        destination: v4.parse().unwrap(),
        protocol,
        ..V4::SUITE
    };
    let v6 = V6 {
        source: "2001:db8::1".parse().unwrap(),
        destination: v6.parse().unwrap(),
        ..V6::suite(vec![], protocol)
    };
    [(0x0800, v4.packet(payload)), (0x86dd, v6.packet(payload))]
}

pub fn in_ipv4(esp: &[u8]) -> Vec<u8> {
    let [(ether_type, packet), _] = outer(50, esp);
    frames::ethernet(&[], ether_type, &packet)
}

/// A plan with one association for each destination.
pub fn plan_of(spi: u32, key: &str, extended: bool) -> Plan {
    let association = |destination| {
        format!(
            "[[association]]\nspi = {spi}\ndestination = \"{destination}\"\nkey = \"0x{key}\"\nesn = {extended}\nwindow = 64\n"
        )
    };
    let associations = Associations::parse(&DESTINATIONS.map(association).concat()).unwrap();
    Plan {
        keys: Some(Keys {
            file: PathBuf::from("keys.toml"),
            associations: Arc::new(associations),
        }),
        ..Plan::default()
    }
}

/// A sender, and the stage that receives.
fn ends() -> (Sender, Decapsulation, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let stage = Decapsulation::new(plan_of(0x100, KEYS[0], false), 7, Arc::clone(&counts));
    (Sender::new(0x100, KEYS[0], false), stage, counts)
}

/// The counts that are not zero.
fn counted(counts: &Counts) -> Vec<(&'static str, u64)> {
    let mut found = Vec::new();
    counts.each(&mut |Count { name, value, .. }| {
        if value > 0 {
            found.push((name, value));
        }
    });
    found
}

#[test]
fn what_was_sealed_comes_out_of_both_families_with_and_without_udp() {
    for ((ether_type, inner), key) in packets().iter().flat_map(|inner| KEYS.map(|key| (inner, key))) {
        let next = if *ether_type == 0x0800 { IPV4 } else { IPV6 };
        for (extended, hidden) in [(false, 0), (true, 0), (true, 300)] {
            let counts = Arc::new(Counts::default());
            let mut stage = Decapsulation::new(plan_of(0x100, key, extended), 7, Arc::clone(&counts));
            // An association for each destination, and so for each family.
            let mut senders = [(); 2].map(|()| Sender::new(0x100, key, extended));
            for tags in TAGS {
                for in_udp in [false, true] {
                    for (place, sender) in senders.iter_mut().enumerate() {
                        // Padding that hides the length of the packet (RFC 4303, section 2.7).
                        let content = [&inner[..], &vec![7; hidden]].concat();
                        let esp = sender.seal(next, &content);
                        let outer = match in_udp {
                            false => outer(50, &esp),
                            true => outer(17, &frames::udp(4500, 4500, &esp)),
                        };
                        let (outer_type, packet) = &outer[place];
                        let left = run(&mut stage, &frames::ethernet(tags, *outer_type, packet));
                        assert_eq!(
                            left,
                            Some(frames::ethernet(tags, *ether_type, inner)),
                            "{tags:?} {in_udp}"
                        );
                    }
                }
            }
            assert_eq!(counted(&counts), [("esp", 12)]);
        }
    }
}

#[test]
fn without_its_key_esp_passes_as_it_is() {
    let [(_, inner), _] = packets();
    let (mut sender, _, _) = ends();
    let esp = sender.seal(IPV4, &inner);
    let frame = in_ipv4(&esp);
    let mut elsewhere = frame.clone();
    elsewhere[33] = 3;
    for (plan, frame, count) in [
        (Plan::default(), &frame, "esp_no_key"),
        (plan_of(0x101, KEYS[0], false), &frame, "esp_no_key"),
        (plan_of(0x100, KEYS[0], false), &elsewhere, "esp_no_key"),
        // What a capture has cut short cannot be verified.
        (
            plan_of(0x100, KEYS[0], false),
            &frame[..frame.len() - 1].to_vec(),
            "not_readable",
        ),
    ] {
        let counts = Arc::new(Counts::default());
        let mut stage = Decapsulation::new(plan, 7, Arc::clone(&counts));
        assert_eq!(run(&mut stage, frame).as_ref(), Some(frame));
        assert_eq!(counted(&counts), [(count, 1)]);
    }
}

#[test]
fn each_cause_of_a_drop_has_its_count() {
    let [(_, inner), (_, inner_v6)] = packets();
    let mut damaged = inner.clone();
    damaged[3] += 1;
    // The sequence number, the vector, the encrypted packet and the check value.
    for at in [7, 8, 15, 16, 30, 60, 70] {
        let (mut sender, mut stage, counts) = ends();
        let mut esp = sender.seal(IPV4, &inner);
        let good = in_ipv4(&esp);
        esp[at] ^= 1;
        assert_eq!(run(&mut stage, &in_ipv4(&esp)), None);
        assert_eq!(
            counted(&counts),
            [(if at == 7 { "replayed" } else { "forged" }, 1)]
        );
        // What was forged moves no window.
        assert!(run(&mut stage, &good).is_some());
    }
    for (plain, cause) in [
        ([&inner[..], &[0, 17]].concat(), "not_tunnel_mode"),
        ([&inner[..], &[0, IPV6]].concat(), "not_tunnel_mode"),
        ([&inner_v6[..], &[0, IPV4]].concat(), "not_tunnel_mode"),
        ([&damaged[..], &[0, IPV4]].concat(), "not_tunnel_mode"),
        ([&inner[..19], &[0, IPV4]].concat(), "not_tunnel_mode"),
        ([&inner[..], &[1, 3, 2, IPV4]].concat(), "padding"),
        ([&inner[..], &[200, IPV4]].concat(), "padding"),
        ([&inner[..], &[0, 59]].concat(), "dummy"),
    ] {
        let (mut sender, mut stage, counts) = ends();
        let frame = in_ipv4(&sender.seal_all(&plain));
        assert_eq!(run(&mut stage, &frame), None);
        assert_eq!(run(&mut stage, &frame), None);
        let mut expected = vec![(cause, 1), ("replayed", 1)];
        let mut found = counted(&counts);
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_outer_headers_are_judged_before_the_packet_is_opened() {
    let [(_, inner), _] = packets();
    let (mut sender, mut stage, counts) = ends();
    let good = in_ipv4(&sender.seal(IPV4, &inner));
    let mut wrong = good.clone();
    wrong[25] ^= 1;
    assert_eq!(run(&mut stage, &wrong), None);
    assert_eq!(counted(&counts), [("checksum", 1)]);
    assert!(run(&mut stage, &good).is_some());
    // Congestion outside that the packet inside cannot carry.
    let mut marked = in_ipv4(&sender.seal(IPV4, &inner));
    corelane_packet::Editor::of(&mut marked)
        .unwrap()
        .set_traffic_class(3);
    assert_eq!(run(&mut stage, &marked), None);
    assert_eq!(counts.ecn.get(), 1);
}

/// A stage for each bucket, of one plan. Whoever repeats a packet may write any source into it.
#[test]
fn what_one_bucket_received_another_refuses() {
    let [(_, inner), _] = packets();
    let plan = plan_of(0x100, KEYS[0], false);
    let counts = Arc::new(Counts::default());
    let mut stages = [(); 2].map(|()| Decapsulation::new(plan.clone(), 7, Arc::clone(&counts)));
    let mut sender = Sender::new(0x100, KEYS[0], false);
    let esp = sender.seal(IPV4, &inner);
    assert!(run(&mut stages[0], &in_ipv4(&esp)).is_some());
    let [(_, elsewhere), _] = outer(17, &frames::udp(7, 4500, &esp));
    assert_eq!(
        run(&mut stages[1], &frames::ethernet(&[], 0x0800, &elsewhere)),
        None
    );
    assert_eq!(counted(&counts), [("esp", 1), ("replayed", 1)]);
}

#[test]
fn extended_sequence_numbers_go_on_beyond_32_bits_and_others_do_not() {
    let [(_, inner), _] = packets();
    for extended in [false, true] {
        let counts = Arc::new(Counts::default());
        let mut stage = Decapsulation::new(plan_of(0x100, KEYS[0], extended), 7, Arc::clone(&counts));
        let mut sender = Sender::new(0x100, KEYS[0], extended);
        sender.sequence = (1 << 32) - 3;
        let mut sealed: Vec<Vec<u8>> = (0..6).map(|_| in_ipv4(&sender.seal(IPV4, &inner))).collect();
        // The wrap comes before the packets that were sent before it.
        sealed.swap(2, 4);
        let passed = sealed
            .iter()
            .filter(|frame| run(&mut stage, frame).is_some())
            .count();
        assert_eq!(passed, if extended { 6 } else { 3 });
        for frame in &sealed {
            assert_eq!(run(&mut stage, frame), None);
        }
        let dropped = if extended { 6 } else { 9 };
        assert_eq!(counted(&counts), [("esp", passed as u64), ("replayed", dropped)]);
    }
}

/// All packets of a sender have the addresses, and in UDP the ports, of one flow.
#[test]
fn the_packets_of_a_sender_are_in_one_bucket_whatever_is_hashed() {
    let mut sender = Sender::new(0x100, KEYS[0], false);
    for hash_types in [HashTypes::TWO_TUPLE, HashTypes::FOUR_TUPLE] {
        let spread = Spread {
            toeplitz: Toeplitz::new(&Key::VERIFICATION),
            hash_types,
            table: IndirectionTable::round_robin(128, 7).unwrap(),
            buckets: 7,
        };
        for in_udp in [false, true] {
            let mut buckets: [Vec<Bucket>; 2] = Default::default();
            for length in 0..100 {
                let esp = sender.seal(IPV4, &vec![0; length]);
                let outer = match in_udp {
                    false => outer(50, &esp),
                    true => outer(17, &frames::udp(4500, 4500, &esp)),
                };
                for (buckets, (ether_type, packet)) in buckets.iter_mut().zip(outer) {
                    let frame = frames::ethernet(&[], ether_type, &packet);
                    let hash = spread.hash(&Dissection::of(&frame).unwrap());
                    assert!(hash.is_some());
                    buckets.push(spread.bucket(Policy::Cpu, hash, 0));
                }
            }
            for mut buckets in buckets {
                buckets.dedup();
                assert_eq!(buckets.len(), 1);
            }
        }
    }
}

/// All that unwraps, with these keys.
fn way(keys: Keys) -> Way {
    let plans = StagePlans {
        reassemble: Some(reassembly::Plan::default()),
        decapsulate: Some(Plan {
            keys: Some(keys),
            ..Plan::default()
        }),
        ..StagePlans::default()
    };
    let counts = WayCounts::new(&plans);
    let context = Context {
        bucket: Bucket::new(0),
        buckets: 1,
        seed: 1,
        key: Key::VERIFICATION,
    };
    let tables = TableStage::new(vec![], Verdict::Pass, Verdict::Pass, Arc::default());
    Way::new(&plans, &context, None, tables, &counts)
}

/// Fragments of ESP around VXLAN around ESP around fragments.
#[test]
fn fragments_are_reassembled_around_and_within_esp() {
    let datagram = frames::udp(2794, 1766, &[5; 1000]);
    let fragments = |whole: &[u8], protocol, identification| {
        let half = whole.len() / 16 * 8;
        [(0x2000, &whole[..half]), (half as u16 / 8, &whole[half..])].map(|(fragment, part)| {
            let header = V4 {
                source: [192, 0, 2, 1].into(),
                destination: [192, 0, 2, 2].into(),
                protocol,
                fragment,
                identification,
                ..V4::SUITE
            };
            header.packet(part)
        })
    };
    let mut senders = [1, 2].map(|spi| Sender::new(spi, KEYS[0], false));
    let mut sent = Vec::new();
    for (number, inner) in (1..).zip(fragments(&datagram, 17, 7)) {
        let esp = in_ipv4(&senders[0].seal(IPV4, &inner));
        let vxlan = frames::udp(50_000, 4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &esp[..]].concat());
        let [(_, packet), _] = outer(17, &vxlan);
        let esp = senders[1].seal(IPV4, &packet);
        let cut = fragments(&esp, 50, number);
        sent.extend(cut.map(|packet| frames::ethernet(&[], 0x0800, &packet)));
    }
    let associations = [1, 2].map(|spi| {
        format!(
            "[[association]]\nspi = {spi}\ndestination = \"192.0.2.2\"\nkey = \"{}\"\n",
            KEYS[0]
        )
    });
    let keys = Keys {
        file: PathBuf::new(),
        associations: Arc::new(Associations::parse(&associations.concat()).unwrap()),
    };
    let mut way = way(keys);
    let sent: Vec<_> = sent.into_iter().map(|frame| (0, frame)).collect();
    let left = super::run_from(&mut way, &sent);
    let [whole, _] = outer(17, &datagram);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0][34..], frames::ethernet(&[], 0x0800, &whole.1)[34..]);
}

#[test]
fn no_key_is_in_any_output() {
    let [(_, inner), _] = packets();
    let plan = plan_of(0x100, KEYS[1], true);
    let counts = Arc::new(Counts::default());
    let mut stage = Decapsulation::new(plan.clone(), 7, Arc::clone(&counts));
    let mut sender = Sender::new(0x100, KEYS[1], true);
    run(&mut stage, &in_ipv4(&sender.seal(IPV4, &inner)));
    let written = serde_json::to_string(&plan).unwrap();
    assert!(written.contains("\"keys\":\"keys.toml\""), "{written}");
    assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), plan);
    for shown in [
        written,
        format!("{plan:?}"),
        format!("{stage:?}"),
        format!("{counts:?}"),
    ] {
        // As digits, and as numbers.
        let key = [&KEYS[1][..16], &KEYS[1][56..], "160, 161", "192, 193"];
        for part in key {
            assert!(!shown.to_lowercase().contains(part), "{shown}");
        }
    }
}
