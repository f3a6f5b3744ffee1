//! Finds configuration that would spoil a measurement or keep it from scaling.
//!
//! Input: an [`Inventory`], this machine's or a saved one. Output: its conditions and those derived from the steering
//! of its devices, worst first, each with its reason and the command that fixes it. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Device, Inventory, ReceiveQueue};
use crate::conditions::{About, Condition, Severity};
use crate::cpus::list;
use crate::ethtool::{Field, FlowType, Rss};

/// One possible problem of a device. Of several checks with one name the first match is used.
struct Check {
    name: &'static str,
    why: &'static str,
    find: for<'a> fn(&'a Device, &'a Inventory) -> Option<Found<'a>>,
}

/// The value found, its source, and the fix.
type Found<'a> = (String, &'a str, String);

const ROUTING: &str = "routing netlink";
const FEW_QUEUES: &str = "frames are received on only as many CPUs as there are queues";

/// Checks of every device; their findings explain.
const OF_ALL: [Check; 2] = [
    Check {
        name: "XDP program",
        why: "it may drop or redirect frames before they are counted",
        find: |device, _| {
            let program = device.link.xdp.as_ref()?;
            let numbers = list::format(&program.programs);
            let value = format!("{} mode, number {numbers}", program.mode);
            let name = &device.name;
            let fix = match &device.software_rss {
                Some(_) => format!("corelane rss --dev {name} --detach"),
                None => format!("ip link set dev {name} xdp off"),
            };
            Some((value, ROUTING, fix))
        },
    },
    Check {
        name: "hash policy",
        why: "all frames to one peer leave by one member of the bond",
        find: |device, _| {
            let bond = device.link.bond.as_ref()?;
            let policy = bond.hash_policy.as_ref()?;
            let balances = ["802.3ad", "balance-xor", "balance-tlb"].contains(&bond.mode.as_deref()?);
            let fix = format!("ip link set {} type bond xmit_hash_policy layer3+4", device.name);
            (balances && policy.starts_with("layer2")).then(|| (policy.clone(), ROUTING, fix))
        },
    },
];

/// Checks of the devices whose queues are worth steering; their findings spoil.
const SPOILING: [Check; 2] = [
    Check {
        name: "interrupts",
        why: "queues that share a CPU do not scale, however well the hash spreads flows",
        find: interrupts,
    },
    Check {
        name: "key",
        why: "a key of zeros hashes everything to zero: all frames use the first entry",
        find: |device, _| {
            key(device, "all zeros", |digits| {
                digits.iter().all(|digit| *digit == b'0')
            })
        },
    },
];

