//! Lines of the log, and text for outputs that may be full.

use nix::poll::{PollFd, PollFlags, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;

/// Whether an output takes text within `wait` milliseconds. A pipe that nobody reads, such as that of an access log, must
/// not keep the process from ending.
pub fn takes_text(output: &impl AsFd, wait: u8) -> bool {
    let mut polled = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
    !matches!(poll(&mut polled, wait), Ok(0))
}

/// Writes one line of the log to standard error. It is lost if standard error is closed or full: a reader of the log
/// that has gone must not stop a server.
pub fn log_line(line: &str) {
    let mut log = io::stderr();
    if takes_text(&log, 0) {
        let _ = writeln!(log, "corelane: {line}");
    }
}
