//! How two processes come to share a ring: the first offers it under a name, the second joins it.
//!
//! The name is an abstract Unix socket of the network namespace (unix(7)), which ends with the process, so that nothing is
//! left behind. The memory has no name: its descriptor is passed over the socket. The connection then stays open; its end
//! means that the other process is gone.

use super::MemoryLink;
use super::lane::Region;
use crate::error::LinkError;
use crate::layout::FrameLayout;
use crate::system::mapping::Mapping;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long, and how often, a joining process waits for the other, which checks its link in every pause of its traffic. A
/// pause of the machine is one wait, after which the other gets its turn.
const WAIT: Duration = Duration::from_millis(100);
const MOST_WAITS: u32 = 50;

/// Pauses, and their number, until a name that nobody listens on counts as another program's.
const PAUSE: Duration = Duration::from_millis(1);
const MOST_PAUSES: u32 = 5_000;

/// The other process.
#[derive(Debug)]
pub(super) enum Presence {
    /// It has not joined yet.
    Awaited { listener: UnixListener, memory: OwnedFd },
    /// It joined, and lives while the connection does.
    Joined(UnixStream),
}

/// One end of a ring whose other end is in another process of this network namespace. The first process to use a name
/// offers the ring with its layout; the second joins it as it is, and waits until the first
/// [checks](crate::Link::check) its link. The name is then free again.
///
/// # Errors
/// If memory or a socket is denied, or the offering process does not answer.
pub fn shared(name: &str, layout: FrameLayout) -> Result<MemoryLink, LinkError> {
    let link = format!("ring:{name}");
    let failed = |step: &str, cause| LinkError::Failed(format!("{link}: {step}: {cause}"));
    let address = SocketAddr::from_abstract_name(format!("corelane-ring/{name}"))
        .map_err(|cause| failed("making a socket address of the ring's name", cause))?;
    let met = meet(&address, || thread::sleep(PAUSE)).map_err(|cause| match cause.kind() {
        io::ErrorKind::ConnectionRefused => LinkError::busy(
            &link,
            "a program that offers no ring has its name; choose another name",
        ),
        io::ErrorKind::WouldBlock => LinkError::busy(
            &link,
            "the process that offers it did not answer within 5 s; choose another name",
        ),
        _ => failed("joining the ring", cause),
    })?;
    match met {
        Met::First(listener) => {
            let offered = listener.and_then(|listener| offer(listener, layout));
            let (presence, region) = offered.map_err(|cause| failed("offering the ring", cause))?;
            Ok(MemoryLink::of_region(link, &region, 0, Some(presence)))
        }
        Met::Second(stream, mapping) => {
            let region = Region::join(Arc::new(mapping)).map_err(|what| LinkError::corrupt(&link, what))?;
            let joined = Some(Presence::Joined(stream));
            Ok(MemoryLink::of_region(link, &region, 1, joined))
        }
    }
}

/// Which of the two processes this is.
#[derive(Debug)]
enum Met {
    /// The first: the name is its own, or cannot be had.
    First(io::Result<UnixListener>),
    /// The second: the connection to the first, and the memory.
    Second(UnixStream, Mapping),
}

/// Takes the name, or connects to the process that has it. A connection is refused while that process has bound the name
/// and does not listen yet, and once it has met another: then the name is free.
fn meet(address: &SocketAddr, mut pause: impl FnMut()) -> io::Result<Met> {
    let mut pauses = 0;
    loop {
        match UnixListener::bind_addr(address) {
            Err(taken) if taken.kind() == io::ErrorKind::AddrInUse => {}
            bound => return Ok(Met::First(bound)),
        }
        match connect(address) {
            Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused && pauses < MOST_PAUSES => {
                pauses += 1;
                pause();
            }
            connected => return connected.map(|(stream, mapping)| Met::Second(stream, mapping)),
        }
    }
}

