//! Maps of both families: longest matches over hosts and prefixes, atomic replacement, snapshots.

use crate::common::{SEED, value};
use corelane_table::{
    AddressMap, BadLines, IpPrefix, ListOptions, LoadError, Loaded, Lookup, Pages, Placement, Prefetch,
    SnapshotError, SnapshotMemory, Value,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

fn empty() -> AddressMap {
    AddressMap::new(SEED, Placement::default())
}

fn of_list(text: &str) -> AddressMap {
    let (map, _) = AddressMap::from_list(
        text.as_bytes(),
        &ListOptions::default(),
        SEED,
        Placement::default(),
    )
    .unwrap();
    map
}

/// A file that is deleted when it is closed.
fn scratch_file() -> File {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("corelane-table-{}-{number}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    fs::remove_file(&path).unwrap();
    file
}

fn lookup(map: &AddressMap, address: IpAddr) -> Option<Value> {
    match address {
        IpAddr::V4(address) => map.table().v4.get(address),
        IpAddr::V6(address) => map.table().v6.get(address),
    }
}

#[test]
fn the_longest_match_wins_over_hosts_and_prefixes() {
    let mut map = of_list("10.0.0.0/8 1\n10.0.0.0/24 2\n10.0.0.1 3\n2001:db8::/32 4\n2001:db8::1 5\n");
    let ask = |map: &AddressMap, address: &str| lookup(map, address.parse().unwrap()).map(Value::get);
    let addresses = [
        "10.0.0.1",
        "10.0.0.2",
        "10.1.0.0",
        "11.0.0.0",
        "2001:db8::1",
        "2001:db8::2",
        "::1",
    ];
    let answers = |map: &AddressMap| addresses.map(|address| ask(map, address));
    assert_eq!(
        answers(&map),
        [Some(3), Some(2), Some(1), None, Some(5), Some(4), None]
    );
    assert_eq!(map.remove("10.0.0.1".parse().unwrap()), Some(value(3)));
    assert_eq!(map.remove("10.0.0.0/24".parse().unwrap()), Some(value(2)));
    assert_eq!(map.remove("2001:db8::/32".parse().unwrap()), Some(value(4)));
    assert_eq!(
        answers(&map),
        [Some(1), Some(1), Some(1), None, Some(5), None, None]
    );
    assert_eq!(map.len(), 2);
}

/// Prefixes of few addresses, so that they nest; some are hosts.
fn prefix() -> impl Strategy<Value = IpPrefix> {
    let v4 = (0_u32..4, 0_u32..4, 0_u8..=4).prop_map(|(high, low, length)| {
        let length = [0, 8, 24, 30, 32][usize::from(length)];
        format!("{}/{length}", Ipv4Addr::from_bits(high << 8 | low))
            .parse()
            .unwrap()
    });
    let v6 = (0_u128..4, 0_u8..=4).prop_map(|(low, length)| {
        let length = [0, 48, 64, 126, 128][usize::from(length)];
        format!("{}/{length}", Ipv6Addr::from_bits(low)).parse().unwrap()
    });
    prop_oneof![v4, v6]
}

fn longest(oracle: &BTreeMap<IpPrefix, Value>, address: IpAddr) -> Option<Value> {
    let holding = oracle
        .iter()
        .filter_map(|(prefix, value)| match (prefix, address) {
            (IpPrefix::V4(prefix), IpAddr::V4(address)) => {
                prefix.contains(address).then_some((prefix.length(), *value))
            }
            (IpPrefix::V6(prefix), IpAddr::V6(address)) => {
                prefix.contains(address).then_some((prefix.length(), *value))
            }
            _ => None,
        });
    holding.max_by_key(|(length, _)| *length).map(|(_, value)| value)
}

fn assert_equals(map: &AddressMap, oracle: &BTreeMap<IpPrefix, Value>) {
    let v4: Vec<_> = (0..1_100).map(Ipv4Addr::from_bits).collect();
    let v6: Vec<_> = (0..8).map(Ipv6Addr::from_bits).collect();
    let mut reader = map.reader();
    let tables = reader.table();
    let mut answers = vec![None; v4.len()];
    tables.v4.lookup(&v4, Prefetch::default(), &mut answers);
    for (address, answer) in v4.iter().zip(&answers) {
        assert_eq!(*answer, longest(oracle, (*address).into()), "{address}");
    }
    answers.truncate(v6.len());
    tables.v6.lookup(&v6, Prefetch::Ahead(3), &mut answers);
    for (address, answer) in v6.iter().zip(&answers) {
        assert_eq!(*answer, longest(oracle, (*address).into()), "{address}");
    }
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), *oracle);
    assert_eq!(map.len(), oracle.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_map_and_its_snapshot_equal_a_search_through_all_prefixes(
        changes in prop::collection::vec((prefix(), prop::option::weighted(0.7, any::<u16>())), 1..40),
        later in prop::collection::vec((prefix(), prop::option::weighted(0.5, any::<u16>())), 1..20),
    ) {
        let mut map = empty();
        let mut oracle = BTreeMap::new();
        let change = |map: &mut AddressMap, oracle: &mut BTreeMap<_, _>, changes: &[(IpPrefix, Option<u16>)]| {
            for (prefix, to) in changes {
                match to {
                    Some(to) => assert_eq!(map.insert(*prefix, value(*to)).unwrap(), oracle.insert(*prefix, value(*to))),
                    None => assert_eq!(map.remove(*prefix), oracle.remove(prefix)),
                }
            }
        };
        change(&mut map, &mut oracle, &changes);
        assert_equals(&map, &oracle);
        let file = scratch_file();
        map.save(&file).unwrap();
        let small = Placement { pages: Pages::Small, node: None };
        for memory in [SnapshotMemory::Mapped, SnapshotMemory::Copied(small)] {
            let mut opened = AddressMap::open(&file, memory).unwrap();
            let mut oracle = oracle.clone();
            assert_equals(&opened, &oracle);
            change(&mut opened, &mut oracle, &later);
            assert_equals(&opened, &oracle);
        }
        assert_equals(&AddressMap::open(&file, SnapshotMemory::Mapped).unwrap(), &oracle);
    }
}

#[test]
fn a_file_that_is_no_whole_snapshot_is_refused_by_name() {
    let open = |file: &File| {
        AddressMap::open(file, SnapshotMemory::Mapped)
            .map(|_| ())
            .unwrap_err()
    };
    let mut file = scratch_file();
    assert!(matches!(open(&file), SnapshotError::NotASnapshot));
    file.write_all(&[b'x'; 10_000]).unwrap();
    assert!(matches!(open(&file), SnapshotError::NotASnapshot));
    let saved = || {
        let file = scratch_file();
        of_list("10.0.0.1\n10.0.0.0/30\n10.0.0.2\n::1\n")
            .save(&file)
            .unwrap();
        file
    };
    let bytes = saved().metadata().unwrap().len();
    let overwrite = |at: u64, with: &[u8]| {
        let mut file = saved();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(with).unwrap();
        open(&file)
    };
    // A snapshot has the byte order of its machine.
    let (swapped_magic, version) = match cfg!(target_endian = "little") {
        true => (b"enaleroc", (12, [9, 0, 0, 0])),
        false => (b"corelane", (8, [0, 0, 0, 9])),
    };
    for (at, with, expected) in [
        (0, &swapped_magic[..], "the other byte order"),
        (version.0, &version.1, "has version 9, and version 1 is read here"),
        (60, &[1], "is damaged"),
        (64 << 10, &[77], "is damaged (a checksum is wrong)"),
        (bytes / 2, &[77], "is damaged (a checksum is wrong)"),
    ] {
        let error = overwrite(at, with).to_string();
        assert!(error.contains(expected), "{with:?} at {at}: {error}");
    }
    let file = saved();
    file.set_len(bytes - 1).unwrap();
    let error = open(&file).to_string();
    let expected = format!("was cut off: it has {} bytes of {bytes}", bytes - 1);
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn an_empty_map_answers_nothing_and_survives_its_snapshot() {
    let file = scratch_file();
    empty().save(&file).unwrap();
    let map = AddressMap::open(&file, SnapshotMemory::Mapped).unwrap();
    assert_equals(&map, &BTreeMap::new());
    assert_eq!((map.len(), map.memory_bytes()), (0, 0));
}

/// Number of replacements.
const REPLACEMENTS: u32 = 300;

/// One list maps half of the addresses as hosts and the others by a prefix, the other list vice versa: a mixture of
/// both lists' tables would give values that are in neither list.
#[test]
fn a_replacement_of_both_tables_is_seen_as_one() {
    let even = "10.0.0.0/31 1\n10.0.0.2 1\n10.0.0.3 1\n";
    let odd = "10.0.0.0 2\n10.0.0.1 2\n10.0.0.2/31 2\n";
    let mut map = of_list(even);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (mut reader, done) = (map.reader(), &done);
            scope.spawn(move || {
                let keys: Vec<_> = (0..4).map(|low| Ipv4Addr::new(10, 0, 0, low)).collect();
                while !done.load(Ordering::Relaxed) {
                    let mut answers = [None; 4];
                    reader.table().v4.lookup(&keys, Prefetch::default(), &mut answers);
                    assert!(
                        answers == [Some(value(1)); 4] || answers == [Some(value(2)); 4],
                        "{answers:?}"
                    );
                }
            });
        }
        for turn in 0..REPLACEMENTS {
            map.replace(of_list(if turn % 2 == 0 { odd } else { even }));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(map.reclaim(), 0);
}

#[test]
fn a_file_is_taken_as_the_snapshot_or_the_list_that_it_is() {
    let (list, snapshot) = (scratch_file(), scratch_file());
    (&list).write_all(b"192.0.2.0/24 3\n192.0.2.1\nwrong\n").unwrap();
    of_list("192.0.2.0/24 3\n192.0.2.1\n").save(&snapshot).unwrap();
    let load = |file, bad_lines| {
        let options = ListOptions {
            bad_lines,
            ..ListOptions::default()
        };
        AddressMap::load(file, &options, SEED, SnapshotMemory::default())
    };
    let (of_list, read) = load(&list, BadLines::Skip).unwrap();
    assert!(matches!(read, Loaded::List(summary) if (summary.prefixes, summary.skipped) == (2, 1)));
    let (of_snapshot, read) = load(&snapshot, BadLines::Refuse).unwrap();
    assert_eq!(read, Loaded::Snapshot);
    let sorted = |map: &AddressMap| map.iter().collect::<BTreeMap<_, _>>();
    assert_eq!(sorted(&of_list), sorted(&of_snapshot));
    let refusal = load(&list, BadLines::Refuse).unwrap_err().to_string();
    assert!(
        refusal.contains("line 3") && refusal.contains("wrong"),
        "{refusal}"
    );
    snapshot.set_len(70_000).unwrap();
    assert!(matches!(
        load(&snapshot, BadLines::Skip),
        Err(LoadError::Snapshot(_))
    ));
}
