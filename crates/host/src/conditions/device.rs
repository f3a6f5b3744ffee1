//! Conditions of the devices that frames cross, in the calling thread's network namespace.

use std::collections::BTreeSet;

use nix::net::if_::if_nametoindex;

use super::condition::{About, Condition, Severity};
use crate::HostError;
use crate::cpus::list;
use crate::ethtool::{ETHTOOL, Ethtool, Pause};
use crate::tree::Tree;

/// The conditions of each device.
pub(super) fn conditions(tree: &Tree, devices: &[String]) -> Vec<Condition> {
    let mut all = Vec::new();
    for device in devices {
        // A separate query per device, so that a kernel without the interface gives each device its own reason.
        let pause = Ethtool::open().and_then(|mut ethtool| ethtool.pause(device));
        let features = Ethtool::open().and_then(|mut ethtool| ethtool.features(device));
        all.push(flow_control(device, pause));
        all.push(offloads(device, features));
        all.push(receive_packet_steering(tree, device));
        all.push(captures(tree, device));
    }
    if in_own_namespace(tree) {
        // Such a device was made for this run, and is gone before a reader could change it.
        for condition in &mut all {
            condition.fix = None;
        }
    }
    all
}

fn flow_control(device: &str, pause: Result<Option<Pause>, HostError>) -> Condition {
    let state = |on| if on { "on" } else { "off" };
    let words = |pause: Pause| {
        let (receive, transmit) = (state(pause.receive), state(pause.transmit));
        let negotiated = state(pause.autonegotiate);
        format!("receive {receive}, transmit {transmit}, negotiated {negotiated}")
    };
    About {
        name: &format!("flow control of {device}"),
        source: ETHTOOL,
        why: "pause frames slow the sender instead of causing drops at the receiver, so neither rate is independent",
        fix: &format!("ethtool -A {device} autoneg off rx off tx off"),
    }
    .found(pause.map(|pause| {
        let pauses = pause.is_some_and(|pause| pause.receive || pause.transmit);
        let value = pause.map_or("the device has none".to_owned(), words);
        (value, Severity::Spoils.when(pauses))
    }))
}

/// Offloads that merge or split frames, or that choose the CPU, with the kernel's name for each
/// (`net/ethtool/common.c`, `netdev_features_strings`).
const OFFLOADS: [(&str, &str); 9] = [
    ("gro", "rx-gro"),
    ("gro in hardware", "rx-gro-hw"),
    ("lro", "rx-lro"),
    ("gso", "tx-generic-segmentation"),
    ("tso", "tx-tcp-segmentation"),
    ("udp gso", "tx-udp-segmentation"),
    ("udp gro forwarding", "rx-udp-gro-forwarding"),
    ("receive hashing", "rx-hashing"),
    ("ntuple filters", "rx-ntuple-filter"),
];

fn offloads(device: &str, features: Result<BTreeSet<String>, HostError>) -> Condition {
    About {
        name: &format!("offloads of {device}"),
        source: ETHTOOL,
        why: "frames are merged or split on the way, so frame and datagram counts differ; filters override the table",
        fix: &format!("ethtool -K {device} gro off lro off gso off tso off"),
    }
    .found(features.map(|features| {
        let active = OFFLOADS.iter().filter(|(_, kernel)| features.contains(*kernel));
        let active: Vec<&str> = active.map(|(name, _)| *name).collect();
        match active.is_empty() {
            true => ("none".to_owned(), Severity::Fine),
            false => (active.join(", "), Severity::Explains),
        }
    }))
}

/// RPS: software that distributes frames of a receive queue to other CPUs. `/sys` shows the devices of the namespace it
/// was mounted in, so in another namespace only the default mask of new devices can be read.
fn receive_packet_steering(tree: &Tree, device: &str) -> Condition {
    let (source, masks) = if in_own_namespace(tree) {
        const DEFAULT: &str = "/proc/sys/net/core/rps_default_mask";
        let source = format!("{DEFAULT}, which devices of this namespace start with");
        (source, tree.text(DEFAULT).map(|mask| vec![mask]))
    } else {
        let directory = format!("/sys/class/net/{device}/queues");
        let source = format!("{directory}/rx-*/rps_cpus");
        (source, masks_of_queues(tree, &directory))
    };
    let cpus = masks.map_err(|error| error.to_string()).and_then(|masks| {
        let cpus: Option<Vec<_>> = masks.iter().map(|mask| list::parse_mask(mask)).collect();
        cpus.ok_or("the mask is not hexadecimal".to_owned())
    });
    About {
        name: &format!("rps of {device}"),
        source: &source,
        why: "software moves frames to other CPUs than the one that received them",
        fix: &format!("echo 0 > /sys/class/net/{device}/queues/rx-*/rps_cpus"),
    }
    .found(cpus.map(|cpus| match list::format(&cpus.concat()) {
        none if none.is_empty() => ("off".to_owned(), Severity::Fine),
        cpus => (format!("to CPUs {cpus}"), Severity::Explains),
    }))
}

fn masks_of_queues(tree: &Tree, directory: &str) -> Result<Vec<String>, HostError> {
    tree.names(directory)?
        .iter()
        .filter(|queue| queue.starts_with("rx-"))
        .map(|queue| tree.text(&format!("{directory}/{queue}/rps_cpus")))
        .collect()
}

/// Whether the calling thread left the network namespace of its process, as the threads of a bed do.
fn in_own_namespace(tree: &Tree) -> bool {
    let [thread, process] = ["thread-self", "self"].map(|own| tree.link(&format!("/proc/{own}/ns/net")));
    thread.is_some() && thread != process
}

/// A capture of every protocol, such as tcpdump, receives a copy of each frame. `/proc/net/packet` has one line per
/// packet socket: the fourth column is its protocol in hexadecimal (0003 is all), the fifth the index of its device (0
/// is all) (`packet_seq_show` in `net/packet/af_packet.c`).
fn captures(tree: &Tree, device: &str) -> Condition {
    let source = "/proc/thread-self/net/packet";
    let text = tree.text(source).map_err(|error| error.to_string());
    let count = text.and_then(|text| {
        let index = if_nametoindex(device).map_err(|errno| format!("{device}: {errno}"))?;
        let seen = |line: &&str| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let on = columns.get(4).copied().unwrap_or_default();
            columns.get(3) == Some(&"0003") && (on == "0" || on == index.to_string())
        };
        Ok(text.lines().skip(1).filter(seen).count())
    });
    About {
        name: &format!("captures of {device}"),
        source,
        why: "a capture of all protocols costs time per frame on the CPU that handles it",
        fix: "stop tcpdump and similar programs; ss -0 -p lists them",
    }
    .found(count.map(|count| (count, Severity::Spoils.when(count > 0))))
}
