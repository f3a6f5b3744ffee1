//! Receive side scaling in software: an XDP program sends each frame of a device to the CPU that the indirection table names
//! for its Toeplitz hash, before the host's stack handles it (Documentation/bpf/map_cpumap.rst).
//!
//! Input: a device and a [`Steering`], whose buckets name the CPUs. Output: the frames of each CPU, handled by a kernel thread
//! there, and their counts. The rule is replaced as a whole: every frame is hashed by one of the two. The program is attached by
//! a BPF link: when the last copy of that descriptor is closed, the kernel detaches it, also when the process is killed.
//!
//! The hash covers what a device with RSS covers: addresses, and ports of TCP and UDP for a 4-tuple; only the addresses of
//! fragments, since XDP cannot reassemble, and of other protocols. Frames that are not IP stay on the CPU that received them.

mod rule;

use crate::error::LinkError;
use crate::program::{self, Instruction};
use crate::system::bpf::{self, Kind, MapKind};
use crate::system::device;
use crate::xdp::XdpHook;
use crate::xdp::attach::{XDP, attach};
use corelane_rss::Steering;
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use std::{fs, io, thread};

/// `BPF_XDP_CPUMAP` of linux/bpf.h.
const ARRIVES: Kind = Kind { attached: 35, ..XDP };

/// Frames that wait for a CPU; further ones are lost.
const QUEUE: u32 = 2048;

/// Within this time a CPU handles some of the frames that wait for it.
const SETTLED: Duration = Duration::from_millis(20);

/// A device whose frames are steered. Dropping it detaches the program.
#[derive(Debug)]
pub struct SoftwareRss {
    device: String,
    index: u32,
    link: OwnedFd,
    maps: Maps,
    /// Those of all rules so far.
    buckets: usize,
}

/// Where the frames of a device went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssCounts {
    /// Frames sent to the CPU of each bucket.
    pub buckets: Vec<u64>,
    /// Frames without a readable IP header, which stayed on their CPU.
    pub not_hashed: u64,
    /// Frames that arrived on each CPU, by its number.
    pub arrived: Vec<u64>,
}

impl RssCounts {
    /// Frames lost because the queue of their CPU was full; while frames arrive, those under way as well.
    #[must_use]
    pub fn queue_full(&self) -> u64 {
        let [sent, arrived] = [&self.buckets, &self.arrived].map(|counts| counts.iter().sum::<u64>());
        sent.saturating_sub(arrived)
    }
}

/// By what the kernel names an attached program, and the link that keeps it attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssNumbers {
    /// The program.
    pub program: u32,
    /// The link.
    pub link: u32,
}

/// Whether frames are still steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RssState {
    /// They are.
    Attached,
    /// Another process detached the program.
    Detached,
    /// The device is gone.
    Gone,
}

impl SoftwareRss {
    /// Steers the frames of a device of the calling thread's network namespace. With `inner`, frames of tunnels (IP in IP, GRE,
    /// VXLAN, GENEVE) go by the packet inside. [`XdpHook::Auto`] runs the program in the driver, but behind that of `veth` and
    /// `tun`: in these, sending a frame to a CPU loses the mark that its checksum is unfinished.
    ///
    /// # Errors
    /// If there is no such device, it has a program already, a CPU is not online, the driver or the kernel (Linux 5.18) lacks
    /// what is needed, or a privilege is missing.
    pub fn attach(
        device: &str,
        steering: &Steering,
        inner: bool,
        hook: XdpHook,
    ) -> Result<SoftwareRss, LinkError> {
        let index = device::index(device)?;
        if cfg!(target_endian = "big") {
            let hint = "its program is compiled for little-endian machines";
            return Err(LinkError::unsupported(device, "software RSS", hint));
        }
        let mut maps = Maps::new().map_err(failed(device, "making its maps"))?;
        maps.set(device, steering, inner)?;
        let steers = maps.steers().map_err(failed(device, "loading the XDP program"))?;
        let hook = match hook {
            XdpHook::Auto if device::is_unfinished_in_driver(device) => XdpHook::Generic,
            hook => hook,
        };
        let link = attach(&steers, index, hook).map_err(failed(device, "attaching the XDP program"))?;
        Ok(SoftwareRss {
            device: device.to_owned(),
            index,
            link,
            maps,
            buckets: steering.table.buckets(),
        })
    }

    /// Replaces the rule; frames that wait for a CPU stay there.
    ///
    /// # Errors
    /// If a CPU is not online; the rule stays as it was.
    pub fn change(&mut self, steering: &Steering, inner: bool) -> Result<(), LinkError> {
        self.maps.set(&self.device, steering, inner)?;
        self.buckets = self.buckets.max(steering.table.buckets());
        Ok(())
    }

    /// The numbers by which the kernel names the program and the link.
    ///
    /// # Errors
    /// The kernel's.
    pub fn numbers(&self) -> io::Result<RssNumbers> {
        let info = bpf::link_info(&self.link)?;
        Ok(RssNumbers {
            program: info.program,
            link: info.link,
        })
    }

    /// Whether frames are still steered.
    ///
    /// # Errors
    /// The kernel's.
    pub fn state(&self) -> io::Result<RssState> {
        Ok(match bpf::link_info(&self.link)?.device {
            0 if device::index(&self.device).is_ok_and(|index| index == self.index) => RssState::Detached,
            0 => RssState::Gone,
            _ => RssState::Attached,
        })
    }

