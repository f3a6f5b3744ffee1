//! From a flow to its hash, entry and queue, as a device computes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use corelane_rss::{HashFields, HashType, Protocol, Toeplitz, Tuple};

use super::{Confidence, Flow, Step};
use crate::ethtool::{Field, FlowType, HashFunction, Rss, RuleAction, Transform};
use crate::inventory::Device;

/// What a device makes of a flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Steered {
    pub(super) hash_type: Option<HashType>,
    pub(super) hash: Option<u32>,
    pub(super) entry: Option<usize>,
    pub(super) queue: Option<u32>,
    /// How sure the queue is.
    pub(super) confidence: Option<Confidence>,
    pub(super) steps: Vec<Step>,
}

/// Follows a flow from its fields to its queue.
pub(super) fn steered(device: &Device, flow: &Flow, protocol: Protocol) -> Steered {
    let mut steered = Steered::default();
    let queues = device.receive_queues.len();
    if queues == 1 {
        let queue = device.receive_queues[0].queue;
        steered.queue = Some(queue);
        steered.confidence = Some(Confidence::Certain);
        let rule = "the device has one receive queue";
        steered
            .steps
            .push(step("queue", queue, rule, "routing netlink", Confidence::Certain));
        return steered;
    }
    match &device.rss.value {
        Some(rss) => hashed(device, rss, flow, protocol, &mut steered),
        None => {
            let rule = match device.driver.value.as_ref().map(|driver| driver.name.as_str()) {
                Some("virtio_net") => {
                    "virtio without RSS: the hypervisor chooses, as a rule the queue that the flow last left by"
                        .to_owned()
                }
                _ => format!(
                    "how the device chooses a queue is not known: {}",
                    device.rss.reason().unwrap_or("it does not tell")
                ),
            };
            steered.steps.push(unknown("queue", &rule, &device.rss.source));
        }
    }
    by_rules(device, flow, protocol, &mut steered);
    steered
}

/// From fields to hash to entry to queue.
fn hashed(device: &Device, rss: &Rss, flow: &Flow, protocol: Protocol, steered: &mut Steered) {
    let (fields, confidence) = fields(device, flow, protocol, steered);
    let hash_type = HashType::of(&flow.tuple, fields, protocol);
    steered.hash_type = Some(hash_type);
    let (function, source) = (rss.function, device.rss.source.as_str());
    if !matches!(function, HashFunction::Toeplitz | HashFunction::Untold) {
        let rule = "only Toeplitz hashes are computed here";
        steered.steps.push(unknown("hash", rule, source));
        return;
    }
    let key = match rss.key() {
        Ok(key) => key,
        Err(error) => {
            steered.steps.push(unknown("hash", &error.to_string(), source));
            return;
        }
    };
    let Some((tuple, transform)) = transformed(&flow.tuple, &rss.transforms) else {
        let rule = "the device transforms the fields in a way that is not known here";
        steered.steps.push(unknown("hash", rule, source));
        return;
    };
    let hash = Toeplitz::new(&key).hash(&tuple, fields);
    let confidence = match function {
        HashFunction::Untold => confidence.min(Confidence::Likely),
        _ => confidence,
    };
    let rule = format!(
        "Toeplitz over {}{transform} under the device's key",
        hash_type.name()
    );
    let mut found = step("hash", format!("0x{hash:08x}"), &rule, source, confidence);
    found
        .unless
        .push("a driver that hashes otherwise than it says: corelane verify shows it".to_owned());
    steered.steps.push(found);
    steered.hash = Some(hash);
    match rss.table() {
        Ok(table) => {
            let (entry, queue) = (table.entry(hash), table.bucket(hash).index() as u32);
            let rule = format!("the hash's low bits: hash & {}", table.size() - 1);
            steered
                .steps
                .push(step("entry", entry, &rule, source, confidence));
            let mut found = step(
                "queue",
                queue,
                "what the entry of the table names",
                source,
                confidence,
            );
            found.unless.extend(accelerated(device));
            let confidence = match found.unless.is_empty() {
                true => confidence,
                false => confidence.min(Confidence::Likely),
            };
            found.confidence = confidence;
            steered.steps.push(found);
            steered.entry = Some(entry);
            steered.queue = Some(queue);
            steered.confidence = Some(confidence);
        }
        Err(error) => steered.steps.push(unknown("entry", &error.to_string(), source)),
    }
}

/// The fields that are hashed, with their step.
fn fields(
    device: &Device,
    flow: &Flow,
    protocol: Protocol,
    steered: &mut Steered,
) -> (HashFields, Confidence) {
    let flow_type = FlowType::of(protocol, flow.tuple.source().ip());
    let told = device
        .fields
        .value
        .as_ref()
        .and_then(|fields| fields.get(&flow_type));
    let source = device.fields.source.as_str();
    let (fields, rule, confidence) = match told {
        Some(told) if told.contains(&Field::SourcePort) && told.contains(&Field::DestinationPort) => (
            HashFields::FourTuple,
            format!("set for {}", flow_type.name()),
            Confidence::Certain,
        ),
        Some(_) => (
            HashFields::TwoTuple,
            format!("set for {}", flow_type.name()),
            Confidence::Certain,
        ),
        None if protocol == Protocol::Other => (
            HashFields::TwoTuple,
            "packets without ports hash their addresses".to_owned(),
            Confidence::Certain,
        ),
        // What drivers start with: ports of TCP, not of UDP, so that fragments stay with their flow.
        None => (
            match protocol {
                Protocol::Tcp => HashFields::FourTuple,
                _ => HashFields::TwoTuple,
            },
            "the driver does not tell; drivers hash ports of TCP and not of UDP".to_owned(),
            Confidence::Likely,
        ),
    };
    steered
        .steps
        .push(step("fields", fields, &rule, source, confidence));
    (fields, confidence)
}

