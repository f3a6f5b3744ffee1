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
         `sysctl kernel.perf_event_paranoid={needed}`{hint}"
    )]
    Forbidden {
        /// What was to be observed.
        what: String,
        /// The value of the sysctl, or that it could not be read.
        paranoid: String,
        /// The highest value with which it is permitted to everybody.
        needed: i32,
        /// What else may stand in the way; empty or begins with "; ".
        hint: &'static str,
    },

    /// The kernel does not support the event.
    #[error("this kernel cannot count {event}: {cause}; it needs {needs}")]
    MissingEvent {
        /// The event asked for.
        event: String,
        /// The kernel version or option that brings it.
        needs: &'static str,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },

    /// The kernel denied the memory for samples.
    #[error(
        "cannot map {bytes} bytes of samples: {cause}; raise `sysctl kernel.perf_event_mlock_kb` (now {mlock_kb}) or \
         `ulimit -l`, or grant CAP_IPC_LOCK"
    )]
    RingMemory {
        /// The size of one ring.
        bytes: usize,
        /// The value of the sysctl, or that it could not be read.
        mlock_kb: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },

    /// tracefs is not accessible.
    #[error(
        "cannot read the tracepoint {event} in tracefs: {cause}; \
         `mount -t tracefs tracefs /sys/kernel/tracing` and let this user read it, or run as root"
    )]
    Tracefs {
        /// The tracepoint asked for.
        event: String,
        /// The kernel's error for the last path tried.
        #[source]
        cause: io::Error,
    },

    /// The format of a tracepoint is not as documented.
    #[error("the format of tracepoint {event} lacks {field}: this kernel writes it differently")]
    TracepointFormat {
        /// The tracepoint.
        event: String,
        /// The line that is missing.
        field: &'static str,
    },

    /// The process to be observed has ended or never existed.
    #[error("process {process} cannot be observed: {cause}; it must run for as long as it is observed")]
    NoProcess {
        /// The process asked for.
        process: u32,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },

    /// There is nothing to observe.
    #[error("no CPU to observe: name at least one")]
    NoTarget,

    /// The collecting thread could not be started, or failed.
    #[error("the collecting thread failed: {cause}")]
    Collector {
        /// What happened.
        #[source]
        cause: io::Error,
    },

    /// The counters of the receive path could not be read.
    #[error("cannot watch the receive path: {cause}")]
    Softnet {
        /// The error.
        #[from]
        cause: HostError,
    },

    /// Any other kernel error.
    #[error("cannot observe {what}: {cause}")]
    Refused {
        /// What was to be observed.
        what: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
}