fn offer(listener: UnixListener, layout: FrameLayout) -> io::Result<(Presence, Region)> {
    listener.set_nonblocking(true)?;
    let memory = memfd_create(c"corelane-ring", MFdFlags::MFD_CLOEXEC)?;
    let bytes = Region::bytes(layout);
    let file = File::from(memory.try_clone()?);
    file.set_len(bytes as u64)?;
    let region = Region::create(Arc::new(Mapping::shared(&file, bytes)?), layout);
    Ok((Presence::Awaited { listener, memory }, region))
}

/// Connects to the offering process and maps the memory that it passes.
fn connect(address: &SocketAddr) -> io::Result<(UnixStream, Mapping)> {
    let stream = UnixStream::connect_addr(address)?;
    stream.set_read_timeout(Some(WAIT))?;
    let mut waits = 1;
    let descriptor = loop {
        match receive_descriptor(&stream) {
            Err(silent) if silent.kind() == io::ErrorKind::WouldBlock && waits < MOST_WAITS => waits += 1,
            received => break received?,
        }
    };
    let file = File::from(descriptor);
    let mapping = Mapping::shared(&file, file.metadata()?.len() as usize)?;
    stream.set_nonblocking(true)?;
    Ok((stream, mapping))
}

impl Presence {
    /// Accepts a joining process, or checks that the joined one still lives.
    pub(super) fn check(&mut self, link: &str) -> Result<(), LinkError> {
        let lost = |cause: io::Error| LinkError::lost(link, cause);
        match self {
            Presence::Awaited { listener, memory } => match listener.accept() {
                Ok((stream, _)) => {
                    send_descriptor(&stream, memory).map_err(lost)?;
                    stream.set_nonblocking(true).map_err(lost)?;
                    *self = Presence::Joined(stream);
                    Ok(())
                }
                Err(nobody) if nobody.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(cause) => Err(lost(cause)),
            },
            Presence::Joined(stream) => match stream.read(&mut [0]) {
                Err(quiet) if quiet.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(cause) => Err(lost(cause)),
                Ok(_) => Err(lost(io::Error::other("the process at the other end is gone"))),
            },
        }
    }
}

fn send_descriptor(stream: &UnixStream, memory: &OwnedFd) -> io::Result<()> {
    let descriptors = [memory.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&descriptors)];
    let bytes = [IoSlice::new(&[0])];
    sendmsg::<UnixAddr>(stream.as_raw_fd(), &bytes, &message, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

fn receive_descriptor(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([libc::c_int; 1]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(stream.as_raw_fd(), &mut bytes, Some(&mut space), flags)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control
            && let [descriptor, ..] = descriptors[..]
        {
            // SAFETY: the kernel just installed the descriptor for us, and nobody else closes it.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    Err(io::Error::other("the process at the other end sent no memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, bind, socket};

    #[test]
    fn a_name_that_is_bound_and_not_listened_on_yet_is_tried_again() {
        let bound = |name: &str| {
            let name = format!("corelane-ring/{name}-{}", std::process::id());
            let (of_unix, stream) = (AddressFamily::Unix, SockType::Stream);
            let one = socket(of_unix, stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
            bind(one.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
            (one, SocketAddr::from_abstract_name(&name).unwrap())
        };
        let (other, address) = bound("ends");
        let (mut other, mut pauses) = (Some(other), 0);
        let met = meet(&address, || {
            pauses += 1;
            match pauses {
                ..3 => {}
                3 => other = None,
                // A child that another test forks meanwhile has the name, too, until it executes its program.
                _ => thread::sleep(PAUSE),
            }
        });
        assert!(matches!(met, Ok(Met::First(Ok(_)))), "{met:?}");
        assert!(pauses >= 3, "{pauses}");
        let (_other, address) = bound("stays");
        let mut pauses = 0;
        let refused = meet(&address, || pauses += 1).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(pauses, MOST_PAUSES);
    }
}
