//! The receive path: queue, polling, interrupt, CPU; then RPS.
//!
//! The order is the kernel's: the driver's poll function runs on the CPU of the interrupt (`net/core/dev.c`,
//! `napi_poll`), an XDP program runs first, and `get_rps_cpu` may then move the packet to another CPU.

use corelane_rss::{HashFields, HashType, Protocol, Toeplitz};

use super::hash;
use super::path::Confidence::{Certain, Likely};
use super::path::{Arrival, SOCKETS, Way, hexadecimal};
use crate::cpus::list;
use crate::inventory::{Device, Inventory, ReceiveQueue, SoftwareRss};
use crate::sockets::settled;

/// Follows packets to the CPU that receives them.
pub(super) fn follow(asked: Arrival<'_>, way: &mut Way) {
    if asked.device.has_hardware() {
        hash::follow(asked, way);
        match way.queue.and_then(|queue| asked.device.receive_queue(queue)) {
            Some(queue) => polled(asked.inventory, queue, way),
            None => {
                way.unknown("cpu", "the queue is not known", "the steps above");
            }
        }
    } else {
        handed_over(asked, way);
    }
    match &asked.device.software_rss {
        Some(rss) => scaled(asked, rss, way),
        None => program(asked.device, way),
    }
    software(asked, way);
}

/// The CPU that polls a queue.
fn polled(inventory: &Inventory, queue: &ReceiveQueue, way: &mut Way) {
    if let Some(napi) = queue.napi.value {
        let rule = "the instance that polls the queue";
        way.step("napi", napi, rule, &queue.napi.source, Certain);
    }
    if let Some(thread) = queue.napi_thread.value {
        let rule = format!("thread {thread} polls, on a CPU chosen by the scheduler");
        way.unknown("cpu", rule, &queue.napi_thread.source);
        return;
    }
    let interrupt = &queue.interrupt;
    let Some(number) = interrupt.value else {
        let reason = interrupt.reason().unwrap_or("it has no interrupt");
        way.unknown("interrupt", reason, &interrupt.source);
        return;
    };
    way.interrupt = Some(number);
    let named = queue.interrupt_name.as_deref().unwrap_or("without a name");
    // By name only: drivers use arbitrary interrupt names.
    let by_name = interrupt.source.contains("name");
    let confidence = if by_name { Likely } else { Certain };
    way.at_most(confidence);
    let rule = format!("the queue's interrupt, {named}");
    way.step("interrupt", number, rule, &interrupt.source, confidence);
    let cpus = queue.cpus.value.as_deref().unwrap_or_default();
    let set = queue.affinity.value.as_deref().unwrap_or_default();
    match (cpus, set) {
        // An interrupt moves when it next fires (`irq_move_masked_irq` in `kernel/irq/migration.c`).
        ([now], [next]) if now != next => {
            way.at_most(Likely);
            way.cpu = Some(*next);
            let rule = "the interrupt is set to this CPU and moves when it next fires";
            way.step("cpu", next, rule, &queue.affinity.source, way.confidence)
                .unless(format!("it has not fired since; until then CPU {now} polls"));
        }
        ([cpu], _) => {
            way.cpu = Some(*cpu);
            let rule = "the interrupt is delivered to this CPU, which polls";
            let step = way.step("cpu", cpu, rule, &queue.cpus.source, way.confidence);
            let busy = |name| inventory.setting(name).is_some_and(|value| value != "0");
            if busy("net.core.busy_read") || busy("net.core.busy_poll") {
                step.unless("busy polling by a reader (net.core.busy_read, net.core.busy_poll)");
            }
            if inventory.irqbalance.value == Some(true) {
                step.unless("irqbalance moves the interrupt");
            }
        }
        (several, _) => {
            let rule = format!("the interrupt may be delivered to CPUs {}", list::format(several));
            way.unknown("cpu", rule, &queue.cpus.source);
        }
    }
}

/// Software devices have no interrupt: the sender runs the receive path.
fn handed_over(asked: Arrival<'_>, way: &mut Way) {
    let kind = asked.device.link.kind.as_deref().unwrap_or("software");
    let rule = match kind {
        "loopback" | "veth" | "netkit" => {
            format!("on {kind} the receive path runs on the CPU that sends")
        }
        "tun" => "on a tap the receive path runs on the CPU that writes the frame".to_owned(),
        other => {
            format!("{other} is software: the receive path continues on the CPU that delivered the frame")
        }
    };
    let source = "drivers/net, net/core/dev.c (netif_rx)";
    let (cpu, rule, source) = match (asked.flow.sender_cpu, settled(asked.senders)) {
        (Some(cpu), _) => (cpu, format!("{rule}, which was given"), source),
        (None, Some((cpu, by))) => (cpu, format!("{rule}; {by}"), SOCKETS),
        (None, None) => {
            way.unknown("cpu", format!("{rule}: give it with --sender-cpu"), source);
            return;
        }
    };
    way.step("cpu", cpu, rule, source, Certain);
    way.cpu = Some(cpu);
}

