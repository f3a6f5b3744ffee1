//! Tests that need a network namespace: the kernel runs the steering program on datagrams with exactly the tuples of
//! the RSS verification suite, and on packets with IPv6 extension headers, which only a privileged process may send.
//!
//! The loopback device of the namespace has the suite's addresses. Without privilege the namespace belongs to a user
//! namespace, which only a process with one thread can enter, so these tests have their own `main`.

mod common;

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("skipped: socket steering is Linux's");
}

#[cfg(target_os = "linux")]
fn main() {
    if let Err(error) = common::namespace::enter() {
        eprintln!("skipped: no network namespace can be entered here ({error})");
        return;
    }
    linux::prepare();
    for (name, test) in linux::TESTS {
        test();
        println!("test {name} ... ok");
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::common::namespace::{LOOPBACK, set_up_loopback};
    use crate::common::sockets::{self, PATIENCE, group};
    use crate::common::vectors::suite;
    use corelane_rss::steer::{self, Families, Instruction};
    use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
    use socket2::{Domain, SockFilter, Socket, Type};
    use std::io::Read;
    use std::net::SocketAddr;

    pub const TESTS: [(&str, fn()); 3] = [
        ("the_kernel_agrees_for_random_keys_tables_and_fields", || {
            sockets::random_steerings_meet_the_oracle(0xbed);
        }),
        (
            "the_kernel_computes_every_byte_of_every_published_hash",
            the_kernel_computes_every_byte_of_every_published_hash,
        ),
        (
            "ipv6_extension_headers_are_stepped_over",
            ipv6_extension_headers_are_stepped_over,
        ),
    ];

    /// Adds the addresses of the suite to the loopback device.
    pub fn prepare() {
        let ends = suite()
            .into_iter()
            .flat_map(|row| [row.tuple.source(), row.tuple.destination()]);
        set_up_loopback(ends.map(|end| end.ip()).filter(|address| !address.is_multicast()));
    }

    /// Eight bits at a time: a group has one socket for each value of a byte of the hash.
    const BUCKETS: u16 = 256;

    fn the_kernel_computes_every_byte_of_every_published_hash() {
        let rows = suite();
        assert_eq!(rows.len(), 8);
        for row in rows {
            for (fields, hash) in [
                (HashFields::TwoTuple, row.hash_2tuple),
                (HashFields::FourTuple, row.hash_4tuple),
            ] {
                for shift in [0, 8, 16, 24] {
                    let byte = (hash >> shift & 0xff) as u16;
                    if row.tuple.destination().ip().is_multicast() {
                        filter_keeps_as_many_bytes(&row.tuple, fields, shift, byte);
                    } else {
                        group_receives_at(&row.tuple, fields, shift, byte);
                    }
                }
            }
        }
    }

    fn ipv6_extension_headers_are_stepped_over() {
        let steering = sockets::steering(HashFields::FourTuple, sockets::round_robin(128, 8));
        for kind in [Type::DGRAM, Type::STREAM] {
            let group = group(&steering, kind, sockets::LOOPBACK_V6, Families::V6);
            for (hop_by_hop, destination) in [(1, 1), (2, 1), (1, 3)] {
                let sources = sockets::ipv6_sources(kind, 100).inspect(|socket| {
                    sockets::send_ipv6_extensions(socket, hop_by_hop, destination).unwrap();
                });
                sockets::sources_meet_the_oracle(&steering, &group, sockets::LOOPBACK_V6, sources);
            }
        }
    }

    /// A steering whose program returns `offset` plus the byte of the hash that starts at bit `shift`. Zeros before the
    /// key move the hash towards its low bits.
    fn steering(fields: HashFields, shift: usize, offset: u16) -> Steering {
        let key = [&vec![0; shift / 8], Key::VERIFICATION.as_bytes()].concat();
        let entries = (offset..offset + BUCKETS).map(Bucket::new);
        Steering {
            key: Key::from_bytes(&key).unwrap(),
            hash_fields: fields,
            table: IndirectionTable::from_entries(entries.collect()).unwrap(),
            cpus: vec![0; (offset + BUCKETS).into()],
            generation: 0,
        }
    }

    fn group_receives_at(tuple: &Tuple, fields: HashFields, shift: usize, byte: u16) {
        let destination = on_loopback(tuple.destination());
        let families = match tuple {
            Tuple::V4 { .. } => Families::V4,
            Tuple::V6 { .. } => Families::V6,
        };
        let group = group(&steering(fields, shift, 0), Type::DGRAM, destination, families);
        send(tuple, &[byte as u8]);
        let mut payload = [0; 8];
        let received = (&group[usize::from(byte)]).read(&mut payload);
        let received = received.unwrap_or_else(|error| {
            panic!("{tuple}, {fields}, bit {shift}: socket {byte} did not receive it: {error}")
        });
        assert_eq!(payload[..received], [byte as u8]);
    }

    /// A multicast datagram goes to every socket of a group without a program's choice. The same program attached to a
    /// socket as its filter instead determines how many bytes of the datagram the kernel keeps, including the header of
    /// eight bytes.
    fn filter_keeps_as_many_bytes(tuple: &Tuple, fields: HashFields, shift: usize, byte: u16) {
        const OFFSET: u16 = 100;
        let program = steer::program(&steering(fields, shift, OFFSET), Families::V6).unwrap();
        let receiver = Socket::new(Domain::IPV6, Type::DGRAM, None).unwrap();
        let filter: Vec<SockFilter> = program
            .instructions()
            .iter()
            .map(|instruction| {
                let Instruction { code, jt, jf, k } = *instruction;
                SockFilter::new(code, jt, jf, k)
            })
            .collect();
        receiver.attach_filter(&filter).unwrap();
        receiver.set_read_timeout(Some(PATIENCE)).unwrap();
        receiver.bind(&on_loopback(tuple.destination()).into()).unwrap();
        send(tuple, &[0; 1000]);
        let received = (&receiver).read(&mut [0; 1000]).unwrap();
        assert_eq!(
            received,
            usize::from(OFFSET + byte) - 8,
            "{tuple}, {fields}, bit {shift}"
        );
    }

    fn send(tuple: &Tuple, payload: &[u8]) {
        let source = Socket::new(Domain::for_address(tuple.source()), Type::DGRAM, None).unwrap();
        source.bind(&tuple.source().into()).unwrap();
        source
            .send_to(payload, &on_loopback(tuple.destination()).into())
            .unwrap();
    }

    /// Link-local and multicast addresses need a scope: the device.
    fn on_loopback(address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V6(mut own) if own.ip().is_multicast() || own.ip().is_unicast_link_local() => {
                own.set_scope_id(LOOPBACK);
                own.into()
            }
            _ => address,
        }
    }
}
