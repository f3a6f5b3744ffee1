//! Conditions of the devices that frames cross, in the calling thread's network namespace.

use nix::net::if_::if_nametoindex;

use super::{Condition, Severity};
use crate::HostError;
use crate::cpus::list;
use crate::ethtool::{Ethtool, Pause};
use crate::tree::Tree;

const ETHTOOL: &str = "ethtool netlink";

/// The conditions of each device.
pub(super) fn conditions(tree: &Tree, devices: &[String]) -> Vec<Condition> {
    let mut all = Vec::new();
    for device in devices {
        // Each device asks anew, so that a kernel without the interface gives each its reason.
        let mut ethtool = Ethtool::open();
        all.push(flow_control(
            device,
            ask(&mut ethtool, |ethtool| ethtool.pause(device)),
        ));
        all.push(offloads(
            device,
            ask(&mut ethtool, |ethtool| ethtool.features(device)),
        ));
        all.push(receive_packet_steering(tree, device));
        all.push(captures(tree, device));
    }
    all
}

fn ask<T>(
    ethtool: &mut Result<Ethtool, HostError>,
    question: impl Fn(&mut Ethtool) -> Result<T, HostError>,
) -> Result<T, String> {
    match ethtool {
        Ok(ethtool) => question(ethtool).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn flow_control(device: &str, pause: Result<Option<Pause>, String>) -> Condition {
    const WHY: &str =
        "pause frames slow the sender instead of dropping at the receiver, so neither rate is its own";
    let name = format!("flow control of {device}");
    match pause {
        Err(because) => Condition::unknown(name, because, ETHTOOL, WHY),
        Ok(None) => Condition::known(name, "the device has none", ETHTOOL, WHY),
        Ok(Some(pause)) => {
            let state = |on| if on { "on" } else { "off" };
            let value = format!(
                "receive {}, transmit {}, negotiated {}",
                state(pause.receive),
                state(pause.transmit),
                state(pause.autonegotiate)
            );
            let condition = Condition::known(name, value, ETHTOOL, WHY);
            if pause.receive || pause.transmit {
                condition.rated(
                    Severity::Spoils,
                    format!("ethtool -A {device} autoneg off rx off tx off"),
                )
            } else {
                condition
            }
        }
    }
}

/// Offloads that make one frame out of several or several out of one, or that choose the CPU, with the kernel's name for
/// each (`net/ethtool/common.c`, `netdev_features_strings`).
const TELLING: [(&str, &str); 9] = [
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

fn offloads(device: &str, features: Result<std::collections::BTreeSet<String>, String>) -> Condition {
    const WHY: &str = "frames are merged or cut up on the way, so frames and datagrams differ in number; filters override the table";
    let name = format!("offloads of {device}");
    match features {
        Err(because) => Condition::unknown(name, because, ETHTOOL, WHY),
        Ok(features) => {
            let active: Vec<&str> = TELLING
                .iter()
                .filter(|(_, kernel)| features.contains(*kernel))
                .map(|(name, _)| *name)
                .collect();
            if active.is_empty() {
                Condition::known(name, "none", ETHTOOL, WHY)
            } else {
                Condition::known(name, active.join(", "), ETHTOOL, WHY).rated(
                    Severity::Explains,
                    format!("ethtool -K {device} gro off lro off gso off tso off"),
                )
            }
        }
    }
}

/// RPS: software that hands frames of a receive queue to other CPUs. `/sys` shows the devices of the namespace it was
/// mounted in, so that in another namespace only the mask that its devices start with can be read.
fn receive_packet_steering(tree: &Tree, device: &str) -> Condition {
    const WHY: &str = "software moves frames to other CPUs than the one that received them";
    let name = format!("rps of {device}");
    let (source, masks) = if in_own_namespace(tree) {
        const DEFAULT: &str = "/proc/sys/net/core/rps_default_mask";
        (
            format!("{DEFAULT}, which devices of this namespace start with"),
            tree.text(DEFAULT).map(|mask| vec![mask]),
        )
    } else {
        let directory = format!("/sys/class/net/{device}/queues");
        (
            format!("{directory}/rx-*/rps_cpus"),
            masks_of_queues(tree, &directory),
        )
    };
    let cpus = match masks {
        Ok(masks) => masks
            .iter()
            .map(|mask| list::parse_mask(mask))
            .collect::<Option<Vec<_>>>(),
        Err(error) => return Condition::unknown(name, error, source, WHY),
    };
    match cpus.map(|cpus| cpus.concat()) {
        None => Condition::unknown(name, "the mask is not hexadecimal", source, WHY),
        Some(cpus) if cpus.is_empty() => Condition::known(name, "off", source, WHY),
        Some(cpus) => Condition::known(name, format!("to CPUs {}", list::format(&cpus)), source, WHY).rated(
            Severity::Explains,
            format!("echo 0 > /sys/class/net/{device}/queues/rx-*/rps_cpus"),
        ),
    }
}

fn masks_of_queues(tree: &Tree, directory: &str) -> Result<Vec<String>, HostError> {
    tree.names(directory)?
        .iter()
        .filter(|queue| queue.starts_with("rx-"))
        .map(|queue| tree.text(&format!("{directory}/{queue}/rps_cpus")))
        .collect()
}

/// Whether the calling thread left the network namespace of its process, as the sides of a bed do.
fn in_own_namespace(tree: &Tree) -> bool {
    let (thread, process) = (
        tree.link("/proc/thread-self/ns/net"),
        tree.link("/proc/self/ns/net"),
    );
    thread.is_some() && thread != process
}

/// A capture of every protocol, as tcpdump makes, is offered each frame. `/proc/net/packet` has a line a packet socket; the
/// fourth column is its protocol in hexadecimal, 0003 being all of them, the fifth the index of its device, 0 being all of
/// them (`packet_seq_show` in `net/packet/af_packet.c`).
fn captures(tree: &Tree, device: &str) -> Condition {
    const SOURCE: &str = "/proc/thread-self/net/packet";
    const WHY: &str = "a capture of all protocols is offered each frame on the CPU that handles it";
    let name = format!("captures of {device}");
    let (text, index) = match (tree.text(SOURCE), if_nametoindex(device)) {
        (Ok(text), Ok(index)) => (text, index.to_string()),
        (Err(error), _) => return Condition::unknown(name, error, SOURCE, WHY),
        (_, Err(errno)) => return Condition::unknown(name, format!("{device}: {errno}"), SOURCE, WHY),
    };
    let seen = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let on = columns.get(4).copied().unwrap_or_default();
        columns.get(3) == Some(&"0003") && (on == "0" || on == index)
    };
    let count = text.lines().skip(1).filter(seen).count();
    let condition = Condition::known(name, count, SOURCE, WHY);
    if count > 0 {
        condition.rated(Severity::Spoils, "end tcpdump and its like; ss -0 -p names them")
    } else {
        condition
    }
}
