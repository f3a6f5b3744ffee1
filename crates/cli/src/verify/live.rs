//! Live frames of a device, with hash and queue, read until the duration elapses.

use super::{SourceArguments, Taken};
use crate::interrupt::Interrupt;
use crate::outcome::{cannot_run, usage};
use crate::progress::Steps;
use corelane_host::inventory::SoftwareRss;
use corelane_measure::quantity;
use corelane_packet::ethernet::EtherType;
use corelane_packet::verify::{Observed, Queue, Verifier};
use corelane_packet::{Dissection, tunnel};
use corelane_worker::WatchError;
use corelane_worker::received::Receiver;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval. The sockets' buffers hold the frames that arrive meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// Time between two displays of progress.
const BETWEEN_SHOWN: Duration = Duration::from_millis(250);

/// Passes every frame to the verifier, with the CPU as its queue if the device is steered by `rss`. If the device disappears,
/// reading ends and the frames read so far count.
pub(super) fn take(
    device: &str,
    source: &SourceArguments,
    rss: Option<&SoftwareRss>,
    verifier: &mut Verifier,
) -> anyhow::Result<Taken> {
    let interrupt = Interrupt::catch()?;
    let mut receiver = Receiver::new(device).map_err(|error| match error {
        error @ WatchError::NotPermitted => cannot_run(error),
        error @ WatchError::NoDevice { .. } => usage("--dev", error),
        error => error.into(),
    })?;
    let ends = Instant::now() + source.duration;
    let most = source.frames.unwrap_or(u64::MAX);
    let (mut taken, mut ended_because) = (0, None);
    let (begun, length) = (Instant::now(), source.duration.as_secs());
    let mut steps = Steps::begin(length);
    let mut shown = begun;
    while taken < most && Instant::now() < ends && !interrupt.asked() {
        let drained = receiver.drain(|frame| {
            if taken >= most {
                return;
            }
            taken += 1;
            // A hash of zero means that the device did not hash the frame.
            let hash = Some(frame.hash).filter(|hash| *hash != 0 && !source.ignore_hash && rss.is_none());
            let queue = rss.map_or(frame.queue, |_| Some(frame.cpu as u16));
            let observed = Observed {
                hash,
                queue: queue.map(Queue),
                sequence: None,
            };
            match rss.filter(|rss| rss.inner).and_then(|_| inside(&frame.bytes)) {
                Some(inner) => verifier.frame(&inner, observed),
                None => verifier.frame(&frame.bytes, observed),
            }
        });
        if shown.elapsed() >= BETWEEN_SHOWN {
            shown = Instant::now();
            let passed = begun.elapsed().as_secs().min(length);
            steps.done(passed, length, &format!("{} frames", quantity::count(taken)));
        }
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
        incomplete: Some(receiver.incomplete()),
        ended_because,
        ..Taken::default()
    })
}

/// A frame with the packet inside of a tunnel.
fn inside(frame: &[u8]) -> Option<Vec<u8>> {
    let inner = tunnel::inner(&Dissection::of(frame).ok()?)?;
    let ether_type = match inner.source() {
        IpAddr::V4(_) => EtherType::IPV4,
        IpAddr::V6(_) => EtherType::IPV6,
    };
    let packet = &frame[inner.network_offset()..inner.packet_end()];
    Some([&[0; 12], &ether_type.0.to_be_bytes()[..], packet].concat())
}