/// The program of `corelane rss` sends frames to the CPU of their hash.
fn scaled(asked: Arrival<'_>, rss: &SoftwareRss, way: &mut Way) {
    let (steering, tuple) = (&rss.steering, &asked.flow.tuple);
    let fields = match asked.protocol {
        Protocol::Other => HashFields::TwoTuple,
        Protocol::Tcp | Protocol::Udp => steering.hash_fields,
    };
    let hash_type = HashType::of(tuple, fields, asked.protocol);
    let hash = Toeplitz::new(&steering.key).hash(tuple, fields);
    let bucket = steering.table.bucket(hash).index();
    let (entry, cpu) = (steering.table.entry(hash), steering.cpus[bucket]);
    let value = format!("program {}: bucket {bucket}, CPU {cpu}", rss.program);
    let rule = format!(
        "corelane rss: hash {} over {}, entry {entry} of {}",
        hexadecimal(hash),
        hash_type.name(),
        steering.table.size()
    );
    let source = format!("published by process {}", rss.process);
    let step = way.step("xdp", value, rule, &source, Certain);
    if rss.inner {
        step.unless("the packet is a tunnel's: the packet inside is hashed");
    }
    way.hash_type = Some(hash_type);
    (way.hash, way.entry, way.cpu) = (Some(hash), Some(entry), Some(cpu));
    way.confidence = Certain;
}

/// An XDP program sees frames first.
fn program(device: &Device, way: &mut Way) {
    if let Some(xdp) = &device.link.xdp {
        let value = format!("program {}, {} mode", list::format(&xdp.programs), xdp.mode);
        let rule = "runs on the polling CPU; usually passes frames on";
        way.step("xdp", value, rule, "routing netlink", Likely)
            .unless("it drops the packet or redirects it to another CPU, device or socket");
        way.at_most(Likely);
    }
}

/// RPS and RFS: the kernel moves the packet to another CPU (`get_rps_cpu` in `net/core/dev.c`).
fn software(asked: Arrival<'_>, way: &mut Way) {
    let Arrival {
        inventory, device, ..
    } = asked;
    // If the queue is unknown, RPS is stated only if all queues have the same setting.
    let possible = |queue: &&ReceiveQueue| way.queue.is_none_or(|own| own == queue.queue);
    let mut queues = device.receive_queues.iter().filter(possible);
    let Some(first) = queues.next() else {
        return;
    };
    let (fact, source) = (&first.rps_cpus, first.rps_cpus.source.as_str());
    if queues.any(|queue| queue.rps_cpus.value != fact.value) {
        let rule = "it differs between queues, and the queue is unknown";
        way.unknown("rps", rule, source);
        way.cpu = None;
        return;
    }
    let Some(cpus) = &fact.value else {
        way.unknown("rps", fact.reason().unwrap_or("not known"), source)
            .unless("RPS is on for this queue");
        way.at_most(Likely);
        return;
    };
    let online = inventory.machine.cpus_online.as_deref();
    let usable = |cpu: &&u32| online.is_none_or(|online| online.contains(cpu));
    let cpus: Vec<u32> = cpus.iter().filter(usable).copied().collect();
    match &cpus[..] {
        [] => {}
        [cpu] => {
            let rule = "RPS sends every packet of the queue to the one CPU of its mask";
            way.step("rps", cpu, rule, source, Certain);
            way.cpu = Some(*cpu);
            // The packet is received here whatever the queue was.
            way.confidence = Certain;
        }
        several => spread(asked, several, source, way),
    }
    // RFS is on if both of its tables have entries (`Documentation/networking/scaling.rst`). The first is unreadable in
    // a separate namespace; the queue's table alone is then taken as a sign that RFS is on.
    let entries = inventory.setting("net.core.rps_sock_flow_entries");
    let follows = entries.is_none_or(|value| value != "0") && first.rfs_flows.value > Some(0);
    if follows && let Some(last) = way.steps.last_mut() {
        last.unless("RFS sends the packet to the CPU where its reader last ran");
        way.at_most(Likely);
    }
}

/// RPS over several CPUs uses the high bits of a hash: the device's, if that covers ports, or a secret hash of the
/// kernel (`__skb_get_hash_net` in `net/core/flow_dissector.c`).
fn spread(asked: Arrival<'_>, cpus: &[u32], source: &str, way: &mut Way) {
    let handed_up = asked.device.feature("rx-hashing") == Some(true);
    let four = |hash_type: HashType| hash_type.fields() == HashFields::FourTuple;
    let covers_ports = way.hash_type.is_some_and(four) && asked.protocol != Protocol::Other;
    let (count, listed) = (cpus.len(), list::format(cpus));
    match way.hash.filter(|_| handed_up && covers_ports) {
        Some(hash) => {
            // `reciprocal_scale` in `linux/kernel.h`.
            let index = (u64::from(hash) * count as u64) >> 32;
            let cpu = cpus[index as usize];
            way.at_most(Likely);
            let rule = format!("RPS over CPUs {listed}: (hash * {count}) >> 32 of the device's hash");
            way.step("rps", cpu, rule, source, way.confidence);
            way.cpu = Some(cpu);
        }
        None => {
            let rule = format!("RPS over CPUs {listed} by a secret hash of the kernel's");
            way.unknown("rps", rule, source);
            way.cpu = None;
        }
    }
}
