//! Opens an event where it counts, with the ring that it writes to, and explains the kernel's refusals with the sysctls at
//! fault.

use std::fs;
use std::io;

use nix::errno::Errno;
use perf_event::{Builder, Clock, ReadFormat, SampleFlag, Sampler};

use crate::ObserveError;

/// The highest `kernel.perf_event_paranoid` that permits everybody this kind of sampling
/// (`Documentation/admin-guide/sysctl/kernel.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Tracepoint = -1,
    WholeCpu = 0,
    UserOfProcess = 2,
}

/// An event as messages describe it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub name: &'a str,
    /// What a kernel without it lacks.
    pub needs: &'static str,
    pub privilege: Privilege,
}

impl Event<'_> {
    /// Why `perf_event_open(2)` failed for the event of `place`.
    pub(crate) fn refused(&self, place: &str, cause: &io::Error) -> ObserveError {
        let what = format!("{} of {place}", self.name);
        match cause.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EACCES | Errno::EPERM) => ObserveError::Forbidden {
                what,
                paranoid: setting("perf_event_paranoid"),
                needed: self.privilege as i32,
            },
            Some(Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::ENOSYS) => self.missing(cause),
            _ => ObserveError::Refused(format!("cannot observe {what}: {cause}")),
        }
    }

    /// The kernel does not have the event.
    pub(crate) fn missing(&self, cause: &io::Error) -> ObserveError {
        let Self { name, needs, .. } = self;
        ObserveError::Refused(format!(
            "this kernel cannot count {name}: {cause}; it needs {needs}"
        ))
    }
}

fn setting(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    text.map_or_else(|_| "not readable".to_owned(), |text| text.trim().to_owned())
}

/// Opens the event for one CPU, disabled, with a ring of `ring_bytes` (a power of two) of samples that have thread, time,
/// CPU and call chain.
///
/// Times are of the monotonic clock, so that records of several rings can be sorted.
pub(crate) fn open(
    mut builder: Builder<'_>,
    cpu: u32,
    event: Event<'_>,
    ring_bytes: usize,
) -> Result<Sampler, ObserveError> {
    builder
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU | SampleFlag::CALLCHAIN)
        .clockid(Clock::MONOTONIC)
        .enabled(false)
        .read_format(ReadFormat::LOST);
    builder.any_pid().one_cpu(cpu as usize);
    let counter = builder
        .build()
        .or_else(|error| {
            // Linux before 6.0 does not count the lost samples of each event; only the ring reports them.
            match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINVAL) => builder.read_format(ReadFormat::empty()).build(),
                _ => Err(error),
            }
        })
        .map_err(|cause| event.refused(&format!("CPU {cpu}"), &cause))?;
    counter.sampled(ring_bytes).map_err(|cause| {
        ObserveError::Refused(format!(
            "cannot map {ring_bytes} bytes of samples: {cause}; raise `sysctl kernel.perf_event_mlock_kb` (now {}) or \
             `ulimit -l`, or grant CAP_IPC_LOCK",
            setting("perf_event_mlock_kb")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event<'a>(name: &'a str, needs: &'static str) -> Event<'a> {
        Event {
            name,
            needs,
            privilege: Privilege::WholeCpu,
        }
    }

    #[test]
    fn a_refusal_names_the_sysctl_and_the_capability() {
        let error = event("cpu-clock", "CONFIG_PERF_EVENTS").refused("CPU 1", &Errno::EACCES.into());
        let text = error.to_string();
        for part in [
            "cpu-clock of CPU 1",
            "kernel.perf_event_paranoid=0",
            "CAP_PERFMON",
        ] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }

    #[test]
    fn an_absent_event_says_what_brings_it() {
        let error = event("cycles", "a hardware counter").refused("CPU 0", &Errno::ENOENT.into());
        assert!(error.to_string().contains("needs a hardware counter"), "{error}");
    }
}
