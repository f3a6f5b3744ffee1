//! Computes hash, entry and queue of a flow as a device does.

use corelane_rss::{HashFields, HashType, Protocol, Toeplitz, Transform};

use super::path::Confidence::{Certain, Likely, Unknown};
use super::path::{Arrival, Confidence, Way, hexadecimal};
use crate::ethtool::{Field, HashFunction, Rss, RuleAction};

/// Follows a flow from its fields to its queue; the confidence is then that of the queue.
pub(super) fn follow(asked: Arrival<'_>, way: &mut Way) {
    let device = asked.device;
    if let [only] = &device.receive_queues[..] {
        way.queue = Some(only.queue);
        let rule = "the device has one receive queue";
        way.step("queue", only.queue, rule, "routing netlink", Certain);
        return;
    }
    way.confidence = Unknown;
    let driver = device.driver.value.as_ref().map(|driver| driver.name.as_str());
    match (&device.rss.value, driver) {
        (Some(rss), _) => {
            if let Err((step, reason)) = hashed(asked, rss, way) {
                way.unknown(step, reason, &device.rss.source);
            }
        }
        (None, Some("virtio_net")) => {
            let rule = "virtio without RSS: the hypervisor chooses, usually the queue that the flow was last sent on";
            way.unknown("queue", rule, &device.rss.source);
        }
        (None, _) => {
            let reason = device.rss.reason().unwrap_or("not reported");
            let rule = format!("unknown how the device chooses a queue: {reason}");
            way.unknown("queue", rule, &device.rss.source);
        }
    }
    by_rules(asked, way);
}

/// From fields to hash to entry to queue. The error is a step without a value, and its reason.
fn hashed(asked: Arrival<'_>, rss: &Rss, way: &mut Way) -> Result<(), (&'static str, String)> {
    let (device, tuple) = (asked.device, &asked.flow.tuple);
    let (fields, confidence) = fields(asked, way);
    let hash_type = HashType::of(tuple, fields, asked.protocol);
    way.hash_type = Some(hash_type);
    let source = device.rss.source.as_str();
    if !rss.function.is_toeplitz() {
        return Err(("hash", "only Toeplitz hashes are computed here".to_owned()));
    }
    let key = rss.key().map_err(|error| ("hash", error))?;
    let unknown = "the device transforms the fields in an unknown way";
    let transform = rss.transform().ok_or_else(|| ("hash", unknown.to_owned()))?;
    let hash = Toeplitz::new(&key).hash(&transform.of_tuple(tuple), fields);
    let transform = match transform {
        Transform::Plain => "",
        Transform::SymmetricXor => " XORed with its reverse",
        Transform::SymmetricOrXor => " ORed, then XORed with its reverse",
        Transform::SymmetricSort => ", the smaller end first,",
    };
    let confidence = match rss.function {
        HashFunction::Untold => confidence.min(Likely),
        _ => confidence,
    };
    let name = hash_type.name();
    let rule = format!("Toeplitz over {name}{transform} under the device's key");
    way.step("hash", hexadecimal(hash), rule, source, confidence)
        .unless("the driver hashes differently than it reports: check with corelane verify");
    way.hash = Some(hash);
    let table = rss.table().map_err(|error| ("entry", error))?;
    let (entry, queue) = (table.entry(hash), table.bucket(hash).index() as u32);
    let size = table.size();
    let rule = match size.is_power_of_two() {
        true => format!("the hash's low bits: hash & {}", size - 1),
        false => format!("the hash's remainder: hash % {size}"),
    };
    way.step("entry", entry, rule, source, confidence);
    let step = way.step("queue", queue, "the queue in the table entry", source, confidence);
    if device.accelerates_rfs() {
        step.unless("accelerated RFS moved the flow to its reader's queue");
    }
    if device.rules.unknown_because.is_some() {
        step.unless("an ntuple rule, which cannot be read, takes precedence over the table");
    }
    if !step.unless.is_empty() {
        step.confidence = confidence.min(Likely);
    }
    way.confidence = step.confidence;
    (way.entry, way.queue) = (Some(entry), Some(queue));
    Ok(())
}

/// The fields that are hashed, with their step.
fn fields(asked: Arrival<'_>, way: &mut Way) -> (HashFields, Confidence) {
    let Arrival { device, protocol, .. } = asked;
    let set = device.hashed_fields(asked.flow_type());
    let named = format!("set for {}", asked.flow_type().name());
    let (ports, rule, confidence) = match (set, protocol) {
        (Some(set), _) => {
            let ports = [Field::SourcePort, Field::DestinationPort];
            (
                ports.iter().all(|port| set.contains(port)),
                named.as_str(),
                Certain,
            )
        }
        (None, Protocol::Other) => (false, "packets without ports hash their addresses", Certain),
        // The drivers' default: ports of TCP but not of UDP, so that UDP fragments stay with their flow.
        (None, _) => {
            let rule = "not reported by the driver; drivers usually hash ports of TCP but not of UDP";
            (protocol == Protocol::Tcp, rule, Likely)
        }
    };
    let fields = match ports {
        true => HashFields::FourTuple,
        false => HashFields::TwoTuple,
    };
    way.step("fields", fields, rule, &device.fields.source, confidence);
    (fields, confidence)
}

/// Rules precede the table: the first matching rule decides.
fn by_rules(asked: Arrival<'_>, way: &mut Way) {
    let Arrival { device, flow, .. } = asked;
    let Some(rules) = &device.rules.value else {
        return;
    };
    let source = device.rules.source.as_str();
    for rule in &rules.rules {
        let words = format!("ntuple rule {} takes precedence over the table", rule.location);
        match rule.takes(asked.flow_type(), flow.tuple.source(), flow.tuple.destination()) {
            Some(false) => {}
            None => {
                way.at_most(Likely);
                way.unknown("rule", words, source)
                    .unless("it matches more than addresses and ports");
            }
            Some(true) => {
                let (queue, value) = match rule.action {
                    RuleAction::Queue(queue) => (Some(queue), format!("queue {queue}")),
                    other => (None, format!("{other:?}")),
                };
                (way.queue, way.entry, way.confidence) = (queue, None, Certain);
                way.step("rule", value, words, source, Certain);
                return;
            }
        }
    }
    if rules.left_off > 0 {
        way.at_most(Likely);
        way.unknown("rule", "rules that were not read", source)
            .unless(format!("{} rules were not read", rules.left_off));
    }
}
