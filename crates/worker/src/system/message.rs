//! Sends and receives datagrams: many per call (`recvmmsg`, `sendmmsg`) or one (`recvfrom`, `sendto`).

use super::address::{ADDRESS_BYTES, Control, RawAddress, RawControl};
use super::memory::Pages;
use crate::engine::datagrams::Message;
use crate::engine::sends::{Ends, Run};
use nix::sys::socket::{self, MsgFlags, SockaddrIn, SockaddrIn6};
use std::cell::UnsafeCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The distance between the starts of two buffers: an odd number of cache lines. With a power of two all headers of a
/// batch would map to a few sets of the cache.
pub(crate) fn stride(buffer_bytes: usize) -> usize {
    (buffer_bytes.div_ceil(LINE) | 1) * LINE
}

/// Message headers and the parts that they point at. All are read and written only through cells and never move, so
/// that the pointers between them, and those that the kernel holds, stay valid.
struct Headers {
    headers: Vec<UnsafeCell<libc::mmsghdr>>,
    vectors: Vec<UnsafeCell<libc::iovec>>,
    addresses: Vec<UnsafeCell<RawAddress>>,
    controls: Vec<UnsafeCell<RawControl>>,
}

impl Headers {
    fn new(count: usize) -> Self {
        let empty = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let vectors = cells(count, || empty);
        let addresses = cells(count, || RawAddress::EMPTY);
        let controls = cells(count, || RawControl::EMPTY);
        let header = |index: usize| {
            let mut header = empty_header();
            header.msg_name = addresses[index].get().cast();
            header.msg_iov = vectors[index].get();
            header.msg_iovlen = 1;
            header.msg_control = controls[index].get().cast();
            UnsafeCell::new(libc::mmsghdr {
                msg_hdr: header,
                msg_len: 0,
            })
        };
        Self {
            headers: (0..count).map(header).collect(),
            vectors,
            addresses,
            controls,
        }
    }

    /// The array for `recvmmsg` and `sendmmsg`.
    fn pointer(&self) -> *mut libc::mmsghdr {
        UnsafeCell::raw_get(self.headers.as_ptr())
    }
}

fn cells<T>(count: usize, make: impl Fn() -> T) -> Vec<UnsafeCell<T>> {
    std::iter::repeat_with(|| UnsafeCell::new(make()))
        .take(count)
        .collect()
}

/// Reads or writes a part through its cell, which keeps the pointers to it valid.
fn touch<T, R>(part: &UnsafeCell<T>, act: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: parts are private to a batch, whose methods run one after another on one thread and never nest accesses
    // to one part, so that no other reference exists; the kernel accesses them only during calls that such a method
    // makes.
    act(unsafe { &mut *part.get() })
}

/// A message header without address, buffer and control messages.
pub(crate) fn empty_header() -> libc::msghdr {
    // SAFETY: `msghdr` is a plain C structure, for which all zeros is a valid value meaning "not set". It cannot be
    // built field by field because some C libraries have private padding in it.
    unsafe { std::mem::zeroed() }
}

/// Buffers and headers to receive one batch: one buffer per datagram, lent until the next batch.
pub(crate) struct ReceiveBatch {
    parts: Headers,
    memory: Pages,
    stride: usize,
    buffer_bytes: usize,
    control_bytes: usize,
}

impl ReceiveBatch {
    /// A batch of `count` datagrams of up to `buffer_bytes`, each with `control_bytes` of control messages.
    pub(crate) fn new(count: usize, buffer_bytes: usize, control_bytes: usize) -> io::Result<Self> {
        let stride = stride(buffer_bytes);
        let batch = Self {
            parts: Headers::new(count),
            memory: Pages::new(count * stride)?,
            stride,
            buffer_bytes,
            control_bytes,
        };
        for (index, vector) in batch.parts.vectors.iter().enumerate() {
            touch(vector, |vector| {
                vector.iov_base = batch.memory.pointer(index * stride).cast();
                vector.iov_len = buffer_bytes;
            });
        }
        (0..count).for_each(|index| batch.reset(index));
        Ok(batch)
    }

    /// The memory that the messages' offsets refer to.
    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// The maximum number of datagrams per call.
    pub(crate) fn capacity(&self) -> usize {
        self.parts.headers.len()
    }

    /// Whether messages come with control messages, which `recvfrom` cannot return.
    pub(crate) fn has_control(&self) -> bool {
        self.control_bytes > 0
    }

