//! Why the machine cannot be observed. Each message names what to allow, mount or build in; a caller prints it and
//! continues without the observation.

use std::io;

use corelane_host::HostError;
use thiserror::Error;

/// Why an observation cannot be made.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// The kernel does not permit this process to observe.
    #[error(
        "not permitted to observe {what}: kernel.perf_event_paranoid is {paranoid} and this needs {needed} or less; \
         run as root, or grant CAP_PERFMON (`setcap cap_perfmon+ep` on the binary), or \
         `sysctl kernel.perf_event_paranoid={needed}`; a container may forbid perf_event_open(2) besides (seccomp \
         profile)"
    )]
    Forbidden {
        /// What was to be observed.
        what: String,
        /// The value of the sysctl, or that it could not be read.
        paranoid: String,
        /// The highest value with which it is permitted to everybody.
        needed: i32,
    },

    /// tracefs is not accessible.
    #[error(
        "cannot read the tracepoint {event} in tracefs: {cause}; \
         `mount -t tracefs tracefs /sys/kernel/tracing` and let this user read it, or run as root"
    )]
    Tracefs {
        /// The tracepoint.
        event: String,
        /// The kernel's error for the last path tried.
        #[source]
        cause: io::Error,
    },

    /// The counters of the receive path could not be read.
    #[error("cannot watch the receive path: {0}")]
    Softnet(#[from] HostError),

    /// Anything else, as one sentence: an event that the kernel does not have, a process that ended, no CPU, no memory.
    #[error("{0}")]
    Refused(String),
}

impl ObserveError {
    pub(crate) fn no_cpu() -> Self {
        Self::Refused("no CPU to observe: name at least one".to_owned())
    }
}
