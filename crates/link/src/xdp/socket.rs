//! One AF_XDP socket: its frame memory, its four rings, and who has which chunk of memory.
//!
//! Half of the chunks receive: they stand in the fill ring, then the kernel has them, then the receive ring, then the
//! burst, and again the fill ring. The other half sends: free, then in the transmit ring, then with the device, then in the
//! completion ring, and free again.

use super::release::wait_for_release;
use super::{XdpMode, XdpOptions};
use crate::burst::Extent;
use crate::error::LinkError;
use crate::layout::FrameLayout;
use crate::system::mapping::Mapping;
use crate::system::ring::Ring;
use crate::system::socket as calls;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes before each received frame that the kernel keeps for programs (`XDP_PACKET_HEADROOM` of linux/bpf.h).
const PROGRAM_HEADROOM: usize = 256;
/// The smallest chunk (`XDP_UMEM_MIN_CHUNK_SIZE` of net/xdp/xdp_umem.h) and the largest, a page.
const CHUNK: std::ops::RangeInclusive<usize> = 2048..=4096;
/// In unaligned mode an address has its offset within the chunk above this bit (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const OFFSET_SHIFT: u32 = 48;
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
    invalid: u64,
    longest: usize,
    zero_copy: bool,
    need_wakeup: bool,
    socket: OwnedFd,
    /// Last, so that the socket is closed before its memory goes.
    memory: Mapping,
}

