//! The host's side of the traffic: sends each round's frames into the guest's tap, a batch at a time, and waits for the
//! guest to say that it has seen them.

use super::frames;
use super::plan::NicPlan;
use super::signal::{self, Signal};
use crate::error::LabError;
use corelane_host::bed::switch_on;
use corelane_link::Link;
use corelane_link::packet_socket::PacketLink;
use std::thread;
use std::time::{Duration, Instant};

/// Frames sent before the guest is waited for: well below the ring of one of its queues (256), since all may fall on
/// one.
const BATCH: usize = 48;

/// How long a batch may take to be seen before the next is sent anyway; what is missing then shows in the counts.
const BATCH_LIMIT: Duration = Duration::from_secs(3);

/// Poll interval.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for the tap, then sends all rounds, and orders the guest to end. Returns how many frames were sent in each
/// round that counts.
///
/// `over` returns whether the guest has ended.
pub(super) fn send(plan: &NicPlan, tap: &str, over: &dyn Fn() -> bool) -> Result<Vec<u64>, LabError> {
    let mut link = open(tap, over)?;
    let mut sent = Vec::new();
    let stages = plan.stages();
    for (number, stage) in stages.iter().enumerate() {
        let number = number as u32;
        let ready = |signal: &Signal| signal.round == number;
        await_signal(&mut link, Some(number), None, &ready, over)?;
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
            let seen = |signal: &Signal| signal.round == number && u64::from(signal.seen) >= count;
            await_signal(&mut link, None, Some(BATCH_LIMIT), &seen, over)?;
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

fn silent() -> LabError {
    LabError::Failed("the guest ended before all frames were sent".to_owned())
}

/// Opens the tap once the emulator has made it.
fn open(tap: &str, over: &dyn Fn() -> bool) -> Result<PacketLink, LabError> {
    while let Err(error) = switch_on(tap) {
        if over() {
            return Err(error.into());
        }
        thread::sleep(LOOK * 5);
    }
    Ok(signal::open(tap)?)
}

/// Waits for a signal of the guest; asks for a round again and again where one is named. Without a limit it waits until
/// the guest has ended, which is an error.
fn await_signal(
    link: &mut PacketLink,
    ask: Option<u32>,
    limit: Option<Duration>,
    wanted: &dyn Fn(&Signal) -> bool,
    over: &dyn Fn() -> bool,
) -> Result<(), LabError> {
    let started = Instant::now();
    let mut asked = None;
    loop {
        let burst = link.receive(1024)?;
        let heard = burst
            .iter()
            .filter_map(Signal::read)
            .any(|signal| wanted(&signal));
        if heard || limit.is_some_and(|limit| started.elapsed() > limit) {
            return Ok(());
        }
        if over() {
            return Err(silent());
        }
        let due = asked.is_none_or(|at: Instant| at.elapsed() > LOOK * 25);
        if let Some(round) = ask.filter(|_| due) {
            send_signal(link, round)?;
            asked = Some(Instant::now());
        }
        thread::sleep(LOOK);
    }
}

fn send_signal(link: &mut PacketLink, round: u32) -> Result<(), LabError> {
    let signal = Signal { round, seen: 0 };
    link.send([&signal.frame(true)[..]].into_iter())?;
    link.check()?;
    Ok(())
}
