//! What is read around a trial: the counters of both sides of the bed, the CPUs, and the server's process.

use corelane_host::HostError;
use corelane_host::bed::{Bed, Side};
use corelane_host::conditions::{self, Condition};
use corelane_host::counters::{
    ClockRate, CpuTimes, DeviceStatistics, ProcessCpu, Softnet, Switches, UdpStatistics,
};
use std::thread;
use std::time::Duration;

/// How long the effective clock is measured: long enough for 1 % with a 4 kHz timer's interruptions, and outside the
/// trial.
const CLOCK_MEASUREMENT: Duration = Duration::from_millis(2);

/// What both sides counted up to one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub(super) server: SideReading,
    pub(super) client: SideReading,
    /// Frames that the CPUs' backlogs refused, of both sides and of all other devices of the machine.
    pub(super) backlog_dropped: u64,
}

/// What the CPUs and the two processes did up to one moment.
#[derive(Debug, Clone)]
pub(super) struct Spent {
    pub(super) cpus: CpuTimes,
    pub(super) server_process: ProcessCpu,
    pub(super) generator_process: ProcessCpu,
    pub(super) server_switches: Switches,
}

/// The counters of one side's namespace.
#[derive(Debug, Clone, Copy)]
pub(super) struct SideReading {
    pub(super) udp: UdpStatistics,
    pub(super) device: DeviceStatistics,
}

impl Sides {
    /// Reads both sides.
    pub(super) fn take(bed: &Bed) -> Result<Self, HostError> {
        Ok(Self {
            server: SideReading::take(&bed.server)?,
            client: SideReading::take(&bed.client)?,
            // If this is unavailable, these frames are counted as device drops.
            backlog_dropped: Softnet::read().map_or(0, |softnet| softnet.total().dropped),
        })
    }
}

impl Spent {
    /// What others did to the CPUs since `earlier`: the time that other programs took, and the time that was stolen.
    pub(super) fn by_others(&self, earlier: &Self) -> Vec<Condition> {
        let server = self.server_process.since(&earlier.server_process).total_ns;
        let generator = self.generator_process.since(&earlier.generator_process).total_ns;
        let own = Duration::from_nanos(server + generator);
        conditions::during(&earlier.cpus, &self.cpus, own)
    }

    /// Reads the CPUs and both processes.
    pub(super) fn take(server: u32, generator: u32) -> Result<Self, HostError> {
        Ok(Self {
            server_process: ProcessCpu::read(server)?,
            generator_process: ProcessCpu::read(generator)?,
            server_switches: Switches::read(server)?,
            cpus: CpuTimes::read()?,
        })
    }
}

/// The clock at which `cpu` runs now, which is to say right after load: measured on a thread that is pinned there.
pub(super) fn clock(cpu: u32) -> ClockRate {
    let measure = move || {
        // Measured elsewhere, it still says on which CPU.
        let _ = corelane_host::pin::current_thread(cpu);
        ClockRate::measure(CLOCK_MEASUREMENT)
    };
    thread::scope(|scope| scope.spawn(measure).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl SideReading {
    /// Reads the counters of the side's namespace and device.
    pub(super) fn take(side: &Side) -> Result<Self, HostError> {
        let device = side.device().to_owned();
        side.run(move || {
            Ok(Self {
                udp: UdpStatistics::read()?,
                device: DeviceStatistics::read(&device)?,
            })
        })
    }

    /// Frames that the device received, less ICMP's own messages: those are the kernel's, not the experiment's.
    pub(super) fn received(&self) -> u64 {
        self.device.rx_packets.saturating_sub(self.udp.icmp_received)
    }

    /// What was counted since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            udp: self.udp.since(&earlier.udp),
            device: self.device.since(&earlier.device),
        }
    }

    /// Frames that the device received and that neither UDP nor IP has counted: they are in socket buffers, and Linux
    /// counts them only when they are read.
    pub(super) fn queued(&self) -> u64 {
        let ip = self.udp.ip_total();
        let ended =
            self.udp.total().arrived() + ip.in_header_errors + ip.in_discards + self.udp.icmp_received;
        self.device.rx_packets.saturating_sub(ended)
    }
}
