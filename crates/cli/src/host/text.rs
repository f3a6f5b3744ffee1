//! Formats an inventory and its conditions as text that fits the terminal.

use crate::terminal::width;
use corelane_host::conditions::{Condition, Severity};
use corelane_host::cpus::list;
use corelane_host::ethtool::{Field, FlowType, Rss};
use corelane_host::inventory::{Device, Fact, Inventory, ReceiveQueue, SoftwareRss};
use corelane_report::table::Rows;
use corelane_report::text::wrapped;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Width of the label before a value: `  hash fields  `.
const LABEL: usize = 14;

/// The machine, then every device.
pub fn inventory(inventory: &Inventory) -> String {
    let machine = &inventory.machine;
    let unknown = || "unknown".to_owned();
    let named = format!(
        "{}, Linux {}, CPUs {}, {} nodes, {}",
        machine.cpu_model.clone().unwrap_or_else(unknown),
        machine.kernel.clone().unwrap_or_else(unknown),
        machine.cpus_online.as_deref().map_or_else(unknown, list::format),
        machine.nodes.map_or_else(unknown, |nodes| nodes.to_string()),
        match machine.virtualisation.as_deref() {
            Some("none") => "no hypervisor".to_owned(),
            Some(hypervisor) => format!("virtual ({hypervisor})"),
            None => "hypervisor unknown".to_owned(),
        },
    );
    let mut text = String::new();
    let mut line = |words: &str| wrapped(&mut text, "", words, width().words);
    line(&named);
    if let Some(reason) = &inventory.devices_unknown {
        line(&format!("devices cannot be listed: {reason}"));
    }
    if inventory.devices.iter().all(|device| !device.has_hardware()) {
        line("no network interface with hardware queues: nothing hashes in hardware");
    }
    for one in &inventory.devices {
        text.push('\n');
        text.push_str(&device(one));
    }
    text
}

/// The conditions, worst first; conditions that are fine are only counted. Then the devices that are down.
pub fn conditions(conditions: &[Condition], down: &[String]) -> String {
    let mut text = String::new();
    for condition in conditions {
        let word = match condition.severity {
            Severity::Spoils => "SPOILS",
            Severity::Explains => "explains",
            Severity::Fine => continue,
        };
        let value = match (&condition.value, &condition.unknown_because) {
            (Some(value), _) => value.clone(),
            (None, Some(because)) => format!("unknown: {because}"),
            (None, None) => "unknown".to_owned(),
        };
        let fix = condition.fix.as_ref().map(|fix| format!("fix: {fix}"));
        let named = format!("{}: {value}", condition.name);
        wrapped(&mut text, &format!("{word:<10}"), &named, width().words);
        for words in std::iter::once(format!("why: {}", condition.why)).chain(fix) {
            wrapped(&mut text, &" ".repeat(10), &words, width().words);
        }
    }
    let is_fine = |condition: &&Condition| condition.severity == Severity::Fine;
    let fine = conditions.iter().filter(is_fine).count();
    text.push_str(&format!("{fine} further conditions are fine\n"));
    if !down.is_empty() {
        let down = format!("{}; --dev DEVICE checks one", join(down));
        wrapped(&mut text, "not checked, as they are down: ", &down, width().words);
    }
    text
}

fn device(device: &Device) -> String {
    let mut text = String::new();
    wrapped(&mut text, "", &heading(device), width().words);
    let addresses = (!device.addresses.is_empty()).then(|| join(&device.addresses));
    let lines = [("addresses", addresses)].into_iter();
    for (label, value) in lines.chain(steering(device)).chain(settings(device)) {
        if let Some(value) = value {
            labelled(&mut text, label, &value);
        }
    }
    text.push_str(&queues(device));
    let mut unknown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, because) in device.unknown() {
        let names = unknown.entry(because).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for (because, names) in unknown {
        let words = format!("{}: {because}", names.join(", "));
        labelled(&mut text, "not known", &words);
    }
    text
}

/// Appends a label and a value; the value is wrapped.
fn labelled(text: &mut String, label: &str, value: &str) {
    let label = format!("  {label}");
    wrapped(text, &format!("{label:<LABEL$}"), value, width().words);
}

