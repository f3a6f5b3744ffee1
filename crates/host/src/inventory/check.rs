//! What of this machine would spoil a measurement, or keep it from scaling.
//!
//! What enters: an [`Inventory`], this machine's or a saved one. What leaves: its conditions and those that follow from how
//! its devices steer, the worst first, each with its reason and the command that mends it. Nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Device, Inventory};
use crate::conditions::{Condition, Severity};
use crate::cpus::list;
use crate::ethtool::{Field, FlowType, HashFunction, Rss};

/// Judges an inventory. Conditions that are fine are among those returned, last.
#[must_use]
pub fn check(inventory: &Inventory) -> Vec<Condition> {
    let mut all = inventory.machine.conditions.clone();
    all.extend(irqbalance(inventory));
    let cpus = inventory.machine.cpus_online.as_deref().unwrap_or_default();
    for device in &inventory.devices {
        all.extend(program(device));
        all.extend(bond(device));
        if device.has_hardware() {
            all.extend(of_hardware(device, cpus, inventory));
        }
    }
    all.sort_by_key(|condition| condition.severity);
    all
}

/// The conditions of a device whose queues are worth steering.
fn of_hardware(device: &Device, cpus: &[u32], inventory: &Inventory) -> Vec<Condition> {
    let found = [
        carrier(device),
        queues(device, cpus),
        interrupts(device, cpus),
        nodes(device),
        hash(device),
        key(device),
        table(device),
        fields(device),
        contexts(device),
        rules(device),
        accelerated_rfs(device, inventory),
        coalescing(device),
        threads(device),
    ];
    found.into_iter().flatten().collect()
}

fn named(what: &str, device: &Device) -> String {
    format!("{what} of {}", device.name)
}

fn explains(name: String, value: String, source: &str, why: &str, mend: String) -> Condition {
    Condition::known(name, value, source, why).rated(Severity::Explains, mend)
}

fn spoils(name: String, value: String, source: &str, why: &str, mend: String) -> Condition {
    Condition::known(name, value, source, why).rated(Severity::Spoils, mend)
}

fn irqbalance(inventory: &Inventory) -> Option<Condition> {
    const WHY: &str = "it moves interrupts to other CPUs while a measurement runs";
    inventory.irqbalance.value?.then(|| {
        explains(
            "irqbalance".to_owned(),
            "running".to_owned(),
            &inventory.irqbalance.source,
            WHY,
            "systemctl stop irqbalance".to_owned(),
        )
    })
}

fn carrier(device: &Device) -> Option<Condition> {
    (device.link.up && device.link.state == "down").then(|| {
        explains(
            named("carrier", device),
            "down".to_owned(),
            "routing netlink",
            "the device is switched on and carries nothing",
            format!("check the cable and the other end of {}", device.name),
        )
    })
}

/// Fewer receive queues than CPUs: the others get frames only by RPS.
fn queues(device: &Device, cpus: &[u32]) -> Option<Condition> {
    const WHY: &str = "frames are received on as many CPUs as there are queues, and on no other";
    let own = device.receive_queues.len();
    let name = named("receive queues", device);
    let source = device.channels.source.as_str();
    let value = format!("{own} for {} CPUs", cpus.len());
    if own == 0 || own >= cpus.len() {
        return None;
    }
    let most = device
        .channels
        .value
        .map_or(own, |channels| channels.receiving_maximum() as usize);
    if most > own {
        let wanted = most.min(cpus.len());
        let mend = format!("ethtool -L {} combined {wanted}", device.name);
        return Some(explains(name, value, source, WHY, mend));
    }
    let steered = device.receive_queues.iter().any(|queue| {
        let cpus = queue.rps_cpus.value.as_deref();
        cpus.is_some_and(|cpus| !cpus.is_empty())
    });
    let mend = format!(
        "the device has no more: echo {} > /sys/class/net/{}/queues/rx-0/rps_cpus lets software spread them",
        mask(cpus),
        device.name
    );
    (!steered).then(|| explains(name, value, source, WHY, mend))
}

/// CPUs as a mask, in groups of eight digits, as the kernel reads it.
fn mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let group = |index: u32| {
        let own = cpus.iter().filter(|cpu| *cpu / 32 == index);
        own.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let text: Vec<String> = (0..groups)
        .rev()
        .map(|index| match index + 1 == groups {
            true => format!("{:x}", group(index)),
            false => format!("{:08x}", group(index)),
        })
        .collect();
    text.join(",")
}

