//! Receive-path counters per CPU: the table of `/proc/net/softnet_stat`.

use corelane_measure::counters::Counters;
use serde::{Deserialize, Serialize};

use super::kernel::kernel_counters;
use crate::HostError;
use crate::tree::Tree;

const SOFTNET_STAT: &str = "/proc/net/softnet_stat";

kernel_counters! {
    /// The receive path of one CPU, over all network namespaces. The kernel's names are those of `struct softnet_data`.
    pub struct CpuSoftnet {
        /// Frames handled.
        processed: "processed",
        /// Frames dropped because the CPU's backlog was full (`net.core.netdev_max_backlog`).
        dropped: "dropped",
        /// Times the CPU ran out of budget or time with work left (`net.core.netdev_budget`).
        time_squeeze: "time_squeeze",
        /// Times another CPU woke this one to handle frames (RPS).
        received_rps: "received_rps",
        /// Frames dropped by the per-flow limit of the backlog.
        flow_limit: "flow_limit_count",
    }
}

/// The receive paths of all CPUs online.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Softnet {
    /// One entry per CPU, by ascending id.
    pub cpus: Vec<SoftnetOfCpu>,
}

/// One CPU's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoftnetOfCpu {
    /// The CPU.
    pub cpu: u32,
    /// Its counters.
    pub counters: CpuSoftnet,
    /// Frames waiting in its backlog at the time of reading; not a counter. `None` before Linux 5.10.
    pub backlog: Option<u64>,
}

impl Softnet {
    /// Reads the table of this machine.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] if the file does not exist, [`HostError::Failed`] if it is not as documented.
    pub fn read() -> Result<Self, HostError> {
        Self::parse(&Tree::machine().text(SOFTNET_STAT)?)
    }

    /// Parses `/proc/net/softnet_stat`: one line per online CPU, hexadecimal columns. Columns 0, 1, 2, 9 and 10 are the
    /// counters, 11 the backlog and 12 the CPU (`softnet_seq_show` in `net/core/net-procfs.c`). Older kernels end
    /// before column 12; the line number is then used as the CPU, which is correct if all CPUs are online.
    ///
    /// # Errors
    ///
    /// [`HostError::Failed`] for a line with fewer than 9 columns or with other than hexadecimal numbers.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let mut cpus = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let malformed = || HostError::format(SOFTNET_STAT, "9 or more hexadecimal numbers", line);
            cpus.push(line_of_cpu(number, line).ok_or_else(malformed)?);
        }
        cpus.sort_by_key(|entry| entry.cpu);
        Ok(Self { cpus })
    }

    /// The sum over all CPUs.
    pub fn total(&self) -> CpuSoftnet {
        Counters::sum(self.cpus.iter().map(|entry| entry.counters))
    }
}

fn line_of_cpu(number: usize, line: &str) -> Option<SoftnetOfCpu> {
    let columns = line.split_whitespace();
    let columns = columns.map(|column| u64::from_str_radix(column, 16).ok());
    let columns: Vec<u64> = columns.collect::<Option<_>>()?;
    let column = |index: usize| columns.get(index).copied();
    let counters = [0, 1, 2, 9, 10].map(|index| column(index).or((columns.len() >= 9).then_some(0)));
    Some(SoftnetOfCpu {
        cpu: u32::try_from(column(12).unwrap_or(number as u64)).ok()?,
        counters: CpuSoftnet::in_order(counters.into_iter())?,
        backlog: column(11),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
00000bc9 00000002 00000003 00000000 00000000 00000000 00000000 00000000 00000000 0000000a 0000000b 0000000c 00000003 00000001 0000000b
00000018 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
";

    #[test]
    fn lines_are_read_by_column_and_belong_to_the_cpu_they_name() {
        let read = Softnet::parse(TEXT).unwrap();
        assert_eq!(
            read.cpus.iter().map(|entry| entry.cpu).collect::<Vec<_>>(),
            [0, 3]
        );
        let entry = read.cpus[1];
        assert_eq!(
            entry.counters,
            CpuSoftnet {
                processed: 0xbc9,
                dropped: 2,
                time_squeeze: 3,
                received_rps: 10,
                flow_limit: 11,
            }
        );
        assert_eq!(entry.backlog, Some(12));
        assert_eq!(read.total().processed, 0xbc9 + 0x18);
    }

    #[test]
    fn tables_of_older_kernels_are_read_by_line() {
        let read = Softnet::parse("1 0 0 0 0 0 0 0 0\n2 0 0 0 0 0 0 0 0 4 5\n").unwrap();
        assert_eq!(read.cpus[0].counters.processed, 1);
        assert_eq!((read.cpus[1].cpu, read.cpus[1].counters.received_rps), (1, 4));
        assert_eq!(read.cpus[1].backlog, None);
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        for text in ["1 2 3", "x 0 0 0 0 0 0 0 0"] {
            assert!(Softnet::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_datagram_over_loopback_is_processed() {
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = Softnet::read().unwrap();
        receiver.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        receiver.recv(&mut [0; 8]).unwrap();
        let after = Softnet::read().unwrap().total();
        assert!(after.since(&before.total()).processed >= 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([0-9a-f]{1,20} ){0,16}\n?") {
            let _ = Softnet::parse(&text);
        }
    }
}