fn heading(device: &Device) -> String {
    let link = &device.link;
    let kind = link.kind.clone().or_else(|| {
        let driver = device.driver.value.as_ref()?;
        Some(match driver.bus.as_str() {
            "" => driver.name.clone(),
            bus => format!("{} at {bus}", driver.name),
        })
    });
    let state = match (link.up, link.state.as_str()) {
        (false, _) => "off",
        (true, "unknown") => "on",
        (true, state) => state,
    };
    format!(
        "{}: {}, {state}, mtu {}, {} receive and {} transmit queues",
        device.name,
        kind.as_deref().unwrap_or("driver unknown"),
        link.mtu.map_or("unknown".to_owned(), |mtu| mtu.to_string()),
        device.receive_queues.len(),
        device.transmit_queues.len(),
    )
}

/// A label and a value, if there is one.
type Line = (&'static str, Option<String>);

/// Everything that determines a frame's queue.
fn steering(device: &Device) -> Vec<Line> {
    let mut lines = match &device.rss.value {
        Some(own) => rss(own, device.receive_queues.len()).to_vec(),
        None => vec![("rss", Some(reason(&device.rss)))],
    };
    let hashes = device.has_hardware() || device.fields.value.is_some();
    let contexts = device.contexts.value.as_deref();
    let contexts = contexts.filter(|contexts| !contexts.is_empty());
    let numbers = contexts.map(|contexts| contexts.iter().map(|one| one.context).collect::<Vec<_>>());
    let rules = device.rules.value.as_ref().map_or(0, |rules| rules.rules.len());
    let xdp = device.link.xdp.as_ref();
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "unknown".to_owned());
    lines.extend([
        ("hash fields", hashes.then(|| or_reason(&device.fields, fields))),
        ("contexts", numbers.map(|numbers| list::format(&numbers))),
        (
            "ntuple rules",
            (rules > 0).then(|| format!("{rules}, applied before the table")),
        ),
        (
            "xdp",
            xdp.map(|xdp| format!("program {}, {} mode", list::format(&xdp.programs), xdp.mode)),
        ),
        ("xdp rss", device.software_rss.as_ref().map(software_rss)),
        (
            "bond",
            (device.link.bond.as_ref())
                .map(|bond| format!("{}, members by {}", word(&bond.mode), word(&bond.hash_policy))),
        ),
    ]);
    lines
}

fn software_rss(rss: &SoftwareRss) -> String {
    let steering = &rss.steering;
    let (size, buckets) = (steering.table.size(), steering.table.buckets());
    let cpus: BTreeSet<u32> = steering.cpus[..buckets].iter().copied().collect();
    let cpus = list::format(&cpus.into_iter().collect::<Vec<_>>());
    let inner = if rss.inner { ", inside tunnels" } else { "" };
    let (fields, process) = (steering.hash_fields, rss.process);
    format!("{fields}{inner}, {size} entries, {buckets} buckets on CPUs {cpus}, by process {process}")
}

/// The settings other than steering that are known.
fn settings(device: &Device) -> [Line; 5] {
    const SHOWN: [&str; 10] = [
        "rx-gro",
        "rx-gro-hw",
        "rx-lro",
        "rx-hashing",
        "rx-ntuple-filter",
        "rx-udp-gro-forwarding",
        "tx-generic-segmentation",
        "tx-tcp-segmentation",
        "tx-udp-segmentation",
        "tx-checksum-ip-generic",
    ];
    let flow_control = device.pause.value.map(|pause| {
        let negotiated = if pause.autonegotiate { ", negotiated" } else { "" };
        let [receive, transmit] = [pause.receive, pause.transmit].map(|on| if on { "on" } else { "off" });
        format!("receive {receive}, transmit {transmit}{negotiated}")
    });
    let rings = device.rings.value.map(|rings| {
        let number = |frames: Option<u32>| frames.map_or("-".to_owned(), |frames| frames.to_string());
        let [receive, most] = [rings.receive, rings.receive_maximum].map(number);
        let [transmit, most_transmit] = [rings.transmit, rings.transmit_maximum].map(number);
        format!("receive {receive} of {most}, transmit {transmit} of {most_transmit}")
    });
    let flags = device.private_flags.value.as_ref();
    let flags = flags.filter(|flags| !flags.is_empty());
    let features = device.features.value.as_ref();
    [
        ("flow control", flow_control),
        ("rings", rings),
        (
            "rx-copybreak",
            device.rx_copybreak.value.map(|bytes| format!("{bytes} bytes")),
        ),
        ("driver flags", flags.map(join)),
        (
            "offloads",
            features.map(|features| join(SHOWN.into_iter().filter(|name| features.contains(*name)))),
        ),
    ]
}

