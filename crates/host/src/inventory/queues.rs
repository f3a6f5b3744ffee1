//! From queue to NAPI instance, interrupt, CPU and node; and what software does after it: RPS, RFS, XPS.
//!
//! What enters: a device by name and number, the kernel's netdev family (since Linux 6.8), `/proc`, `/sys`. What leaves:
//! [`ReceiveQueue`]s and [`TransmitQueue`]s, each fact with its source.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::interrupts::{self, Direction, Interrupts};
use super::links::Link;
use crate::HostError;
use crate::cpus::{Topology, list};
use crate::fact::Fact;
use crate::netlink::Generic;
use crate::netlink::attributes::{number, number_in};
use crate::tree::Tree;

/// Where a receive queue's frames are worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveQueue {
    /// Its number.
    pub queue: u32,
    /// The kernel's number of the instance that polls it.
    pub napi: Fact<u32>,
    /// The interrupt that starts the polling.
    pub interrupt: Fact<u32>,
    /// That interrupt's name.
    pub interrupt_name: Option<String>,
    /// The CPUs that the interrupt may go to.
    pub affinity: Fact<Vec<u32>>,
    /// The CPUs that it does go to.
    pub cpus: Fact<Vec<u32>>,
    /// Their nodes.
    pub nodes: Vec<u32>,
    /// The thread that polls instead of the interrupted CPU; absent where none does.
    pub napi_thread: Fact<u32>,
    /// The CPUs that RPS hands frames to; empty where it is off.
    pub rps_cpus: Fact<Vec<u32>>,
    /// Flows whose CPU RFS keeps; 0 where it is off.
    pub rfs_flows: Fact<u32>,
}

/// Which CPUs send by a transmit queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransmitQueue {
    /// Its number.
    pub queue: u32,
    /// The interrupt that says what was sent.
    pub interrupt: Fact<u32>,
    /// The CPUs that it goes to.
    pub cpus: Fact<Vec<u32>>,
    /// The CPUs that XPS lets send by it.
    pub xps_cpus: Fact<Vec<u32>>,
    /// The receive queues whose flows XPS lets send by it.
    pub xps_receive_queues: Fact<Vec<u32>>,
}

/// What queues are read from.
pub(super) struct Sources<'a> {
    pub(super) tree: &'a Tree,
    pub(super) interrupts: &'a Interrupts,
    pub(super) topology: Option<&'a Topology>,
    /// Whether `/sys` shows the devices of the calling thread's namespace.
    pub(super) sysfs: bool,
    pub(super) netdev: &'a mut Result<Netdev, HostError>,
}

/// What the kernel's netdev family tells of one device.
#[derive(Debug, Default)]
struct Told {
    /// Receive queues and who polls them.
    receive: BTreeMap<u32, Option<u32>>,
    /// Transmit queues and who polls them.
    transmit: BTreeMap<u32, Option<u32>>,
    /// Interrupt and thread of each NAPI instance.
    instances: BTreeMap<u32, (Option<u32>, Option<u32>)>,
}

/// An open exchange with the kernel's netdev family (`linux/netdev.h`).
pub(super) struct Netdev {
    family: Generic,
}

const NETDEV: &str = "netdev netlink";
const QUEUE_GET: u8 = 10;
const QUEUE_NUMBER: u16 = 1;
const QUEUE_DEVICE: u16 = 2;
const QUEUE_TYPE: u16 = 3;
const QUEUE_NAPI: u16 = 4;
const TYPE_RECEIVE: u32 = 0;
const NAPI_GET: u8 = 11;
const NAPI_DEVICE: u16 = 1;
const NAPI_NUMBER: u16 = 2;
const NAPI_INTERRUPT: u16 = 3;
const NAPI_THREAD: u16 = 4;

impl Netdev {
    pub(super) fn open() -> Result<Self, HostError> {
        Ok(Self {
            family: Generic::open("netdev")?,
        })
    }

