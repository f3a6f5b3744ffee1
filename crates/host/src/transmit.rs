//! The transmit queues of a device: its name in, their number out.

use crate::HostError;
use crate::bed::queues;

/// How many transmit queues a device of the calling thread's network namespace has.
///
/// # Errors
///
/// What the kernel says, for instance when there is no such device.
pub fn transmit_queues(device: &str) -> Result<u32, HostError> {
    queues(device).map(|(_, transmit)| transmit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_one_and_an_absent_device_is_an_error() {
        assert_eq!(transmit_queues("lo").unwrap(), 1);
        assert!(transmit_queues("none0").is_err());
    }
}
