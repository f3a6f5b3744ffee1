//! Counters of the kernel: activity of the network stack, the CPUs and a process between two readings.
//!
//! Input: the text of files under `/proc` (each `parse` is pure), or the machine itself (each `read`). Output: plain
//! structs of numbers; `later.since(&earlier)` is the difference
//! ([`Counters`](corelane_measure::counters::Counters)).
//!
//! Network counters belong to a network namespace: `read` uses that of the calling thread, so read the counters of one
//! side of a bed from within it. A counter that decreased between two readings (another namespace, a device created
//! anew) gives 0 in `since`.

mod cpu_times;
mod device;
mod drops;
mod family;
mod kernel;
mod names;
mod process;
mod slab;
mod softnet;
mod tcp;
mod thread;
mod throttling;
mod udp;

pub(crate) use cpu_times::ticks_a_second;
pub use cpu_times::{CpuTime, CpuTimes};
pub use device::DeviceStatistics;
pub use drops::drops;
pub use family::{Family, with_descendants};
pub use process::{ProcessCpu, Switches};
pub(crate) use process::{after_name, times};
pub use slab::{Slab, SlabCache};
pub use softnet::{CpuSoftnet, Softnet, SoftnetOfCpu};
pub use tcp::{ListenerCounters, TcpCounters, TcpStatistics, tcp_buffer_bytes};
pub use thread::{ThreadClock, ThreadTime};
pub use throttling::{Quota, Throttled, Throttling};
pub use udp::{IpCounters, UdpCounters, UdpStatistics};
