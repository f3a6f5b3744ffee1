//! The programs, run by the kernel over packets without sockets, against the hash of the store and of the steering.

use super::*;
use corelane_rss::steer::{self, Families};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_store::hash;
use std::net::SocketAddr;

const SEED: u64 = 0x1234_5678_9abc_def0;

/// So many workers that the owner of a hash is its upper half.
const EACH: u64 = 1 << 32;

/// What a program without a readable key answers.
const OTHERWISE: u32 = 0;

/// The program; `None` where the kernel permits none.
fn loaded() -> Option<KeySteering> {
    let loaded = KeySteering::loaded(SEED, EACH);
    let refused = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS));
    match loaded {
        Err(error) if refused(&error) => {
            eprintln!("skipped: no eBPF: {error}");
            None
        }
        loaded => Some(loaded.unwrap()),
    }
}

/// What a program answers to a datagram of this text.
fn answered(program: &KeySteering, text: &[u8]) -> u32 {
    let ethernet = [0; 14];
    let frame = [&ethernet[..], b"\0\x01\0\0\0\x01\0\0", text].concat();
    bpf::test_run(&program.program, &frame).unwrap()
}

fn upper_half(key: &[u8]) -> u32 {
    (hash(key, SEED).value() >> 32) as u32
}

/// Keys of every length, of bytes that keys may have.
fn keys() -> impl Iterator<Item = Vec<u8>> {
    let byte = |length: usize, at: usize| match (length * 31 + at * 7) % 190 {
        low @ 0..94 => b'!' + low as u8,
        high => 0x80 + (high - 94) as u8,
    };
    (1..=250).map(move |length| (0..length).map(|at| byte(length, at)).collect())
}

#[test]
fn the_key_of_every_command_and_length_is_hashed_as_the_store_does() {
    let Some(program) = loaded() else { return };
    for key in keys() {
        for (before, after) in [
            ("get ", "\r\n"),
            ("get  ", " other\r\n"),
            ("gets ", "\n"),
            ("gat 0 ", "\r\n"),
            ("gats  -2147483648 ", " other\r\n"),
            ("set ", " 0 0 1\r\na\r\n"),
            ("add ", " 0 0 0\r\n\r\n"),
            ("replace ", " 0 0 0\r\n\r\n"),
            ("append ", " 0 0 0\r\n\r\n"),
            ("prepend ", " 0 0 0\r\n\r\n"),
            ("cas ", " 0 0 0 1\r\n\r\n"),
            ("delete ", " noreply\r\n"),
            ("incr ", " 1\r\n"),
            ("decr ", " 1\r\n"),
            ("touch ", " 0\r\n"),
            ("mg ", " v\r\n"),
            ("ms ", " 1\r\na\r\n"),
            ("md ", "\r\n"),
            ("ma ", "\r\n"),
        ] {
            let text = [before.as_bytes(), &key, after.as_bytes()].concat();
            let shown = String::from_utf8_lossy(&text);
            assert_eq!(answered(&program, &text), upper_half(&key), "{shown:?}");
        }
    }
}

#[test]
fn what_has_no_readable_key_is_left_to_the_other_program() {
    let Some(program) = loaded() else { return };
    let long = format!("get {}\r\n", "k".repeat(251));
    let far = format!("get {}k\r\n", " ".repeat(40));
    for text in [
        "",
        "g",
        "get",
        "get ",
        "get \r\n",
        "get  \r\n",
        "stats\r\n",
        "gat 0\r\n",
        "mn\r\n",
        "getx a\r\n",
        "GET a\r\n",
        "replace\r\n",
        "flush_all\r\n",
        &long,
        &far,
    ] {
        assert_eq!(answered(&program, text.as_bytes()), OTHERWISE, "{text:?}");
    }
}

/// A datagram of IPv4 with an option, or of IPv6 behind an extension header, without its Ethernet header's addresses.
fn packet(tuple: &Tuple) -> Vec<u8> {
    let (source, destination) = (tuple.source(), tuple.destination());
    let ports = [source.port(), destination.port()].map(u16::to_be_bytes).concat();
    let udp = [&ports[..], &[0, 8, 0, 0]].concat();
    let (kind, header) = match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let mut header = vec![0x46, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
            header.extend([source.ip().octets(), destination.ip().octets()].concat());
            (0x0800_u16, [header, vec![1; 4]].concat())
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 16, 60, 64];
            header.extend([source.ip().octets(), destination.ip().octets()].concat());
            (0x86dd, [header, vec![17, 0, 1, 4, 0, 0, 0, 0]].concat())
        }
        _ => unreachable!("a tuple has one family"),
    };
    [&[0; 12][..], &kind.to_be_bytes(), &header, &udp].concat()
}

#[test]
fn the_other_program_selects_as_the_classic_one() {
    let Some(program) = loaded() else { return };
    for (entries, buckets) in [(128, 4), (128, 128), (48, 16), (64, 1)] {
        for hash_fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            let mut table = IndirectionTable::round_robin(entries, buckets)
                .unwrap()
                .entries()
                .to_vec();
            // An irregular table takes the longer code.
            if entries == 128 {
                table.swap(3, 17);
                table.swap(4, 90);
            }
            let steering = Steering {
                key: Key::VERIFICATION,
                hash_fields,
                table: IndirectionTable::from_entries(table).unwrap(),
                cpus: vec![0; buckets],
                generation: 0,
            };
            let steerer = steering.steerer();
            program
                .change(&steer::program(&steering, Families::Both).unwrap())
                .unwrap();
            for port in 1_000..1_100_u16 {
                let low = port.to_be_bytes();
                let v4 = (
                    (([10, low[0], 3, low[1]], port).into()),
                    ([192, 168, 250, 1], 11_211).into(),
                );
                let v6 = (
                    ([0xfd00, port, 0, 0, 0, 0, 0x8000, 1], port).into(),
                    ([0xfd00, 0, 0, 0, 0, 0, 0, 2], 11_211).into(),
                );
                for (source, destination) in [v4, v6] {
                    let tuple = Tuple::new(source, destination).unwrap();
                    let chosen = bpf::test_run(&program.program, &packet(&tuple)).unwrap();
                    assert_eq!(
                        chosen as usize,
                        steerer.bucket_of(&tuple).index(),
                        "{tuple:?} {steering:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_header_has_these_numbers() {
    let header = include_str!("../../../../bpf/key.h");
    assert!(header.contains("#define KEY_LONGEST 250\n"));
    assert_eq!(RULE, 16);
}
