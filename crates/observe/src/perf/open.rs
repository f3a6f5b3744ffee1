//! One event, opened where it shall count, with the ring it writes to.

use nix::errno::Errno;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};

use super::permission::{Privilege, explain_map, explain_open};
use crate::ObserveError;

/// What to say when it cannot be opened, and how much memory its samples get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// The event's name for messages.
    pub event: &'a str,
    /// What a kernel without it lacks.
    pub needs: &'static str,
    /// Who may open it.
    pub privilege: Privilege,
    /// The size of the ring in bytes; a power of two.
    pub ring_bytes: usize,
}

/// Opens the event for one CPU, disabled, with samples of who, when, where and by which calls.
///
/// Times are of the monotonic clock, so that records of several rings can be put in order.
pub(crate) fn open(mut event: Builder<'_>, cpu: u32, terms: Terms<'_>) -> Result<Sampler, ObserveError> {
    event
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU | SampleFlag::CALLCHAIN)
        .clockid(Clock::MONOTONIC)
        .enabled(false)
        .read_format(ReadFormat::LOST);
    event.any_pid().one_cpu(cpu as usize);
    let counter = event
        .build()
        .or_else(|error| {
            // Linux before 6.0 does not count what each event lost: it says so in the ring only.
            match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINVAL) => event.read_format(ReadFormat::empty()).build(),
                _ => Err(error),
            }
        })
        .map_err(|cause| {
            explain_open(
                cause,
                terms.event,
                terms.needs,
                &format!("CPU {cpu}"),
                terms.privilege,
            )
        })?;
    counter
        .sampled(terms.ring_bytes)
        .map_err(|cause| explain_map(cause, terms.ring_bytes))
}
