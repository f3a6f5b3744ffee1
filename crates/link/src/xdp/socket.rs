//! One AF_XDP socket: its frame memory, its four rings, and the owner of each chunk of memory.
//!
//! Half of the chunks receive: they pass through the fill ring, the kernel, the receive ring and the burst, and return to
//! the fill ring. The other half sends: free, in the transmit ring, with the device, in the completion ring, and free
//! again.

use super::options::{XdpMode, XdpOptions};
use super::release::wait_for_release;
use crate::burst::Extent;
use crate::error::{self, LinkError, is_transient};
use crate::layout::FrameLayout;
use crate::link::WriteFrame;
use crate::system::mapping::Mapping;
use crate::system::ring::{Entry, Ring};
use crate::system::socket as calls;
use socket2::{Socket, Type};
use std::io;

/// Bytes before each received frame that the kernel keeps for programs (`XDP_PACKET_HEADROOM` of linux/bpf.h).
const PROGRAM_HEADROOM: usize = 256;
/// The smallest chunk (`XDP_UMEM_MIN_CHUNK_SIZE` of net/xdp/xdp_umem.h) and the largest, a page.
const CHUNK: std::ops::RangeInclusive<usize> = 2048..=4096;
/// In unaligned mode an address has its offset within the chunk above this bit (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const OFFSET_SHIFT: u32 = 48;
/// Where the rings of the frame memory are mapped.
const FILL_AT: i64 = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
const COMPLETION_AT: i64 = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
/// Frames that the kernel sends for one call in copy mode (`TX_BATCH_SIZE` of net/xdp/xsk.c).
const SENT_A_CALL: usize = 32;

/// A bound socket.
#[derive(Debug)]
pub(super) struct XdpSocket {
    fill: Ring<u64>,
    completion: Ring<u64>,
    receive: Ring<libc::xdp_desc>,
    transmit: Ring<libc::xdp_desc>,
    /// Addresses that the burst lends.
    lent: Vec<u64>,
    /// Addresses of chunks to send from.
    free: Vec<u64>,
    /// Received descriptors that pointed outside the memory.
    pub(super) invalid: u64,
    pub(super) longest: usize,
    zero_copy: bool,
    need_wakeup: bool,
    pub(super) socket: Socket,
    /// Last, so that the socket is closed before its memory is unmapped.
    pub(super) memory: Mapping,
}

impl XdpSocket {
    /// Opens the socket of one queue; the device is given by its index.
    pub(super) fn open(
        link: &str,
        device: u32,
        queue: u32,
        layout: FrameLayout,
        options: XdpOptions,
    ) -> Result<XdpSocket, LinkError> {
        let chunk = chunk(link, layout)?;
        let failed = |step| refused(link, step);
        let socket =
            Socket::new(libc::AF_XDP.into(), Type::RAW, None).map_err(failed("opening an AF_XDP socket"))?;
        // The last chunk may reach beyond its stride.
        let memory = Mapping::anonymous(2 * layout.bytes() + *CHUNK.end())
            .map_err(failed("mapping memory for frames"))?;
        register(&socket, &memory, layout, chunk).map_err(failed("registering frame memory"))?;
        let frames = layout.frames();
        for option in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            calls::set(&socket, libc::SOL_XDP, option, &(frames as libc::c_int))
                .map_err(failed("making a ring"))?;
        }
        let offsets: libc::xdp_mmap_offsets = calls::get(&socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(failed("reading the ring offsets"))?;
        let addresses_from =
            |first: usize| (first..first + frames).map(|number| (number * layout.stride()) as u64);
        let mut opened = XdpSocket {
            fill: ring(link, &socket, FILL_AT, &offsets.fr, frames)?,
            completion: ring(link, &socket, COMPLETION_AT, &offsets.cr, frames)?,
            receive: ring(link, &socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, frames)?,
            transmit: ring(link, &socket, libc::XDP_PGOFF_TX_RING, &offsets.tx, frames)?,
            lent: addresses_from(0).collect(),
            free: addresses_from(frames).collect(),
            invalid: 0,
            longest: layout.stride().min(chunk),
            zero_copy: false,
            need_wakeup: options.need_wakeup,
            socket,
            memory,
        };
        opened.give_back();
        wait_for_release(|| bind(&opened.socket, device, queue, options))
            .map_err(|cause| bind_refused(link, options, cause))?;
        let bound: Result<libc::xdp_options, _> =
            calls::get(&opened.socket, libc::SOL_XDP, libc::XDP_OPTIONS);
        opened.zero_copy = bound.is_ok_and(|bound| bound.flags & libc::XDP_OPTIONS_ZEROCOPY != 0);
        Ok(opened)
    }

