//! Frames of a device as it receives them: a device enters, frames with its hash and queue leave, until the time is over.

use super::SourceArguments;
use crate::interrupt::Interrupt;
use crate::outcome::{CannotRun, usage};
use corelane_packet::verify::{Observed, Queue, Verifier};
use corelane_worker::received::{ReceiveError, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks: what comes meanwhile fits the sockets' buffers.
const LOOK: Duration = Duration::from_millis(5);

/// Gives every frame to the verifier; tells how many could not be told whole.
pub(super) fn take(device: &str, source: &SourceArguments, verifier: &mut Verifier) -> anyhow::Result<u64> {
    let interrupt = Interrupt::catch()?;
    let mut receiver = Receiver::new(device).map_err(|error| match error {
        error @ ReceiveError::NotPermitted => CannotRun(error.to_string()).into(),
        error @ ReceiveError::NoDevice { .. } => usage("--dev", error),
        error => error.into(),
    })?;
    let ends = Instant::now() + source.duration;
    let most = source.frames.unwrap_or(u64::MAX);
    let mut taken = 0;
    while taken < most && Instant::now() < ends && !interrupt.asked() {
        let drained = receiver.drain(|frame| {
            if taken >= most {
                return;
            }
            taken += 1;
            // Devices report zero where they did not hash.
            let hash = Some(frame.hash).filter(|hash| *hash != 0 && !source.ignore_hash);
            let observed = Observed {
                hash,
                queue: frame.queue.map(Queue),
                sequence: None,
            };
            verifier.frame(&frame.bytes, observed);
        })?;
        if drained == 0 {
            thread::sleep(LOOK);
        }
    }
    Ok(receiver.incomplete())
}
