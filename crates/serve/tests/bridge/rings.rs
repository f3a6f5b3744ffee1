//! Bridges between rings in memory, which need no privilege and no device; every frame is accounted for.

use super::frames::{arp, cut_off, datagram, number_of, tagged};
use corelane_link::memory::{MemoryLink, shared};
use corelane_link::{FrameLayout, Link};
use corelane_serve::Server;
use corelane_serve::bridge::{Bridge, BridgeError, BridgePlan, Bridged, OnMatch, Sides, TablePlan, Verdict};
use corelane_tests::until;
use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A bridge between rings, and the other ends of the rings.
pub struct Rings {
    pub bridge: Bridge,
    ends: Vec<MemoryLink>,
    sent: u64,
}

impl Rings {
    pub fn start(ends: usize, change: impl FnOnce(&mut BridgePlan)) -> Rings {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let names: Vec<String> = (0..ends)
            .map(|end| format!("bridge-{}-{number}-{end}", std::process::id()))
            .collect();
        let links = names.iter().map(|name| format!("ring:{name}")).collect();
        let mut plan = BridgePlan::new(links, vec![0]);
        change(&mut plan);
        let bridge = Bridge::start(plan).unwrap();
        let ends = names
            .iter()
            .map(|name| shared(name, FrameLayout::default()).unwrap())
            .collect();
        Rings {
            bridge,
            ends,
            sent: 0,
        }
    }

    pub fn send(&mut self, end: usize, frames: &[Vec<u8>]) {
        assert_eq!(
            self.ends[end]
                .send(frames.iter().map(Vec::as_slice))
                .unwrap()
                .taken,
            frames.len()
        );
        self.sent += frames.len() as u64;
    }

    /// Waits until the bridge has received everything that was sent.
    fn wait(&self) {
        until("the bridge has received all frames", || {
            self.bridge.bridged().received >= self.sent
        });
    }

    /// Waits likewise, and until nothing is between workers.
    pub fn settle(&self) {
        self.wait();
        until("every frame is in one cell", || {
            self.bridge.bridged().unaccounted() == 0
        });
    }

    /// Waits likewise, then receives from one end.
    pub fn receive(&mut self, end: usize) -> Vec<Vec<u8>> {
        self.wait();
        self.ends[end]
            .receive(2048)
            .unwrap()
            .iter()
            .map(<[u8]>::to_vec)
            .collect()
    }
}

pub fn table(file: &Path, sides: Sides, on_match: OnMatch) -> TablePlan {
    TablePlan {
        set: None,
        file: file.to_owned(),
        sides,
        on_match,
    }
}

pub fn written(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Asserts that every frame was counted once.
fn balances(bridged: &Bridged) {
    assert_eq!(
        bridged.received,
        bridged.passed + bridged.dropped.values().sum::<u64>(),
        "{bridged:?}"
    );
}

#[test]
fn frames_of_one_link_go_out_of_all_others_and_not_back() {
    let mut rings = Rings::start(3, |_| ());
    let frames: Vec<Vec<u8>> = (0..100)
        .map(|number| datagram(number, ip("10.0.0.1"), ip("10.0.0.2")))
        .collect();
    rings.send(1, &frames);
    assert_eq!(rings.receive(0), frames);
    assert_eq!(rings.receive(2), frames);
    assert!(rings.receive(1).is_empty());
    let bridged = rings.bridge.stop().unwrap();
    balances(&bridged);
    assert_eq!((bridged.received, bridged.passed), (100, 100));
    assert_eq!(
        bridged
            .links
            .iter()
            .map(|link| link.tally.sent)
            .collect::<Vec<_>>(),
        [100, 0, 100]
    );
}

#[test]
fn a_frame_is_dropped_if_a_table_has_the_address_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(&folder, "list", "10.0.0.1\n10.1.0.0/16 9\n2001:db8::/32\n");
    for sides in [Sides::Src, Sides::Dst, Sides::Both] {
        let mut rings = Rings::start(2, |plan| plan.tables = vec![table(&list, sides, OnMatch::Drop)]);
        let (listed, other) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let (prefix, v6, other_v6) = (ip("10.1.2.3"), ip("2001:db8::7"), ip("2001:db9::7"));
        let pairs = [
            (listed, other),
            (other, listed),
            (other, other),
            (prefix, other),
            (listed, prefix),
            (v6, other_v6),
            (other_v6, v6),
            (other_v6, other_v6),
        ];
        let mut frames: Vec<Vec<u8>> = (0..)
            .zip(pairs)
            .map(|(number, (from, to))| datagram(number, from, to))
            .collect();
        frames.extend(
            (8..)
                .zip(pairs)
                .map(|(number, (from, to))| tagged(number, from, to)),
        );
        rings.send(0, &frames);
        let received: Vec<u32> = rings.receive(1).iter().map(|frame| number_of(frame)).collect();
        let is_listed = |address| [listed, prefix, v6].contains(&address);
        let expected: Vec<u32> = (0..16)
            .filter(|number| {
                let (from, to) = pairs[*number as usize % 8];
                !match sides {
                    Sides::Src => is_listed(from),
                    Sides::Dst => is_listed(to),
                    Sides::Both => is_listed(from) || is_listed(to),
                }
            })
            .collect();
        assert_eq!(received, expected, "{sides}");
        let bridged = rings.bridge.stop().unwrap();
        balances(&bridged);
        let table = &bridged.tables[0];
        assert_eq!(
            (table.asked, table.matched),
            (16, 16 - expected.len() as u64),
            "{sides}"
        );
        assert_eq!(table.rules.values().sum::<u64>(), table.matched, "{sides}");
        assert!(table.rules[&9] > 0, "the rule of the prefix");
    }
}

