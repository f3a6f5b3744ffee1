//! The way of what is received: queue, polling, interrupt, CPU; and RPS after it.
//!
//! The order is the kernel's: the driver's poll function runs where the interrupt went (`net/core/dev.c`, `napi_poll`), an
//! XDP program before anything else, and `get_rps_cpu` then may hand the packet to another CPU.

use corelane_rss::{HashFields, Protocol};

use super::hash::{self, Steered, step, unknown};
use super::{Confidence, Direction, Flow, Step};
use crate::cpus::list;
use crate::inventory::{Device, Inventory, ReceiveQueue};
use crate::sockets::Owner;

/// Where a packet is seen, and how that was found.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) cpu: Option<u32>,
    pub(super) confidence: Confidence,
    pub(super) interrupt: Option<u32>,
    pub(super) steered: Steered,
    pub(super) steps: Vec<Step>,
}

/// Enters the way of a flow's packets into `direction`.
pub(super) fn steps(
    inventory: &Inventory,
    device: &Device,
    flow: &Flow,
    senders: &[Owner],
    direction: &mut Direction,
) {
    let seen = seen(inventory, device, flow, flow.protocol, senders);
    let steered = seen.steered;
    direction.hash_type = steered.hash_type.map(|hash_type| hash_type.name().to_owned());
    direction.hash = steered.hash.map(|hash| format!("0x{hash:08x}"));
    direction.entry = steered.entry;
    direction.queue = steered.queue;
    direction.interrupt = seen.interrupt;
    direction.cpu = seen.cpu;
    direction.cpu_confidence = match seen.cpu {
        Some(_) => seen.confidence,
        None => Confidence::Unknown,
    };
    direction.steps.extend(steered.steps);
    direction.steps.extend(seen.steps);
}

/// Follows packets that carry `protocol` between the ends of a flow.
pub(super) fn seen(
    inventory: &Inventory,
    device: &Device,
    flow: &Flow,
    protocol: Protocol,
    senders: &[Owner],
) -> Seen {
    let mut seen = Seen {
        cpu: None,
        confidence: Confidence::Certain,
        interrupt: None,
        steered: Steered::default(),
        steps: Vec::new(),
    };
    if device.has_hardware() {
        seen.steered = hash::steered(device, flow, protocol);
        seen.confidence = seen.steered.confidence.unwrap_or(Confidence::Unknown);
        let queue = seen.steered.queue;
        match queue.and_then(|queue| device.receive_queues.iter().find(|own| own.queue == queue)) {
            Some(queue) => polled(inventory, queue, &mut seen),
            None => seen
                .steps
                .push(unknown("cpu", "the queue is not known", "the steps above")),
        }
    } else {
        handed_over(device, flow, senders, &mut seen);
    }
    program(device, &mut seen);
    software(inventory, device, protocol, &mut seen);
    seen
}

/// The CPU that polls a queue.
fn polled(inventory: &Inventory, queue: &ReceiveQueue, seen: &mut Seen) {
    if let Some(napi) = queue.napi.value {
        let rule = "the instance that polls the queue";
        seen.steps
            .push(step("napi", napi, rule, &queue.napi.source, Confidence::Certain));
    }
    if let Some(thread) = queue.napi_thread.value {
        let rule = format!("thread {thread} polls, where the scheduler puts it");
        seen.steps.push(unknown("cpu", &rule, &queue.napi_thread.source));
        return;
    }
    let interrupt = &queue.interrupt;
    let Some(number) = interrupt.value else {
        let reason = interrupt.reason().unwrap_or("it has no interrupt");
        seen.steps.push(unknown("interrupt", reason, &interrupt.source));
        return;
    };
    seen.interrupt = Some(number);
    let named = queue.interrupt_name.as_deref().unwrap_or("without a name");
    let confidence = match interrupt.source.contains("name") {
        // By its name alone: drivers name interrupts as they like.
        true => Confidence::Likely,
        false => Confidence::Certain,
    };
    seen.confidence = seen.confidence.min(confidence);
    let rule = format!("the queue's interrupt, {named}");
    seen.steps
        .push(step("interrupt", number, &rule, &interrupt.source, confidence));
    let cpus = queue.cpus.value.as_deref().unwrap_or_default();
    let set = queue.affinity.value.as_deref().unwrap_or_default();
    match (cpus, set) {
        // An interrupt moves when it next fires (`irq_move_masked_irq` in `kernel/irq/migration.c`).
        ([now], [next]) if now != next => {
            let rule = "the interrupt is set to go there, and moves when it next fires";
            seen.confidence = seen.confidence.min(Confidence::Likely);
            let mut found = step("cpu", next, rule, &queue.affinity.source, seen.confidence);
            found
                .unless
                .push(format!("it has not fired since; then CPU {now} polls"));
            seen.cpu = Some(*next);
            seen.steps.push(found);
        }
        ([cpu], _) => {
            let mut found = step(
                "cpu",
                cpu,
                "the interrupt goes there, and its CPU polls",
                &queue.cpus.source,
                seen.confidence,
            );
            found.unless.extend(elsewhere(inventory));
            seen.cpu = Some(*cpu);
            seen.steps.push(found);
        }
        (several, _) => {
            let rule = format!("the interrupt may go to CPUs {}", list::format(several));
            seen.steps.push(unknown("cpu", &rule, &queue.cpus.source));
        }
    }
}

