//! From what the kernel answers to what a person can do about it.
//!
//! What enters: the error of a system call. What leaves: an [`ObserveError`] with the sysctls at fault, as they are now.

use std::fs;
use std::io;

use nix::errno::Errno;

use crate::ObserveError;

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const MLOCK_KB: &str = "/proc/sys/kernel/perf_event_mlock_kb";

/// The highest `kernel.perf_event_paranoid` that lets everybody sample as asked, by the kernel's documentation
/// (`Documentation/admin-guide/sysctl/kernel.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    Tracepoint = -1,
    WholeCpu = 0,
    UserOfProcess = 2,
}

/// Why `perf_event_open(2)` failed for `event` of `place`.
pub(crate) fn explain_open(
    cause: io::Error,
    event: &str,
    needs: &'static str,
    place: &str,
    privilege: Privilege,
) -> ObserveError {
    let what = format!("{event} of {place}");
    match cause.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EACCES | Errno::EPERM) => ObserveError::Forbidden {
            what,
            paranoid: read_or_unknown(PARANOID),
            needed: privilege as i32,
            hint: "; a container may forbid perf_event_open(2) besides (seccomp profile)",
        },
        Some(Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            ObserveError::MissingEvent {
                event: event.to_owned(),
                needs,
                cause,
            }
        }
        _ => ObserveError::Refused { what, cause },
    }
}

/// Why a ring could not be mapped.
pub(crate) fn explain_map(cause: io::Error, bytes: usize) -> ObserveError {
    ObserveError::RingMemory {
        bytes,
        mlock_kb: read_or_unknown(MLOCK_KB),
        cause,
    }
}

fn read_or_unknown(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "not readable".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_sysctl_and_the_capability() {
        let error = explain_open(
            Errno::EACCES.into(),
            "cpu-clock",
            "CONFIG_PERF_EVENTS",
            "CPU 1",
            Privilege::WholeCpu,
        );
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
        let error = explain_open(
            Errno::ENOENT.into(),
            "cycles",
            "a hardware counter",
            "CPU 0",
            Privilege::WholeCpu,
        );
        assert!(error.to_string().contains("needs a hardware counter"), "{error}");
    }
}
