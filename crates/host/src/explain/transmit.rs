//! The transmit path: the sending CPU, XPS, the transmit queue.

use super::path::Confidence::{Certain, Likely};
use super::path::{SOCKETS, Way};
use crate::fact::Fact;
use crate::inventory::{Device, TransmitQueue};
use crate::sockets::{Owner, settled};

/// Follows packets that are sent.
pub(super) fn follow(device: &Device, senders: &[Owner], way: &mut Way) {
    match settled(senders) {
        Some((cpu, by)) => {
            way.cpu = Some(cpu);
            way.confidence = Likely;
            let rule = format!("packets are sent on the CPU of their sender; {by}");
            way.step("cpu", cpu, rule, SOCKETS, Likely)
                .unless("the kernel sends for it: retransmissions, pacing, a full queue");
        }
        None => {
            way.unknown("cpu", "packets are sent on the CPU of their sender", SOCKETS);
        }
    }
    queue(device, way);
    if device.link.kind.as_deref() == Some("veth") {
        let (rule, source) = (
            "the other end of the veth receives on the CPU that sends, unless RPS is on there",
            "drivers/net/veth.c",
        );
        match way.cpu {
            Some(cpu) => way.step("peer cpu", cpu, rule, source, Likely),
            None => way.unknown("peer cpu", rule, source),
        };
    }
}

/// The transmit queue (`netdev_pick_tx` in `net/core/dev.c`): by the receive queue, by the sending CPU, or else by a
/// kernel hash.
fn queue(device: &Device, way: &mut Way) {
    let queues = &device.transmit_queues;
    if let [one] = &queues[..] {
        way.queue = Some(one.queue);
        let rule = "the device has one transmit queue";
        way.step("queue", one.queue, rule, "routing netlink", Certain);
        return;
    }
    let on = |set: &Fact<Vec<u32>>| set.value.as_ref().is_some_and(|set| !set.is_empty());
    let sends_by = |cpu| -> Vec<u32> {
        let own = |queue: &&TransmitQueue| queue.xps_cpus.value.iter().flatten().any(|own| *own == cpu);
        queues.iter().filter(own).map(|queue| queue.queue).collect()
    };
    let source = "/sys/class/net/*/queues/tx-*/xps_cpus";
    let rule = if queues.iter().any(|queue| on(&queue.xps_receive_queues)) {
        "XPS by the receive queue of the flow".to_owned()
    } else if !queues.iter().any(|queue| on(&queue.xps_cpus)) {
        "no XPS: by a kernel hash, kept while the flow has packets in flight".to_owned()
    } else if let Some(cpu) = way.cpu {
        match sends_by(cpu)[..] {
            [queue] => {
                way.queue = Some(queue);
                let rule = format!("XPS: CPU {cpu} sends by this queue alone");
                way.step("queue", queue, rule, source, Likely)
                    .unless("packets of the flow are in flight on its previous queue");
                return;
            }
            ref several => {
                let count = several.len();
                format!("XPS lets CPU {cpu} send by {count} queues, by a kernel hash")
            }
        }
    } else {
        "XPS by the sending CPU, which is unknown".to_owned()
    };
    way.unknown("queue", rule, source);
}