#[test]
fn the_first_table_that_matches_decides_unless_it_only_counts() {
    let folder = tempfile::tempdir().unwrap();
    let counted = written(&folder, "counted", "10.0.0.0/8\n");
    let allowed = written(&folder, "allowed", "10.0.0.1\n");
    let blocked = written(&folder, "blocked", "10.0.0.0/24\n");
    let mut rings = Rings::start(2, |plan| {
        plan.tables = vec![
            table(&counted, Sides::Both, OnMatch::Count),
            table(&allowed, Sides::Src, OnMatch::Pass),
            table(&blocked, Sides::Src, OnMatch::Drop),
        ];
    });
    let frames: Vec<Vec<u8>> = (0..)
        .zip(["10.0.0.1", "10.0.0.2", "10.0.1.1", "192.0.2.1"])
        .map(|(number, source)| datagram(number, ip(source), ip("192.0.2.2")))
        .collect();
    rings.send(0, &frames);
    let received: Vec<u32> = rings.receive(1).iter().map(|frame| number_of(frame)).collect();
    assert_eq!(received, [0, 2, 3]);
    let bridged = rings.bridge.stop().unwrap();
    let counts: Vec<(u64, u64)> = bridged
        .tables
        .iter()
        .map(|table| (table.asked, table.matched))
        .collect();
    assert_eq!(counts, [(4, 3), (4, 1), (3, 1)]);
    assert_eq!(bridged.dropped["table"], 1);
    balances(&bridged);
}

#[test]
fn an_allow_list_drops_what_no_table_decided_and_arp_is_a_choice_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let allowed = written(&folder, "allowed", "10.0.0.1\n");
    for not_ip in [Verdict::Pass, Verdict::Drop] {
        let mut rings = Rings::start(2, |plan| {
            plan.tables = vec![table(&allowed, Sides::Src, OnMatch::Pass)];
            plan.otherwise = Verdict::Drop;
            plan.not_ip = not_ip;
        });
        let frames = [
            datagram(0, ip("10.0.0.1"), ip("10.0.0.9")),
            datagram(1, ip("10.0.0.2"), ip("10.0.0.9")),
            datagram(2, ip("2001:db8::1"), ip("2001:db8::2")),
            arp(3),
            cut_off(4),
        ];
        rings.send(0, &frames);
        let received = rings.receive(1);
        let expected: &[usize] = if not_ip == Verdict::Pass { &[0, 3, 4] } else { &[0] };
        assert_eq!(
            received,
            expected
                .iter()
                .map(|number| frames[*number].clone())
                .collect::<Vec<_>>()
        );
        let bridged = rings.bridge.stop().unwrap();
        balances(&bridged);
        assert_eq!(
            (bridged.not_ip, bridged.malformed, bridged.dropped["otherwise"]),
            (1, 1, 2)
        );
    }
}