/// The tuple that is hashed in place of a flow's (`RXH_XFRM_SYM_XOR` and `RXH_XFRM_SYM_OR_XOR` of `linux/ethtool.h`).
fn transformed(tuple: &Tuple, transforms: &[Transform]) -> Option<(Tuple, &'static str)> {
    let (source, destination) = (tuple.source(), tuple.destination());
    let xor = combined(source, destination, |one, other| one ^ other);
    let (first, second, words) = match transforms {
        [] => return Some((*tuple, "")),
        [Transform::SymmetricXor] => (xor, xor, " XORed with its reverse"),
        [Transform::SymmetricOrXor] => {
            let or = combined(source, destination, |one, other| one | other);
            (or, xor, " ORed, then XORed with its reverse")
        }
        _ => return None,
    };
    Some((Tuple::new(first, second).ok()?, words))
}

/// Two ends put together byte by byte.
fn combined(one: SocketAddr, other: SocketAddr, combine: impl Fn(u8, u8) -> u8) -> SocketAddr {
    let port = |one: u16, other: u16| {
        let ([a, b], [c, d]) = (one.to_be_bytes(), other.to_be_bytes());
        u16::from_be_bytes([combine(a, c), combine(b, d)])
    };
    let address: IpAddr = match (one.ip(), other.ip()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let (one, other) = (one.octets(), other.octets());
            Ipv4Addr::from(std::array::from_fn(|at| combine(one[at], other[at]))).into()
        }
        (one, other) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V6(address) => address.octets(),
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            };
            let (one, other) = (octets(one), octets(other));
            Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|at| combine(one[at], other[at]))).into()
        }
    };
    SocketAddr::new(address, port(one.port(), other.port()))
}

/// Rules choose before the table does: the first that takes the flow.
fn by_rules(device: &Device, flow: &Flow, protocol: Protocol, steered: &mut Steered) {
    let Some(rules) = &device.rules.value else {
        return;
    };
    let source = device.rules.source.as_str();
    let flow_type = FlowType::of(protocol, flow.tuple.source().ip());
    for rule in &rules.rules {
        let words = format!("ntuple rule {} goes before the table", rule.location);
        match rule.takes(flow_type, flow.tuple.source(), flow.tuple.destination()) {
            Some(false) => {}
            None => {
                steered.confidence = steered
                    .confidence
                    .map(|confidence| confidence.min(Confidence::Likely));
                let mut found = unknown("rule", &words, source);
                found
                    .unless
                    .push("it looks at more than addresses and ports".to_owned());
                steered.steps.push(found);
            }
            Some(true) => {
                let (queue, value) = match rule.action {
                    RuleAction::Queue(queue) => (Some(queue), format!("queue {queue}")),
                    other => (None, format!("{other:?}")),
                };
                steered.queue = queue;
                steered.entry = None;
                steered.confidence = Some(Confidence::Certain);
                steered
                    .steps
                    .push(step("rule", value, &words, source, Confidence::Certain));
                return;
            }
        }
    }
    if rules.left_off > 0 {
        let mut found = unknown("rule", "rules that were not read", source);
        found
            .unless
            .push(format!("{} rules were left off", rules.left_off));
        steered.steps.push(found);
        steered.confidence = steered
            .confidence
            .map(|confidence| confidence.min(Confidence::Likely));
    }
}

/// What else may move a flow off its entry's queue.
fn accelerated(device: &Device) -> Vec<String> {
    let mut unless = Vec::new();
    let keeps_flows = device
        .receive_queues
        .iter()
        .any(|queue| queue.rfs_flows.value.is_some_and(|flows| flows > 0));
    if device.feature("rx-ntuple-filter") == Some(true) && keeps_flows {
        unless.push("accelerated RFS moved the flow to its reader's queue".to_owned());
    }
    if device.rules.unknown_because.is_some() {
        unless.push("an ntuple rule, which cannot be read, goes before the table".to_owned());
    }
    unless
}

/// A step that is settled.
pub(super) fn step(
    name: &str,
    value: impl ToString,
    rule: &str,
    source: &str,
    confidence: Confidence,
) -> Step {
    Step {
        step: name.to_owned(),
        value: Some(value.to_string()),
        rule: rule.to_owned(),
        source: source.to_owned(),
        confidence,
        unless: Vec::new(),
    }
}

/// A step that is not.
pub(super) fn unknown(name: &str, rule: &str, source: &str) -> Step {
    Step {
        step: name.to_owned(),
        value: None,
        rule: rule.to_owned(),
        source: source.to_owned(),
        confidence: Confidence::Unknown,
        unless: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symmetric_transform_hashes_both_directions_alike() {
        let tuple = Tuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:9".parse().unwrap()).unwrap();
        for transform in [Transform::SymmetricXor, Transform::SymmetricOrXor] {
            let (there, _) = transformed(&tuple, &[transform]).unwrap();
            let (back, _) = transformed(&tuple.reversed(), &[transform]).unwrap();
            assert_eq!(there, back);
        }
        let (xor, _) = transformed(&tuple, &[Transform::SymmetricXor]).unwrap();
        assert_eq!(xor.source(), "0.0.0.3:89".parse().unwrap());
        assert_eq!(transformed(&tuple, &[Transform::Other]), None);
    }
}