fn rss(rss: &Rss, queues: usize) -> [Line; 3] {
    let transforms: Vec<String> = rss.transforms.iter().map(|one| format!(", {one:?}")).collect();
    let function = format!("{:?}{}", rss.function, transforms.concat()).to_lowercase();
    let key = match rss.key.len() {
        0 => "not reported by the driver".to_owned(),
        digits => format!("{} ({} bytes)", rss.key, digits / 2),
    };
    let mut shares: BTreeMap<u32, usize> = (0..queues as u32).map(|queue| (queue, 0)).collect();
    for queue in &rss.table {
        *shares.entry(*queue).or_default() += 1;
    }
    let shares = shares
        .iter()
        .map(|(queue, entries)| format!("{entries} to queue {queue}"));
    let table = format!("{} entries: {}", rss.table.len(), join(shares));
    [
        ("hash", Some(function)),
        ("key", Some(key)),
        ("table", Some(table)),
    ]
}

fn fields(fields: &BTreeMap<FlowType, Vec<Field>>) -> String {
    let words = |fields: &[Field]| {
        if fields == Field::FOUR_TUPLE {
            "4tuple".to_owned()
        } else if fields == Field::TWO_TUPLE {
            "2tuple".to_owned()
        } else if fields.is_empty() {
            "nothing".to_owned()
        } else {
            format!("{fields:?}")
        }
    };
    join(
        fields
            .iter()
            .map(|(flow_type, own)| format!("{} {}", flow_type.name(), words(own))),
    )
}

fn queues(device: &Device) -> String {
    if device.receive_queues.is_empty() {
        return String::new();
    }
    let xps = |queue: &ReceiveQueue| {
        let mut sending = device.transmit_queues.iter();
        let sending = sending.find(|sending| sending.queue == queue.queue);
        sending.map_or("-".to_owned(), |sending| cpus(&sending.xps_cpus))
    };
    let name = |queue: &ReceiveQueue| queue.interrupt_name.clone().unwrap_or_else(|| "-".to_owned());
    let table = Rows::of(&device.receive_queues)
        .right("queue", |queue| queue.queue.to_string())
        .right("napi", |queue| number(&queue.napi))
        .right("irq", |queue| number(&queue.interrupt))
        .shrinking("name", name)
        .left("cpus", |queue| cpus(&queue.cpus))
        .left("nodes", |queue| list::format(&queue.nodes))
        .left("rps", |queue| cpus(&queue.rps_cpus))
        .right("rfs", |queue| number(&queue.rfs_flows))
        .left("xps of tx", xps)
        .table();
    let lines = table.render(width().tables - 2);
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

fn number(fact: &Fact<u32>) -> String {
    fact.value.map_or_else(|| absent(fact), |value| value.to_string())
}

fn cpus(fact: &Fact<Vec<u32>>) -> String {
    match fact.value.as_deref() {
        Some([]) => "off".to_owned(),
        Some(cpus) => list::format(cpus),
        None => absent(fact),
    }
}

/// `-` for a value that is absent, `?` for one that is unknown.
fn absent<T>(fact: &Fact<T>) -> String {
    if fact.absent_because.is_some() { "-" } else { "?" }.to_owned()
}

fn or_reason<T>(fact: &Fact<T>, words: impl Fn(&T) -> String) -> String {
    fact.value.as_ref().map_or_else(|| reason(fact), words)
}

fn reason<T>(fact: &Fact<T>) -> String {
    match (&fact.absent_because, &fact.unknown_because) {
        (Some(because), _) => format!("none ({because})"),
        (None, Some(because)) => format!("not known: {because}"),
        (None, None) => "not known".to_owned(),
    }
}

fn join(words: impl IntoIterator<Item = impl Display>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_shown_in_lines_that_fit() {
        let machine = corelane_host::inventory::inventory();
        let text = inventory(&machine);
        assert!(text.contains("lo: loopback"), "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }
}