impl XdpSocket {
    /// Opens the socket of one queue; the device is given by its index.
    pub(super) fn open(
        link: &str,
        device: u32,
        queue: u32,
        options: &XdpOptions,
    ) -> Result<XdpSocket, LinkError> {
        let layout = options.layout;
        let chunk = chunk(link, layout)?;
        let failed = |step| refused(link, step);
        let socket =
            calls::open(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(failed("opening an AF_XDP socket"))?;
        let fd = socket.as_fd();
        // The last chunk may reach beyond its stride.
        let memory = Mapping::anonymous(2 * layout.bytes() + *CHUNK.end())
            .map_err(failed("mapping memory for frames"))?;
        register(fd, &memory, layout, chunk).map_err(failed("registering frame memory"))?;
        for option in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            calls::set(fd, libc::SOL_XDP, option, &(layout.frames() as libc::c_int))
                .map_err(failed("making a ring"))?;
        }
        let offsets: libc::xdp_mmap_offsets = calls::get(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)
            .map_err(failed("reading the ring offsets"))?;
        let frames = layout.frames();
        let map = |at, offset: &libc::xdp_ring_offset, entry: usize| {
            Mapping::of_socket(fd, at, offset.desc as usize + frames * entry)
                .map_err(failed("mapping a ring"))
        };
        let (address, descriptor) = (size_of::<u64>(), size_of::<libc::xdp_desc>());
        let fill = map(libc::XDP_UMEM_PGOFF_FILL_RING as i64, &offsets.fr, address)?;
        let completion = map(libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &offsets.cr, address)?;
        let receive = map(libc::XDP_PGOFF_RX_RING, &offsets.rx, descriptor)?;
        let transmit = map(libc::XDP_PGOFF_TX_RING, &offsets.tx, descriptor)?;
        let mut opened = XdpSocket {
            fill: Ring::new(fill, &offsets.fr, frames),
            completion: Ring::new(completion, &offsets.cr, frames),
            receive: Ring::new(receive, &offsets.rx, frames),
            transmit: Ring::new(transmit, &offsets.tx, frames),
            lent: (0..frames)
                .map(|number| (number * layout.stride()) as u64)
                .collect(),
            free: (frames..2 * frames)
                .map(|number| (number * layout.stride()) as u64)
                .collect(),
            invalid: 0,
            longest: layout.stride().min(chunk),
            zero_copy: false,
            need_wakeup: options.need_wakeup,
            socket,
            memory,
        };
        opened.give_back();
        wait_for_release(|| bind(opened.socket.as_fd(), device, queue, options))
            .map_err(|cause| bind_refused(link, options, cause))?;
        let bound: Result<libc::xdp_options, _> =
            calls::get(opened.socket.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS);
        opened.zero_copy = bound.is_ok_and(|bound| bound.flags & libc::XDP_OPTIONS_ZEROCOPY != 0);
        Ok(opened)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The start of the frame memory.
    #[inline(always)]
    pub(super) fn memory(&self) -> *mut u8 {
        self.memory.start()
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Received descriptors that pointed outside the memory.
    pub(super) fn invalid(&self) -> u64 {
        self.invalid
    }

    pub(super) fn statistics(&self) -> libc::xdp_statistics {
        calls::get(self.socket.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS)
            .unwrap_or_else(|_| calls::zeroed())
    }

    /// Takes back what the burst before lent, then takes up to `limit` frames, which lie within the memory.
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
            return wake(calls::kick_receive(self.socket.as_fd()));
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

    /// Has up to `count` frames of at most `longest` bytes written, as many as there are free chunks; gives their number
    /// and bytes.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        count: usize,
        longest: usize,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> (usize, u64) {
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

    /// Has the kernel send what is in the transmit ring; gives the number of frames that the device refused.
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
            match calls::kick_send(self.socket.as_fd()) {
                Ok(()) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    // The device dropped a frame, which counts as sent (`__xsk_generic_xmit`).
                    Some(libc::EBUSY) => failed += 1,
                    // No memory for now: what is in the ring goes with the next call.
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

/// Bytes of a chunk for frames that lie a stride apart.
fn chunk(link: &str, layout: FrameLayout) -> Result<usize, LinkError> {
    let stride = layout.stride();
    let chunk = stride.max(*CHUNK.start());
    // Received data starts behind the headroom, so a chunk may reach that far into the next one.
    let shared = chunk - stride;
    if chunk > *CHUNK.end() || shared > PROGRAM_HEADROOM + layout.headroom() {
        return Err(LinkError::Stride {
            link: link.to_owned(),
            stride,
            rule: "use 1792 to 4096: an AF_XDP chunk has 2048 bytes to one page, of which 256 are headroom",
        });
    }
    if layout.headroom() + PROGRAM_HEADROOM + 64 > chunk {
        return Err(LinkError::Stride {
            link: link.to_owned(),
            stride,
            rule: "the headroom and the kernel's own 256 bytes leave no room for a frame",
        });
    }
    Ok(chunk)
}

fn register(socket: BorrowedFd<'_>, memory: &Mapping, layout: FrameLayout, chunk: usize) -> io::Result<()> {
    let mut registration: libc::xdp_umem_reg = calls::zeroed();
    let aligned = chunk == layout.stride() && chunk.is_power_of_two();
    registration.addr = memory.start() as u64;
    registration.len = if aligned {
        2 * layout.bytes()
    } else {
        memory.bytes()
    } as u64;
    registration.chunk_size = chunk as u32;
    registration.headroom = layout.headroom() as u32;
    registration.flags = if aligned {
        0
    } else {
        libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG
    };
    calls::set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

fn bind(socket: BorrowedFd<'_>, device: u32, queue: u32, options: &XdpOptions) -> io::Result<()> {
    let mut address: libc::sockaddr_xdp = calls::zeroed();
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_ifindex = device;
    address.sxdp_queue_id = queue;
    address.sxdp_flags = match options.mode {
        XdpMode::Auto => 0,
        XdpMode::Copy => libc::XDP_COPY,
        XdpMode::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    if options.need_wakeup {
        address.sxdp_flags |= libc::XDP_USE_NEED_WAKEUP;
    }
    calls::bind(socket, &address)
}

fn bind_refused(link: &str, options: &XdpOptions, cause: io::Error) -> LinkError {
    match cause.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EPROTONOSUPPORT)
            if options.mode == XdpMode::ZeroCopy =>
        {
            LinkError::Unsupported {
                link: link.to_owned(),
                what: "zero copy",
                hint: "this driver copies; use mode=auto or mode=copy",
            }
        }
        _ => refused(link, "binding to the queue")(cause),
    }
}

/// A wake-up that the kernel had no use for is none the worse.
fn wake(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
            ) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// What a step of opening was refused for.
pub(super) fn refused(link: &str, step: &'static str) -> impl FnOnce(io::Error) -> LinkError {
    let link = link.to_owned();
    move |cause| match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LinkError::NotPermitted {
            link,
            needs: "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (AF_XDP and its program)",
        },
        Some(libc::EAFNOSUPPORT) => LinkError::Unsupported {
            link,
            what: "AF_XDP",
            hint: "this kernel was built without CONFIG_XDP_SOCKETS; use packet: instead of xdp:",
        },
        Some(libc::EBUSY) => LinkError::Busy {
            link,
            by: "another AF_XDP socket or XDP program is on this queue (see: ip -details link show)",
        },
        _ => LinkError::System { link, step, cause },
    }
}
