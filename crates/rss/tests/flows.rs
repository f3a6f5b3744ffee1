//! Plans of flows, compared with the hash: every flow reaches its planned bucket, none occurs twice, and the number is
//! right.

use crate::common::random::Draws;
use corelane_rss::plan::{Ends, FlowsError, Shape, flows};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fn steering(hash_fields: HashFields, table: IndirectionTable, key: Key) -> Steering {
    Steering {
        key,
        hash_fields,
        cpus: (0..table.buckets() as u32).collect(),
        table,
        generation: 0,
    }
}

fn clients(count: u32) -> Vec<IpAddr> {
    let v4 = (0..count).map(|host| Ipv4Addr::from(0x0a0b_0000 + host).into());
    let v6 = (0..count).map(|host| Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(host)).into());
    v4.chain(v6).collect()
}

fn servers() -> Vec<SocketAddr> {
    ["10.11.0.1:8080", "10.12.2.2:80", "[fd00::1]:8080"]
        .map(|text| text.parse().unwrap())
        .to_vec()
}

#[test]
fn every_flow_lands_where_it_was_planned_and_none_is_planned_twice() {
    for seed in 0..10 {
        let mut random = Draws::new(seed);
        let entries = (0..128).map(|_| random.next() % 5).collect::<Vec<_>>();
        let table =
            IndirectionTable::from_entries(entries.iter().map(|entry| Bucket::new(*entry as u16)).collect())
                .unwrap();
        for fields in [HashFields::TwoTuple, HashFields::FourTuple] {
            let steering = steering(fields, table.clone(), random.key());
            let (clients, servers) = (clients(200), servers());
            let ends = Ends {
                clients: &clients,
                servers: &servers,
                ports: 1024..=9000,
            };
            // The larger count is planned in larger parts.
            let shapes = ["balanced", "skewed:1.1", "one:3"];
            for (shape, total) in shapes
                .into_iter()
                .flat_map(|shape| [(shape, 3000), (shape, 20_000)])
            {
                let wanted = shape.parse::<Shape>().unwrap().wanted(&steering.table, total);
                let plan = flows(&steering, &ends, &wanted).unwrap();
                let counts: Vec<_> = plan.buckets.iter().map(Vec::len).collect();
                assert_eq!(counts, wanted, "seed {seed}, {fields}, {shape}, {total}");
                let steerer = steering.steerer();
                let mut seen = HashSet::new();
                for (bucket, planned) in plan.buckets.iter().enumerate() {
                    for flow in planned {
                        let tuple = ends.tuple(flow);
                        assert_eq!(steerer.bucket_of(&tuple).index(), bucket, "{tuple}");
                        assert!(
                            tuple.source() != tuple.destination() && seen.insert(tuple),
                            "{tuple}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn flows_spread_over_clients_servers_and_entries() {
    let steering = steering(
        HashFields::FourTuple,
        IndirectionTable::round_robin(128, 4).unwrap(),
        Key::VERIFICATION,
    );
    let steering = Steering {
        table: IndirectionTable::from_entries(
            (0..128).map(|entry| Bucket::new((entry / 32) as u16)).collect(),
        )
        .unwrap(),
        ..steering
    };
    let (clients, servers) = (clients(50), servers());
    let ends = Ends {
        clients: &clients,
        servers: &servers,
        ports: 1024..=65535,
    };
    let plan = flows(&steering, &ends, &[1500; 4]).unwrap();
    let steerer = steering.steerer();
    let (mut of_pair, mut of_entry) = (HashMap::new(), HashMap::new());
    for flow in plan.buckets.iter().flatten() {
        *of_pair.entry((flow.client, flow.server)).or_insert(0) += 1;
        *of_entry
            .entry(steerer.hash_of(&ends.tuple(flow)) % 128)
            .or_insert(0) += 1;
    }
    assert_eq!(of_pair.len(), 150);
    assert!(of_pair.values().all(|flows| *flows == 40), "{of_pair:?}");
    assert_eq!(of_entry.len(), 128);
    assert!(
        of_entry.values().all(|flows| (20..=80).contains(flows)),
        "{of_entry:?}"
    );
}

#[test]
fn what_cannot_be_had_is_counted_by_bucket() {
    let table = IndirectionTable::round_robin(128, 4).unwrap();
    let by_port = steering(HashFields::FourTuple, table.clone(), Key::VERIFICATION);
    let (clients, servers) = (
        [IpAddr::from([10, 11, 2, 3])],
        ["10.11.2.1:8080".parse().unwrap()],
    );
    let ends = Ends {
        clients: &clients,
        servers: &servers,
        ports: 4000..=4007,
    };
    let plan = flows(&by_port, &ends, &[8; 4]).unwrap();
    let found: usize = plan.buckets.iter().map(Vec::len).sum();
    let missing: usize = plan.short.iter().map(|(_, missing)| missing).sum();
    assert_eq!((found, found + missing), (8, 32));
    // A pair of addresses belongs to one bucket, whatever the port.
    let by_address = steering(HashFields::TwoTuple, table, Key::VERIFICATION);
    let plan = flows(&by_address, &ends, &[8; 4]).unwrap();
    assert_eq!(plan.short.len(), 3);
}

#[test]
fn a_table_that_is_indexed_by_a_remainder_is_refused_only_where_ports_are_planned() {
    let table = IndirectionTable::round_robin(48, 6).unwrap();
    let (clients, servers) = (clients(100), servers());
    let ends = Ends {
        clients: &clients,
        servers: &servers,
        ports: 1024..=9000,
    };
    let by_port = steering(HashFields::FourTuple, table.clone(), Key::VERIFICATION);
    assert_eq!(flows(&by_port, &ends, &[5; 6]), Err(FlowsError::Remainder(48)));
    let by_address = steering(HashFields::TwoTuple, table, Key::VERIFICATION);
    let (plan, steerer) = (flows(&by_address, &ends, &[5; 6]).unwrap(), by_address.steerer());
    for (bucket, planned) in plan.buckets.iter().enumerate() {
        assert_eq!(planned.len(), 5);
        let reach = |flow| steerer.bucket_of(&ends.tuple(flow)).index();
        assert!(
            planned.iter().all(|flow| reach(flow) == bucket),
            "bucket {bucket}"
        );
    }
}

#[test]
fn ends_that_cannot_talk_are_refused() {
    let table = IndirectionTable::round_robin(128, 4).unwrap();
    let steering = steering(HashFields::FourTuple, table, Key::VERIFICATION);
    let (v4, v6) = ([IpAddr::from([10, 11, 2, 3])], ["[::1]:80".parse().unwrap()]);
    let ends = Ends {
        clients: &v4,
        servers: &v6,
        ports: 1..=9,
    };
    assert_eq!(flows(&steering, &ends, &[1; 4]), Err(FlowsError::Families));
    let ends = Ends { ports: 0..=0, ..ends };
    assert_eq!(
        flows(&steering, &ends, &[1; 4]),
        Err(FlowsError::NoPorts { start: 0, end: 0 })
    );
    let ends = Ends { clients: &[], ..ends };
    assert_eq!(flows(&steering, &ends, &[1; 4]), Err(FlowsError::NoEnds));
    let ends = Ends {
        clients: &v4,
        servers: &v6,
        ports: 1..=9,
    };
    assert_eq!(
        flows(&steering, &ends, &[1; 5]),
        Err(FlowsError::Unnamed { bucket: 4 })
    );
}
