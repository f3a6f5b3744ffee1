//! From queue to NAPI instance, interrupt, CPU and node; and the software steering after it: RPS, RFS, XPS.
//!
//! Input: a device by name and number, the kernel's netdev family (since Linux 6.8), `/proc`, `/sys`. Output:
//! [`ReceiveQueue`]s and [`TransmitQueue`]s, each fact with its source.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::interrupts::{self, Interrupts, QueueKind};
use crate::HostError;
use crate::cpus::{Topology, list};
use crate::fact::Fact;
use crate::netlink::Generic;
use crate::netlink::attributes::{number, number_in};
use crate::netlink::links::Link;
use crate::tree::Tree;

/// How a receive queue's frames are processed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveQueue {
    /// The queue number.
    pub queue: u32,
    /// The id of the NAPI instance that polls it.
    pub napi: Fact<u32>,
    /// The interrupt that starts the polling.
    pub interrupt: Fact<u32>,
    /// That interrupt's name.
    pub interrupt_name: Option<String>,
    /// The CPUs that may receive the interrupt.
    pub affinity: Fact<Vec<u32>>,
    /// The CPUs that do receive it.
    pub cpus: Fact<Vec<u32>>,
    /// Their nodes.
    pub nodes: Vec<u32>,
    /// The thread that polls instead of the interrupted CPU; absent if none does.
    pub napi_thread: Fact<u32>,
    /// The CPUs of RPS; empty if it is off.
    pub rps_cpus: Fact<Vec<u32>>,
    /// The number of flows that RFS tracks; 0 if it is off.
    pub rfs_flows: Fact<u32>,
}

/// The CPUs that send on a transmit queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransmitQueue {
    /// The queue number.
    pub queue: u32,
    /// The transmit-completion interrupt.
    pub interrupt: Fact<u32>,
    /// The CPUs that receive it.
    pub cpus: Fact<Vec<u32>>,
    /// The CPUs that XPS assigns to it.
    pub xps_cpus: Fact<Vec<u32>>,
    /// The receive queues that XPS assigns to it.
    pub xps_receive_queues: Fact<Vec<u32>>,
}

/// The sources of queue facts.
pub(super) struct Sources<'a> {
    pub(super) tree: &'a Tree,
    pub(super) interrupts: &'a Interrupts,
    pub(super) topology: Option<&'a Topology>,
    /// Whether `/sys` shows the devices of the calling thread's namespace.
    pub(super) sysfs: bool,
    /// The kernel's netdev family.
    pub(super) netdev: &'a mut Result<Generic, HostError>,
}

impl Sources<'_> {
    /// A fact of sysfs, from the text of its file.
    pub(super) fn sysfs<T>(
        &self,
        path: String,
        judge: impl FnOnce(Result<String, HostError>, String) -> Fact<T>,
    ) -> Fact<T> {
        match self.sysfs {
            true => judge(self.tree.text(&path), path),
            false => Fact::unknown(ELSEWHERE, path),
        }
    }

    /// A file of a queue. The kernel has no file, or rejects reading it, if the device does not have the setting.
    fn setting<T>(&self, path: String, parse: impl Fn(&str) -> Option<T>) -> Fact<T> {
        use std::io::ErrorKind::{InvalidInput, NotFound};
        self.sysfs(path, |text, path| match text {
            Ok(text) => Fact::of(parse(&text).ok_or(format!("{text:?} is not as documented")), path),
            Err(HostError::Read { cause, .. }) if matches!(cause.kind(), NotFound | InvalidInput) => {
                Fact::absent("the device has no such setting", path)
            }
            Err(error) => Fact::unknown(error, path),
        })
    }
}

/// The netdev family's report on one device.
#[derive(Debug, Default)]
struct Reported {
    /// Why there is no report.
    error: Option<String>,
    /// Queues of each [`QueueKind`], and the instances that poll them.
    queues: [BTreeMap<u32, Option<u32>>; 2],
    /// Interrupt and thread of each NAPI instance.
    instances: BTreeMap<u32, (Option<u32>, Option<u32>)>,
}

