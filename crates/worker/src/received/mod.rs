//! Reads the frames that a device receives, with the hash and the queue that it assigned and the CPU that the kernel
//! received them on. Input: a device. Output: frames.
//!
//! Packet sockets do not report the device's hash: the kernel recomputes `tp_rxhash` if the device hashed only
//! addresses (`skb_get_hash`). A classic BPF filter can read the device's values (`SKF_AD_RXHASH`, `SKF_AD_QUEUE`, `SKF_AD_CPU`), but
//! can only return a length to truncate the frame to. So the values are encoded in lengths: one socket gets whole
//! frames, and each of the others gets them truncated to one byte plus the value of five bits of the hash or of the
//! queue. Captures with the same timestamp in nanoseconds belong to the same frame (`SO_TIMESTAMPNS`: one timestamp for
//! all sockets); frames with equal timestamps stay incomplete. Steering programs return a length too: the kernel runs them
//! on the same frames. An experiment whose frames are long and have distinct
//! heads misses none: all of its captures include the head, and those with the same head belong to the same frame.

mod filter;
mod pieces;

use crate::watch::{WatchError, attach, check, index_of, open};
use corelane_rss::Steering;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use pieces::{Piece, Pieces};
use socket2::{SockFilter, Socket, Type};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;

/// Bytes captured of each frame: enough for the headers that a hash covers, including tunnels.
const SNAP_BYTES: usize = 256;

/// Bytes of a frame that distinguish it from the others of an experiment.
const HEAD_BYTES: usize = 96;

/// Length of the shortest frame that is identified by its head.
pub const LEAST_FRAME_BYTES: usize = HEAD_BYTES + Piece::MASK as usize + 1;

/// Receive buffer of each socket, in bytes, as far as the kernel allows.
const BUFFER_BYTES: usize = 8 << 20;

/// A frame, and the values that the device reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedFrame {
    /// Its first bytes, at most 256, starting with the Ethernet header.
    pub bytes: Vec<u8>,
    /// The hash; 0 if the device reported none.
    pub hash: u32,
    /// The receive queue, if the device reported it.
    pub queue: Option<u16>,
    /// The CPU that the kernel received it on.
    pub cpu: u32,
    /// The bucket that the program of each given steering returns for it; of a frame that is no IP packet, 0.
    pub buckets: Vec<u16>,
}

/// Reads the frames that a device receives.
#[derive(Debug)]
pub struct Receiver {
    /// One for each piece, in the order of [`Piece::all`].
    sockets: Vec<(Piece, Socket)>,
    pieces: Pieces,
    buffer: Vec<u8>,
    /// Length of a piece whose value is zero: one byte, or the head if that identifies the frame.
    least: usize,
}

impl Receiver {
    /// Starts to read the frames that this device receives.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn new(device: &str) -> Result<Receiver, WatchError> {
        Self::start(device, 1, &[])
    }

    /// Like [`new`](Self::new), for frames with distinct heads of 96 bytes, and with the bucket of each by these steerings
    /// (at most 20) of at most 32 buckets. Frames of fewer than [`LEAST_FRAME_BYTES`] get wrong values.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn of_heads(device: &str, steerings: &[Steering]) -> Result<Receiver, WatchError> {
        Self::start(device, HEAD_BYTES, steerings)
    }

    fn start(device: &str, least: usize, steerings: &[Steering]) -> Result<Receiver, WatchError> {
        let (most, most_buckets) = (Piece::MOST_PROGRAMS, Piece::MASK as usize + 1);
        let fits = |steering: &Steering| steering.table.buckets() <= most_buckets;
        if steerings.len() > most || !steerings.iter().all(fits) {
            return Err(WatchError::Steerings { most, most_buckets });
        }
        let index = index_of(device)?;
        let mut sockets = Vec::new();
        for piece in Piece::all(steerings.len()) {
            let socket = open(index, libc::ETH_P_ALL, Type::RAW, BUFFER_BYTES)?;
            let stamped = setsockopt(&socket, ReceiveTimestampns, &true);
            check("enable timestamps", stamped.map_err(io::Error::from))?;
            sockets.push((piece, socket));
        }
        // In quick succession: frames that lack a piece are counted and skipped.
        for (piece, socket) in &sockets {
            attach(socket, &program(*piece, least as u32, steerings)?)?;
        }
        Ok(Receiver {
            sockets,
            pieces: Pieces::new(steerings.len()),
            buffer: vec![0; SNAP_BYTES],
            least,
        })
    }

    /// Passes the complete frames to `take`, without waiting; returns their number.
    ///
    /// # Errors
    /// The kernel's error, for instance if the device has disappeared.
    pub fn drain(&mut self, mut take: impl FnMut(ReceivedFrame)) -> io::Result<usize> {
        let mut taken = 0;
        for (piece, socket) in &self.sockets {
            while let Some((nanoseconds, kept)) = receive(socket, &mut self.buffer)? {
                let bytes = &self.buffer[..kept];
                let mark = match self.least {
                    1 => nanoseconds,
                    head => mark(&bytes[..head.min(kept)]),
                };
                let value = kept.wrapping_sub(self.least) as u32;
                if let Some(frame) = self.pieces.add(*piece, mark, value, bytes) {
                    taken += 1;
                    take(frame);
                }
            }
        }
        Ok(taken)
    }

    /// Frames skipped because a piece was missing too long: a socket's buffer was full, or two frames had the same
    /// timestamp.
    #[must_use]
    pub fn incomplete(&self) -> u64 {
        self.pieces.incomplete
    }

    /// Number of frames of which pieces are still awaited.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.pieces.waiting.len() as u64
    }
}

fn mark(head: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(head);
    hasher.finish()
}

fn program(piece: Piece, least: u32, steerings: &[Steering]) -> Result<Vec<SockFilter>, WatchError> {
    Ok(match piece {
        Piece::Frame => filter::whole(SNAP_BYTES as u32),
        Piece::Hash(shift) => filter::field_as_length(libc::SKF_AD_RXHASH, shift, Piece::MASK, least),
        Piece::Queue(shift) => filter::field_as_length(libc::SKF_AD_QUEUE, shift, Piece::MASK, least),
        Piece::Cpu(shift) => filter::field_as_length(libc::SKF_AD_CPU, shift, Piece::MASK, least),
        Piece::Bucket(program) => filter::bucket_as_length(&steerings[program], least)?,
    })
}

/// The next frame of a socket, without waiting: its timestamp in nanoseconds, and the number of bytes captured.
fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<(u64, usize)>> {
    loop {
        let mut vectors = [IoSliceMut::new(buffer)];
        let mut control = cmsg_space!(TimeSpec);
        let flags = MsgFlags::MSG_DONTWAIT;
        match recvmsg::<()>(socket.as_raw_fd(), &mut vectors, Some(&mut control), flags) {
            Ok(message) => {
                let stamp = message.cmsgs()?.find_map(|message| match message {
                    ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                    _ => None,
                });
                // Without a timestamp the pieces of a frame cannot be matched: it stays incomplete, and is counted.
                let nanoseconds = stamp.map_or(0, |stamp| {
                    stamp.tv_sec() as u64 * 1_000_000_000 + stamp.tv_nsec() as u64
                });
                return Ok(Some((nanoseconds, message.bytes)));
            }
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