#[test]
fn replacing_a_table_while_bridging_loses_no_frame_and_gives_no_answer_of_neither() {
    let folder = tempfile::tempdir().unwrap();
    // Both lists drop frames from 10.0.0.1 to 10.0.0.2, each by another address; both drop 10.0.0.3; neither contains
    // 10.0.0.4.
    let filler: String = (0..20_000u32)
        .map(|number| format!("{}\n", std::net::Ipv4Addr::from(0x0b00_0000 + number)))
        .collect();
    let texts = [
        format!("10.0.0.1\n10.0.0.3\n{filler}"),
        format!("{filler}10.0.0.2\n10.0.0.3\n"),
    ];
    let list = written(&folder, "list", &texts[0]);
    let mut rings = Rings::start(2, |plan| {
        plan.tables = vec![table(&list, Sides::Both, OnMatch::Drop)];
        plan.reload_every = Some(Duration::from_millis(1));
    });
    let (mut round, mut taken) = (0u32, 0);
    until("the table is replaced ten times", || {
        let loads = rings.bridge.bridged().tables[0].loads;
        // A file that is replaced again before two polls found the same version is not read.
        if loads > taken {
            taken = loads;
            // A rename, so that no reader sees a partial list.
            let next = written(&folder, "next", &texts[taken as usize % 2]);
            fs::rename(next, &list).unwrap();
        }
        let frames: Vec<Vec<u8>> = (0..200u32)
            .map(|number| match number % 4 {
                0 => datagram(number, ip("10.0.0.1"), ip("10.0.0.2")),
                1 => datagram(number, ip("10.0.0.9"), ip("10.0.0.3")),
                _ => datagram(number, ip("10.0.0.4"), ip("10.0.0.9")),
            })
            .collect();
        rings.send(0, &frames);
        let received: Vec<u32> = rings.receive(1).iter().map(|frame| number_of(frame)).collect();
        assert_eq!(
            received,
            (0..200).filter(|number| number % 4 > 1).collect::<Vec<_>>(),
            "round {round}"
        );
        round += 1;
        taken >= 10
    });
    balances(&rings.bridge.stop().unwrap());
}

#[test]
fn a_wrong_list_is_refused_with_its_line_and_the_table_in_use_stays() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(&folder, "list", "10.0.0.1\n");
    let mut rings = Rings::start(2, |plan| {
        plan.tables = vec![table(&list, Sides::Both, OnMatch::Drop)];
        plan.reload_every = None;
    });
    fs::write(&list, "10.0.0.2\nnonsense\n").unwrap();
    rings.bridge.reload();
    until("the list is refused", || {
        rings.bridge.bridged().tables[0].refused > 0
    });
    let frames = [
        datagram(0, ip("10.0.0.1"), ip("10.0.0.9")),
        datagram(1, ip("10.0.0.2"), ip("10.0.0.9")),
    ];
    rings.send(0, &frames);
    assert_eq!(rings.receive(1), frames[1..]);
    let bridged = rings.bridge.stop().unwrap();
    let table = &bridged.tables[0];
    assert_eq!((table.loads, table.refused, table.entries), (1, 1, 1));
    let why = table.last_refusal.as_deref().unwrap();
    assert!(why.contains("list: line 2") && why.contains("nonsense"), "{why}");
}

#[test]
fn a_wrong_list_at_the_start_is_refused_unless_bad_lines_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(&folder, "list", "10.0.0.1\nnonsense\n10.0.0.2\n");
    let links = vec!["ring:never-a".to_owned(), "ring:never-b".to_owned()];
    let plan = BridgePlan {
        tables: vec![table(&list, Sides::Both, OnMatch::Drop)],
        ..BridgePlan::new(links, vec![0])
    };
    let refusal = Bridge::start(plan.clone()).err().unwrap();
    assert!(matches!(refusal, BridgeError::List(_)), "{refusal}");
    assert!(refusal.to_string().contains("line 2"), "{refusal}");
    let bridge = Bridge::start(BridgePlan {
        skip_bad: true,
        ..plan
    })
    .unwrap();
    let table = bridge.bridged().tables.remove(0);
    assert_eq!((table.entries, table.skipped_lines), (2, 1));
}

#[test]
fn a_ring_that_is_full_is_a_counted_drop() {
    let mut rings = Rings::start(2, |_| ());
    let frames: Vec<Vec<u8>> = (0..1000)
        .map(|number| datagram(number, ip("10.0.0.1"), ip("10.0.0.2")))
        .collect();
    for _ in 0..3 {
        rings.send(0, &frames);
        // The test does not read the other end, which has room for 2,048 frames.
        rings.wait();
    }
    let bridged = rings.bridge.stop().unwrap();
    let numbers: BTreeSet<u32> = rings.ends[1]
        .receive(4096)
        .unwrap()
        .iter()
        .map(number_of)
        .collect();
    assert_eq!(numbers.len(), 1000);
    assert_eq!(
        (bridged.links[1].tally.sent, bridged.links[1].not_sent["full"]),
        (2048, 952)
    );
    balances(&bridged);
}
