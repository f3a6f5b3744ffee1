//! What the kernel knows of one connection (`TCP_INFO`).

use crate::system::option;
use std::os::fd::AsFd;

/// Words of `struct tcp_info` (`linux/tcp.h`) that are read: up to `tcpi_rcv_ooopack`, which came with Linux 5.4.
const WORDS: usize = 57;

/// What the kernel has seen of one connection since it was opened. Counts are the kernel's, of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamInformation {
    /// Segments sent again.
    pub retransmitted: u32,
    /// Segments received out of order.
    pub out_of_order: u32,
    /// The smoothed round-trip time in microseconds.
    pub round_trip_us: u32,
    /// The largest segment that is sent, in bytes.
    pub segment_bytes: u32,
}

/// Asks the kernel; none for what is no connection.
pub(super) fn of(connection: &impl AsFd) -> Option<StreamInformation> {
    let words: [u32; WORDS] = option::get_words(connection, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    // Offsets of the structure's fields in bytes, by four.
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
