//! epoll with deadlines in nanoseconds and 64-bit tokens.

use super::{Interest, Ready, timespec};
use crate::time::Time;
use nix::sys::signal::SigSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// The kernel's own signal set has 64 bits on every architecture but MIPS; libc's type is larger.
const KERNEL_SIGNAL_SET_BYTES: usize = 8;

/// An epoll instance, edge-triggered: each event is told once, so that 65,536 idle sockets cost nothing and a busy one
/// is not told again before it is drained.
#[derive(Debug)]
pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    taken: usize,
    /// The kernel, or a filter, does not know `epoll_pwait2` (Linux 5.11): deadlines are rounded up to milliseconds.
    coarse: bool,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes flags alone.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        Ok(Self {
            epoll,
            events,
            taken: 0,
            coarse: false,
        })
    }

    pub(super) fn add(&self, socket: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, interest)
    }

    /// Changes what is told; whatever is ready already is told anew.
    pub(super) fn change(&self, socket: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, interest)
    }

    /// Closing a descriptor removes it only when no other table or copy holds it: so say it.
    pub(super) fn remove(&self, socket: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, socket, 0, Interest::default())
    }

    fn control(&self, operation: i32, socket: RawFd, token: u64, interest: Interest) -> io::Result<()> {
        let read = if interest.read { libc::EPOLLIN } else { 0 };
        let write = if interest.write { libc::EPOLLOUT } else { 0 };
        self.tell(operation, socket, token, read | write | libc::EPOLLET)
    }

    /// Watches for everything that a listener or connection can tell.
    pub(super) fn add_stream(&self, socket: RawFd, token: u64) -> io::Result<()> {
        let all = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.tell(libc::EPOLL_CTL_ADD, socket, token, all)
    }

    fn tell(&self, operation: i32, socket: RawFd, token: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: the event outlives the call; a descriptor that is not open is an error and no more.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket, &mut event) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// How many events the last call told.
    pub(super) fn told(&self) -> usize {
        self.taken
    }

    /// One of the events that the last call told.
    pub(super) fn event(&self, index: usize) -> Ready {
        let event = self.events[index];
        let told = event.events as i32;
        Ready {
            token: event.u64,
            read: told & libc::EPOLLIN != 0,
            write: told & libc::EPOLLOUT != 0,
            failed: told & (libc::EPOLLERR | libc::EPOLLHUP) != 0,
            ended: told & (libc::EPOLLRDHUP | libc::EPOLLHUP) != 0,
        }
    }

    /// Takes the events that are there.
    pub(super) fn look(&mut self) -> io::Result<()> {
        // SAFETY: the kernel writes at most `EVENTS` events, which the vector holds.
        let taken = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                0,
            )
        };
        self.took(i64::from(taken))
    }

    /// Waits for events until a moment, under a signal mask. A signal ends the wait early, with no events.
    pub(super) fn sleep(&mut self, until: Time, while_waiting: &SigSet) -> io::Result<()> {
        if !self.coarse {
            let slept = self.sleep_precisely(until, while_waiting);
            let unknown =
                |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
            if !slept.as_ref().is_err_and(unknown) {
                return slept;
            }
            self.coarse = true;
        }
        self.sleep_coarsely(until, while_waiting)
    }

    fn sleep_precisely(&mut self, until: Time, while_waiting: &SigSet) -> io::Result<()> {
        let timeout = timespec(until.since(Time::now()));
        let timeout_pointer: *const libc::timespec = match until {
            Time::NEVER => std::ptr::null(),
            _ => &timeout,
        };
        let mask: *const libc::sigset_t = while_waiting.as_ref();
        // SAFETY: the kernel writes at most `EVENTS` events, which the vector holds; timeout and mask outlive the call,
        // and the mask is longer than the bytes named.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                timeout_pointer,
                mask,
                KERNEL_SIGNAL_SET_BYTES,
            )
        };
        self.took(taken)
    }

    fn sleep_coarsely(&mut self, until: Time, while_waiting: &SigSet) -> io::Result<()> {
        let left = until.since(Time::now());
        let milliseconds = match until {
            Time::NEVER => -1,
            _ => libc::c_int::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX),
        };
        let mask: *const libc::sigset_t = while_waiting.as_ref();
        // SAFETY: the kernel writes at most `EVENTS` events, which the vector holds; the mask outlives the call.
        let taken = unsafe {
            libc::epoll_pwait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS as libc::c_int,
                milliseconds,
                mask,
            )
        };
        self.took(i64::from(taken))
    }

    fn took(&mut self, taken: i64) -> io::Result<()> {
        self.taken = usize::try_from(taken).unwrap_or(0);
        if taken >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_wait_lasts_until_its_deadline_precise_or_coarse() {
        for coarse in [false, true] {
            let mut poll = Epoll::new().unwrap();
            poll.coarse = coarse;
            let until = Time::now() + Duration::from_micros(2_500);
            poll.sleep(until, &SigSet::empty()).unwrap();
            assert!(Time::now() >= until, "coarse {coarse}");
            assert_eq!((poll.told(), poll.coarse), (0, coarse));
        }
    }

    #[test]
    fn an_edge_is_told_once_and_a_change_tells_it_anew() {
        let poll = &mut Epoll::new().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let interest = Interest {
            read: true,
            write: false,
        };
        poll.add(socket.as_raw_fd(), 7, interest).unwrap();
        socket.send_to(b"edge", socket.local_addr().unwrap()).unwrap();
        poll.look().unwrap();
        assert_eq!((poll.told(), poll.event(0).token), (1, 7));
        poll.look().unwrap();
        assert_eq!(poll.told(), 0);
        poll.change(socket.as_raw_fd(), 8, interest).unwrap();
        poll.look().unwrap();
        assert_eq!((poll.told(), poll.event(0).token), (1, 8));
    }
}
