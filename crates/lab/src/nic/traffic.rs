//! The host's side of the traffic: sends each round's frames into the guest's tap, a batch at a time, and waits for the
//! guest to say that it has seen them.

use super::frames::{self, GUEST, HOST};
use super::plan::NicPlan;
use anyhow::anyhow;
use corelane_host::bed::switch_on;
use corelane_link::packet_socket::{self, Fanout, PacketLink, PacketOptions};
use corelane_link::{FrameLayout, Link, LinkError};
use std::thread;
use std::time::{Duration, Instant};

/// Frames sent before the guest is waited for: well below the ring of one of its queues (256), since all may fall on
/// one.
const BATCH: usize = 48;

/// How long no further frame may be seen before the next batch is sent anyway; what is missing then shows in the counts.
const BATCH_LIMIT: Duration = Duration::from_secs(3);

/// The same before the next round begins, which ends the guest's count of this one: the last frames may be in the queue of
/// a CPU that does not run. Shorter than the time after which the guest gives up.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// Poll interval.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for the tap, then sends all rounds, and orders the guest to end. Returns how many frames were sent in each
/// round that counts.
///
/// `over` returns whether the guest has ended.
pub(super) fn send(plan: &NicPlan, tap: &str, over: &dyn Fn() -> bool) -> anyhow::Result<Vec<u64>> {
    let mut link = open_tap(tap, over)?;
    let mut sent = Vec::new();
    let stages = plan.stages();
    for (number, stage) in stages.iter().enumerate() {
        let number = number as u32;
        await_round(&mut link, number, over)?;
        let frames = frames::frames(stage.round, stage.flows, plan.seed + u64::from(number));
        let mut count = 0;
        for batch in frames.chunks(BATCH) {
            let mut rest = batch;
            while !rest.is_empty() {
                let taken = link.send(rest.iter().map(Vec::as_slice))?.taken;
                rest = &rest[taken.min(rest.len())..];
                link.check()?;
            }
            count += batch.len() as u64;
            let is_last = count == frames.len() as u64;
            let limit = if is_last { ROUND_LIMIT } else { BATCH_LIMIT };
            await_frames(&mut link, (number, count), limit, over)?;
        }
        if stage.counts {
            sent.push(count);
        }
    }
    let last = stages.len() as u32;
    // The tap goes with the emulator, which ends on its own once it was ordered to.
    while !over() && send_signal(&mut link, last).is_ok() {
        thread::sleep(LOOK * 10);
    }
    Ok(sent)
}

/// Opens the tap once the emulator has made it.
fn open_tap(tap: &str, over: &dyn Fn() -> bool) -> anyhow::Result<PacketLink> {
    while let Err(error) = switch_on(tap) {
        if over() {
            return Err(error.into());
        }
        thread::sleep(LOOK * 5);
    }
    Ok(open(tap)?)
}

/// Asks for a round again and again until the guest's device is set for it, or the guest has ended, which is an error.
fn await_round(link: &mut PacketLink, round: u32, over: &dyn Fn() -> bool) -> anyhow::Result<()> {
    let mut asked = None;
    while !hears(link, |signal| signal.round == round)? {
        check(over)?;
        if asked.is_none_or(|at: Instant| at.elapsed() > LOOK * 25) {
            send_signal(link, round)?;
            asked = Some(Instant::now());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits until the guest has seen so many frames of a round, or no further one for the limit: the sum of the looks, because
/// when the machine pauses the guest does, too.
fn await_frames(
    link: &mut PacketLink,
    (round, count): (u32, u64),
    limit: Duration,
    over: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let (mut seen, mut still) = (0, Duration::ZERO);
    loop {
        let began = Instant::now();
        hears(link, |signal| {
            if signal.round == round && signal.seen > seen {
                (seen, still) = (signal.seen, Duration::ZERO);
            }
            false
        })?;
        if u64::from(seen) >= count || still >= limit {
            return Ok(());
        }
        check(over)?;
        thread::sleep(LOOK);
        still += began.elapsed().min(LOOK * 10);
    }
}

fn check(over: &dyn Fn() -> bool) -> anyhow::Result<()> {
    match over() {
        true => Err(anyhow!("the guest ended before all frames were sent")),
        false => Ok(()),
    }
}

/// Receives a burst: whether such a signal is in it.
pub(super) fn hears(
    link: &mut PacketLink,
    mut wanted: impl FnMut(&Signal) -> bool,
) -> Result<bool, LinkError> {
    let burst = link.receive(1024)?;
    Ok(burst
        .iter()
        .filter_map(Signal::read)
        .any(|signal| wanted(&signal)))
}

fn send_signal(link: &mut PacketLink, round: u32) -> anyhow::Result<()> {
    let signal = Signal { round, seen: 0 };
    link.send([&signal.frame(true)[..]].into_iter())?;
    link.check()?;
    Ok(())
}

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
        merged: false,
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
        // The shortest frame of Ethernet.
        frame.resize(60, 0);
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
