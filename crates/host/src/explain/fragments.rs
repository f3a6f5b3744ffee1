//! What becomes of a flow's fragments: they carry no ports past the first, so devices hash their addresses alone ("Receive
//! Side Scaling: figuring out how to handle IP fragments").

use corelane_rss::Protocol;

use super::receive;
use super::{Direction, Flow, Fragments};
use crate::inventory::{Device, Inventory};
use crate::sockets::Owner;

/// Compares the way of fragments with that of the whole packets in `direction`.
pub(super) fn fragments(
    inventory: &Inventory,
    device: &Device,
    flow: &Flow,
    senders: &[Owner],
    direction: &Direction,
) -> Fragments {
    let seen = receive::seen(inventory, device, flow, Protocol::Other, senders);
    let queue = seen.steered.queue;
    let with_whole_packets = match (direction.cpu, seen.cpu, direction.queue, queue) {
        (Some(whole), Some(part), ..) => Some(whole == part),
        (_, _, Some(whole), Some(part)) if whole != part => Some(false),
        _ if !device.has_hardware() && direction.cpu.is_none() => None,
        _ => None,
    };
    let words = match (device.has_hardware(), with_whole_packets) {
        (false, _) => "they take the way of whole packets: no device hashes them here",
        (true, Some(true)) => "they meet the whole packets of their flow, on the same CPU",
        (true, Some(false)) => {
            "they come by another CPU than the whole packets of their flow: a flow of mixed sizes is reordered"
        }
        (true, None) => "whether they meet the whole packets of their flow cannot be told",
    };
    Fragments {
        hash: seen.steered.hash.map(|hash| format!("0x{hash:08x}")),
        entry: seen.steered.entry,
        queue,
        cpu: seen.cpu,
        with_whole_packets,
        words: words.to_owned(),
    }
}
