//! Findings on a made-up NIC; each test changes one fact.

use super::*;
use crate::ethtool::HashFunction;
use crate::ethtool::{Channels, Rules};
use crate::fact::Fact;
use crate::inventory::{Bond, Driver, ReceiveQueue, Xdp, inventory};

/// A NIC with four queues on four CPUs and no findings.
fn nic() -> Device {
    let mut device = inventory().device("lo").cloned().unwrap();
    "eth9".clone_into(&mut device.name);
    device.link.kind = None;
    device.link.up = true;
    "up".clone_into(&mut device.link.state);
    let queue = device.receive_queues[0].clone();
    device.receive_queues = (0..4)
        .map(|number| ReceiveQueue {
            queue: number,
            interrupt: Fact::known(100 + number, "a test"),
            cpus: Fact::known(vec![number], "a test"),
            nodes: vec![0],
            ..queue.clone()
        })
        .collect();
    device.driver = Fact::known(
        Driver {
            name: "ixgbe".to_owned(),
            version: String::new(),
            firmware: String::new(),
            bus: "0000:03:00.0".to_owned(),
        },
        "a test",
    );
    device.channels = Fact::known(
        Channels {
            receive: 0,
            receive_maximum: 0,
            transmit: 0,
            transmit_maximum: 0,
            combined: 4,
            combined_maximum: 8,
        },
        "a test",
    );
    device.rss = Fact::known(
        Rss {
            context: 0,
            function: HashFunction::Toeplitz,
            transforms: Vec::new(),
            key: corelane_rss::Key::VERIFICATION.to_string(),
            table: (0..128).map(|entry| entry % 4).collect(),
        },
        "a test",
    );
    let four = |flow_type| (flow_type, Field::FOUR_TUPLE.to_vec());
    let fields = [FlowType::Tcp4, FlowType::Udp4].map(four);
    device.fields = Fact::known(BTreeMap::from(fields), "a test");
    device.features = Fact::known(BTreeSet::from(["rx-hashing".to_owned()]), "a test");
    device
}

/// The findings on a device: name, severity, and the command that fixes it.
fn found(device: &Device) -> Vec<(String, Severity, String)> {
    let mut inventory = inventory();
    inventory.machine.conditions.clear();
    inventory.machine.cpus_online = Some(vec![0, 1, 2, 3]);
    inventory.irqbalance = Fact::known(false, "a test");
    inventory.devices = vec![device.clone()];
    check(&inventory)
        .into_iter()
        .map(|condition| {
            let fix = condition.fix.unwrap_or_default();
            (condition.name, condition.severity, fix)
        })
        .collect()
}

/// Changes a device and expects one finding, by name, severity and a part of its fix.
fn finds(change: impl FnOnce(&mut Device), name: &str, severity: Severity, fix: &str) {
    let mut device = nic();
    change(&mut device);
    let found = found(&device);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    assert_eq!((found[0].0.as_str(), found[0].1), (name, severity));
    assert!(found[0].2.contains(fix), "{found:?}");
}

#[test]
fn a_nic_that_is_set_up_well_has_no_findings() {
    assert_eq!(found(&nic()), []);
}

#[test]
fn what_keeps_a_nic_from_scaling_is_found_with_what_mends_it() {
    use Severity::{Explains, Spoils};
    let rss = |device: &mut Device, change: fn(&mut Rss)| change(device.rss.value.as_mut().unwrap());
    finds(
        |device| device.receive_queues[3].cpus = Fact::known(vec![0], "a test"),
        "interrupts of eth9",
        Spoils,
        "echo 3 > /proc/irq/103/smp_affinity_list",
    );
    finds(
        |device| rss(device, |rss| rss.key = "0".repeat(80)),
        "key of eth9",
        Spoils,
        "ethtool -X eth9 hkey",
    );
    finds(
        |device| rss(device, |rss| rss.key = "6d5a".repeat(20)),
        "key of eth9",
        Explains,
        "openssl rand -hex 40",
    );
    finds(
        |device| {
            rss(device, |rss| {
                rss.table = (0..128).map(|entry| entry % 3).collect();
            });
        },
        "indirection table of eth9",
        Explains,
        "ethtool -X eth9 equal 4",
    );
    finds(
        |device| rss(device, |rss| rss.function = HashFunction::Crc32),
        "hash of eth9",
        Explains,
        "hfunc toeplitz",
    );
    finds(
        |device| {
            let fields = device.fields.value.as_mut().unwrap();
            fields.insert(FlowType::Udp4, Field::TWO_TUPLE.to_vec());
        },
        "hashed fields of eth9",
        Explains,
        "rx-flow-hash udp4 sdfn",
    );
}

#[test]
fn too_few_queues_are_found_with_the_most_there_could_be() {
    let mut device = nic();
    device.receive_queues.truncate(2);
    device.rss.value.as_mut().unwrap().table = [0, 1].repeat(64);
    let queues = found(&device);
    assert!(
        queues
            .iter()
            .any(|(name, _, fix)| name == "receive queues of eth9" && fix == "ethtool -L eth9 combined 4"),
        "{queues:?}"
    );
}

#[test]
fn what_overrides_the_table_is_found() {
    use Severity::Explains;
    finds(
        |device| {
            device.link.xdp = Some(Xdp {
                mode: "driver".to_owned(),
                programs: vec![7],
            });
        },
        "XDP program of eth9",
        Explains,
        "xdp off",
    );
    finds(
        |device| {
            device.link.bond = Some(Bond {
                mode: Some("802.3ad".to_owned()),
                hash_policy: Some("layer2".to_owned()),
            });
        },
        "hash policy of eth9",
        Explains,
        "xmit_hash_policy layer3+4",
    );
    finds(
        |device| {
            let rule = crate::ethtool::Rule {
                location: 5,
                flow_type: "tcp4".to_owned(),
                source: None,
                destination: None,
                source_port: None,
                destination_port: Some((80, 0xffff)),
                looks_at_more: false,
                action: crate::ethtool::RuleAction::Drop,
            };
            let rules = vec![rule];
            device.rules = Fact::known(Rules { rules, left_off: 0 }, "a test");
        },
        "ntuple rules of eth9",
        Explains,
        "ethtool -N eth9 delete 5",
    );
}
