//! Tap devices: the host's stack receives from the device what is sent on the link, and vice versa.
//!
//! The device is created here and ends with its last descriptor. Each frame is one read or write, the only interface of tap
//! devices; each queue is a descriptor. Documentation/networking/tuntap.rst. Before it is the header that says how a frame is
//! to be cut (`crate::merged`).

use crate::burst::{Burst, Extent};
use crate::error::{self, LinkError, on_use};
use crate::layout::FrameLayout;
use crate::link::{Link, Port, Sent, WriteFrame};
use crate::merged::{self, Cut};
use crate::system::device;
use nix::errno::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// One queue of a tap device.
#[derive(Debug)]
pub struct TapLink {
    port: Port,
    file: File,
    memory: Vec<u8>,
    layout: FrameLayout,
}

/// Creates a tap device, or opens an existing unused one, brings it up, and opens this many queues.
///
/// # Errors
/// If it is in use, is another kind of device, or a privilege is missing.
pub fn open(device: &str, queues: usize, layout: FrameLayout) -> Result<Vec<TapLink>, LinkError> {
    let queues = queues.max(1);
    let links: Result<Vec<TapLink>, LinkError> = (0..queues)
        .map(|queue| TapLink::open(device, queue, queues, layout))
        .collect();
    let links = links?;
    device::switch_on(device).map_err(refused(&format!("tap:{device}"), "switching the device on"))?;
    Ok(links)
}

impl TapLink {
    fn open(device: &str, queue: usize, queues: usize, layout: FrameLayout) -> Result<TapLink, LinkError> {
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
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several) as libc::c_short;
        // SAFETY: the kernel reads the name and the flags, and writes the name, in a request that outlives the call.
        Errno::result(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
            .map_err(|errno| refused(&name, "making the tap device")(errno.into()))?;
        // Another program may have used the device: the host's stack leaves neither checksums nor segments to us.
        let header = merged::HEADER as libc::c_int;
        // SAFETY: the kernel reads a number that outlives the call; the second argument is the number of offloads itself.
        let set = unsafe {
            Errno::result(libc::ioctl(
                file.as_raw_fd(),
                libc::TUNSETVNETHDRSZ,
                &raw const header,
            ))
            .and_then(|_| {
                Errno::result(libc::ioctl(
                    file.as_raw_fd(),
                    libc::TUNSETOFFLOAD,
                    0 as libc::c_ulong,
                ))
            })
        };
        set.map_err(|errno| refused(&name, "setting the device's offloads")(errno.into()))?;
        Ok(TapLink {
            port: Port::new(name, layout.longest(), layout),
            file,
            memory: vec![0; layout.bytes()],
            layout,
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
            let (mut header, frame) = (merged::WHOLE, &mut self.memory[offset..][..port.longest]);
            let parts = &mut [IoSliceMut::new(&mut header), IoSliceMut::new(frame)];
            match self.file.read_vectored(parts) {
                Ok(bytes) => {
                    let length = bytes.saturating_sub(merged::HEADER) as u32;
                    port.extents.push(Extent::whole(offset, length));
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
        let buffer = &mut self.memory[..self.port.longest];
        for number in 0..count {
            let length = write(number, buffer).min(buffer.len());
            let parts = [IoSlice::new(&merged::WHOLE), IoSlice::new(&buffer[..length])];
            write_frame(&self.file, &mut self.port, &parts, length)?;
        }
        Ok(count)
    }

    fn send_merged(&mut self, frame: &[u8], segment: u16) -> Result<Sent, LinkError> {
        let Some(cut) = Cut::of(frame, segment) else {
            return self.send(std::iter::once(frame));
        };
        write_frame(&self.file, &mut self.port, &cut.parts(), frame.len())?;
        Ok(Sent {
            taken: 1,
            ..Sent::default()
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// Writes a frame of `length` bytes with its header, and counts it.
fn write_frame(
    mut file: &File,
    port: &mut Port,
    parts: &[IoSlice<'_>],
    length: usize,
) -> Result<(), LinkError> {
    if let Err(error) = file.write_vectored(parts) {
        match error.raw_os_error() {
            // A frame that is too short, or for which the device has no memory.
            Some(libc::EINVAL | libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN) => port.tally.send_failed += 1,
            _ => return Err(on_use(&port.name, "writing", error)),
        }
    }
    port.tally.count_sent((1, length as u64));
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
