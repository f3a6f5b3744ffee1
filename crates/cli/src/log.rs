//! Lines of the log, and text for outputs that may be full.

use nix::poll::{PollFd, PollFlags, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;

/// Writes text to an output that takes it within `wait` milliseconds; false if it is full or closed. A pipe that nobody
/// reads, such as that of a log, must neither stop a process nor keep it from ending.
pub fn offer(output: &mut (impl AsFd + Write), text: &str, wait: u8) -> bool {
    let mut polled = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
    let takes_text = !matches!(poll(&mut polled, wait), Ok(0));
    takes_text && output.write_all(text.as_bytes()).is_ok() && output.flush().is_ok()
}

/// Writes one line of the log to standard error. It is lost if standard error is closed or full.
pub fn log_line(line: &str) {
    offer(&mut io::stderr(), &format!("corelane: {line}\n"), 0);
}
