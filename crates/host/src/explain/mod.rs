//! The path of one flow's packets, in both directions: hash, entry, queue, interrupt, CPU, node, socket.
//!
//! Input: an [`Inventory`] of this machine or a saved one; a [`Flow`]; the sockets that receive its packets, if known.
//! Output: an [`Explanation`] whose steps each state the rule, the source of the fact, the confidence, and what may
//! override it. Nothing is read here: the same inventory always gives the same explanation of a flow.

mod fragments;
mod hash;
mod path;
mod receive;
mod transmit;

pub use path::{Confidence, Flow, Fragments, PredictedPath, Role, Step};

use std::net::SocketAddr;

use corelane_rss::Steering;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::inventory::{Device, Inventory, NoDevice};
use crate::sockets::Owner;
use path::{Arrival, SOCKETS, Way, hexadecimal};

/// The sockets at the two ends of a flow, if they are on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Sockets that receive packets to the destination.
    pub destination: Vec<Owner>,
    /// Sockets that receive packets to the source.
    pub source: Vec<Owner>,
    /// How the group of sockets at either end is steered, if known.
    pub steering: Option<Steering>,
    /// If the destination is on this machine and no socket receives packets to it: the sentence that says so, and which sockets
    /// have the port.
    pub absent: Option<String>,
}

/// Both directions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "schema", rename = "corelane/explain/1")]
pub struct Explanation {
    /// From source to destination, and back.
    pub directions: Vec<PredictedPath>,
}

/// Why a flow cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExplainError {
    /// No such device.
    #[error(transparent)]
    NoDevice(#[from] NoDevice),
    /// Neither end is on this machine, or no route leads to an end.
    #[error("{0}")]
    Elsewhere(String),
}

/// Explains a flow.
///
/// # Errors
///
/// See [`ExplainError`]. An unknown fact about a flow is not an error, but a step without a value.
pub fn explain(inventory: &Inventory, flow: &Flow, ends: &Ends) -> Result<Explanation, ExplainError> {
    let back = Flow {
        tuple: flow.tuple.reversed(),
        sender_cpu: None,
        ..flow.clone()
    };
    let local = |end: SocketAddr| inventory.is_local(end.ip());
    let (here, there) = (local(flow.tuple.source()), local(flow.tuple.destination()));
    let role = match (here, there, &flow.device) {
        (true, true, None) => Role::Keeps,
        (true, false, _) => Role::Sends,
        (_, true, _) | (_, _, Some(_)) => Role::Receives,
        (false, false, None) => {
            return Err(ExplainError::Elsewhere(format!(
                "neither {} end is an address of this host: name the device that receives its packets with --dev",
                flow.tuple
            )));
        }
    };
    let back_role = match role {
        Role::Receives => Role::Sends,
        Role::Sends => Role::Receives,
        Role::Keeps => Role::Keeps,
    };
    let directions = vec![
        path(inventory, flow, role, [&ends.destination, &ends.source], ends)?,
        path(
            inventory,
            &back,
            back_role,
            [&ends.source, &ends.destination],
            &Ends {
                absent: None,
                ..ends.clone()
            },
        )?,
    ];
    Ok(Explanation { directions })
}

fn path(
    inventory: &Inventory,
    flow: &Flow,
    role: Role,
    [takers, senders]: [&[Owner]; 2],
    ends: &Ends,
) -> Result<PredictedPath, ExplainError> {
    let mut way = Way::default();
    let device = device(inventory, flow, role, &mut way)?;
    let (mut fragments, mut sockets) = (None, Vec::new());
    match role {
        Role::Sends => transmit::follow(device, senders, &mut way),
        Role::Receives | Role::Keeps => {
            let asked = Arrival {
                inventory,
                device,
                flow,
                protocol: flow.protocol,
                senders,
            };
            receive::follow(asked, &mut way);
            fragments = Some(fragments::fragments(asked, &way));
            sockets = takers.to_vec();
            taker(takers, flow, ends, &mut way);
        }
    }
    let node = |cpu| inventory.topology.value.as_ref()?.cpu(cpu)?.node;
    Ok(PredictedPath {
        from: flow.tuple.source(),
        to: flow.tuple.destination(),
        role,
        device: Some(device.name.clone()),
        hash_type: way.hash_type.map(|hash_type| hash_type.name().to_owned()),
        hash: way.hash.map(hexadecimal),
        entry: way.entry,
        queue: way.queue,
        interrupt: way.interrupt,
        cpu: way.cpu,
        node: way.cpu.and_then(node),
        cpu_confidence: way.cpu.map_or(Confidence::Unknown, |_| way.confidence),
        steps: way.steps,
        fragments,
        sockets,
    })
}