    pub(super) fn statistics(&self) -> libc::xdp_statistics {
        calls::get(&self.socket, libc::SOL_XDP, libc::XDP_STATISTICS).unwrap_or_else(|_| calls::zeroed())
    }

    /// Takes back the frames of the previous burst, then receives up to `limit` frames, which lie within the memory.
    #[inline(always)]
    pub(super) fn receive(&mut self, limit: usize, extents: &mut Vec<Extent>) -> io::Result<()> {
        self.give_back();
        let count = self.receive.available(limit);
        for number in 0..count {
            let descriptor = self.receive.read(number);
            let base = descriptor.addr & ((1 << OFFSET_SHIFT) - 1);
            let offset = (base + (descriptor.addr >> OFFSET_SHIFT)) as usize;
            self.lent.push(base);
            if offset + descriptor.len as usize > self.memory.bytes() {
                self.invalid += 1;
                continue;
            }
            extents.push(Extent::whole(offset, descriptor.len));
        }
        if count > 0 {
            self.receive.consumed(count);
        }
        if self.need_wakeup && self.fill.needs_wakeup() {
            let woken = self.socket.recv_with_flags(&mut [], libc::MSG_DONTWAIT);
            return woken.map(drop).or_else(|error| match is_transient(&error) {
                true => Ok(()),
                false => Err(error),
            });
        }
        Ok(())
    }

    /// Gives lent chunks to the kernel to receive into.
    #[inline(always)]
    fn give_back(&mut self) {
        let count = self.fill.free(self.lent.len());
        for (number, address) in self.lent.drain(..count).enumerate() {
            self.fill.write(number, address);
        }
        if count > 0 {
            self.fill.produced(count);
        }
    }

    /// Writes up to `count` frames of at most `longest` bytes, as many as there are free chunks; returns their number and
    /// bytes.
    #[inline(always)]
    pub(super) fn put(&mut self, count: usize, longest: usize, mut write: impl WriteFrame) -> (usize, u64) {
        self.reclaim();
        let count = self.transmit.free(count.min(self.free.len()));
        let mut bytes = 0;
        for number in 0..count {
            let Some(address) = self.free.pop() else { break };
            // SAFETY: the chunk lies within the memory and is free: neither the kernel nor a burst has it.
            let buffer =
                unsafe { std::slice::from_raw_parts_mut(self.memory.start().add(address as usize), longest) };
            let length = write(number, buffer).min(longest);
            bytes += length as u64;
            self.transmit.write(
                number,
                libc::xdp_desc {
                    addr: address,
                    len: length as u32,
                    options: 0,
                },
            );
        }
        if count > 0 {
            self.transmit.produced(count);
        }
        (count, bytes)
    }

    /// Takes back the chunks that were sent.
    #[inline(always)]
    fn reclaim(&mut self) {
        let count = self.completion.available(usize::MAX);
        for number in 0..count {
            self.free.push(self.completion.read(number));
        }
        if count > 0 {
            self.completion.consumed(count);
        }
    }

    /// Makes the kernel send the frames in the transmit ring; returns the number of frames that the device dropped.
    #[inline(always)]
    pub(super) fn kick_transmit(&mut self) -> io::Result<u64> {
        if self.need_wakeup && !self.transmit.needs_wakeup() {
            return Ok(0);
        }
        let mut failed = 0;
        let waiting = self.transmit.waiting();
        if waiting == 0 && !self.zero_copy {
            return Ok(0);
        }
        // In copy mode a call sends a part of the ring; with zero copy one call starts the device.
        let calls = if self.zero_copy {
            1
        } else {
            waiting.div_ceil(SENT_A_CALL) + 1
        };
        for _ in 0..calls {
            match self.socket.send_with_flags(&[], libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    // The device dropped a frame, which counts as sent (`__xsk_generic_xmit`).
                    Some(libc::EBUSY) => failed += 1,
                    // No memory for now: the next call sends the frames in the ring.
                    Some(libc::ENOBUFS) => return Ok(failed),
                    _ => return Err(error),
                },
            }
            if self.transmit.waiting() == 0 {
                break;
            }
        }
        Ok(failed)
    }
}

