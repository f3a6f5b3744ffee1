//! Properties of a snapshot after arbitrary changes: used by a test over the kept corpus and by the fuzz target.

use corelane_table::{AddressMap, ListOptions, Lookup, Placement, Prefetch, Seed, SnapshotMemory};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Snapshots to change: one of addresses only, and one with prefixes, whose table needs 64 MiB.
static ORIGINALS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [
        "192.0.2.1 1\n192.0.2.2 2\n2001:db8::1 3\n",
        "192.0.2.1 1\n198.51.100.0/23 2\n203.0.113.64/28 3\n",
    ]
    .map(|list| {
        let options = ListOptions::default();
        let (map, _) = AddressMap::from_list(list.as_bytes(), &options, Seed(7), Placement::default())
            .expect("a valid list");
        let file = scratch_file();
        map.save(&file).expect("a file that can be written");
        let mut bytes = Vec::new();
        (&file)
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&file).read_to_end(&mut bytes))
            .expect("a file that can be read");
        bytes
    })
});

/// Size of the header. It describes its sections as laid out in `src/address_map/snapshot/header.rs`: eight words each
/// from the sixth on; the last word is the checksum of the page.
const HEADER: usize = 4096;
const FIRST_SECTION: usize = 5 * 8;
const SECTION: usize = 8 * 8;

/// A first byte from here on selects the large original: rarely, because it takes a hundred times as long.
const LARGE: u8 = 0xf0;

/// Interprets `changes`. The first byte selects the original ([`LARGE`]), whether checksums are corrected (bit 1),
/// whether the file is mapped (bit 2), and whether it is truncated at the position of the first change (bit 3). Then
/// follow groups of four bytes for a position and one byte to write there. Asserts that the result is rejected with a
/// message, or can be queried.
pub fn holds(changes: &[u8]) {
    let Some((mode, changes)) = changes.split_first() else {
        return;
    };
    let mut bytes = ORIGINALS[usize::from(*mode >= LARGE)].clone();
    for (number, change) in changes.chunks_exact(5).enumerate() {
        let place = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize % bytes.len();
        if number == 0 && mode & 8 != 0 {
            bytes.truncate(place.max(1));
        }
        let place = place % bytes.len();
        bytes[place] = change[4];
    }
    if mode & 2 != 0 {
        correct_checksums(&mut bytes);
    }
    let mut file = scratch_file();
    file.write_all(&bytes).expect("a file that can be written");
    let memory = match mode & 4 {
        0 => SnapshotMemory::Copied(Placement::default()),
        _ => SnapshotMemory::Mapped,
    };
    match AddressMap::open(&file, memory) {
        Ok(map) => answers(map),
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
}

/// Corrects every checksum that is within the file.
fn correct_checksums(bytes: &mut [u8]) {
    if bytes.len() < HEADER {
        return;
    }
    let number =
        |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    for section in 0..number(bytes, 4 * 8).min(16) as usize {
        let at = FIRST_SECTION + section * SECTION;
        let (first, length) = (number(bytes, at + 8), number(bytes, at + 16));
        let end = first.saturating_add(length.next_multiple_of(8));
        if let (Ok(first), Ok(end)) = (usize::try_from(first), usize::try_from(end))
            && first <= end
            && let Some(contents) = bytes.get(first..end)
        {
            let checksum = u64::from(crc32fast::hash(contents));
            bytes[at + 24..at + 32].copy_from_slice(&checksum.to_ne_bytes());
        }
    }
    let checksum = u64::from(crc32fast::hash(&bytes[..HEADER - 8]));
    bytes[HEADER - 8..HEADER].copy_from_slice(&checksum.to_ne_bytes());
}

/// Queries, lists, changes and saves a map that was opened, whatever its contents.
fn answers(mut map: AddressMap) {
    let fours = [0xc000_0201, 0xc633_6401, 0xcb00_7141, 0, u32::MAX].map(Ipv4Addr::from_bits);
    let sixes = [1_u128, 0x2001_0db8 << 96 | 1].map(Ipv6Addr::from_bits);
    let (mut of_fours, mut of_sixes) = ([None; 5], [None; 2]);
    map.table().v4.lookup(&fours, Prefetch::default(), &mut of_fours);
    map.table().v6.lookup(&sixes, Prefetch::default(), &mut of_sixes);
    assert_eq!(of_fours, fours.map(|address| map.table().v4.get(address)));
    assert_eq!(of_sixes, sixes.map(|address| map.table().v6.get(address)));
    // A damaged table may list entries that it does not find; it must not do anything worse.
    let listed: Vec<_> = map.iter().take(1 << 16).collect();
    for (prefix, value) in listed.into_iter().take(16) {
        map.remove(prefix);
        if map.insert(prefix, value).is_err() {
            return;
        }
    }
}

/// A file that is deleted when it is closed.
fn scratch_file() -> File {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("corelane-table-any-{}-{number}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("a folder for temporary files");
    fs::remove_file(&path).expect("a file of our own");
    file
}
