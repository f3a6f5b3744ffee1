//! The steering document of a device, for sockets that match its queues.
//!
//! Input: an [`Inventory`], a device's name, a flow type. Output: the [`Steering`] that the device itself follows, one
//! bucket per queue, each with the CPU that receives its packets; or the same without their CPUs ([`rule`]); or the
//! fact that prevents it.

use corelane_rss::{HashFields, Steering};
use thiserror::Error;

use super::{Device, Inventory};
use crate::cpus::list;
use crate::ethtool::{Field, FlowType, Rss};

/// Why sockets cannot match a device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub enum NoSteering {
    /// The device does not exist, or has an unsupported RSS.
    Device(String),
    /// The driver does not report key and table.
    NotReported(String),
    /// It hashes other fields than addresses and ports.
    Fields(String),
    /// A queue in the table does not have exactly one CPU.
    Queue(String),
}

/// The rule by which a device chooses the queue of one flow type; the number of a queue stands for its CPU. [`explain`](crate::explain) reports what may override it (ntuple
/// rules, XDP).
///
/// # Errors
///
/// See [`NoSteering`], except [`Queue`](NoSteering::Queue).
pub fn rule(inventory: &Inventory, name: &str, flow_type: FlowType) -> Result<Steering, NoSteering> {
    let device = device(inventory, name)?;
    let unusable = |because| NoSteering::Device(format!("rss of {name}: {because}"));
    let reason = || {
        let because = device.rss.reason().unwrap_or("not known");
        NoSteering::NotReported(format!("rss of {name}: {because}"))
    };
    let rss = device.rss.value.as_ref().ok_or_else(reason)?;
    if !rss.function.is_toeplitz() || rss.transform().is_none() {
        return Err(plain_only(name, rss));
    }
    // The fields last: key and table are of all flow types.
    let steering = rss.steering(HashFields::FourTuple).map_err(unusable)?;
    Ok(Steering {
        hash_fields: fields(device, flow_type)?,
        ..steering
    })
}

/// The document that a device follows for one flow type: its [`rule`], and the CPU of each queue.
///
/// # Errors
///
/// See [`NoSteering`].
pub fn steering(inventory: &Inventory, name: &str, flow_type: FlowType) -> Result<Steering, NoSteering> {
    let rule = rule(inventory, name, flow_type)?;
    let device = device(inventory, name)?;
    if let Some(rss) = device.rss.value.as_ref().filter(|rss| !rss.transforms.is_empty()) {
        return Err(plain_only(name, rss));
    }
    let cpus = (0..rule.table.buckets()).map(|queue| cpu(device, queue));
    Ok(Steering {
        cpus: cpus.collect::<Result<_, _>>()?,
        ..rule
    })
}

fn plain_only(name: &str, rss: &Rss) -> NoSteering {
    NoSteering::Device(format!(
        "hash of {name}: {:?} {:?}, and sockets are steered by plain Toeplitz hashes: ethtool -X {name} hfunc toeplitz xfrm none",
        rss.function, rss.transforms
    ))
}

fn device<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a Device, NoSteering> {
    let none = || format!("there is no device {name}: corelane host lists those of this network namespace");
    let device = inventory.device(name);
    device.ok_or_else(|| NoSteering::Device(none()))
}

/// The first difference between two documents, described; `None` if they steer alike. Generations may differ.
#[must_use]
pub fn mismatch(device: &Steering, other: &Steering) -> Option<String> {
    let (own, others) = (device.table.entries(), other.table.entries());
    if device.key != other.key {
        let (own, other) = (&device.key, &other.key);
        Some(format!("key: the device has {own}, not {other}"))
    } else if device.hash_fields != other.hash_fields {
        let (own, other) = (device.hash_fields, other.hash_fields);
        Some(format!("hash_fields: the device hashes a {own}, not a {other}"))
    } else if own.len() != others.len() {
        let (own, other) = (own.len(), others.len());
        Some(format!("table: the device has {own} entries, not {other}"))
    } else if let Some(entry) = first_difference(own, others) {
        let (own, other) = (own[entry], others[entry]);
        Some(format!(
            "table: entry {entry} of the device names queue {own}, not {other}"
        ))
    } else {
        let queue = first_difference(&device.cpus, &other.cpus)?;
        let (own, other) = (device.cpus[queue], other.cpus[queue]);
        Some(format!(
            "cpus: queue {queue} of the device is handled by CPU {own}, not {other}"
        ))
    }
}