const NETDEV: &str = "netdev netlink";

/// Queries the netdev family about a device. The numbers are those of commands (`NETDEV_CMD_*`) and attributes
/// (`NETDEV_A_QUEUE_*`, `NETDEV_A_NAPI_*`) of `linux/netdev.h`.
fn report(netdev: &mut Generic, device: &str, index: u32) -> Result<Reported, HostError> {
    const QUEUE_GET: u8 = 10;
    const NAPI_GET: u8 = 11;
    let mut reported = Reported::default();
    let step = format!("the queues of device {device}");
    for queue in netdev.dump(&step, QUEUE_GET, number(2, index))? {
        let [own, of, kind, napi] = [1, 2, 3, 4].map(|attribute| number_in(&queue, attribute));
        // A kernel that does not filter reports every device.
        if let Some(own) = own.filter(|_| of == Some(index)) {
            let kind = match kind {
                Some(0) => QueueKind::Receive,
                _ => QueueKind::Transmit,
            };
            reported.queues[kind as usize].insert(own, napi);
        }
    }
    let step = format!("the NAPI instances of device {device}");
    for instance in netdev.dump(&step, NAPI_GET, number(1, index))? {
        let [own, interrupt, thread] = [2, 3, 4].map(|kind| number_in(&instance, kind));
        if let Some(own) = own {
            reported.instances.insert(own, (interrupt, thread));
        }
    }
    Ok(reported)
}

