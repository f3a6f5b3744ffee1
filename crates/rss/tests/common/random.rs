//! Random keys, tables, steerings and tuples for proptest.

use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
use proptest::prelude::*;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

/// Keys of every length.
pub fn key() -> impl Strategy<Value = Key> {
    prop::collection::vec(any::<u8>(), Key::MINIMUM..=Key::MAXIMUM)
        .prop_map(|bytes| Key::from_bytes(&bytes).unwrap())
}

pub fn hash_fields() -> impl Strategy<Value = HashFields> {
    prop_oneof![Just(HashFields::TwoTuple), Just(HashFields::FourTuple)]
}

/// Tables of up to `largest` entries, a power of two: round robin, random, and a random start repeated.
pub fn table(largest: u32) -> impl Strategy<Value = IndirectionTable> {
    let sizes = 0..=largest.ilog2();
    let in_turn = (sizes.clone(), any::<prop::sample::Index>()).prop_map(|(bits, buckets)| {
        let size = 1 << bits;
        IndirectionTable::round_robin(size, buckets.index(size) + 1).unwrap()
    });
    let at_random = (sizes, 1_u16..=300, 0..4_u32).prop_flat_map(|(bits, buckets, repeated)| {
        let start = 1 << bits.saturating_sub(repeated);
        prop::collection::vec(0..buckets, start).prop_map(move |start| {
            let entries = start.iter().copied().map(Bucket::new).cycle().take(1 << bits);
            IndirectionTable::from_entries(entries.collect()).unwrap()
        })
    });
    prop_oneof![in_turn, at_random]
}

pub fn steering(largest_table: u32) -> impl Strategy<Value = Steering> {
    (key(), hash_fields(), table(largest_table)).prop_map(|(key, hash_fields, table)| Steering {
        key,
        hash_fields,
        cpus: (0..table.buckets() as u32).collect(),
        table,
        generation: 0,
    })
}

pub fn tuple_v4() -> impl Strategy<Value = Tuple> {
    let socket = || any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddrV4::new(ip.into(), port));
    (socket(), socket()).prop_map(|(source, destination)| Tuple::V4 { source, destination })
}

pub fn tuple_v6() -> impl Strategy<Value = Tuple> {
    let socket = || any::<([u8; 16], u16)>().prop_map(|(ip, port)| SocketAddrV6::new(ip.into(), port, 0, 0));
    (socket(), socket()).prop_map(|(source, destination)| Tuple::V6 { source, destination })
}

pub fn tuple() -> impl Strategy<Value = Tuple> {
    prop_oneof![tuple_v4(), tuple_v6()]
}

/// The ends of a flow of one family without a source port: the client's address and the server.
pub fn ends() -> impl Strategy<Value = (std::net::IpAddr, SocketAddr)> {
    tuple().prop_map(|tuple| (tuple.source().ip(), tuple.destination()))
}

/// Random draws by the million, without proptest's shrinking: SplitMix64 with a seed given by the test.
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        bytes
    }

    /// A key of any length.
    pub fn key(&mut self) -> Key {
        let bytes = self.bytes::<{ Key::MAXIMUM }>();
        let length = Key::MINIMUM + self.next() as usize % (Key::MAXIMUM - Key::MINIMUM + 1);
        Key::from_bytes(&bytes[..length]).unwrap()
    }

    /// A tuple of either family.
    pub fn tuple(&mut self) -> Tuple {
        if self.next() & 1 == 0 {
            let mut socket = || SocketAddrV4::new(self.bytes::<4>().into(), self.next() as u16);
            Tuple::V4 {
                source: socket(),
                destination: socket(),
            }
        } else {
            let mut socket = || SocketAddrV6::new(self.bytes::<16>().into(), self.next() as u16, 0, 0);
            Tuple::V6 {
                source: socket(),
                destination: socket(),
            }
        }
    }
}
