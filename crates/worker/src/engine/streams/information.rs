//! The kernel's statistics of one connection (`TCP_INFO`).

use crate::system::option;
use std::os::fd::AsFd;

/// Words of `struct tcp_info` (`linux/tcp.h`) that are read: up to `tcpi_rcv_ooopack`, which came with Linux 5.4.
const WORDS: usize = 57;

/// The kernel's statistics of one connection since it was opened. The kernel's counters have 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamInformation {
    /// Segments retransmitted.
    pub retransmitted: u32,
    /// Segments received out of order.
    pub out_of_order: u32,
    /// The smoothed round-trip time in microseconds.
    pub round_trip_us: u32,
    /// The maximum segment size for sending, in bytes.
    pub segment_bytes: u32,
}

/// Queries the kernel; none if the descriptor is not a TCP socket.
pub(super) fn of(connection: &impl AsFd) -> Option<StreamInformation> {
    let words: [u32; WORDS] = option::get_words(connection, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    // Byte offsets of the structure's fields, divided by the word size.
    Some(StreamInformation {
        retransmitted: words[100 / 4],
        out_of_order: words[224 / 4],
        round_trip_us: words[68 / 4],
        segment_bytes: words[16 / 4],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_quiet_connection_on_loopback_lost_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let information = of(&connection).unwrap();
        assert_eq!((information.retransmitted, information.out_of_order), (0, 0));
        assert!(
            (1..1_000_000).contains(&information.round_trip_us),
            "{information:?}"
        );
        assert!(
            (500..=65_536).contains(&information.segment_bytes),
            "{information:?}"
        );
        assert_eq!(of(&std::fs::File::open("/proc/self/stat").unwrap()), None);
    }
}