/// As above; their findings explain.
const EXPLAINING: [Check; 17] = [
    Check {
        name: "carrier",
        why: "the device is up but has no carrier",
        find: |device, _| {
            let down = device.link.up && device.link.state == "down";
            let fix = format!("check the cable and the other end of {}", device.name);
            down.then(|| ("down".to_owned(), ROUTING, fix))
        },
    },
    Check {
        name: "receive queues",
        why: FEW_QUEUES,
        find: |device, inventory| {
            let cpus = inventory.cpus_online().len();
            let most = device.channels.value?.receiving_maximum() as usize;
            let fix = format!("ethtool -L {} combined {}", device.name, most.min(cpus));
            fewer_queues(device, inventory, fix).filter(|_| most > device.receive_queues.len())
        },
    },
    Check {
        name: "receive queues",
        why: FEW_QUEUES,
        find: |device, inventory| {
            let cpus = |queue: &ReceiveQueue| queue.rps_cpus.value.clone().unwrap_or_default();
            let steered = device.receive_queues.iter().any(|queue| !cpus(queue).is_empty());
            let (mask, name) = (list::format_mask(inventory.cpus_online()), &device.name);
            let echo = format!("echo {mask} > /sys/class/net/{name}/queues/rx-0/rps_cpus");
            let fix = format!("the device has no more: {echo} enables RPS");
            fewer_queues(device, inventory, fix).filter(|_| !steered)
        },
    },
    Check {
        name: "nodes",
        why: "every frame crosses the link between nodes",
        find: |device, _| {
            let home = device.node.value?;
            let mut queues = device.receive_queues.iter();
            let away = queues.find(|queue| !queue.nodes.is_empty() && !queue.nodes.contains(&home))?;
            let value = format!("queue {} is handled by a CPU outside node {home}", away.queue);
            let interrupt = away.interrupt.value?;
            let fix = format!("echo a CPU of node {home} > /proc/irq/{interrupt}/smp_affinity_list");
            Some((value, &device.node.source, fix))
        },
    },
    Check {
        name: "hash",
        why: "address and port plans and exact steering support only the Toeplitz hash",
        find: |device, _| {
            let function = device.rss.value.as_ref()?.function;
            let fix = format!("ethtool -X {} hfunc toeplitz", device.name);
            (!function.is_toeplitz()).then(|| (format!("{function:?}"), device.rss.source.as_str(), fix))
        },
    },
    Check {
        name: "hash",
        why: "both directions of a flow hash alike, but half of the hash input is lost",
        find: |device, _| {
            let transforms = &device.rss.value.as_ref()?.transforms;
            let fix = format!("ethtool -X {} xfrm none", device.name);
            (!transforms.is_empty()).then(|| (format!("{transforms:?}"), device.rss.source.as_str(), fix))
        },
    },
    Check {
        name: "hash",
        why: "the device does not pass its hash to the kernel, which computes another",
        find: |device, _| {
            let off = device.rss.value.is_some() && device.feature("rx-hashing") == Some(false);
            let fix = format!("ethtool -K {} rxhash on", device.name);
            let value = "receive hashing is off".to_owned();
            off.then_some((value, device.features.source.as_str(), fix))
        },
    },
    Check {
        name: "key",
        why: "both directions of a flow hash alike, and the hash has only 16 significant bits",
        find: |device, _| {
            let repeats = |digits: &[u8]| digits.chunks(4).all(|pair| digits.starts_with(pair));
            key(device, "two bytes, repeated", repeats)
        },
    },
    Check {
        name: "indirection table",
        why: "queues that no entry names receive no hashed frame",
        find: |device, _| {
            let (rss, queues) = (table(device)?, device.receive_queues.len());
            let without: Vec<u32> = (0..queues as u32)
                .filter(|queue| !rss.table.contains(queue))
                .collect();
            let value = format!("no entry names queues {}", list::format(&without));
            (queues > 1 && !without.is_empty()).then(|| (value, device.rss.source.as_str(), equal(device)))
        },
    },
    Check {
        name: "indirection table",
        why: "the flows are not spread evenly, on purpose or not",
        find: |device, _| {
            let queues = device.receive_queues.len();
            let mut shares: BTreeMap<u32, usize> = (0..queues as u32).map(|queue| (queue, 0)).collect();
            for queue in &table(device)?.table {
                *shares.entry(*queue).or_default() += 1;
            }
            let (least, most) = (*shares.values().min()?, *shares.values().max()?);
            let value = format!("{least} to {most} entries per queue");
            (most > least + 1).then(|| (value, device.rss.source.as_str(), equal(device)))
        },
    },
    Check {
        name: "indirection table",
        why: "with fewer than four entries per queue the load of queues differs widely",
        find: |device, _| {
            let (entries, queues) = (table(device)?.table.len(), device.receive_queues.len());
            let value = format!("{entries} entries for {queues} queues");
            // Documentation/networking/scaling.rst, "RSS: Receive Side Scaling": at least four times as many entries.
            let fix = format!("ethtool -L {} with fewer queues", device.name);
            (entries < 4 * queues).then_some((value, &device.rss.source, fix))
        },
    },
    Check {
        name: "hashed fields",
        why: "ports are not hashed: all flows between two hosts share a queue (and their fragments stay with them)",
        find: |device, _| {
            let fields = device.fields.value.as_ref()?;
            let addresses_alone = |flow_type: &FlowType| {
                let own = fields.get(flow_type).map_or(&[][..], Vec::as_slice);
                own.contains(&Field::SourceAddress) && !own.contains(&Field::SourcePort)
            };
            let types = [FlowType::Udp4, FlowType::Udp6, FlowType::Tcp4, FlowType::Tcp6];
            let without = types.into_iter().filter(addresses_alone).map(FlowType::name);
            let without: Vec<&str> = without.collect::<BTreeSet<_>>().into_iter().collect();
            let value = format!("addresses alone for {}", without.join(", "));
            let (name, first) = (&device.name, without.first()?);
            let fix = format!("ethtool -N {name} rx-flow-hash {first} sdfn");
            Some((value, &device.fields.source, fix))
        },
    },
    Check {
        name: "RSS contexts",
        why: "rules send flows to other tables than the one planned for",
        find: |device, _| {
            let contexts = device.contexts.value.as_ref()?;
            let value = format!("{} besides the device's own", contexts.len());
            let (name, first) = (&device.name, contexts.first()?.context);
            let fix = format!("ethtool -X {name} context {first} delete");
            Some((value, &device.contexts.source, fix))
        },
    },
    Check {
        name: "ntuple rules",
        why: "they choose the queue before the hash does",
        find: |device, _| {
            let rules = device.rules.value.as_ref()?;
            let count = rules.rules.len() as u32 + rules.left_off;
            let (name, first) = (&device.name, rules.rules.first()?.location);
            let fix = format!("ethtool -N {name} delete {first}");
            Some((count.to_string(), &device.rules.source, fix))
        },
    },
    Check {
        name: "accelerated RFS",
        why: "the driver steers flows to the CPU of their readers instead of by the hash",
        find: |device, inventory| {
            let entries = inventory.setting("net.core.rps_sock_flow_entries");
            let on = device.accelerates_rfs() && entries.is_some_and(|entries| entries != "0");
            let fix = format!("ethtool -K {} ntuple off", device.name);
            let source = "ethtool netlink, /sys/class/net/*/queues/rx-*/rps_flow_cnt";
            on.then(|| ("on".to_owned(), source, fix))
        },
    },
    Check {
        name: "interrupt coalescing",
        why: "the driver changes how long frames wait while a measurement runs",
        find: |device, _| {
            let coalescing = device.coalescing.value.filter(|own| own.adaptive_receive)?;
            let time = coalescing.receive_microseconds.map(|time| time.to_string());
            let value = format!("adaptive, now {} µs", time.as_deref().unwrap_or("unknown"));
            let fix = format!("ethtool -C {} adaptive-rx off rx-usecs 10", device.name);
            Some((value, &device.coalescing.source, fix))
        },
    },
    Check {
        name: "threaded polling",
        why: "frames are handled on the CPU of that thread, not on the CPU of the interrupt",
        find: |device, _| {
            let mut queues = device.receive_queues.iter();
            let queue = queues.find(|queue| queue.napi_thread.value.is_some())?;
            let value = format!("thread {} polls queue {}", queue.napi_thread.value?, queue.queue);
            let fix = format!("echo 0 > /sys/class/net/{}/threaded", device.name);
            Some((value, &queue.napi_thread.source, fix))
        },
    },
];

