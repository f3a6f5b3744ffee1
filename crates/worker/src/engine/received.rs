//! Where the kernel received the last packet of a socket.

use crate::system::option;
use std::os::fd::BorrowedFd;

/// Where the last packet of a connected socket was received, each as far as the kernel knows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LastReceived {
    /// The CPU that ran the protocol (`SO_INCOMING_CPU`), after RPS if that is enabled.
    pub cpu: Option<u32>,
    /// The NAPI instance, and with it the queue of a device (`SO_INCOMING_NAPI_ID`); none on loopback.
    pub napi: Option<u32>,
}

impl LastReceived {
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        Self {
            cpu: incoming_cpu(socket),
            napi: read(socket, libc::SO_INCOMING_NAPI_ID).filter(|napi| *napi > 0),
        }
    }
}

/// [`LastReceived::cpu`] alone.
pub(crate) fn incoming_cpu(socket: BorrowedFd<'_>) -> Option<u32> {
    // -1 before the first packet.
    read(socket, libc::SO_INCOMING_CPU).filter(|cpu| i32::try_from(*cpu).is_ok())
}

fn read(socket: BorrowedFd<'_>, name: i32) -> Option<u32> {
    option::get(&socket, libc::SOL_SOCKET, name).ok()
}