/// What may poll elsewhere than where the interrupt goes.
fn elsewhere(inventory: &Inventory) -> Vec<String> {
    let mut unless = Vec::new();
    let busy = |name: &str| {
        let setting = inventory
            .settings
            .get(name)
            .and_then(|fact| fact.value.as_deref());
        setting.is_some_and(|value| value != "0")
    };
    if busy("net.core.busy_read") || busy("net.core.busy_poll") {
        unless.push("a reader polls the queue itself (net.core.busy_read, net.core.busy_poll)".to_owned());
    }
    if inventory.irqbalance.value == Some(true) {
        unless.push("irqbalance moves the interrupt".to_owned());
    }
    unless
}

/// Software devices have no interrupt: who sends runs the receive path.
fn handed_over(device: &Device, flow: &Flow, senders: &[Owner], seen: &mut Seen) {
    let kind = device.link.kind.as_deref().unwrap_or("software");
    let rule = match kind {
        "loopback" | "veth" | "netkit" => {
            format!("on {kind} the receive path runs on the CPU that sends")
        }
        "tun" => "on a tap the receive path runs on the CPU that writes the frame into it".to_owned(),
        other => format!("{other} is software: the receive path goes on where it was handed the frame"),
    };
    let source = "drivers/net, net/core/dev.c (netif_rx)";
    let sender = senders.first().filter(|_| senders.len() == 1);
    match (
        flow.sender_cpu,
        sender.and_then(|sender| Some((sender.cpu?, sender.cpu_by.as_deref()?))),
    ) {
        (Some(cpu), _) => {
            let rule = format!("{rule}, which was given");
            seen.steps
                .push(step("cpu", cpu, &rule, source, Confidence::Certain));
            seen.cpu = Some(cpu);
        }
        (None, Some((cpu, by))) => {
            let rule = format!("{rule}; {by}");
            seen.steps.push(step(
                "cpu",
                cpu,
                &rule,
                "sock_diag netlink, /proc",
                Confidence::Certain,
            ));
            seen.cpu = Some(cpu);
        }
        (None, None) => seen.steps.push(unknown("cpu", &rule, source)),
    }
}

/// An XDP program sees frames before all else here.
fn program(device: &Device, seen: &mut Seen) {
    let Some(xdp) = &device.link.xdp else {
        return;
    };
    let value = format!("program {}, {} mode", list::format(&xdp.programs), xdp.mode);
    let mut found = step(
        "xdp",
        value,
        "runs where the queue is polled, and passes frames on as a rule",
        "routing netlink",
        Confidence::Likely,
    );
    found
        .unless
        .push("it drops the packet, or sends it to another CPU, device or socket".to_owned());
    seen.steps.push(found);
    seen.confidence = seen.confidence.min(Confidence::Likely);
}

