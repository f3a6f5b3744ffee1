//! What is read around a trial: the counters of both sides of the bed, the CPUs, and the server's process.

use crate::child::ServerProcess;
use corelane_host::HostError;
use corelane_host::bed::{Bed, Side};
use corelane_host::counters::{
    ClockRate, ContextSwitches, CpuTimes, DeviceStatistics, ProcessCpu, Switches, UdpStatistics,
};
use std::time::Duration;

/// How long the effective clock is measured: long enough for 1 % with a 4 kHz timer's interruptions, and outside the trial.
const CLOCK_MEASUREMENT: Duration = Duration::from_millis(2);

/// Everything read at one moment.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) server: SideReading,
    pub(super) client: SideReading,
    pub(super) cpus: CpuTimes,
    pub(super) server_process: ProcessCpu,
    pub(super) server_switches: Switches,
    pub(super) clock: ClockRate,
}

/// The counters of one side's namespace.
#[derive(Debug, Clone, Copy)]
pub(super) struct SideReading {
    pub(super) udp: UdpStatistics,
    pub(super) device: DeviceStatistics,
}

impl Reading {
    /// Reads everything. The sides come first and last the CPUs, so that the experiment's own reading is in no trial.
    pub(super) fn take(bed: &Bed, server: &ServerProcess) -> Result<Self, HostError> {
        Ok(Self {
            server: SideReading::take(&bed.server)?,
            client: SideReading::take(&bed.client)?,
            server_process: ProcessCpu::read(server.pid())?,
            server_switches: ContextSwitches::read(server.pid())?.total(),
            clock: ClockRate::measure(CLOCK_MEASUREMENT),
            cpus: CpuTimes::read()?,
        })
    }
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

    /// What was counted since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            udp: self.udp.since(&earlier.udp),
            device: self.device.since(&earlier.device),
        }
    }

    /// Frames that the device received and that neither UDP nor IP has told the end of: they are in socket buffers, where
    /// Linux counts them only when they are read.
    pub(super) fn queued(&self) -> u64 {
        let ip = self.udp.ip_total();
        let ended = self.udp.total().arrived() + ip.in_header_errors + ip.in_discards;
        self.device.rx_packets.saturating_sub(ended)
    }
}
