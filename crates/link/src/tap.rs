//! Tap devices: the host's stack receives from the device what is sent on the link, and vice versa.
//!
//! The device is created here and ends with its last descriptor. Each frame is one read or write, the only interface of tap
//! devices; each queue is a descriptor. Documentation/networking/tuntap.rst. If merged frames are sent, each begins with the
//! header that says how it is cut (`crate::merged`), which costs some 40 ns per frame.

use crate::burst::{Burst, Extent};
use crate::error::{self, LinkError, on_use};
use crate::layout::FrameLayout;
use crate::link::{Link, Port, Sent, WriteFrame};
use crate::merged::{Cut, HEADER};
use crate::system::device;
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// One queue of a tap device.
#[derive(Debug)]
pub struct TapLink {
    port: Port,
    file: File,
    memory: Vec<u8>,
    layout: FrameLayout,
    /// Bytes of the header before each frame: none, if the link does not send merged frames.
    header: usize,
}

/// Creates a tap device, or opens an existing unused one, brings it up, and opens this many queues, which send
/// [merged frames](Link::send_merged) if `merged`.
///
/// # Errors
/// If it is in use, is another kind of device, or a privilege is missing.
pub fn open(
    device: &str,
    queues: usize,
    layout: FrameLayout,
    merged: bool,
) -> Result<Vec<TapLink>, LinkError> {
    let queues = queues.max(1);
    let links: Result<Vec<TapLink>, LinkError> = (0..queues)
        .map(|queue| TapLink::open(device, queue, queues, layout, merged))
        .collect();
    let links = links?;
    device::switch_on(device).map_err(refused(&format!("tap:{device}"), "switching the device on"))?;
    Ok(links)
}

impl TapLink {
    fn open(
        device: &str,
        queue: usize,
        queues: usize,
        layout: FrameLayout,
        merged: bool,
    ) -> Result<TapLink, LinkError> {
        let name = format!("tap:{device}/{queue}");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(refused(&name, "opening /dev/net/tun"))?;
        let mut request = device::request(device).map_err(refused(&name, "naming the device"))?;
        let several = if queues > 1 { libc::IFF_MULTI_QUEUE } else { 0 };
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | several | if merged { libc::IFF_VNET_HDR } else { 0 })
                as libc::c_short;
        // SAFETY: the kernel reads the name and the flags, and writes the name, in a request that outlives the call.
        Errno::result(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
            .map_err(|errno| refused(&name, "making the tap device")(errno.into()))?;
        if merged {
            take_headers(&file).map_err(refused(&name, "setting the device's offloads"))?;
        }
        let header = if merged { HEADER } else { 0 };
        Ok(TapLink {
            port: Port::new(name, layout.longest() - header, layout),
            file,
            memory: vec![0; layout.bytes()],
            layout,
            header,
        })
    }
}

impl Link for TapLink {
    fn port(&self) -> &Port {
        &self.port
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        let port = &mut self.port;
        port.extents.clear();
        while port.extents.len() < limit.min(self.layout.frames()) {
            let offset = self.layout.start_of(port.extents.len());
            match self
                .file
                .read(&mut self.memory[offset..][..self.header + port.longest])
            {
                Ok(bytes) => {
                    let length = bytes.saturating_sub(self.header) as u32;
                    port.extents.push(Extent::whole(offset + self.header, length));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Frames read earlier are delivered first; the next call gets the error again.
                Err(_) if !port.extents.is_empty() => break,
                Err(error) => return Err(on_use(&port.name, "reading", error)),
            }
        }
        port.tally.count_received(&port.extents);
        Ok(Burst::of(&mut self.memory, &port.extents))
    }

    fn transmit(&mut self, count: usize, mut write: impl WriteFrame) -> Result<usize, LinkError> {
        // No burst is lent now, so that its memory is free.
        let (header, longest) = (self.header, self.port.longest);
        let buffer = &mut self.memory[..header + longest];
        buffer[..header].fill(0);
        for number in 0..count {
            let length = write(number, &mut buffer[header..]).min(longest);
            let written = self.file.write(&buffer[..header + length]);
            count_written(written, length, &mut self.port)?;
        }
        Ok(count)
    }

    fn send_merged(&mut self, frame: &[u8], segment: u16) -> Result<Sent, LinkError> {
        let Some(cut) = Cut::of(frame, segment).filter(|_| self.header > 0) else {
            return self.send(std::iter::once(frame));
        };
        count_written(
            self.file.write_vectored(&cut.parts()),
            frame.len(),
            &mut self.port,
        )?;
        Ok(Sent {
            taken: 1,
            ..Sent::default()
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// Counts a frame of `length` bytes that was written, or refused.
fn count_written(written: io::Result<usize>, length: usize, port: &mut Port) -> Result<(), LinkError> {
    if let Err(error) = written {
        match error.raw_os_error() {
            // A frame that is too short, or for which the device has no memory.
            Some(libc::EINVAL | libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN) => port.tally.send_failed += 1,
            _ => return Err(on_use(&port.name, "writing", error)),
        }
    }
    port.tally.count_sent((1, length as u64));
    Ok(())
}

/// Sets the length of headers, and that the host's stack leaves neither checksums nor segments to us: another program may have
/// used the device.
fn take_headers(file: &File) -> io::Result<()> {
    let (file, header, offloads) = (file.as_raw_fd(), HEADER as libc::c_int, 0 as libc::c_ulong);
    // SAFETY: the kernel reads a number that outlives the call; the offloads are the argument itself.
    Errno::result(unsafe { libc::ioctl(file, libc::TUNSETVNETHDRSZ, &raw const header) })?;
    // SAFETY: as above.
    Errno::result(unsafe { libc::ioctl(file, libc::TUNSETOFFLOAD, offloads) })?;
    Ok(())
}

/// The error of a step of opening.
fn refused(link: &str, step: &'static str) -> impl FnOnce(io::Error) -> LinkError {
    let link = link.to_owned();
    move |cause| match cause.raw_os_error() {
        Some(libc::ENOENT) => {
            let hint = "load the module tun, or give the container /dev/net/tun";
            LinkError::unsupported(&link, "a tap device", hint)
        }
        Some(libc::EBUSY) => LinkError::busy(&link, "another program has the tap device open"),
        Some(libc::EINVAL) => {
            let what = "opening this device as a tap device with so many queues";
            let hint =
                "it is another kind of device, or was made with one queue (ip tuntap add ... multi_queue)";
            LinkError::unsupported(&link, what, hint)
        }
        _ => error::refused(&link, step, "CAP_NET_ADMIN and /dev/net/tun", &cause),
    }
}