    /// The counts until now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self) -> io::Result<RssCounts> {
        self.maps.counts(self.buckets)
    }

    /// Detaches the program; the counts when the CPUs have handled what waited for them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(self) -> io::Result<RssCounts> {
        drop(self.link);
        let mut counts = self.maps.counts(self.buckets)?;
        // What was lost never arrives.
        while counts.queue_full() > 0 {
            thread::sleep(SETTLED);
            let before = counts.arrived;
            counts = self.maps.counts(self.buckets)?;
            if counts.arrived == before {
                break;
            }
        }
        Ok(counts)
    }
}

/// Detaches the link with this number ([`RssNumbers`]), whose process holds it.
///
/// # Errors
/// If there is none, or `CAP_SYS_ADMIN` is missing.
pub fn detach(link: u32) -> io::Result<()> {
    bpf::detach(link)
}

/// The maps of the programs, and the program of the CPUs.
#[derive(Debug)]
struct Maps {
    rules: OwnedFd,
    counts: OwnedFd,
    cpus: OwnedFd,
    arrived: OwnedFd,
    /// CPUs that the machine may have, which those of a map are.
    possible: usize,
    /// CPUs that have a queue.
    ready: BTreeSet<u32>,
}

impl Maps {
    fn new() -> io::Result<Maps> {
        let possible = possible_cpus()?;
        let count = size_of::<u64>();
        Ok(Maps {
            rules: bpf::map(MapKind::ArrayOfMaps, size_of::<RawFd>(), 1, Some(&rule_map()?))?,
            counts: bpf::map(MapKind::ArrayPerCpu, count, rule::COUNTS, None)?,
            // `struct bpf_cpumap_val`: the length of the queue, and the program.
            cpus: bpf::map(MapKind::Cpus, 2 * size_of::<u32>(), possible as u32, None)?,
            arrived: bpf::map(MapKind::ArrayPerCpu, count, 1, None)?,
            possible,
            ready: BTreeSet::new(),
        })
    }

    /// The programs, for these maps.
    fn programs(&self) -> [Vec<Instruction>; 2] {
        program::rss([&self.rules, &self.counts, &self.cpus, &self.arrived].map(AsRawFd::as_raw_fd))
    }

    /// Loads the program of the device.
    fn steers(&self) -> io::Result<OwnedFd> {
        bpf::load(XDP, b"corelane_rss\0\0\0\0", &self.programs()[0])
    }

    /// Sets the rule, after the queues of its CPUs.
    fn set(&mut self, device: &str, steering: &Steering, inner: bool) -> Result<(), LinkError> {
        let used = steering.table.entries().iter();
        let used: BTreeSet<u32> = used.map(|bucket| steering.cpus[bucket.index()]).collect();
        let new: Vec<u32> = used.difference(&self.ready).copied().collect();
        if !new.is_empty() {
            let arrives = bpf::load(ARRIVES, b"corelane_arrive\0", &self.programs()[1]);
            let arrives = arrives.map_err(failed(device, "loading the program of the CPUs"))?;
            let queue = [QUEUE, arrives.as_raw_fd() as u32].map(u32::to_ne_bytes);
            for cpu in new {
                bpf::update_map(&self.cpus, cpu, queue.as_flattened()).map_err(|cause| {
                    let what = format!("{device}: frames cannot be sent to CPU {cpu}: {cause}");
                    LinkError::Failed(what)
                })?;
                self.ready.insert(cpu);
            }
        }
        let set = || {
            let rule = rule_map()?;
            bpf::update_map(&rule, 0, &rule::bytes(steering, inner))?;
            bpf::update_map(&self.rules, 0, &rule.as_raw_fd().to_ne_bytes())
        };
        set().map_err(failed(device, "setting the rule"))
    }

    fn counts(&self, buckets: usize) -> io::Result<RssCounts> {
        let sum = |place| {
            let counts = bpf::counts_of(&self.counts, place, self.possible)?;
            Ok(counts.iter().sum())
        };
        Ok(RssCounts {
            buckets: (0..buckets as u32).map(sum).collect::<io::Result<_>>()?,
            not_hashed: sum(rule::NOT_HASHED)?,
            arrived: bpf::counts_of(&self.arrived, 0, self.possible)?,
        })
    }
}

/// A map of one rule.
fn rule_map() -> io::Result<OwnedFd> {
    bpf::map(MapKind::Array, rule::BYTES, 1, None)
}

/// CPUs that the machine may have: the number behind the last one of a list such as `0-3`.
fn possible_cpus() -> io::Result<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = list
        .trim()
        .rsplit(['-', ','])
        .next()
        .and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1)
        .ok_or_else(|| io::Error::other(format!("no list of CPUs: {list}")))
}

/// Classifies the error of a step.
fn failed(device: &str, step: &'static str) -> impl FnOnce(io::Error) -> LinkError {
    move |cause| match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LinkError::Unavailable(format!(
            "{device}: not permitted to attach an XDP program: it needs CAP_BPF and CAP_NET_ADMIN outside of user namespaces; \
             run as root"
        )),
        Some(libc::EBUSY) => LinkError::busy(
            device,
            "it has an XDP program already (see: ip -details link show)",
        ),
        Some(libc::EOPNOTSUPP) => {
            LinkError::unsupported(device, "XDP in the driver", "run the program behind the driver")
        }
        Some(libc::EINVAL | libc::ENOSYS | libc::ERANGE) => {
            let hint = format!(
                "{step}: {cause}; it needs Linux 5.18 with eBPF, and in the driver frames of one buffer: lower the MTU, or run the \
                 program behind the driver"
            );
            LinkError::unsupported(device, "software RSS", &hint)
        }
        _ => LinkError::Failed(format!("{device}: {step}: {cause}")),
    }
}

#[cfg(test)]
mod tests;
