//! Finds out whether frames sent to one link come back from another: through a cable, a switch or another bridge, which would
//! repeat each frame for ever.
//!
//! As switches do, the bridge sends a frame of its own to each device now and then, of the Configuration Testing Protocol
//! (Ethernet 2.0, section 8), which others forward and nothing answers. One that comes back proves the loop.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use corelane_link::LinkSpec;

/// Interval between two frames to a link.
const EVERY: Duration = Duration::from_secs(1);
/// Length of a frame without its checksum, the shortest of Ethernet.
const LENGTH: usize = 60;
/// The loopback assistance multicast address.
const DESTINATION: [u8; 6] = [0xcf, 0, 0, 0, 0, 0];
const ETHER_TYPE: [u8; 2] = [0x90, 0];

/// The frames of one bridge.
#[derive(Clone, Debug)]
pub(super) struct LoopCheck {
    /// In each frame of this bridge, and in none of others.
    id: [u8; 8],
    /// The links of devices; others end in one process or file.
    devices: Vec<Option<String>>,
    /// When the next frames are sent; `None` if another worker sends them.
    due: Option<Instant>,
}

impl LoopCheck {
    /// The check of a bridge between these links, whose frames go out from now on.
    pub(super) fn new(links: &[LinkSpec], now: Instant) -> LoopCheck {
        let device = |link: &LinkSpec| link.is_device().then(|| link.label());
        LoopCheck {
            id: RandomState::new().build_hasher().finish().to_be_bytes(),
            devices: links.iter().map(device).collect(),
            due: Some(now),
        }
    }

    /// The same for a worker that only listens.
    pub(super) fn listening(&self) -> LoopCheck {
        LoopCheck {
            due: None,
            ..self.clone()
        }
    }

    /// Whether frames are to be sent now.
    #[inline]
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| now >= due);
        if is_due {
            self.due = Some(now + EVERY);
        }
        is_due
    }

    /// The frame for a link, if it is one of a device.
    pub(super) fn frame_to(&self, link: usize) -> Option<[u8; LENGTH]> {
        self.devices[link].as_ref().map(|_| self.frame(link))
    }

    fn frame(&self, link: usize) -> [u8; LENGTH] {
        let [high, low] = (link as u16).to_be_bytes();
        // A locally administered source, another per link and bridge.
        let source = [0x02, self.id[0], self.id[1], self.id[2], high, low];
        let begin = [&DESTINATION[..], &source, &ETHER_TYPE, &self.id, &[high, low]].concat();
        let mut frame = [0; LENGTH];
        frame[..begin.len()].copy_from_slice(&begin);
        frame
    }

    /// The loop that a frame from link `from` proves, in words.
    #[inline]
    pub(super) fn proof(&self, frame: &[u8], from: usize) -> Option<String> {
        if frame.get(12..14)? != ETHER_TYPE {
            return None;
        }
        self.loop_of(frame, from)
    }

    #[cold]
    fn loop_of(&self, frame: &[u8], from: usize) -> Option<String> {
        let link = u16::from_be_bytes(*frame.get(22..24)?.first_chunk()?);
        let to = self.devices.get(usize::from(link))?.as_deref()?;
        let is_own = frame.starts_with(&self.frame(link.into())[..24]);
        let back = self.devices.get(from)?.as_deref()?;
        is_own.then(|| match to == back {
            true => format!("frames sent to {to} come back from it: something behind it reflects them, which makes a loop"),
            false => format!("frames sent to {to} come back from {back}: the two are connected elsewhere, too, which makes a loop"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_frames_prove_a_loop() {
        let links = ["packet:eth0", "ring:one", "xdp:eth1"].map(|link| link.parse().unwrap());
        let now = Instant::now();
        let mut check = LoopCheck::new(&links, now);
        assert!(check.is_due(now) && !check.is_due(now) && check.is_due(now + EVERY));
        assert!(!check.listening().is_due(now + EVERY));
        assert!(check.frame_to(1).is_none());
        let frame = check.frame_to(2).unwrap();
        let proof = check.listening().proof(&frame, 0).unwrap();
        assert!(
            proof.contains("sent to xdp:eth1 come back from packet:eth0"),
            "{proof}"
        );
        assert!(check.proof(&frame, 2).unwrap().contains("reflects"));
        // Cut short, of another bridge, and of another protocol.
        assert_eq!(check.proof(&frame[..23], 0), None);
        assert_eq!(check.proof(&frame[..12], 0), None);
        assert_eq!(LoopCheck::new(&links, now).proof(&frame, 0), None);
        let mut other = frame;
        other[13] = 8;
        assert_eq!(check.proof(&other, 0), None);
    }
}
