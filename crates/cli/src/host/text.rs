//! Formats an inventory and its conditions as text, in lines of at most 100 columns.

use corelane_host::conditions::{Condition, Severity};
use corelane_host::cpus::list;
use corelane_host::ethtool::{Field, FlowType, Rss};
use corelane_host::inventory::{Device, Fact, Inventory, ReceiveQueue};
use corelane_report::table::Rows;
use corelane_report::text::{WIDTH, paragraph};
use std::collections::BTreeMap;
use std::fmt::Display;

/// Width of the label before a value: `  hash fields  `.
const LABEL: usize = 14;

/// The machine, then every device.
pub fn inventory(inventory: &Inventory) -> String {
    let machine = &inventory.machine;
    let unknown = || "unknown".to_owned();
    let mut text = format!(
        "{}, Linux {}, CPUs {}, {} nodes, {}\n",
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
    if let Some(reason) = &inventory.devices_unknown {
        text.push_str(&format!("devices cannot be listed: {reason}\n"));
    }
    if inventory.devices.iter().all(|device| !device.has_hardware()) {
        text.push_str("no network interface with hardware queues: nothing hashes in hardware\n");
    }
    for one in &inventory.devices {
        text.push('\n');
        text.push_str(&device(one));
    }
    text
}

/// The conditions, worst first; conditions that are fine are only counted.
pub fn conditions(conditions: &[Condition]) -> String {
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
        let fix = condition.mend.as_ref().map(|fix| format!("fix: {fix}"));
        paragraph(
            &mut text,
            &format!("{word:<10}"),
            &format!("{}: {value}", condition.name),
        );
        for words in [Some(format!("why: {}", condition.why)), fix]
            .into_iter()
            .flatten()
        {
            paragraph(&mut text, &" ".repeat(10), &words);
        }
    }
    let fine = conditions
        .iter()
        .filter(|condition| condition.severity == Severity::Fine)
        .count();
    text.push_str(&format!("{fine} further conditions are fine\n"));
    text
}

fn device(device: &Device) -> String {
    let mut text = heading(device);
    let mut line = |label: &str, value: String| labelled(&mut text, label, &value);
    if !device.addresses.is_empty() {
        line("addresses", join(&device.addresses));
    }
    steering(device, &mut line);
    settings(device, &mut line);
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
    paragraph(text, &format!("{label:<LABEL$}"), value);
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
        "{}: {}, {state}, mtu {}, {} receive and {} transmit queues\n",
        device.name,
        kind.as_deref().unwrap_or("driver unknown"),
        link.mtu.map_or("unknown".to_owned(), |mtu| mtu.to_string()),
        device.receive_queues.len(),
        device.transmit_queues.len(),
    )
}

/// Lines for everything that determines a frame's queue.
fn steering(device: &Device, line: &mut impl FnMut(&str, String)) {
    match &device.rss.value {
        Some(own) => rss(own, device.receive_queues.len(), line),
        None => line("rss", reason(&device.rss)),
    }
    if device.has_hardware() || device.fields.value.is_some() {
        line("hash fields", or_reason(&device.fields, fields));
    }
    if let Some(contexts @ [_, ..]) = device.contexts.value.as_deref() {
        let numbers: Vec<u32> = contexts.iter().map(|context| context.context).collect();
        line("contexts", list::format(&numbers));
    }
    let rules = device.rules.value.as_ref().map_or(0, |rules| rules.rules.len());
    if rules > 0 {
        line("ntuple rules", format!("{rules}, applied before the table"));
    }
    if let Some(xdp) = &device.link.xdp {
        let programs = list::format(&xdp.programs);
        line("xdp", format!("program {programs}, {} mode", xdp.mode));
    }
    if let Some(bond) = &device.link.bond {
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "unknown".to_owned());
        let words = format!("{}, members by {}", word(&bond.mode), word(&bond.hash_policy));
        line("bond", words);
    }
}

/// Lines for the settings other than steering that are known.
fn settings(device: &Device, line: &mut impl FnMut(&str, String)) {
    if let Some(pause) = device.pause.value {
        let state = |on| if on { "on" } else { "off" };
        let negotiated = if pause.autonegotiate { ", negotiated" } else { "" };
        let [receive, transmit] = [pause.receive, pause.transmit].map(state);
        line(
            "flow control",
            format!("receive {receive}, transmit {transmit}{negotiated}"),
        );
    }
    if let Some(rings) = device.rings.value {
        let number = |frames: Option<u32>| frames.map_or("-".to_owned(), |frames| frames.to_string());
        let [receive, most] = [rings.receive, rings.receive_maximum].map(number);
        let [transmit, most_transmit] = [rings.transmit, rings.transmit_maximum].map(number);
        line(
            "rings",
            format!("receive {receive} of {most}, transmit {transmit} of {most_transmit}"),
        );
    }
    if let Some(bytes) = device.rx_copybreak.value {
        line("rx-copybreak", format!("{bytes} bytes"));
    }
    if let Some(flags) = device
        .private_flags
        .value
        .as_ref()
        .filter(|flags| !flags.is_empty())
    {
        line("driver flags", join(flags));
    }
    if let Some(features) = &device.features.value {
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
        let on = SHOWN.into_iter().filter(|name| features.contains(*name));
        line("offloads", join(on));
    }
}

fn rss(rss: &Rss, queues: usize, line: &mut impl FnMut(&str, String)) {
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
    let shares: Vec<String> = shares
        .iter()
        .map(|(queue, entries)| format!("{entries} to queue {queue}"))
        .collect();
    line("hash", function);
    line("key", key);
    line(
        "table",
        format!("{} entries: {}", rss.table.len(), shares.join(", ")),
    );
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
    let lines = table.render(WIDTH - 2);
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
        let wide = |line: &&str| line.chars().count() > WIDTH && line.split_whitespace().count() > 2;
        assert_eq!(text.lines().find(wide), None, "{text}");
    }
}
