//! The host's side of the traffic: sends each round's frames into the guest's tap, a batch at a time, and waits for the guest
//! to say that it has seen them.

use super::frames;
use super::plan::NicPlan;
use super::run::NicError;
use super::signal::Signal;
use corelane_host::bed::switch_on;
use corelane_link::packet_socket::{self, Fanout, PacketLink, PacketOptions};
use corelane_link::{FrameLayout, Link};
use std::thread;
use std::time::{Duration, Instant};

/// Frames sent before the guest is waited for: well below the ring of one of its queues (256), since all may fall on one.
const BATCH: usize = 48;

/// How long a batch may take to be seen before the next is sent anyway; what is missing then shows in the counts.
const BATCH_LIMIT: Duration = Duration::from_secs(3);

/// How often is looked.
const LOOK: Duration = Duration::from_millis(2);

/// Waits for the tap, then sends all rounds, and tells the guest to end. Returns how many frames were sent in each round that
/// counts.
///
/// `over` says when the guest has ended, so that nobody waits for it.
pub(super) fn send(plan: &NicPlan, tap: &str, over: &dyn Fn() -> bool) -> Result<Vec<u64>, NicError> {
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
    // The tap goes with the emulator, which ends on its own once it was told.
    while !over() && tell(&mut link, last).is_ok() {
        thread::sleep(LOOK * 10);
    }
    Ok(sent)
}

/// Opens the tap once the emulator has made it.
fn open(tap: &str, over: &dyn Fn() -> bool) -> Result<PacketLink, NicError> {
    let options = PacketOptions {
        queues: 1,
        fanout: Fanout::default(),
        layout: FrameLayout::default(),
        promiscuous: false,
    };
    loop {
        match switch_on(tap) {
            Ok(()) => break,
            Err(error) if over() => return Err(error.into()),
            Err(_) => thread::sleep(LOOK * 5),
        }
    }
    let opened = packet_socket::open(tap, &options)?;
    opened.into_iter().next().ok_or(NicError::Silent)
}

/// Waits for a signal of the guest; asks for a round again and again where one is named. Without a limit it waits until the
/// guest has ended, which is an error.
fn await_signal(
    link: &mut PacketLink,
    ask: Option<u32>,
    limit: Option<Duration>,
    wanted: &dyn Fn(&Signal) -> bool,
    over: &dyn Fn() -> bool,
) -> Result<(), NicError> {
    let started = Instant::now();
    let mut asked = None;
    loop {
        let burst = link.receive(1024)?;
        if burst
            .iter()
            .filter_map(Signal::read)
            .any(|signal| wanted(&signal))
        {
            return Ok(());
        }
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            return Ok(());
        }
        if over() {
            return Err(NicError::Silent);
        }
        let due = asked.is_none_or(|at: Instant| at.elapsed() > LOOK * 25);
        if let Some(round) = ask.filter(|_| due) {
            tell(link, round)?;
            asked = Some(Instant::now());
        }
        thread::sleep(LOOK);
    }
}

fn tell(link: &mut PacketLink, round: u32) -> Result<(), NicError> {
    let signal = Signal { round, seen: 0 };
    link.send([&signal.frame(true)[..]].into_iter())?;
    link.check()?;
    Ok(())
}