fn first_difference<T: PartialEq>(own: &[T], others: &[T]) -> Option<usize> {
    own.iter().zip(others).position(|(own, other)| own != other)
}

/// The hashed fields of one flow type. Drivers that do not report them hash ports only for TCP.
fn fields(device: &Device, flow_type: FlowType) -> Result<HashFields, NoSteering> {
    match device.hashed_fields(flow_type) {
        Some(fields) if *fields == Field::FOUR_TUPLE => Ok(HashFields::FourTuple),
        Some(fields) if *fields == Field::TWO_TUPLE => Ok(HashFields::TwoTuple),
        Some(fields) => {
            let (device, name) = (&device.name, flow_type.name());
            let fix = format!("ethtool -N {device} rx-flow-hash {name} sdfn");
            let what = format!("hashed fields of {device}: {name} hashes {fields:?}: {fix}");
            Err(NoSteering::Fields(what))
        }
        None if matches!(flow_type, FlowType::Tcp4 | FlowType::Tcp6) => Ok(HashFields::FourTuple),
        None => Ok(HashFields::TwoTuple),
    }
}

/// The one CPU that receives a queue's packets: the CPU of its interrupt, or the one of RPS.
fn cpu(device: &Device, queue: usize) -> Result<u32, NoSteering> {
    let refuse = |because: &str| NoSteering::Queue(format!("queue {queue} of {}: {because}", device.name));
    let own = device.receive_queue(queue as u32);
    let own = own.ok_or_else(|| refuse("the table names it, but it does not exist"))?;
    let one = |what: &str, cpus: &[u32]| match cpus {
        [cpu] => Ok(*cpu),
        several => Err(refuse(&format!(
            "{what} CPUs {}: give it one",
            list::format(several)
        ))),
    };
    match own.rps_cpus.value.as_deref() {
        Some([]) | None => {}
        Some(cpus) => return one("RPS sends its packets to", cpus),
    }
    // If one CPU is configured, the interrupt moves there when it next fires.
    match (own.affinity.value.as_deref(), own.cpus.value.as_deref()) {
        (Some([cpu]), _) => Ok(*cpu),
        (_, Some(cpus)) => one("its interrupt may be delivered to", cpus),
        _ => Err(refuse(own.cpus.reason().unwrap_or("its CPU is not known"))),
    }
}

#[cfg(test)]
mod tests {
    use corelane_rss::{Bucket, IndirectionTable, Key};

    use super::*;

    fn document() -> Steering {
        Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::TwoTuple,
            table: IndirectionTable::round_robin(4, 2).unwrap(),
            cpus: vec![0, 1],
            generation: 0,
        }
    }

    #[test]
    fn what_differs_is_named() {
        let device = document();
        let with = |change: fn(&mut Steering)| {
            let mut other = document();
            change(&mut other);
            mismatch(&device, &other).unwrap_or_default()
        };
        assert_eq!(with(|other| other.generation = 7), "");
        assert!(with(|other| other.hash_fields = HashFields::FourTuple).starts_with("hash_fields:"));
        assert!(with(|other| other.cpus = vec![0, 2]).starts_with("cpus: queue 1"));
        let turned = |other: &mut Steering| {
            let entries = [1, 0, 1, 0].map(Bucket::new);
            other.table = IndirectionTable::from_entries(entries.to_vec()).unwrap();
        };
        assert!(with(turned).starts_with("table: entry 0"));
        let other_key = |other: &mut Steering| other.key = Key::from_bytes(&[7; 40]).unwrap();
        assert!(with(other_key).starts_with("key:"));
    }

    #[test]
    fn devices_without_rss_and_devices_that_are_not_there_are_refused_by_name() {
        let inventory = crate::inventory::inventory();
        let refused = |name| {
            steering(&inventory, name, FlowType::Udp4)
                .unwrap_err()
                .to_string()
        };
        assert!(refused("lo").starts_with("rss of lo:"), "{}", refused("lo"));
        assert!(refused("no-such-device").contains("no-such-device"));
    }
}