    fn told(&mut self, device: &str, index: u32) -> Result<Told, HostError> {
        let mut told = Told::default();
        let step = format!("the queues of device {device}");
        for queue in self.family.dump(&step, QUEUE_GET, number(QUEUE_DEVICE, index))? {
            // A kernel that does not filter tells of every device.
            if number_in(&queue, QUEUE_DEVICE) != Some(index) {
                continue;
            }
            let Some(own) = number_in(&queue, QUEUE_NUMBER) else {
                continue;
            };
            let queues = match number_in(&queue, QUEUE_TYPE) {
                Some(TYPE_RECEIVE) => &mut told.receive,
                _ => &mut told.transmit,
            };
            queues.insert(own, number_in(&queue, QUEUE_NAPI));
        }
        let step = format!("the NAPI instances of device {device}");
        for instance in self.family.dump(&step, NAPI_GET, number(NAPI_DEVICE, index))? {
            if let Some(own) = number_in(&instance, NAPI_NUMBER) {
                let (interrupt, thread) = (
                    number_in(&instance, NAPI_INTERRUPT),
                    number_in(&instance, NAPI_THREAD),
                );
                told.instances.insert(own, (interrupt, thread));
            }
        }
        Ok(told)
    }
}

/// The queues of a device, those in use as far as the kernel tells them apart.
pub(super) fn queues(
    sources: &mut Sources<'_>,
    device: &str,
    link: &Link,
) -> (Vec<ReceiveQueue>, Vec<TransmitQueue>) {
    let told = match sources.netdev {
        Ok(netdev) => netdev.told(device, link.index).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let receive = numbers(
        sources,
        device,
        "rx-",
        &told,
        |told| &told.receive,
        link.receive_queues,
    );
    let transmit = numbers(
        sources,
        device,
        "tx-",
        &told,
        |told| &told.transmit,
        link.transmit_queues,
    );
    let named = |direction| sources.interrupts.of_queues(sources.tree, device, direction);
    let (receiving, transmitting) = (named(Direction::Receive), named(Direction::Transmit));
    let sources: &Sources<'_> = sources;
    let receive = receive
        .into_iter()
        .map(|queue| receive_queue(sources, device, queue, &told, &receiving));
    let transmit = transmit
        .into_iter()
        .map(|queue| transmit_queue(sources, device, queue, &told, &transmitting));
    (receive.collect(), transmit.collect())
}

/// The numbers of the queues in use: as the netdev family tells, or sysfs; otherwise those there is memory for.
fn numbers(
    sources: &Sources<'_>,
    device: &str,
    prefix: &str,
    told: &Result<Told, String>,
    direction: impl Fn(&Told) -> &BTreeMap<u32, Option<u32>>,
    memory_for: Option<u32>,
) -> BTreeSet<u32> {
    if let Ok(told) = told
        && !direction(told).is_empty()
    {
        return direction(told).keys().copied().collect();
    }
    if sources.sysfs
        && let Ok(names) = sources.tree.names(&format!("/sys/class/net/{device}/queues"))
    {
        let own = names
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
        return own.collect();
    }
    (0..memory_for.unwrap_or(0)).collect()
}

fn receive_queue(
    sources: &Sources<'_>,
    device: &str,
    queue: u32,
    told: &Result<Told, String>,
    named: &Result<BTreeMap<u32, u32>, String>,
) -> ReceiveQueue {
    let napi = napi(told, |told| told.receive.get(&queue).copied().flatten());
    let instance = told
        .as_ref()
        .ok()
        .and_then(|told| told.instances.get(&napi.value?).copied());
    let interrupt = interrupt(
        sources,
        queue,
        instance.and_then(|(interrupt, _)| interrupt),
        named,
    );
    let (affinity, cpus) = cpus_of(sources.tree, &interrupt);
    let napi_thread = match instance {
        Some((_, Some(thread))) => Fact::known(thread, NETDEV),
        Some((_, None)) => Fact::absent("the CPU of the interrupt polls", NETDEV),
        None => threaded(sources, device),
    };
    let directory = format!("/sys/class/net/{device}/queues/rx-{queue}");
    ReceiveQueue {
        queue,
        nodes: nodes(sources.topology, cpus.value.as_deref().unwrap_or_default()),
        interrupt_name: interrupt
            .value
            .and_then(|number| sources.interrupts.name(number))
            .map(str::to_owned),
        rps_cpus: setting(sources, format!("{directory}/rps_cpus"), list::parse_mask),
        rfs_flows: setting(sources, format!("{directory}/rps_flow_cnt"), |text| {
            text.parse().ok()
        }),
        napi,
        interrupt,
        affinity,
        cpus,
        napi_thread,
    }
}

fn transmit_queue(
    sources: &Sources<'_>,
    device: &str,
    queue: u32,
    told: &Result<Told, String>,
    named: &Result<BTreeMap<u32, u32>, String>,
) -> TransmitQueue {
    let instance = told.as_ref().ok().and_then(|told| {
        let napi = told.transmit.get(&queue).copied().flatten()?;
        told.instances.get(&napi)
    });
    let interrupt = interrupt(
        sources,
        queue,
        instance.and_then(|(interrupt, _)| *interrupt),
        named,
    );
    let directory = format!("/sys/class/net/{device}/queues/tx-{queue}");
    TransmitQueue {
        queue,
        cpus: cpus_of(sources.tree, &interrupt).1,
        interrupt,
        xps_cpus: setting(sources, format!("{directory}/xps_cpus"), list::parse_mask),
        xps_receive_queues: setting(sources, format!("{directory}/xps_rxqs"), list::parse_mask),
    }
}

fn napi(told: &Result<Told, String>, of: impl Fn(&Told) -> Option<u32>) -> Fact<u32> {
    match told {
        Err(error) => Fact::unknown(error, NETDEV),
        Ok(told) => match of(told) {
            Some(napi) => Fact::known(napi, NETDEV),
            None => Fact::absent("the driver links none to the queue", NETDEV),
        },
    }
}

/// The interrupt of a queue, told by the kernel or by its name.
fn interrupt(
    sources: &Sources<'_>,
    queue: u32,
    told: Option<u32>,
    named: &Result<BTreeMap<u32, u32>, String>,
) -> Fact<u32> {
    const NAMES: &str = "/proc/interrupts, by name";
    match (told, named) {
        (Some(interrupt), _) => Fact::known(interrupt, NETDEV),
        (None, Err(error)) => Fact::unknown(error, NAMES),
        (None, Ok(named)) => match named.get(&queue) {
            Some(interrupt) => Fact::known(*interrupt, NAMES),
            None if !sources.sysfs => Fact::unknown(ELSEWHERE, NAMES),
            None => Fact::absent("no interrupt is named for the queue", NAMES),
        },
    }
}

/// The CPUs that an interrupt may go to, and those that it does.
fn cpus_of(tree: &Tree, interrupt: &Fact<u32>) -> (Fact<Vec<u32>>, Fact<Vec<u32>>) {
    match interrupt.value {
        Some(number) => (
            interrupts::affinity(tree, number),
            interrupts::delivered_to(tree, number),
        ),
        None => {
            let source = interrupt.source.clone();
            let none = match &interrupt.unknown_because {
                Some(because) => Fact::unknown(because, source),
                None => Fact::absent("there is no interrupt", source),
            };
            (none.clone(), none)
        }
    }
}

/// Whether threads poll, where the kernel does not tell which (`Documentation/networking/napi.rst`, "Threaded NAPI").
fn threaded(sources: &Sources<'_>, device: &str) -> Fact<u32> {
    let path = format!("/sys/class/net/{device}/threaded");
    if !sources.sysfs {
        return Fact::unknown(ELSEWHERE, path);
    }
    match sources.tree.text(&path).as_deref() {
        Ok("0") => Fact::absent("the CPU of the interrupt polls", path),
        Ok(_) => Fact::unknown("threads poll, and the kernel does not tell which", path),
        Err(error) => Fact::unknown(error, path),
    }
}

/// Why sysfs is not asked.
pub(super) const ELSEWHERE: &str =
    "/sys shows the devices of another network namespace; mount sysfs in this one, as ip netns exec does";

/// A file of a queue. The kernel has none, or refuses to read it, where the setting does not exist for the device.
fn setting<T>(sources: &Sources<'_>, path: String, parse: impl Fn(&str) -> Option<T>) -> Fact<T> {
    if !sources.sysfs {
        return Fact::unknown(ELSEWHERE, path);
    }
    match sources.tree.text(&path) {
        Ok(text) => match parse(&text) {
            Some(value) => Fact::known(value, path),
            None => Fact::unknown(format!("{text:?} is not as documented"), path),
        },
        Err(HostError::Read { cause, .. })
            if matches!(
                cause.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput
            ) =>
        {
            Fact::absent("the device has no such setting", path)
        }
        Err(error) => Fact::unknown(error, path),
    }
}

fn nodes(topology: Option<&Topology>, cpus: &[u32]) -> Vec<u32> {
    let nodes = cpus.iter().filter_map(|cpu| topology?.cpu(*cpu)?.node);
    nodes.collect::<BTreeSet<_>>().into_iter().collect()
}
