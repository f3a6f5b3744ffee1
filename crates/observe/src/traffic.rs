//! Bytes moved by the memory controllers, machine-wide, if the hardware counts them.
//!
//! Intel's server CPUs count column accesses (CAS) of each memory channel, a line of 64 bytes each, and the kernel names
//! the counters `cas_count_read` and `cas_count_write` under `/sys/bus/event_source/devices/uncore_imc_*`. What Intel's
//! `pcm-memory` shows comes from them. A virtual machine hides them; AMD's controllers are counted by their own driver,
//! which names no events.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};

use crate::ObserveError;
use crate::perf::{Event, Privilege};

const DEVICES: &str = "/sys/bus/event_source/devices";
const EVENT: Event<'_> = Event {
    name: "memory traffic",
    needs: "a memory controller whose counters the kernel names cas_count_read and cas_count_write in \
            /sys/bus/event_source/devices (Intel's uncore_imc); virtual machines hide them",
    privilege: Privilege::WholeCpu,
};

/// Reads and writes.
const EVENTS: [&str; 2] = ["cas_count_read", "cas_count_write"];

/// Bytes of one column access: a cache line.
const ACCESS_BYTES: u64 = 64;

/// Counters of every channel.
#[derive(Debug)]
pub struct MemoryTraffic {
    /// For each of [`EVENTS`].
    counters: [Vec<Counter>; 2],
}

/// Bytes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedBytes {
    /// From memory.
    pub read: u64,
    /// To memory.
    pub written: u64,
}

impl MemoryTraffic {
    /// Counts from now on.
    ///
    /// # Errors
    /// [`ObserveError::Refused`] if no controller is counted, [`ObserveError::Forbidden`] without permission.
    pub fn start() -> Result<Self, ObserveError> {
        let missing = |cause: io::Error| EVENT.missing(&cause);
        let controllers = controllers(Path::new(DEVICES)).map_err(missing)?;
        if controllers.is_empty() {
            return Err(missing(io::ErrorKind::NotFound.into()));
        }
        let open = |event| -> Result<Vec<Counter>, ObserveError> {
            let counters = controllers.iter();
            counters.map(|(path, cpu)| open(path, *cpu, event)).collect()
        };
        Ok(Self {
            counters: [open(EVENTS[0])?, open(EVENTS[1])?],
        })
    }

    /// Bytes moved so far; `None` if the kernel did not report them.
    pub fn read(&mut self) -> Option<MovedBytes> {
        let [read, written] = self.counters.each_mut().map(|counters| {
            let counts = counters.iter_mut().map(|counter| counter.read().ok());
            Some(counts.sum::<Option<u64>>()? * ACCESS_BYTES)
        });
        Some(MovedBytes {
            read: read?,
            written: written?,
        })
    }
}

fn open(controller: &Path, cpu: u32, event: &str) -> Result<Counter, ObserveError> {
    let described = || -> io::Result<Dynamic> {
        let mut builder = Dynamic::builder(controller)?;
        builder.event(event)?.build().map_err(io::Error::other)
    };
    Builder::new(described().map_err(|cause| EVENT.missing(&cause))?)
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .include_hv()
        .enabled(true)
        .build()
        .map_err(|cause| EVENT.refused(&format!("CPU {cpu}"), &cause))
}

/// The channels under `devices` that have both events, once for each CPU of their `cpumask`, which has one CPU per package.
fn controllers(devices: &Path) -> io::Result<Vec<(PathBuf, u32)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(devices)? {
        let path = entry?.path();
        let mut events = EVENTS.iter().map(|event| path.join("events").join(event));
        if events.all(|event| event.exists()) {
            let cpus = fs::read_to_string(path.join("cpumask")).unwrap_or_default();
            let cpus = cpus.trim().split(',').filter_map(|cpu| cpu.parse().ok());
            found.extend(cpus.map(|cpu| (path.clone(), cpu)));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_is_counted_once_a_package_and_other_devices_are_not() {
        let root = std::env::temp_dir().join(format!("corelane-observe-traffic-{}", std::process::id()));
        let device = |name: &str, cpus: &str, events: &[&str]| {
            let path = root.join(name);
            fs::create_dir_all(path.join("events")).unwrap();
            fs::write(path.join("cpumask"), cpus).unwrap();
            for event in events {
                fs::write(path.join("events").join(event), "event=0x04\n").unwrap();
            }
            path
        };
        let both = ["cas_count_read", "cas_count_write"];
        let first = device("uncore_imc_0", "0,28\n", &both);
        device("uncore_imc_free_running", "0\n", &["read"]);
        let second = device("uncore_imc_1", "0\n", &both);
        let found = controllers(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap(), [(first.clone(), 0), (first, 28), (second, 0)]);
    }

    #[test]
    fn a_machine_that_does_not_count_says_what_it_takes() {
        match MemoryTraffic::start() {
            Ok(mut traffic) => assert!(traffic.read().is_some()),
            Err(error) => assert!(error.to_string().contains("memory traffic"), "{error}"),
        }
    }
}
