//! Flows on made-up machines; each test changes one fact.

use std::collections::{BTreeMap, BTreeSet};

use corelane_rss::{HashFields, IndirectionTable, Key, Toeplitz};

use super::*;
use crate::ethtool::{Field, FlowType, HashFunction, Rss, Rule, RuleAction, Rules, Transform};
use crate::fact::Fact;
use crate::inventory::{Driver, ReceiveQueue, Route, Xdp, inventory};
use corelane_rss::{Protocol, Tuple};

/// A machine with loopback and a NIC that has the default route and four queues, whose interrupts go to CPUs 4 to 7.
fn machine() -> Inventory {
    let mut inventory = inventory();
    let mut device = inventory.device("lo").cloned().unwrap();
    inventory.devices = vec![device.clone()];
    "eth9".clone_into(&mut device.name);
    device.link.index = 9;
    device.link.kind = None;
    let queue = ReceiveQueue {
        rps_cpus: Fact::known(Vec::new(), "a test"),
        rfs_flows: Fact::known(0, "a test"),
        napi_thread: Fact::absent("no thread", "a test"),
        ..device.receive_queues[0].clone()
    };
    device.receive_queues = (0..4)
        .map(|number| ReceiveQueue {
            queue: number,
            interrupt: Fact::known(100 + number, "a test"),
            cpus: Fact::known(vec![4 + number], "a test"),
            affinity: Fact::known(vec![4 + number], "a test"),
            ..queue.clone()
        })
        .collect();
    device.driver = Fact::known(driver(), "a test");
    device.rss = Fact::known(
        Rss {
            context: 0,
            function: HashFunction::Toeplitz,
            transforms: Vec::new(),
            key: Key::VERIFICATION.to_string(),
            table: (0..128).map(|entry| entry % 4).collect(),
        },
        "a test",
    );
    device.fields = Fact::known(
        BTreeMap::from([
            (FlowType::Tcp4, Field::FOUR_TUPLE.to_vec()),
            (FlowType::Udp4, Field::TWO_TUPLE.to_vec()),
        ]),
        "a test",
    );
    device.rules = Fact::known(
        Rules {
            rules: Vec::new(),
            left_off: 0,
        },
        "a test",
    );
    device.features = Fact::known(BTreeSet::from(["rx-hashing".to_owned()]), "a test");
    device.addresses = vec!["161.142.100.80/24".parse().unwrap()];
    let route = |to: &str, local, device| Route {
        to: to.parse().unwrap(),
        local,
        device,
        priority: 0,
    };
    inventory.devices.push(device);
    inventory.devices[0].link.index = 1;
    inventory.routes = vec![
        route("127.0.0.0/8", true, 1),
        route("161.142.100.80/32", true, 9),
        route("0.0.0.0/0", false, 9),
    ];
    inventory.machine.cpus_online = Some((0..8).collect());
    inventory
}

fn driver() -> Driver {
    Driver {
        name: "ixgbe".to_owned(),
        version: String::new(),
        firmware: String::new(),
        bus: "0000:03:00.0".to_owned(),
    }
}

/// The first published vector (Microsoft, "Verifying the RSS Hash Calculation"): 0x51ccc178, 0x323e8fc2 without ports.
fn flow(protocol: Protocol) -> Flow {
    let tuple = Tuple::new(
        "66.9.149.187:2794".parse().unwrap(),
        "161.142.100.80:1766".parse().unwrap(),
    );
    Flow {
        tuple: tuple.unwrap(),
        protocol,
        device: None,
        sender_cpu: None,
    }
}

fn received(inventory: &Inventory, protocol: Protocol) -> PredictedPath {
    let explanation = explain(inventory, &flow(protocol), &Ends::default()).unwrap();
    explanation.directions[0].clone()
}

fn nic(inventory: &mut Inventory) -> &mut Device {
    &mut inventory.devices[1]
}

