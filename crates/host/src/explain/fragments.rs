//! The path of a flow's fragments: they carry no ports past the first, so devices hash only their addresses ("Receive
//! Side Scaling: figuring out how to handle IP fragments").

use corelane_rss::Protocol;

use super::path::{Arrival, Fragments, Way, hexadecimal};
use super::receive;

/// Compares the path of fragments with that of `whole` packets.
pub(super) fn fragments(asked: Arrival<'_>, whole: &Way) -> Fragments {
    let device = asked.device;
    let mut part = Way::default();
    let protocol = Protocol::Other;
    receive::follow(Arrival { protocol, ..asked }, &mut part);
    let with_whole_packets = match (whole.cpu, part.cpu, whole.queue, part.queue) {
        (Some(whole), Some(part), ..) => Some(whole == part),
        (_, _, Some(whole), Some(part)) if whole != part => Some(false),
        _ => None,
    };
    let words = match (
        device.has_hardware() || device.software_rss.is_some(),
        with_whole_packets,
    ) {
        (false, _) => "same path as whole packets: no device hashes them here",
        (true, Some(true)) => "same CPU as the whole packets of their flow",
        (true, Some(false)) => {
            "another CPU than the whole packets of their flow: a flow of mixed sizes is reordered"
        }
        (true, None) => "unknown whether they are on the same CPU as the whole packets of their flow",
    };
    Fragments {
        hash: part.hash.map(hexadecimal),
        entry: part.entry,
        queue: part.queue,
        cpu: part.cpu,
        with_whole_packets,
        words: words.to_owned(),
    }
}
