//! What both ends of a bed counted: readings of their kernels before and after a trial.

use corelane_host::HostError;
use corelane_host::bed::{Bed, Side};
use corelane_host::counters::{DeviceStatistics, Softnet, UdpStatistics};

corelane_measure::counters! {
    /// What both sides counted up to one moment, or between two.
    #[derive(Debug, Clone, Copy)]
    pub(in crate::scale) struct Sides {
        pub(in crate::scale) server: SideReading,
        pub(in crate::scale) client: SideReading,
        /// Frames that the CPUs' backlogs refused, of both sides and of all other devices of the machine.
        pub(in crate::scale) backlog_dropped: u64,
    }
}

corelane_measure::counters! {
    /// The counters of one side's namespace.
    #[derive(Debug, Clone, Copy)]
    pub(in crate::scale) struct SideReading {
        pub(in crate::scale) udp: UdpStatistics,
        pub(in crate::scale) device: DeviceStatistics,
    }
}

impl Sides {
    /// Reads both sides.
    pub(in crate::scale) fn take(bed: &Bed) -> Result<Self, HostError> {
        Ok(Self {
            server: SideReading::take(&bed.server)?,
            client: SideReading::take(&bed.client)?,
            // If this is unavailable, these frames are counted as device drops.
            backlog_dropped: Softnet::read().map_or(0, |softnet| softnet.total().dropped),
        })
    }
}

impl SideReading {
    /// Reads the counters of the side's namespace and device.
    pub(in crate::scale) fn take(side: &Side) -> Result<Self, HostError> {
        let device = side.device().to_owned();
        side.run(move || {
            Ok(Self {
                udp: UdpStatistics::read()?,
                device: DeviceStatistics::read(&device)?,
            })
        })
    }

    /// Frames that the device received, less ICMP's own messages: those are the kernel's, not the experiment's.
    pub(in crate::scale) fn received(&self) -> u64 {
        self.device.rx_packets.saturating_sub(self.udp.icmp_received)
    }

    /// Of `received`, those that neither UDP nor IP has counted: they are in socket buffers, and Linux counts them only
    /// when they are read.
    pub(in crate::scale) fn queued(&self, received: u64) -> u64 {
        let ip = self.udp.ip_total();
        received.saturating_sub(self.udp.total().arrived() + ip.in_header_errors + ip.in_discards)
    }
}