#[test]
fn tcp_goes_by_its_ports_and_udp_by_its_addresses_to_queue_interrupt_and_cpu() {
    let tcp = received(&machine(), Protocol::Tcp);
    assert_eq!(tcp.role, Role::Receives);
    assert_eq!(tcp.hash.as_deref(), Some("0x51ccc178"));
    assert_eq!(tcp.hash_type.as_deref(), Some("TCP_IPV4"));
    assert_eq!(
        (tcp.entry, tcp.queue, tcp.interrupt),
        (Some(0x78), Some(0), Some(100))
    );
    assert_eq!((tcp.cpu, tcp.cpu_confidence), (Some(4), Confidence::Certain));
    let udp = received(&machine(), Protocol::Udp);
    assert_eq!(udp.hash.as_deref(), Some("0x323e8fc2"));
    assert_eq!((udp.entry, udp.queue, udp.cpu), (Some(0x42), Some(2), Some(6)));
}

#[test]
fn fragments_meet_whole_packets_only_where_those_hash_their_addresses_too() {
    let of = |protocol| received(&machine(), protocol).fragments.unwrap();
    let (tcp, udp) = (of(Protocol::Tcp), of(Protocol::Udp));
    assert_eq!((tcp.with_whole_packets, tcp.cpu), (Some(false), Some(6)));
    assert_eq!((udp.with_whole_packets, udp.cpu), (Some(true), Some(6)));
    assert!(tcp.words.contains("reordered"), "{}", tcp.words);
}

#[test]
fn the_way_back_is_sent_and_hashes_nothing_here() {
    let explanation = explain(&machine(), &flow(Protocol::Tcp), &Ends::default()).unwrap();
    let back = &explanation.directions[1];
    assert_eq!((back.role, back.device.as_deref()), (Role::Sends, Some("eth9")));
    assert_eq!((back.hash.as_deref(), back.cpu), (None, None));
    assert_eq!(back.from, flow(Protocol::Tcp).tuple.destination());
}

#[test]
fn a_rule_goes_before_the_table_and_one_that_looks_at_more_makes_it_likely() {
    let mut inventory = machine();
    let rule = Rule {
        location: 3,
        flow_type: "tcp4".to_owned(),
        source: None,
        destination: None,
        source_port: None,
        destination_port: Some((1766, 0xffff)),
        looks_at_more: false,
        action: RuleAction::Queue(3),
    };
    let put = |inventory: &mut Inventory, rule| {
        nic(inventory).rules = Fact::known(
            Rules {
                rules: vec![rule],
                left_off: 0,
            },
            "a test",
        );
    };
    put(&mut inventory, rule.clone());
    let tcp = received(&inventory, Protocol::Tcp);
    assert_eq!((tcp.queue, tcp.entry, tcp.cpu), (Some(3), None, Some(7)));
    assert_eq!(received(&inventory, Protocol::Udp).queue, Some(2));
    put(
        &mut inventory,
        Rule {
            looks_at_more: true,
            ..rule
        },
    );
    let tcp = received(&inventory, Protocol::Tcp);
    assert_eq!((tcp.queue, tcp.cpu_confidence), (Some(0), Confidence::Likely));
}

#[test]
fn a_program_and_accelerated_rfs_make_it_likely() {
    let mut inventory = machine();
    nic(&mut inventory).link.xdp = Some(Xdp {
        mode: "driver".to_owned(),
        programs: vec![7],
    });
    let tcp = received(&inventory, Protocol::Tcp);
    assert_eq!((tcp.cpu, tcp.cpu_confidence), (Some(4), Confidence::Likely));
    let mut inventory = machine();
    let device = nic(&mut inventory);
    device
        .features
        .value
        .as_mut()
        .unwrap()
        .insert("rx-ntuple-filter".to_owned());
    device.receive_queues[0].rfs_flows = Fact::known(4096, "a test");
    assert_eq!(
        received(&inventory, Protocol::Tcp).cpu_confidence,
        Confidence::Likely
    );
}

