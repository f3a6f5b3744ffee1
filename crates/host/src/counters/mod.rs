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
mod names;
mod process;
mod slab;
mod softnet;
mod tcp;
mod thread;
mod udp;

pub use cpu_times::{CpuTime, CpuTimes};
pub use device::DeviceStatistics;
pub use drops::drops;
pub use family::{Family, with_descendants};
pub use process::{ProcessCpu, Switches};
pub use slab::{Slab, SlabCache};
pub use softnet::{CpuSoftnet, Softnet, SoftnetOfCpu};
pub use tcp::{ListenerCounters, TcpCounters, TcpStatistics, tcp_buffer_bytes};
pub use thread::{ThreadClock, ThreadTime};
pub use udp::{IpCounters, UdpCounters, UdpStatistics};

/// Declares a block of counters that states the kernel's name for each.
macro_rules! kernel_counters {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $( $(#[$field_about:meta])* $field:ident: $kernel:literal, )+
        }
    ) => {
        corelane_measure::counters! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
            pub struct $name {
                $( $(#[$field_about])* #[doc = concat!(" The kernel calls it `", $kernel, "`.")] pub $field: u64, )+
            }
        }

        impl $name {
            /// Takes each counter by the kernel's word for it. A word this kernel does not have counts 0.
            #[allow(dead_code, reason = "tables without words in the file are read by column")]
            fn by_name(value: impl Fn(&str) -> Option<u64>) -> Self {
                Self { $( $field: value($kernel).unwrap_or(0), )+ }
            }

            /// Takes the counters from columns that stand in their order.
            #[allow(dead_code, reason = "tables with words in the file are read by name")]
            fn in_order(mut columns: impl Iterator<Item = Option<u64>>) -> Option<Self> {
                Some(Self { $( $field: columns.next()??, )+ })
            }
        }
    };
}

use kernel_counters;
