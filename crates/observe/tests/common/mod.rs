//! Helpers shared by the tests of this crate: work of a known size, and messages for skipped tests.

use std::net::UdpSocket;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Serializes tests that watch whole CPUs and would otherwise observe each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The CPUs that this process may run on.
pub fn cpus() -> Vec<u32> {
    corelane_host::cpus::allowed().unwrap().cpus
}

/// Sends `count` datagrams over loopback to a socket that no thread reads.
pub fn flood(count: u32) {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(sink.local_addr().unwrap()).unwrap();
    for _ in 0..count {
        source.send(&[0; 510]).unwrap();
    }
}
