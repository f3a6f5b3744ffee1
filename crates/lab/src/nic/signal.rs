//! How the two sides agree where they are: frames of an ethertype for local experiments, which no device hashes.
//!
//! The guest reports the round it is ready for and how many frames it has seen in it; the host names the round that
//! comes next.

use super::frames::{GUEST, HOST};
use corelane_link::packet_socket::{self, Fanout, PacketLink, PacketOptions};
use corelane_link::{FrameLayout, LinkError};
use corelane_worker::received::LEAST_FRAME_BYTES;

/// Local Experimental Ethertype 1 (IEEE 802-2014, section 9.2.3).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Begins what is ours.
const MAGIC: &[u8; 8] = b"corelane";

/// What one side signals to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    /// From the guest: the round that its device is set for. From the host: the round to set it for; one past the last
    /// ends.
    pub(super) round: u32,
    /// From the guest: frames seen in this round.
    pub(super) seen: u32,
}

/// Opens the socket by which a side sends frames and signals, and hears signals.
pub(super) fn open(device: &str) -> Result<PacketLink, LinkError> {
    let one = PacketOptions {
        queues: 1,
        fanout: Fanout::default(),
        layout: FrameLayout::default(),
        promiscuous: false,
    };
    Ok(packet_socket::open(device, &one)?.swap_remove(0))
}

impl Signal {
    /// The frame to the guest, or from it.
    pub(super) fn frame(self, to_guest: bool) -> Vec<u8> {
        let ends = if to_guest { [GUEST, HOST] } else { [HOST, GUEST] };
        let mut frame = ends.concat();
        frame.extend(ETHERTYPE);
        frame.extend(MAGIC);
        frame.extend(self.round.to_be_bytes());
        frame.extend(self.seen.to_be_bytes());
        // As long as all others, so that the receiver does not count it as too short.
        frame.resize(LEAST_FRAME_BYTES + 16, 0);
        frame
    }

    /// Reads a frame; `None` if it is none of these.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        if frame.get(12..14)? != ETHERTYPE || frame.get(14..22)? != MAGIC {
            return None;
        }
        let number = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
        Some(Self {
            round: number(22)?,
            seen: number(26)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_reads_back_and_nothing_else_does() {
        let signal = Signal { round: 3, seen: 77 };
        for to_guest in [true, false] {
            assert_eq!(Signal::read(&signal.frame(to_guest)), Some(signal));
        }
        assert_eq!(Signal::read(&[0; 64]), None);
        assert_eq!(Signal::read(&signal.frame(true)[..28]), None);
    }
}