/// RPS and RFS: the kernel hands the packet to another CPU (`get_rps_cpu` in `net/core/dev.c`).
fn software(inventory: &Inventory, device: &Device, protocol: Protocol, seen: &mut Seen) {
    let number = seen.steered.queue.unwrap_or(0);
    // Without a known queue, RPS is told only where it is the same for all of them.
    let settings: Vec<&ReceiveQueue> = match seen.steered.queue {
        Some(_) => device
            .receive_queues
            .iter()
            .filter(|queue| queue.queue == number)
            .collect(),
        None => device.receive_queues.iter().collect(),
    };
    let Some(first) = settings.first() else {
        return;
    };
    let (fact, source) = (&first.rps_cpus, first.rps_cpus.source.as_str());
    if settings.iter().any(|queue| queue.rps_cpus.value != fact.value) {
        let rule = "it differs between the queues, and the queue is not known";
        seen.steps.push(unknown("rps", rule, source));
        seen.cpu = None;
        return;
    }
    let Some(cpus) = &fact.value else {
        let mut found = unknown("rps", fact.reason().unwrap_or("not known"), source);
        found.unless.push("RPS is on for this queue".to_owned());
        seen.steps.push(found);
        seen.confidence = seen.confidence.min(Confidence::Likely);
        return;
    };
    let online = inventory.machine.cpus_online.as_deref();
    let usable = |cpu: &&u32| online.is_none_or(|online| online.contains(cpu));
    let cpus: Vec<u32> = cpus.iter().filter(usable).copied().collect();
    let follows = follows_readers(inventory, first);
    match &cpus[..] {
        [] => {}
        [cpu] => {
            let rule = "RPS hands every packet of the queue to the one CPU of its mask";
            seen.steps
                .push(step("rps", cpu, rule, source, Confidence::Certain));
            seen.cpu = Some(*cpu);
            // Whatever the queue was, this is where the packet is seen.
            seen.confidence = Confidence::Certain;
        }
        several => spread(device, several, source, protocol, seen),
    }
    if follows && let Some(last) = seen.steps.last_mut() {
        last.unless
            .push("RFS hands the packet to the CPU where its reader last ran".to_owned());
        seen.confidence = seen.confidence.min(Confidence::Likely);
    }
}

/// RPS over several CPUs takes the high bits of a hash: the device's, where that covers ports, or a secret one of the
/// kernel's (`__skb_get_hash_net` in `net/core/flow_dissector.c`).
fn spread(device: &Device, cpus: &[u32], source: &str, protocol: Protocol, seen: &mut Seen) {
    let handed_up = device.feature("rx-hashing") == Some(true);
    let covers_ports = seen
        .steered
        .hash_type
        .is_some_and(|hash_type| hash_type.fields() == HashFields::FourTuple)
        && protocol != Protocol::Other;
    match seen.steered.hash.filter(|_| handed_up && covers_ports) {
        Some(hash) => {
            // `reciprocal_scale` in `linux/kernel.h`.
            let index = (u64::from(hash) * cpus.len() as u64) >> 32;
            let cpu = cpus[index as usize];
            let rule = format!(
                "RPS over CPUs {}: (hash * {}) >> 32 of the device's hash",
                list::format(cpus),
                cpus.len()
            );
            seen.confidence = seen.confidence.min(Confidence::Likely);
            seen.steps.push(step("rps", cpu, &rule, source, seen.confidence));
            seen.cpu = Some(cpu);
        }
        None => {
            let rule = format!(
                "RPS over CPUs {} by a secret hash of the kernel's",
                list::format(cpus)
            );
            seen.steps.push(unknown("rps", &rule, source));
            seen.cpu = None;
        }
    }
}

/// Whether RFS is on: both of its tables have entries (`Documentation/networking/scaling.rst`).
fn follows_readers(inventory: &Inventory, queue: &ReceiveQueue) -> bool {
    let entries = inventory.settings.get("net.core.rps_sock_flow_entries");
    // Unreadable in a namespace of its own: the queue's table alone then says that someone meant it.
    let on = entries
        .and_then(|fact| fact.value.as_deref())
        .is_none_or(|value| value != "0");
    on && queue.rfs_flows.value.is_some_and(|flows| flows > 0)
}