/// The queues of a device: those in use, if the kernel distinguishes them.
pub(super) fn queues(
    sources: &mut Sources<'_>,
    device: &str,
    link: &Link,
) -> (Vec<ReceiveQueue>, Vec<TransmitQueue>) {
    let reported = match sources.netdev {
        Ok(netdev) => report(netdev, device, link.index).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let reported = reported.unwrap_or_else(|error| Reported {
        error: Some(error),
        ..Reported::default()
    });
    let sources: &Sources<'_> = sources;
    let polled = |kind, memory_for| polled(sources, device, &reported, kind, memory_for);
    let receive = polled(QueueKind::Receive, link.receive_queues);
    let transmit = polled(QueueKind::Transmit, link.transmit_queues);
    let receive = receive.map(|polled| receive_queue(sources, device, &reported, polled));
    let transmit = transmit.map(|polled| transmit_queue(sources, device, polled));
    (receive.collect(), transmit.collect())
}

/// The common facts of queues of both kinds: number, poller, interrupt.
struct Polled {
    queue: u32,
    napi: Option<u32>,
    /// Interrupt and thread of the instance that polls.
    instance: Option<(Option<u32>, Option<u32>)>,
    interrupt: Fact<u32>,
    /// The CPUs that may receive the interrupt.
    affinity: Fact<Vec<u32>>,
    /// The CPUs that do receive it.
    cpus: Fact<Vec<u32>>,
}

/// The queues in use, from the netdev family or sysfs; otherwise all allocated queues.
fn polled(
    sources: &Sources<'_>,
    device: &str,
    reported: &Reported,
    kind: QueueKind,
    memory_for: Option<u32>,
) -> impl Iterator<Item = Polled> {
    let known = &reported.queues[kind as usize];
    let prefix = ["rx-", "tx-"][kind as usize];
    let directory = format!("/sys/class/net/{device}/queues");
    let listed = sources
        .sysfs
        .then(|| sources.tree.numbers(&directory, prefix).ok());
    let numbers: BTreeSet<u32> = match (known.is_empty(), listed.flatten()) {
        (false, _) => known.keys().copied().collect(),
        (true, Some(listed)) => listed,
        (true, None) => (0..memory_for.unwrap_or(0)).collect(),
    };
    let named = sources.interrupts.of_queues(sources.tree, device, kind);
    numbers.into_iter().map(move |queue| {
        let napi = known.get(&queue).copied().flatten();
        let instance = napi.and_then(|napi| reported.instances.get(&napi).copied());
        let interrupt = match instance {
            Some((Some(interrupt), _)) => Fact::known(interrupt, NETDEV),
            _ => interrupt_by_name(sources, queue, &named),
        };
        let (affinity, cpus) = match interrupt.value {
            Some(number) => interrupts::cpus(sources.tree, number),
            None => {
                let source = interrupt.source.clone();
                let none = match &interrupt.unknown_because {
                    Some(because) => Fact::unknown(because, source),
                    None => Fact::absent("there is no interrupt", source),
                };
                (none.clone(), none)
            }
        };
        Polled {
            queue,
            napi,
            instance,
            interrupt,
            affinity,
            cpus,
        }
    })
}

fn interrupt_by_name(
    sources: &Sources<'_>,
    queue: u32,
    named: &Result<BTreeMap<u32, u32>, String>,
) -> Fact<u32> {
    const NAMES: &str = "/proc/interrupts, by name";
    match named.as_ref().map(|named| named.get(&queue)) {
        Err(error) => Fact::unknown(error, NAMES),
        Ok(Some(interrupt)) => Fact::known(*interrupt, NAMES),
        Ok(None) if !sources.sysfs => Fact::unknown(ELSEWHERE, NAMES),
        Ok(None) => Fact::absent("no interrupt name matches the queue", NAMES),
    }
}

fn receive_queue(sources: &Sources<'_>, device: &str, reported: &Reported, polled: Polled) -> ReceiveQueue {
    let napi = match (polled.napi, &reported.error) {
        (Some(napi), _) => Fact::known(napi, NETDEV),
        (None, Some(error)) => Fact::unknown(error, NETDEV),
        (None, None) => Fact::absent("the driver links none to the queue", NETDEV),
    };
    let napi_thread = match polled.instance {
        Some((_, Some(thread))) => Fact::known(thread, NETDEV),
        Some((_, None)) => Fact::absent("the CPU of the interrupt polls", NETDEV),
        // Whether threads poll, if the kernel does not report which (`Documentation/networking/napi.rst`, "Threaded
        // NAPI").
        None => sources.sysfs(
            format!("/sys/class/net/{device}/threaded"),
            |text, path| match text.as_deref() {
                Ok("0") => Fact::absent("the CPU of the interrupt polls", path),
                Ok(_) => Fact::unknown("threads poll; the kernel does not report which", path),
                Err(error) => Fact::unknown(error, path),
            },
        ),
    };
    let directory = format!("/sys/class/net/{device}/queues/rx-{}", polled.queue);
    let name = polled
        .interrupt
        .value
        .and_then(|number| sources.interrupts.name(number));
    ReceiveQueue {
        queue: polled.queue,
        napi,
        interrupt_name: name.map(str::to_owned),
        nodes: nodes(sources.topology, polled.cpus.value.as_deref().unwrap_or_default()),
        rps_cpus: sources.setting(format!("{directory}/rps_cpus"), list::parse_mask),
        rfs_flows: sources.setting(format!("{directory}/rps_flow_cnt"), |text| text.parse().ok()),
        interrupt: polled.interrupt,
        affinity: polled.affinity,
        cpus: polled.cpus,
        napi_thread,
    }
}

fn transmit_queue(sources: &Sources<'_>, device: &str, polled: Polled) -> TransmitQueue {
    let directory = format!("/sys/class/net/{device}/queues/tx-{}", polled.queue);
    TransmitQueue {
        queue: polled.queue,
        interrupt: polled.interrupt,
        cpus: polled.cpus,
        xps_cpus: sources.setting(format!("{directory}/xps_cpus"), list::parse_mask),
        xps_receive_queues: sources.setting(format!("{directory}/xps_rxqs"), list::parse_mask),
    }
}

/// Why sysfs is not read.
const ELSEWHERE: &str =
    "/sys shows the devices of another network namespace; mount sysfs in this one, as ip netns exec does";

fn nodes(topology: Option<&Topology>, cpus: &[u32]) -> Vec<u32> {
    let nodes = cpus.iter().filter_map(|cpu| topology?.cpu(*cpu)?.node);
    nodes.collect::<BTreeSet<_>>().into_iter().collect()
}
