//! Reads long frames with distinct heads. Input: a device. Output: the head of each frame, with its hash, its queue and
//! the CPU that the kernel received it on.
//!
//! Six sockets see every frame. The filter of each captures the head and as many additional bytes as one byte of the
//! hash, the queue or the CPU. Captures with the same head belong to the same frame.

use super::filter;
use crate::watch::{WatchError, attach, index_of, open, read};
use socket2::{SockFilter, Socket, Type};
use std::collections::{HashMap, VecDeque};
use std::io;

/// Bytes of each frame that are returned: Ethernet, IPv6 with two extension headers, and the ports.
pub const HEAD_BYTES: usize = 96;

/// The minimum length of a frame: the head, and enough bytes after it to encode one byte in the captured length.
pub const LEAST_FRAME_BYTES: usize = HEAD_BYTES + 256;

/// Receive buffer of each socket in bytes: about ten thousand heads between two polls.
const BUFFER_BYTES: usize = 8 << 20;

/// Maximum number of heads that wait for the other sockets. When it is exceeded, they are discarded: their frames are
/// missing at some socket whose buffer was full.
const MOST_WAITING: usize = 1 << 16;

/// The number of sockets: four for the bytes of the hash, one for the queue, one for the CPU.
const SOCKETS: usize = 6;

/// The values known of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedHead {
    /// The hash; 0 if the device reported none.
    pub hash: u32,
    /// The queue; `None` if the driver did not record it.
    pub queue: Option<u16>,
    /// The CPU that the kernel received it on, after RPS.
    pub cpu: u8,
}

/// Reads the heads of the frames that a device receives.
#[derive(Debug)]
pub struct HeadReceiver {
    sockets: Vec<Socket>,
    /// By frame head: frames with equal heads are distinguished by their order.
    waiting: HashMap<[u8; HEAD_BYTES], [VecDeque<u8>; SOCKETS]>,
    too_short: u64,
    incomplete: u64,
}

impl HeadReceiver {
    /// Starts to watch all frames that `device` receives, whatever their destination. Requires `CAP_NET_RAW`.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn new(device: &str) -> Result<Self, WatchError> {
        let index = index_of(device)?;
        let mut sockets = Vec::new();
        for number in 0..SOCKETS {
            let socket = open(index, libc::ETH_P_ALL, Type::RAW, BUFFER_BYTES)?;
            attach(&socket, &program(number))?;
            sockets.push(socket);
        }
        Ok(Self {
            sockets,
            waiting: HashMap::new(),
            too_short: 0,
            incomplete: 0,
        })
    }

    /// Passes the frames completed since the last call to `each`: the head and the values. Does not wait.
    ///
    /// # Errors
    /// The kernel's error, for instance if the device has disappeared.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8; HEAD_BYTES], ReceivedHead)) -> io::Result<()> {
        let mut bytes = [0; LEAST_FRAME_BYTES];
        for number in 0..SOCKETS {
            while let Some(length) = read(&self.sockets[number], &mut bytes)? {
                self.add(number, &bytes[..length], &mut each);
            }
        }
        if self.waiting.len() > MOST_WAITING {
            self.incomplete += self.waiting.len() as u64;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Frames shorter than [`HEAD_BYTES`]; they are skipped.
    #[must_use]
    pub fn too_short(&self) -> u64 {
        self.too_short
    }

    /// Frames with missing values, including those that still wait: the buffer of some socket was full.
    #[must_use]
    pub fn incomplete(&self) -> u64 {
        self.incomplete + self.waiting.len() as u64
    }

    fn add(&mut self, number: usize, frame: &[u8], each: &mut impl FnMut(&[u8; HEAD_BYTES], ReceivedHead)) {
        let head = frame.get(..HEAD_BYTES).and_then(|head| head.try_into().ok());
        let value = frame
            .len()
            .checked_sub(HEAD_BYTES)
            .and_then(|value| u8::try_from(value).ok());
        let (Some(head), Some(value)) = (head, value) else {
            // Counted once per frame.
            self.too_short += u64::from(number == 0);
            return;
        };
        let waiting = self.waiting.entry(head).or_default();
        waiting[number].push_back(value);
        if waiting.iter().any(VecDeque::is_empty) {
            return;
        }
        let mut values = [0; SOCKETS];
        for (value, queue) in values.iter_mut().zip(waiting.iter_mut()) {
            *value = queue.pop_front().unwrap_or_default();
        }
        if waiting.iter().all(VecDeque::is_empty) {
            self.waiting.remove(&head);
        }
        let [a, b, c, d, queue, cpu] = values;
        each(
            &head,
            ReceivedHead {
                hash: u32::from_be_bytes([a, b, c, d]),
                // Recorded as one more than its number (`skb_record_rx_queue` in `linux/skbuff.h`).
                queue: queue.checked_sub(1).map(u16::from),
                cpu,
            },
        );
    }
}

/// The filter of a socket: captures the head of received frames and encodes one byte of a field in the length.
fn program(number: usize) -> Vec<SockFilter> {
    let (field, shift) = match number {
        0..4 => (libc::SKF_AD_RXHASH, 24 - 8 * number as u32),
        4 => (libc::SKF_AD_QUEUE, 0),
        _ => (libc::SKF_AD_CPU, 0),
    };
    filter::field_as_length(field, shift, 0xff, HEAD_BYTES as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent() -> HeadReceiver {
        HeadReceiver {
            sockets: Vec::new(),
            waiting: HashMap::new(),
            too_short: 0,
            incomplete: 0,
        }
    }

    #[test]
    fn the_values_of_a_frame_are_combined_in_any_order() {
        let mut receiver = silent();
        let frame = |first: u8, value: usize| {
            let mut bytes = vec![0; HEAD_BYTES + value];
            bytes[0] = first;
            bytes
        };
        let mut heads = Vec::new();
        let values = [0x51, 0xcc, 0xc1, 0x78, 3, 1];
        // The last socket delivers both frames before the first socket does.
        for number in (0..SOCKETS).rev() {
            for first in [1, 2] {
                receiver.add(number, &frame(first, values[number]), &mut |head, received| {
                    heads.push((head[0], received));
                });
            }
        }
        let expected = ReceivedHead {
            hash: 0x51cc_c178,
            queue: Some(2),
            cpu: 1,
        };
        assert_eq!(heads, [(1, expected), (2, expected)]);
        assert_eq!(receiver.incomplete(), 0);
    }

    #[test]
    fn frames_that_are_too_short_or_missed_are_counted() {
        let mut receiver = silent();
        for number in 0..SOCKETS {
            receiver.add(number, &[0; 60], &mut |_, _| panic!("nothing to report"));
        }
        receiver.add(0, &[0; HEAD_BYTES], &mut |_, _| panic!("one of six sockets"));
        assert_eq!((receiver.too_short(), receiver.incomplete()), (1, 1));
    }
}
