//! Frames of a device as it receives them: a device enters, frames with its hash and queue leave, until the time is over.

use super::SourceArguments;
use crate::interrupt::Interrupt;
use crate::outcome::{CannotRun, usage};
use corelane_packet::verify::{Observed, Queue, Verifier};
use corelane_worker::WatchError;
use corelane_worker::received::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks: what comes meanwhile fits the sockets' buffers.
const LOOK: Duration = Duration::from_millis(5);

/// What was read of a device besides its frames.
pub(super) struct Taken {
    /// Frames that could not be told whole.
    pub(super) incomplete: u64,
    /// Why reading ended before its time; none where it did not.
    pub(super) ended_because: Option<String>,
}

/// Gives every frame to the verifier. A device that goes meanwhile ends it, and what was read until then counts.
pub(super) fn take(device: &str, source: &SourceArguments, verifier: &mut Verifier) -> anyhow::Result<Taken> {
    let interrupt = Interrupt::catch()?;
    let mut receiver = Receiver::new(device).map_err(|error| match error {
        error @ WatchError::NotPermitted => CannotRun(error.to_string()).into(),
        error @ WatchError::NoDevice { .. } => usage("--dev", error),
        error => error.into(),
    })?;
    let ends = Instant::now() + source.duration;
    let most = source.frames.unwrap_or(u64::MAX);
    let (mut taken, mut ended_because) = (0, None);
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
        });
        match drained {
            Ok(0) => thread::sleep(LOOK),
            Ok(_) => {}
            Err(error) => {
                ended_because = Some(format!("{device} can no longer be read: {error}"));
                break;
            }
        }
    }
    Ok(Taken {
        incomplete: receiver.incomplete(),
        ended_because,
    })
}