#[test]
fn rps_names_the_cpu_when_it_has_one_or_when_the_hash_covers_ports() {
    let mut inventory = machine();
    for queue in &mut nic(&mut inventory).receive_queues {
        queue.rps_cpus = Fact::known(vec![1], "a test");
    }
    assert_eq!(received(&inventory, Protocol::Udp).cpu, Some(1));
    for queue in &mut nic(&mut inventory).receive_queues {
        queue.rps_cpus = Fact::known(vec![0, 1, 2], "a test");
    }
    // (0x51ccc178 * 3) >> 32 is 0; RPS does not use 2-tuple hashes.
    assert_eq!(received(&inventory, Protocol::Tcp).cpu, Some(0));
    assert_eq!(received(&inventory, Protocol::Udp).cpu, None);
}

#[test]
fn an_interrupt_that_is_to_move_is_named_where_it_will_go() {
    let mut inventory = machine();
    nic(&mut inventory).receive_queues[0].affinity = Fact::known(vec![2], "a test");
    let tcp = received(&inventory, Protocol::Tcp);
    assert_eq!((tcp.cpu, tcp.cpu_confidence), (Some(2), Confidence::Likely));
    nic(&mut inventory).receive_queues[0].affinity = Fact::known((0..8).collect(), "a test");
    assert_eq!(received(&inventory, Protocol::Tcp).cpu, Some(4));
}

#[test]
fn a_symmetric_transform_gives_both_ways_one_hash() {
    let mut inventory = machine();
    nic(&mut inventory).rss.value.as_mut().unwrap().transforms = vec![Transform::SymmetricXor];
    let there = received(&inventory, Protocol::Tcp).hash;
    let mut back = flow(Protocol::Tcp);
    back.tuple = back.tuple.reversed();
    back.device = Some("eth9".to_owned());
    inventory.routes.retain(|route| !route.local || route.device != 9);
    let back = explain(&inventory, &back, &Ends::default()).unwrap();
    assert_eq!(back.directions[0].hash, there);
    let plain = Toeplitz::new(&Key::VERIFICATION).hash(&flow(Protocol::Tcp).tuple, HashFields::FourTuple);
    assert_ne!(there, Some(format!("0x{plain:08x}")));
}

#[test]
fn loopback_and_veth_name_the_sender_and_rps_after_it() {
    let mut inventory = machine();
    let tuple = Tuple::new("127.0.0.1:7".parse().unwrap(), "127.0.0.1:9".parse().unwrap()).unwrap();
    let flow = |sender_cpu| Flow {
        tuple,
        protocol: Protocol::Udp,
        device: None,
        sender_cpu,
    };
    inventory.devices[0].receive_queues[0].rps_cpus = Fact::known(Vec::new(), "a test");
    let first = |inventory: &Inventory, sender_cpu| {
        let explanation = explain(inventory, &flow(sender_cpu), &Ends::default()).unwrap();
        explanation.directions[0].clone()
    };
    let unknown = first(&inventory, None);
    assert_eq!((unknown.role, unknown.cpu), (Role::Keeps, None));
    let cpu = unknown.steps.iter().find(|step| step.step == "cpu").unwrap();
    assert!(cpu.rule.contains("the CPU that sends"), "{cpu:?}");
    assert_eq!(first(&inventory, Some(3)).cpu, Some(3));
    inventory.devices[0].receive_queues[0].rps_cpus = Fact::known(vec![5], "a test");
    let moved = first(&inventory, Some(3));
    assert_eq!((moved.cpu, moved.cpu_confidence), (Some(5), Confidence::Certain));
}

