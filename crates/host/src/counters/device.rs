//! Counters of one network device.

use super::kernel::kernel_counters;
use crate::HostError;
use crate::tree::Tree;

const NET_DEV: &str = "/proc/thread-self/net/dev";

kernel_counters! {
    /// Frames and bytes that a device received and sent. The kernel's names are those of `struct rtnl_link_stats64`, as
    /// `/proc/net/dev` folds them into columns (`dev_seq_printf_stats` in `net/core/net-procfs.c`).
    ///
    /// An unsegmented (GSO) frame that crosses veth counts as one frame, whatever it carries: count datagrams
    /// elsewhere.
    pub struct DeviceStatistics {
        /// Bytes received.
        rx_bytes: "rx_bytes",
        /// Frames received.
        rx_packets: "rx_packets",
        /// Frames received with an error.
        rx_errors: "rx_errors",
        /// Frames received and dropped, by the driver or above it; on veth also because the ring or backlog was full.
        rx_dropped: "rx_dropped + rx_missed_errors",
        /// Receive FIFO overruns.
        rx_fifo_errors: "rx_fifo_errors",
        /// Framing errors, length, overrun and checksum errors together.
        rx_frame_errors: "rx_length_errors + rx_over_errors + rx_crc_errors + rx_frame_errors",
        /// Multicast frames received.
        multicast: "multicast",
        /// Bytes sent.
        tx_bytes: "tx_bytes",
        /// Frames sent.
        tx_packets: "tx_packets",
        /// Frames not sent because of an error.
        tx_errors: "tx_errors",
        /// Frames dropped before they were sent.
        tx_dropped: "tx_dropped",
        /// Send FIFO underruns.
        tx_fifo_errors: "tx_fifo_errors",
    }
}

impl DeviceStatistics {
    /// Reads the counters of `device` in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] when that namespace has no such device, [`HostError::Read`] where `/proc` is not mounted.
    pub fn read(device: &str) -> Result<Self, HostError> {
        Self::parse(&Tree::machine().text(NET_DEV)?, device)
    }

    /// Parses one line of the text of `/proc/net/dev`.
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] for a device that is not in it, [`HostError::Failed`] for fewer or other than its 16
    /// numbers.
    pub fn parse(text: &str, device: &str) -> Result<Self, HostError> {
        let mut lines = text.lines().map(str::trim_start);
        let numbers = lines
            .find_map(|line| line.strip_prefix(device)?.strip_prefix(':'))
            .ok_or_else(|| HostError::missing(NET_DEV, format!("device {device}")))?;
        let columns = numbers.split_whitespace().map(|number| number.parse().ok());
        // Column 6 counts compressed frames, which no current device has.
        let counted = columns.enumerate().filter(|(column, _)| *column != 6);
        Self::in_order(counted.map(|(_, number)| number))
            .ok_or_else(|| HostError::format(format!("{NET_DEV} ({device})"), "16 numbers", numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3367      35    0    0    0     0          0         0     3367      35    0    0    0     0       0          0
eth0: 61492042    3006    1    2    3     4          5         6   288771    2263    7    8    9    10      11         12
eth0.7:1 2 3
";

    #[test]
    fn the_line_of_the_device_is_read_by_column() {
        assert_eq!(
            DeviceStatistics::parse(TEXT, "eth0").unwrap(),
            DeviceStatistics {
                rx_bytes: 61_492_042,
                rx_packets: 3006,
                rx_errors: 1,
                rx_dropped: 2,
                rx_fifo_errors: 3,
                rx_frame_errors: 4,
                multicast: 6,
                tx_bytes: 288_771,
                tx_packets: 2263,
                tx_errors: 7,
                tx_dropped: 8,
                tx_fifo_errors: 9,
            }
        );
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        for absent in ["eth", "eth1", "face"] {
            let refusal = DeviceStatistics::parse(TEXT, absent).unwrap_err().to_string();
            assert!(refusal.contains(&format!("no device {absent}")), "{refusal}");
        }
    }

    #[test]
    fn too_few_numbers_are_an_error() {
        let refusal = DeviceStatistics::parse(TEXT, "eth0.7").unwrap_err().to_string();
        assert!(refusal.contains("16 numbers"), "{refusal}");
    }

    #[test]
    fn the_loopback_device_receives_what_it_sends() {
        let lo = DeviceStatistics::read("lo").unwrap();
        assert_eq!((lo.rx_packets, lo.rx_bytes), (lo.tx_packets, lo.tx_bytes));
    }
}