/// Maps one of the socket's rings, which starts at `at`.
fn ring<T: Entry>(
    link: &str,
    socket: &Socket,
    at: i64,
    offset: &libc::xdp_ring_offset,
    frames: usize,
) -> Result<Ring<T>, LinkError> {
    let bytes = offset.desc as usize + frames * size_of::<T>();
    let mapping = Mapping::of_socket(socket, at, bytes).map_err(refused(link, "mapping a ring"))?;
    Ok(Ring::new(mapping, offset, frames))
}

/// Bytes of a chunk for frames that lie one stride apart.
fn chunk(link: &str, layout: FrameLayout) -> Result<usize, LinkError> {
    let stride = layout.stride();
    let wrong = |rule| {
        let what = format!("a stride of {stride} bytes does not do here: {rule}");
        Err(LinkError::Failed(format!("{link}: {what}")))
    };
    let chunk = stride.max(*CHUNK.start());
    // Received data starts behind the headroom, so a chunk may reach that far into the next one.
    let shared = chunk - stride;
    if chunk > *CHUNK.end() || shared > PROGRAM_HEADROOM + layout.headroom() {
        return wrong(
            "use 1792 to 4096: an AF_XDP chunk has 2048 bytes to one page, of which 256 are headroom",
        );
    }
    if layout.headroom() + PROGRAM_HEADROOM + 64 > chunk {
        return wrong("the headroom and the kernel's own 256 bytes leave no room for a frame");
    }
    Ok(chunk)
}

fn register(socket: &Socket, memory: &Mapping, layout: FrameLayout, chunk: usize) -> io::Result<()> {
    let mut registration: libc::xdp_umem_reg = calls::zeroed();
    let aligned = chunk == layout.stride() && chunk.is_power_of_two();
    registration.addr = memory.start() as u64;
    let (bytes, flags) = match aligned {
        true => (2 * layout.bytes(), 0),
        false => (memory.bytes(), libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG),
    };
    (registration.len, registration.flags) = (bytes as u64, flags);
    registration.chunk_size = chunk as u32;
    registration.headroom = layout.headroom() as u32;
    calls::set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

fn bind(socket: &Socket, device: u32, queue: u32, options: XdpOptions) -> io::Result<()> {
    let mut address: libc::sockaddr_xdp = calls::zeroed();
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_ifindex = device;
    address.sxdp_queue_id = queue;
    address.sxdp_flags = options.mode as u16;
    if options.need_wakeup {
        address.sxdp_flags |= libc::XDP_USE_NEED_WAKEUP;
    }
    calls::bind(socket, &address)
}

fn bind_refused(link: &str, options: XdpOptions, cause: io::Error) -> LinkError {
    match cause.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EPROTONOSUPPORT)
            if options.mode == XdpMode::ZeroCopy =>
        {
            LinkError::unsupported(
                link,
                "zero copy",
                "this driver copies; use mode=auto or mode=copy",
            )
        }
        _ => refused(link, "binding to the queue")(cause),
    }
}

/// The error of a step of opening.
pub(super) fn refused(link: &str, step: &'static str) -> impl FnOnce(io::Error) -> LinkError {
    let link = link.to_owned();
    move |cause| match cause.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => {
            let hint = "this kernel was built without CONFIG_XDP_SOCKETS; use packet: instead of xdp:";
            LinkError::unsupported(&link, "AF_XDP", hint)
        }
        // xdp_umem_account_pages: the frame memory is locked.
        Some(libc::ENOBUFS) => LinkError::Unavailable(format!(
            "{link}: its frame memory exceeds the limit of locked memory: raise it (ulimit -l)"
        )),
        Some(libc::EBUSY) => {
            let by = "another AF_XDP socket or XDP program is on this queue (see: ip -details link show)";
            LinkError::busy(&link, by)
        }
        _ => {
            let needs = "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (AF_XDP and its program)";
            error::refused(&link, step, needs, &cause)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_locked_memory_is_named() {
        let error = refused("xdp:a", "registering frame memory")(io::Error::from_raw_os_error(libc::ENOBUFS));
        assert!(
            matches!(&error, LinkError::Unavailable(_)) && error.to_string().contains("ulimit -l"),
            "{error}"
        );
    }
}