#[test]
fn a_table_of_any_size_gives_the_queue_and_virtio_without_rss_is_not_guessed() {
    let mut inventory = machine();
    let device = nic(&mut inventory);
    device.rss.value.as_mut().unwrap().table = vec![0; 96];
    let tcp = received(&inventory, Protocol::Tcp);
    assert_eq!((tcp.queue, tcp.cpu), (Some(0), Some(4)));
    let device = nic(&mut inventory);
    device.rss = Fact::absent("none", "a test");
    "virtio_net".clone_into(&mut device.driver.value.as_mut().unwrap().name);
    let tcp = received(&inventory, Protocol::Tcp);
    assert_eq!((tcp.queue, tcp.cpu_confidence), (None, Confidence::Unknown));
    assert!(tcp.steps.iter().any(|step| step.rule.contains("hypervisor")));
}

#[test]
fn flows_of_others_and_absent_devices_are_refused_with_what_to_do() {
    let inventory = machine();
    let tuple = Tuple::new("192.0.2.1:7".parse().unwrap(), "192.0.2.2:9".parse().unwrap()).unwrap();
    let mut flow = Flow {
        tuple,
        ..flow(Protocol::Tcp)
    };
    let refused = explain(&inventory, &flow, &Ends::default())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("--dev"), "{refused}");
    flow.device = Some("eth8".to_owned());
    let refused = explain(&inventory, &flow, &Ends::default())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("eth8") && refused.contains("eth9"), "{refused}");
}

#[test]
fn an_explanation_survives_json() {
    let explanation = explain(&machine(), &flow(Protocol::Tcp), &Ends::default()).unwrap();
    let json = serde_json::to_string(&explanation).unwrap();
    assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), explanation);
}

/// A listener of a process whose reader is on this CPU.
fn listener(local: SocketAddr, cpu: u32) -> Owner {
    Owner {
        inode: 1,
        local,
        remote: "0.0.0.0:0".parse().unwrap(),
        listens: true,
        holders: vec![crate::sockets::Holder {
            process: 7,
            name: "a server".to_owned(),
            descriptors: vec![cpu],
            waiting: Vec::new(),
            watched: false,
            cpus: Vec::new(),
        }],
        cpu: Some(cpu),
        cpu_by: Some("a test".to_owned()),
    }
}

#[test]
fn the_socket_of_a_steered_group_is_the_bucket_s_and_without_a_document_the_flag_is_named() {
    let inventory = machine();
    let flow = flow(Protocol::Tcp);
    let end = flow.tuple.destination();
    let owner = |cpu| listener(end, cpu);
    let mut ends = Ends {
        destination: vec![owner(4), owner(5), owner(6)],
        ..Ends::default()
    };
    let socket = |ends: &Ends| {
        let explanation = explain(&inventory, &flow, ends).unwrap();
        let mut steps = explanation.directions[0].steps.iter();
        steps.rfind(|step| step.step == "socket").cloned().unwrap()
    };
    let unknown = socket(&ends);
    assert!(
        unknown.value.is_none() && unknown.rule.contains("--steering"),
        "{unknown:?}"
    );
    // The group's order is not that of the buckets: the CPU decides.
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 3).unwrap(),
        cpus: vec![6, 5, 4],
        generation: 0,
    };
    let bucket = steering.steerer().bucket_of(&flow.tuple).index();
    ends.steering = Some(steering.clone());
    let named = socket(&ends);
    let value = named.value.unwrap();
    assert!(value.starts_with(&format!("member {}, ", 2 - bucket)), "{value}");
    assert!(
        value.contains(&format!("CPU {}", steering.cpus[bucket])),
        "{value}"
    );
    assert_eq!(named.confidence, Confidence::Likely);
    ends.destination.iter_mut().for_each(|owner| owner.cpu = Some(4));
    let value = socket(&ends).value.unwrap();
    assert!(value.starts_with(&format!("member {bucket}, ")), "{value}");
    // Two buckets share a CPU, and the CPU of one socket is not known yet.
    let shared = vec![4, 4, 4];
    ends.steering = Some(Steering {
        cpus: shared,
        ..steering.clone()
    });
    ends.destination.iter_mut().for_each(|owner| owner.cpu = None);
    ends.destination[(bucket + 1) % 3].cpu = Some(4);
    let value = socket(&ends).value.unwrap();
    assert!(value.starts_with(&format!("member {bucket}, ")), "{value}");
    ends.steering = Some(steering);
    ends.destination[0].holders.clear();
    assert!(socket(&ends).value.is_none());
    // Another number of sockets: the document is of another server.
    ends.destination.pop();
    assert!(socket(&ends).value.is_none());
}