    /// Receives the available messages, up to a full batch, without waiting; returns their number. The messages are
    /// lent until the next call.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, into: &mut Vec<Message>) -> io::Result<usize> {
        into.clear();
        // SAFETY: every header points at parts and at a buffer of this batch, which outlive the call; no reference into
        // the buffers exists, because it would borrow the batch, which `&mut self` excludes.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.parts.pointer(),
                self.parts.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for index in 0..received {
            into.extend(self.message(index));
            self.reset(index);
        }
        Ok(received)
    }

    /// Receives one datagram by `recvfrom`, without waiting: the reference that batches are compared with.
    pub(crate) fn receive_one(
        &mut self,
        socket: BorrowedFd<'_>,
        into: &mut Vec<Message>,
    ) -> io::Result<usize> {
        into.clear();
        let mut length = ADDRESS_BYTES as libc::socklen_t;
        let address = &self.parts.addresses[0];
        // SAFETY: buffer and address belong to this batch and outlive the call; the lengths passed are theirs. With
        // MSG_TRUNC the result is the datagram's full length, by which a truncated datagram is detected.
        let received = unsafe {
            libc::recvfrom(
                socket.as_raw_fd(),
                self.memory.pointer(0).cast(),
                self.buffer_bytes,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                address.get().cast(),
                &mut length,
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        into.extend(touch(address, |address| address.read()).map(|peer| Message {
            peer,
            offset: 0,
            length: received.min(self.buffer_bytes) as u32,
            segment: 0,
            destination: None,
            broadcast: false,
            truncated: received > self.buffer_bytes,
        }));
        Ok(1)
    }

    fn message(&self, index: usize) -> Option<Message> {
        let (length, control_bytes, flags) = touch(&self.parts.headers[index], |header| {
            let inner = &header.msg_hdr;
            (header.msg_len, inner.msg_controllen, inner.msg_flags)
        });
        let control = match self.control_bytes {
            0 => Control::default(),
            _ => touch(&self.parts.controls[index], |control| control.read(control_bytes)),
        };
        Some(Message {
            peer: touch(&self.parts.addresses[index], |address| address.read())?,
            offset: index * self.stride,
            length,
            segment: control.segment,
            destination: control.destination,
            broadcast: control.broadcast,
            truncated: flags & libc::MSG_TRUNC != 0,
        })
    }

    /// Restores the lengths that the kernel overwrote.
    fn reset(&self, index: usize) {
        touch(&self.parts.headers[index], |header| {
            header.msg_hdr.msg_namelen = ADDRESS_BYTES as libc::socklen_t;
            header.msg_hdr.msg_controllen = self.control_bytes as _;
            header.msg_hdr.msg_flags = 0;
        });
    }
}

/// Headers to send one batch.
pub(crate) struct SendBatch {
    parts: Headers,
    used: usize,
}

impl SendBatch {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            parts: Headers::new(count),
            used: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used == self.parts.headers.len()
    }

    /// Adds a run, whose bytes are in `memory`.
    pub(crate) fn push(&mut self, run: &Run, memory: &Pages) {
        let (parts, index, range) = (&self.parts, self.used, run.range());
        touch(&parts.vectors[index], |vector| {
            vector.iov_base = memory.pointer(range.start).cast();
            vector.iov_len = range.len();
        });
        let Ends { peer, source } = run.ends;
        let address_bytes = peer.map_or(0, |peer| {
            touch(&parts.addresses[index], |address| address.write(peer))
        });
        let segment = run.segment();
        let control_bytes = match (segment, source) {
            (None, None) => 0,
            _ => touch(&parts.controls[index], |control| control.write(segment, source)),
        };
        touch(&parts.headers[index], |header| {
            header.msg_hdr.msg_namelen = address_bytes as libc::socklen_t;
            header.msg_hdr.msg_controllen = control_bytes as _;
        });
        self.used += 1;
    }

    /// Sends the batch; returns how many messages, from the first, the kernel accepted. An error is that of the first
    /// one.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: the headers in use point at parts of this batch and at the bytes of the arena passed to `push`; the
        // arena keeps them until the caller, which holds both, releases them after this call.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.parts.pointer(),
                self.used as libc::c_uint,
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Sends one datagram by `sendto`, without waiting.
pub(crate) fn send_one(socket: BorrowedFd<'_>, peer: Option<SocketAddr>, payload: &[u8]) -> io::Result<()> {
    let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
    match peer {
        None => socket::send(descriptor, payload, flags)?,
        Some(SocketAddr::V4(peer)) => socket::sendto(descriptor, payload, &SockaddrIn::from(peer), flags)?,
        Some(SocketAddr::V6(peer)) => socket::sendto(descriptor, payload, &SockaddrIn6::from(peer), flags)?,
    };
    Ok(())
}