/// Several queues interrupt one CPU while others have none.
fn interrupts(device: &Device, cpus: &[u32]) -> Option<Condition> {
    const WHY: &str = "queues that share a CPU do not scale, however the hash spreads flows over them";
    let mut by_cpu: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for queue in &device.receive_queues {
        let (Some(interrupt), Some([cpu])) = (queue.interrupt.value, queue.cpus.value.as_deref()) else {
            continue;
        };
        by_cpu.entry(*cpu).or_default().push((queue.queue, interrupt));
    }
    let idle: Vec<u32> = cpus
        .iter()
        .copied()
        .filter(|cpu| !by_cpu.contains_key(cpu))
        .collect();
    let (cpu, crowd) = by_cpu.iter().max_by_key(|(_, queues)| queues.len())?;
    let free = idle.first()?;
    let (queue, interrupt) = crowd.last().filter(|_| crowd.len() > 1)?;
    Some(spoils(
        named("interrupts", device),
        format!(
            "{} queues on CPU {cpu}, none on CPUs {}",
            crowd.len(),
            list::format(&idle)
        ),
        "/proc/irq/*/effective_affinity_list",
        WHY,
        format!("echo {free} > /proc/irq/{interrupt}/smp_affinity_list moves queue {queue}"),
    ))
}

fn nodes(device: &Device) -> Option<Condition> {
    let home = device.node.value?;
    let away = device
        .receive_queues
        .iter()
        .find(|queue| !queue.nodes.is_empty() && !queue.nodes.contains(&home))?;
    let interrupt = away.interrupt.value?;
    Some(explains(
        named("nodes", device),
        format!("queue {} is worked on away from node {home}", away.queue),
        &device.node.source,
        "every frame then crosses the link between nodes",
        format!("echo a CPU of node {home} > /proc/irq/{interrupt}/smp_affinity_list"),
    ))
}

fn hash(device: &Device) -> Option<Condition> {
    let rss = device.rss.value.as_ref()?;
    let name = named("hash", device);
    let source = device.rss.source.as_str();
    if !matches!(rss.function, HashFunction::Toeplitz | HashFunction::Untold) {
        let mend = format!("ethtool -X {} hfunc toeplitz", device.name);
        let why = "no plan of addresses or ports, and no exact steering, fits another hash than Toeplitz";
        return Some(explains(name, format!("{:?}", rss.function), source, why, mend));
    }
    if !rss.transforms.is_empty() {
        let mend = format!("ethtool -X {} xfrm none", device.name);
        let why = "both directions of a flow meet, at the price of half of the hash's input";
        return Some(explains(name, format!("{:?}", rss.transforms), source, why, mend));
    }
    (device.feature("rx-hashing") == Some(false)).then(|| {
        let mend = format!("ethtool -K {} rxhash on", device.name);
        let why = "the hash is not handed to the kernel, which computes another";
        explains(
            name,
            "receive hashing is off".to_owned(),
            &device.features.source,
            why,
            mend,
        )
    })
}

fn key(device: &Device) -> Option<Condition> {
    let rss = device.rss.value.as_ref()?;
    let digits = rss.key.as_bytes();
    if digits.is_empty() {
        return None;
    }
    let mend = format!(
        "ethtool -X {} hkey $(openssl rand -hex {} | sed 's/../&:/g;s/:$//')",
        device.name,
        digits.len() / 2
    );
    let name = named("key", device);
    if digits.iter().all(|digit| *digit == b'0') {
        let why = "a key of zeros hashes everything to zero: all frames fall on the first entry";
        return Some(spoils(
            name,
            "all zeros".to_owned(),
            &device.rss.source,
            why,
            mend,
        ));
    }
    let repeats = digits.chunks(4).all(|pair| digits.starts_with(pair));
    repeats.then(|| {
        let why = "both directions of a flow meet, and the hash has 16 bits where it seems to have 32";
        explains(
            name,
            "two bytes, repeated".to_owned(),
            &device.rss.source,
            why,
            mend,
        )
    })
}

fn table(device: &Device) -> Option<Condition> {
    let rss = device.rss.value.as_ref().filter(|rss| !rss.table.is_empty())?;
    let queues = device.receive_queues.len();
    let shares = shares(rss, queues);
    let mend = format!("ethtool -X {} equal {queues}", device.name);
    let (name, source) = (named("indirection table", device), device.rss.source.as_str());
    let (least, most) = (shares.values().min()?, shares.values().max()?);
    if queues > 1 && *least == 0 {
        let without: Vec<u32> = shares
            .iter()
            .filter(|(_, share)| **share == 0)
            .map(|(queue, _)| *queue)
            .collect();
        let why = "queues that no entry names receive no hashed frame";
        let value = format!("no entry names queues {}", list::format(&without));
        return Some(explains(name, value, source, why, mend));
    }
    if *most > *least + 1 {
        let why = "the flows are not spread evenly, on purpose or not";
        return Some(explains(
            name,
            format!("{least} to {most} entries a queue"),
            source,
            why,
            mend,
        ));
    }
    // Documentation/networking/scaling.rst, "RSS: Receive Side Scaling": at least four times as many entries as queues.
    (rss.table.len() < 4 * queues).then(|| {
        let why = "with less than four entries a queue the queues' loads differ widely";
        let value = format!("{} entries for {queues} queues", rss.table.len());
        explains(
            name,
            value,
            source,
            why,
            format!("ethtool -L {} with fewer queues", device.name),
        )
    })
}

/// How many entries name each queue.
fn shares(rss: &Rss, queues: usize) -> BTreeMap<u32, usize> {
    let mut shares: BTreeMap<u32, usize> = (0..queues as u32).map(|queue| (queue, 0)).collect();
    for queue in &rss.table {
        *shares.entry(*queue).or_default() += 1;
    }
    shares
}

