//! The way of what is sent: the CPU that sends, XPS, the transmit queue.

use super::hash::{step, unknown};
use super::{Confidence, Direction};
use crate::inventory::Device;
use crate::sockets::Owner;

/// Enters the way of what is sent into `direction`.
pub(super) fn steps(device: &Device, senders: &[Owner], direction: &mut Direction) {
    let sender = senders.first().filter(|_| senders.len() == 1);
    match sender.and_then(|sender| Some((sender.cpu?, sender.cpu_by.as_deref()?))) {
        Some((cpu, by)) => {
            let rule = format!("packets are sent where their sender runs; {by}");
            direction.cpu = Some(cpu);
            direction.cpu_confidence = Confidence::Likely;
            let mut found = step("cpu", cpu, &rule, "sock_diag netlink, /proc", Confidence::Likely);
            found
                .unless
                .push("the kernel sends for it: retransmissions, pacing, a full queue".to_owned());
            direction.steps.push(found);
        }
        None => {
            let rule = "packets are sent where their sender runs";
            direction
                .steps
                .push(unknown("cpu", rule, "sock_diag netlink, /proc"));
        }
    }
    queue(device, direction);
    if device.link.kind.as_deref() == Some("veth") {
        let rule = "the other end of the veth receives on the CPU that sends, unless RPS is on there";
        let cpu = direction.cpu.map(|cpu| cpu.to_string());
        let mut found = unknown("peer cpu", rule, "drivers/net/veth.c");
        if cpu.is_some() {
            found.confidence = Confidence::Likely;
        }
        found.value = cpu;
        direction.steps.push(found);
    }
}

/// The transmit queue (`netdev_pick_tx` in `net/core/dev.c`): by the receive queue, by the sending CPU, else by a hash of
/// the kernel's.
fn queue(device: &Device, direction: &mut Direction) {
    const SOURCE: &str = "/sys/class/net/*/queues/tx-*/xps_cpus";
    let queues = &device.transmit_queues;
    if let [one] = &queues[..] {
        direction.queue = Some(one.queue);
        let rule = "the device has one transmit queue";
        let found = step("queue", one.queue, rule, "routing netlink", Confidence::Certain);
        direction.steps.push(found);
        return;
    }
    let on = |cpus: Option<&Vec<u32>>| cpus.is_some_and(|cpus| !cpus.is_empty());
    if queues
        .iter()
        .any(|queue| on(queue.xps_receive_queues.value.as_ref()))
    {
        let rule = "XPS by the receive queue that the flow came by";
        direction.steps.push(unknown("queue", rule, SOURCE));
        return;
    }
    if !queues.iter().any(|queue| on(queue.xps_cpus.value.as_ref())) {
        let rule = "no XPS: by a hash of the kernel's, kept while the flow has packets under way";
        direction.steps.push(unknown("queue", rule, SOURCE));
        return;
    }
    let Some(cpu) = direction.cpu else {
        let rule = "XPS by the CPU that sends, which is not known";
        direction.steps.push(unknown("queue", rule, SOURCE));
        return;
    };
    let has = |cpus: &Vec<u32>| cpus.contains(&cpu);
    let own: Vec<u32> = queues
        .iter()
        .filter(|queue| queue.xps_cpus.value.as_ref().is_some_and(has))
        .map(|queue| queue.queue)
        .collect();
    match own[..] {
        [queue] => {
            direction.queue = Some(queue);
            let rule = format!("XPS: CPU {cpu} sends by this queue alone");
            let mut found = step("queue", queue, &rule, SOURCE, Confidence::Likely);
            found
                .unless
                .push("packets of the flow are under way on the queue it had before".to_owned());
            direction.steps.push(found);
        }
        _ => {
            let rule = format!(
                "XPS lets CPU {cpu} send by {} queues, by a hash of the kernel's",
                own.len()
            );
            direction.steps.push(unknown("queue", &rule, SOURCE));
        }
    }
}