/// Judges an inventory. Conditions that are fine are among those returned, last.
#[must_use]
pub fn check(inventory: &Inventory) -> Vec<Condition> {
    let mut all = inventory.machine.conditions.clone();
    if inventory.irqbalance.value == Some(true) {
        let about = About {
            name: "irqbalance",
            source: &inventory.irqbalance.source,
            why: "it moves interrupts to other CPUs while a measurement runs",
            fix: "systemctl stop irqbalance",
        };
        all.push(about.found(Ok::<_, String>(("running", Severity::Explains))));
    }
    for device in &inventory.devices {
        let explaining = OF_ALL
            .iter()
            .chain(EXPLAINING.iter().filter(|_| device.has_hardware()));
        let explaining = explaining.map(|check| (Severity::Explains, check));
        let spoiling = SPOILING.iter().filter(|_| device.has_hardware());
        let spoiling = spoiling.map(|check| (Severity::Spoils, check));
        for (severity, check) in spoiling.chain(explaining) {
            let name = format!("{} of {}", check.name, device.name);
            let first = all.iter().all(|condition| condition.name != name);
            if first && let Some((value, source, fix)) = (check.find)(device, inventory) {
                let about = About {
                    name: &name,
                    source,
                    why: check.why,
                    fix: &fix,
                };
                all.push(about.found(Ok::<_, String>((value, severity))));
            }
        }
    }
    all.sort_by_key(|condition| condition.severity);
    all
}

/// Fewer receive queues than CPUs: the others get frames only by RPS.
fn fewer_queues<'a>(device: &'a Device, inventory: &Inventory, fix: String) -> Option<Found<'a>> {
    let (own, cpus) = (device.receive_queues.len(), inventory.cpus_online().len());
    let value = format!("{own} for {cpus} CPUs");
    (0 < own && own < cpus).then_some((value, &device.channels.source, fix))
}

/// The fix that spreads the entries of the table evenly.
fn equal(device: &Device) -> String {
    format!("ethtool -X {} equal {}", device.name, device.receive_queues.len())
}

/// Several queues interrupt one CPU while others have none.
fn interrupts<'a>(device: &'a Device, inventory: &'a Inventory) -> Option<Found<'a>> {
    let mut by_cpu: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for queue in &device.receive_queues {
        if let (Some(interrupt), Some([cpu])) = (queue.interrupt.value, queue.cpus.value.as_deref()) {
            by_cpu.entry(*cpu).or_default().push((queue.queue, interrupt));
        }
    }
    let mut idle = inventory.cpus_online().to_vec();
    idle.retain(|cpu| !by_cpu.contains_key(cpu));
    let (cpu, crowd) = by_cpu.iter().max_by_key(|(_, queues)| queues.len())?;
    let (queue, interrupt) = crowd.last().filter(|_| crowd.len() > 1)?;
    let (count, without) = (crowd.len(), list::format(&idle));
    let value = format!("{count} queues on CPU {cpu}, none on CPUs {without}");
    let to = idle.first()?;
    let fix = format!("echo {to} > /proc/irq/{interrupt}/smp_affinity_list moves queue {queue}");
    Some((value, "/proc/irq/*/effective_affinity_list", fix))
}

/// A key whose hexadecimal digits are of a weak kind.
fn key<'a>(device: &'a Device, kind: &str, weak: impl Fn(&[u8]) -> bool) -> Option<Found<'a>> {
    let digits = device.rss.value.as_ref()?.key.as_bytes();
    let (name, bytes) = (&device.name, digits.len() / 2);
    let fix = format!("ethtool -X {name} hkey $(openssl rand -hex {bytes} | sed 's/../&:/g;s/:$//')");
    (!digits.is_empty() && weak(digits)).then(|| (kind.to_owned(), device.rss.source.as_str(), fix))
}

/// The hash and table of a device that has a table.
fn table(device: &Device) -> Option<&Rss> {
    device.rss.value.as_ref().filter(|rss| !rss.table.is_empty())
}

#[cfg(test)]
mod tests;