fn fields(device: &Device) -> Option<Condition> {
    let fields = device.fields.value.as_ref()?;
    let has_ports = |flow_type| {
        let own: Option<&Vec<Field>> = fields.get(&flow_type);
        own.filter(|own| own.contains(&Field::SourceAddress))
            .map(|own| own.contains(&Field::SourcePort))
    };
    let without: BTreeSet<&str> = [FlowType::Udp4, FlowType::Udp6, FlowType::Tcp4, FlowType::Tcp6]
        .into_iter()
        .filter(|flow_type| has_ports(*flow_type) == Some(false))
        .map(FlowType::name)
        .collect();
    let first = without.first()?;
    let mend = format!("ethtool -N {} rx-flow-hash {first} sdfn", device.name);
    let why = "ports are not hashed: all flows between two hosts share a queue (and their fragments stay with them)";
    let names: Vec<&str> = without.iter().copied().collect();
    Some(explains(
        named("hashed fields", device),
        format!("addresses alone for {}", names.join(", ")),
        &device.fields.source,
        why,
        mend,
    ))
}

fn contexts(device: &Device) -> Option<Condition> {
    let contexts = device
        .contexts
        .value
        .as_ref()
        .filter(|contexts| !contexts.is_empty())?;
    Some(explains(
        named("RSS contexts", device),
        format!("{} beside the device's own", contexts.len()),
        &device.contexts.source,
        "rules send flows to other tables than the one that is planned for",
        format!(
            "ethtool -X {} context {} delete",
            device.name, contexts[0].context
        ),
    ))
}

fn rules(device: &Device) -> Option<Condition> {
    let rules = device.rules.value.as_ref()?;
    let first = rules.rules.first()?;
    Some(explains(
        named("ntuple rules", device),
        format!("{}", rules.rules.len() as u32 + rules.left_off),
        &device.rules.source,
        "they choose the queue before the hash does",
        format!("ethtool -N {} delete {}", device.name, first.location),
    ))
}

fn accelerated_rfs(device: &Device, inventory: &Inventory) -> Option<Condition> {
    let entries = inventory.settings.get("net.core.rps_sock_flow_entries")?;
    let on = device.feature("rx-ntuple-filter") == Some(true)
        && entries.value.as_deref().is_some_and(|entries| entries != "0")
        && device
            .receive_queues
            .iter()
            .any(|queue| queue.rfs_flows.value.is_some_and(|flows| flows > 0));
    on.then(|| {
        explains(
            named("accelerated RFS", device),
            "on".to_owned(),
            "ethtool netlink, /sys/class/net/*/queues/rx-*/rps_flow_cnt",
            "the driver steers flows to where their readers run, and not to where the hash says",
            format!("ethtool -K {} ntuple off", device.name),
        )
    })
}

fn coalescing(device: &Device) -> Option<Condition> {
    let coalescing = device
        .coalescing
        .value
        .filter(|coalescing| coalescing.adaptive_receive)?;
    Some(explains(
        named("interrupt coalescing", device),
        format!(
            "adaptive, now {} µs",
            coalescing
                .receive_microseconds
                .map_or("unknown".to_owned(), |time| time.to_string())
        ),
        &device.coalescing.source,
        "the driver changes how long frames wait while a measurement runs",
        format!("ethtool -C {} adaptive-rx off rx-usecs 10", device.name),
    ))
}

fn threads(device: &Device) -> Option<Condition> {
    let queue = device
        .receive_queues
        .iter()
        .find(|queue| queue.napi_thread.value.is_some())?;
    Some(explains(
        named("threaded polling", device),
        format!("thread {} polls queue {}", queue.napi_thread.value?, queue.queue),
        &queue.napi_thread.source,
        "frames are worked on where the scheduler puts that thread, not where the interrupt goes",
        format!("echo 0 > /sys/class/net/{}/threaded", device.name),
    ))
}

fn program(device: &Device) -> Option<Condition> {
    let program = device.link.xdp.as_ref()?;
    Some(explains(
        named("XDP program", device),
        format!(
            "{} mode, number {}",
            program.mode,
            list::format(&program.programs)
        ),
        "routing netlink",
        "it may drop frames, or send them to another CPU or device, before anything here counts them",
        format!("ip link set dev {} xdp off", device.name),
    ))
}

fn bond(device: &Device) -> Option<Condition> {
    let bond = device.link.bond.as_ref()?;
    let policy = bond
        .hash_policy
        .as_deref()
        .filter(|policy| policy.starts_with("layer2"))?;
    let balances = matches!(
        bond.mode.as_deref(),
        Some("802.3ad" | "balance-xor" | "balance-tlb")
    );
    balances.then(|| {
        explains(
            named("hash policy", device),
            policy.to_owned(),
            "routing netlink",
            "all that is sent to one peer leaves by one member of the bond",
            format!("ip link set {} type bond xmit_hash_policy layer3+4", device.name),
        )
    })
}

#[cfg(test)]
mod tests;
