//! Frames that a device receives, with the hash and the queue that it gave them: a device enters, frames leave.
//!
//! [`Receiver`] accepts any frames, and misses frames with equal timestamps. [`HeadReceiver`] misses none and also
//! reports the CPU, but requires long frames with distinct heads: an experiment's own.
//!
//! The kernel hands packet sockets the frame, and its own idea of the hash: `tp_rxhash` is computed anew where the device
//! hashed addresses only (`skb_get_hash`). A classic BPF filter sees what the device said (`SKF_AD_RXHASH`,
//! `SKF_AD_QUEUE`), but can only answer with a length to cut the frame to. So that length tells: beside the socket that
//! gets whole frames, others get them cut to one byte and as many more as five bits of the hash, or of the queue, say.
//! What came at one nanosecond is one frame (`SO_TIMESTAMPNS`: one stamp for all sockets).

mod filter;
mod heads;
mod pieces;

pub use heads::{HEAD_BYTES, HeadReceiver, LEAST_FRAME_BYTES, ReceivedHead};

use crate::watch::{WatchError, attach, check, index_of, open};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use pieces::{Piece, Pieces};
use socket2::{SockFilter, Socket, Type};
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;

/// Bytes taken of each frame: enough for the headers that a hash is made of, tunnels included.
const SNAP_BYTES: usize = 256;

/// Receive buffer of each socket, in bytes, as far as the kernel allows.
const BUFFER_BYTES: usize = 8 << 20;

/// A frame, and what the device said of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedFrame {
    /// Its first bytes, at most 256, from the Ethernet header on.
    pub bytes: Vec<u8>,
    /// The hash; zero where the device gave none.
    pub hash: u32,
    /// The receive queue, if the device reported it.
    pub queue: Option<u16>,
}

/// Reads what a device receives.
#[derive(Debug)]
pub struct Receiver {
    /// One for frames, the others for pieces, in the order of [`Piece::all`].
    sockets: Vec<(Piece, Socket)>,
    pieces: Pieces,
    buffer: Vec<u8>,
}

impl Receiver {
    /// Begins to read what this device receives.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn new(device: &str) -> Result<Receiver, WatchError> {
        let index = index_of(device)?;
        let mut sockets = Vec::new();
        for piece in Piece::all() {
            let socket = open(index, libc::ETH_P_ALL, Type::RAW, BUFFER_BYTES)?;
            let stamped = setsockopt(&socket, ReceiveTimestampns, &true);
            check("have frames stamped", stamped.map_err(io::Error::from))?;
            sockets.push((piece, socket));
        }
        // All at once as nearly as can be: frames of which a piece is missing are counted and left out.
        for (piece, socket) in &sockets {
            attach(socket, &program(*piece))?;
        }
        Ok(Receiver {
            sockets,
            pieces: Pieces::default(),
            buffer: vec![0; SNAP_BYTES],
        })
    }

    /// Gives `take` the frames that are complete, without waiting; says how many.
    ///
    /// # Errors
    /// What the kernel says, for instance when the device has gone.
    pub fn drain(&mut self, mut take: impl FnMut(ReceivedFrame)) -> io::Result<usize> {
        let mut taken = 0;
        for (piece, socket) in &self.sockets {
            while let Some((nanoseconds, kept)) = receive(socket, &mut self.buffer)? {
                let bytes = &self.buffer[..kept];
                if let Some(frame) = self.pieces.add(*piece, nanoseconds, bytes) {
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
        self.pieces.incomplete()
    }
}

/// The filter of the socket that tells a piece.
fn program(piece: Piece) -> Vec<SockFilter> {
    match piece {
        Piece::Frame => filter::whole(SNAP_BYTES as u32),
        // A length of one byte is the least, and stands for zero.
        Piece::Hash(shift) => filter::field_as_length(libc::SKF_AD_RXHASH, shift, Piece::MASK, 1),
        Piece::Queue(shift) => filter::field_as_length(libc::SKF_AD_QUEUE, shift, Piece::MASK, 1),
    }
}

/// What waits at a socket, without waiting for more: when it came, and how many of its bytes were kept.
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
                // Without a stamp the pieces of a frame cannot find each other: it stays incomplete, and is counted.
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