/// The step of the socket on the way there, between two addresses of this host.
fn socket_step(ends: &Ends) -> Step {
    let explanation = explain(&machine(), &on_loopback(), ends).unwrap();
    let there = explanation.directions[0].clone();
    let back = &explanation.directions[1].steps;
    assert!(back.iter().all(|step| step.step != "socket"), "{back:?}");
    there
        .steps
        .into_iter()
        .rfind(|step| step.step == "socket")
        .unwrap()
}

fn on_loopback() -> Flow {
    Flow {
        tuple: Tuple::new("127.0.0.1:7".parse().unwrap(), "127.0.0.1:9".parse().unwrap()).unwrap(),
        protocol: Protocol::Udp,
        device: None,
        sender_cpu: None,
    }
}

#[test]
fn that_nothing_listens_is_said_of_the_destination() {
    let ends = Ends {
        absent: Some("no UDP socket has the port".to_owned()),
        ..Ends::default()
    };
    let step = socket_step(&ends);
    assert_eq!(
        (step.value, step.rule.as_str()),
        (None, "no UDP socket has the port")
    );
    assert_eq!(step.confidence, Confidence::Unknown);
}

#[test]
fn of_several_holders_the_one_that_reads_is_named_and_an_unknown_cpu_is_not_called_unpinned() {
    let mut owner = listener("127.0.0.1:9".parse().unwrap(), 0);
    (owner.cpu, owner.cpu_by) = (None, None);
    let mut worker = owner.holders[0].clone();
    (worker.process, worker.name, worker.watched) = (8, "a worker".to_owned(), true);
    owner.holders.push(worker);
    let socket = |owner: &Owner| {
        let ends = Ends {
            destination: vec![owner.clone()],
            ..Ends::default()
        };
        socket_step(&ends).value.unwrap()
    };
    let running = socket(&owner);
    assert!(running.contains("of a worker (8)"), "{running}");
    let hidden = "no thread was found waiting for it, so its CPU is not known";
    assert!(running.ends_with(hidden), "{running}");
    owner.holders[0].waiting.push(crate::sockets::Thread {
        thread: 7,
        name: "reader".to_owned(),
        cpus: vec![0, 1],
    });
    let unpinned = socket(&owner);
    assert!(unpinned.contains("of a server (7)"), "{unpinned}");
    assert!(
        unpinned.ends_with("its threads are not pinned to one CPU"),
        "{unpinned}"
    );
}

#[test]
fn on_loopback_the_program_of_a_group_hashes() {
    let flow = on_loopback();
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 2).unwrap(),
        cpus: vec![0, 1],
        generation: 0,
    };
    let hash = steering.steerer().hash_of(&flow.tuple);
    let ends = Ends {
        destination: [0, 1].map(|cpu| listener(flow.tuple.destination(), cpu)).to_vec(),
        steering: Some(steering),
        ..Ends::default()
    };
    let there = explain(&machine(), &flow, &ends).unwrap().directions[0].clone();
    assert_eq!(there.hash, Some(format!("0x{hash:08x}")));
    assert_eq!(there.entry, Some(hash as usize % 128));
    let steps: Vec<&str> = there.steps.iter().map(|step| step.step.as_str()).collect();
    assert!(steps.ends_with(&["hash", "entry", "socket"]), "{steps:?}");
}