/// The device on which packets arrive or leave, below bonds and VLANs.
fn device<'a>(
    inventory: &'a Inventory,
    flow: &Flow,
    role: Role,
    way: &mut Way,
) -> Result<&'a Device, ExplainError> {
    let step = way.step("device", "", "", "routing netlink", Confidence::Certain);
    let mut device = match (&flow.device, role) {
        (Some(name), _) => {
            "the device asked about".clone_into(&mut step.rule);
            "--dev".clone_into(&mut step.source);
            inventory.require(name)?
        }
        (None, Role::Keeps) => {
            "both ends are local: packets use loopback".clone_into(&mut step.rule);
            let loopback = |device: &&Device| device.link.kind.as_deref() == Some("loopback");
            let found = inventory.devices.iter().find(loopback);
            found.map_or_else(|| inventory.require("lo"), Ok)?
        }
        (None, _) => {
            let to = match role {
                Role::Sends => flow.tuple.destination(),
                _ => flow.tuple.source(),
            };
            let no_route = || {
                let what = format!("no route of this host leads to {to}: name the device with --dev");
                ExplainError::Elsewhere(what)
            };
            let route = inventory.route(to.ip()).filter(|route| !route.local);
            let route = route.ok_or_else(no_route)?;
            step.rule = format!("the route to {}", route.to);
            if role == Role::Receives {
                step.confidence = Confidence::Likely;
                step.unless("packets arrive by another route than replies leave");
            }
            step.unless("policy routing");
            let found = inventory.device_of_index(route.device);
            found.ok_or_else(no_route)?
        }
    };
    // A VLAN has one lower device, a bond several; frames are steered below both.
    while let Some(below) = below(inventory, device) {
        step.rule = format!("{}; {} lies on {}", step.rule, device.name, below.name);
        if device.link.kind.as_deref() == Some("bond") {
            let bond = device.link.bond.as_ref();
            let policy = bond.and_then(|bond| bond.hash_policy.as_deref());
            let policy = policy.unwrap_or("the bond's policy");
            step.confidence = step.confidence.min(Confidence::Likely);
            step.unless(format!(
                "another member of the bond: chosen by the peer on receive, by {policy} on transmit"
            ));
        }
        device = below;
    }
    step.value = Some(device.name.clone());
    Ok(device)
}

/// The lower device of a VLAN or bond; for a bond the first member that carries frames.
fn below<'a>(inventory: &'a Inventory, device: &Device) -> Option<&'a Device> {
    let own = device.link.index;
    let found = match device.link.kind.as_deref()? {
        "vlan" | "macvlan" | "ipvlan" if !device.link.lower_elsewhere => {
            inventory.device_of_index(device.link.lower?)
        }
        "bond" => {
            let member = |other: &&Device| other.link.controller == Some(own) && other.link.state == "up";
            inventory.devices.iter().find(member)
        }
        _ => None,
    };
    found.filter(|found| found.link.index != own)
}

/// The step of the receiving socket.
fn taker(takers: &[Owner], flow: &Flow, ends: &Ends, way: &mut Way) {
    const DOCUMENT: &str = "the server's steering document";
    let members = takers.len();
    let steering = ends
        .steering
        .as_ref()
        .filter(|steering| steering.cpus.len() == members);
    match (takers, steering) {
        ([], _) => {
            if let Some(absent) = &ends.absent {
                way.unknown("socket", absent.clone(), SOCKETS);
            }
        }
        ([owner], _) => {
            let rule = "the best-matching socket";
            way.step("socket", described(owner), rule, SOCKETS, Confidence::Certain);
        }
        (group, Some(steering)) => {
            let hash = steering.steerer().hash_of(&flow.tuple);
            let entry = steering.table.entry(hash);
            // No device hashed the packet, as on loopback: the program of the group does.
            if way.hash.is_none() {
                let rule = "Toeplitz under the key of the steering program";
                way.step("hash", hexadecimal(hash), rule, DOCUMENT, Confidence::Certain);
                let rule = format!("the remainder of the hash by {} entries", steering.table.size());
                way.step("entry", entry, rule, DOCUMENT, Confidence::Certain);
                (way.hash, way.entry) = (Some(hash), Some(entry));
            }
            let bucket = steering.steerer().bucket_of(&flow.tuple).index();
            let rule = format!("bucket {bucket} of the steering program");
            let Some(member) = member(group, steering, bucket) else {
                let rule = format!("{rule}; which member serves it is not known");
                way.unknown("socket", rule, DOCUMENT);
                return;
            };
            let value = format!("member {member}, {}", described(&group[member]));
            way.step("socket", value, rule, DOCUMENT, Confidence::Likely)
                .unless("another program is attached to the group");
        }
        (_, None) => {
            let rule = format!(
                "one of {members} members of a reuseport group, steered by an unknown program or hash: give --steering the file \
                 that --write-steering of `corelane steer` or of the server wrote"
            );
            way.unknown("socket", rule, SOCKETS);
        }
    }
}

/// The member of a group that serves a bucket: the only one on the bucket's CPU if no other bucket is there, otherwise the one at its place, if the
/// order of the group is known by the holders.
fn member(group: &[Owner], steering: &Steering, bucket: usize) -> Option<usize> {
    let cpu = steering.cpus[bucket];
    let is_alone = steering.cpus.iter().filter(|other| **other == cpu).count() == 1;
    let on_cpu = |(_, owner): &(usize, &Owner)| is_alone && owner.cpu == Some(cpu);
    let mut found = group.iter().enumerate().filter(on_cpu);
    match (found.next(), found.next()) {
        (Some((member, _)), None) => Some(member),
        _ => group
            .iter()
            .all(|owner| !owner.holders.is_empty())
            .then_some(bucket),
    }
}

/// Address, holder and CPU of a socket.
fn described(owner: &Owner) -> String {
    let name = match owner.reader() {
        Some(holder) => format!("{} ({})", holder.name, holder.process),
        None => "a process that is not visible".to_owned(),
    };
    let cpu = match owner.settled() {
        Some((cpu, by)) => format!("; works on CPU {cpu}: {by}"),
        None if owner.holders.iter().all(|holder| holder.waiting.is_empty()) => {
            "; no thread was found waiting for it, so its CPU is not known".to_owned()
        }
        None => "; its threads are not pinned to one CPU".to_owned(),
    };
    format!("{} of {name}{cpu}", owner.local)
}

#[cfg(test)]
mod tests;
