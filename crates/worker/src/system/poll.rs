//! Waits until sockets are ready, with deadlines in nanoseconds and 64-bit tokens.
//!
//! epoll installs a callback on each watched socket. The kernel runs it for every datagram that the socket sends or
//! receives, even if no thread waits: 110 of 2,700 ns per datagram sent (journal, 2026-11-20-engines). A busy worker
//! does not need these calls. So few sockets are passed to each wait (`ppoll`), which installs the callbacks only for
//! its duration; more sockets are watched by epoll.

use crate::time::Time;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::SigSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// The maximum number of sockets for `ppoll`: with 8 a wait costs as much as with epoll, with 16 a third more (journal,
/// 2026-11-20-engines).
const FEW: usize = 8;

/// Events fetched per call.
const EVENTS: usize = 256;

/// The kernel's own signal set has 64 bits on every architecture but MIPS; libc's type is larger.
const KERNEL_SIGNAL_SET_BYTES: usize = 8;

/// One event: the token given at registration, and the conditions reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) failed: bool,
    /// The peer has ended its side of a connection.
    pub(crate) ended: bool,
}

/// A set of sockets whose readiness can be polled and waited for.
///
/// A ready socket is reported at least once before it is drained, and again if it becomes ready after that. A condition
/// may be reported repeatedly while it lasts.
#[derive(Debug)]
pub(crate) struct Poll {
    watched: Watched,
    /// The events of the last call: the first `taken`.
    events: Vec<EpollEvent>,
    taken: usize,
}

#[derive(Debug)]
enum Watched {
    /// At most [`FEW`], level-triggered: the kernel's entries, and the token of each. A condition is reported as long
    /// as it lasts.
    Few {
        sockets: Vec<libc::pollfd>,
        tokens: Vec<u64>,
    },
    /// Any number, edge-triggered: each condition is reported once, so that 65,536 idle sockets cost nothing and a busy
    /// one is not reported again before it is drained.
    Many {
        epoll: Epoll,
        /// The kernel or a seccomp filter does not support `epoll_pwait2` (Linux 5.11): `ppoll` waits on the epoll
        /// descriptor instead.
        is_old: bool,
    },
}

impl Poll {
    pub(crate) fn new() -> Self {
        Self {
            watched: Watched::Few {
                sockets: Vec::new(),
                tokens: Vec::new(),
            },
            events: vec![EpollEvent::empty(); EVENTS],
            taken: 0,
        }
    }

    /// Registers a socket for `events` (`EPOLLIN` and `EPOLLOUT`, which equal `POLLIN` and `POLLOUT`). The caller
    /// [removes](Self::remove) it before it is closed.
    pub(crate) fn add(&mut self, socket: BorrowedFd<'_>, token: u64, events: EpollFlags) -> io::Result<()> {
        if let Watched::Few { sockets, tokens } = &mut self.watched
            && sockets.len() < FEW
        {
            sockets.push(pollfd(socket.as_raw_fd(), events));
            tokens.push(token);
            return Ok(());
        }
        Ok(self.many()?.add(socket, edge(events, token))?)
    }

    /// Watches a listener or a connection for all events as long as it is open. Each condition is reported once when it
    /// begins, and the caller keeps the state, so that no further registration is needed. Requires epoll.
    pub(crate) fn watch_stream(&mut self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let all = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP;
        Ok(self.many()?.add(socket, edge(all, token))?)
    }

    /// The epoll instance. Creates it and moves the sockets to it if there is none yet.
    fn many(&mut self) -> io::Result<&Epoll> {
        if let Watched::Few { sockets, tokens } = &self.watched {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            for (socket, token) in sockets.iter().zip(tokens) {
                let events = EpollFlags::from_bits_retain(socket.events.into());
                // SAFETY: a socket is removed before it is closed.
                let socket = unsafe { BorrowedFd::borrow_raw(socket.fd) };
                epoll.add(socket, edge(events, *token))?;
            }
            self.watched = Watched::Many { epoll, is_old: false };
        }
        match &self.watched {
            Watched::Many { epoll, .. } => Ok(epoll),
            Watched::Few { .. } => unreachable!("they were moved above"),
        }
    }

    /// Changes the events to report; conditions that hold already are reported again.
    pub(crate) fn change(
        &mut self,
        socket: BorrowedFd<'_>,
        token: u64,
        events: EpollFlags,
    ) -> io::Result<()> {
        match &mut self.watched {
            Watched::Few { sockets, tokens } => {
                let fd = socket.as_raw_fd();
                if let Some(place) = sockets.iter().position(|known| known.fd == fd) {
                    (sockets[place], tokens[place]) = (pollfd(fd, events), token);
                }
                Ok(())
            }
            Watched::Many { epoll, .. } => Ok(epoll.modify(socket, &mut edge(events, token))?),
        }
    }

    /// Removes a socket. Required before it is closed: its number may be reused, and a duplicate may keep it open.
    pub(crate) fn remove(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        match &mut self.watched {
            Watched::Few { sockets, tokens } => {
                let fd = socket.as_raw_fd();
                if let Some(place) = sockets.iter().position(|known| known.fd == fd) {
                    sockets.swap_remove(place);
                    tokens.swap_remove(place);
                }
            }
            Watched::Many { epoll, .. } => epoll.delete(socket)?,
        }
        Ok(())
    }

    /// The number of events that the last call reported.
    pub(crate) fn reported(&self) -> usize {
        self.taken
    }

    /// One of the events that the last call reported.
    pub(crate) fn event(&self, index: usize) -> Ready {
        let event = &self.events[index];
        let bits = event.events().bits();
        Ready {
            token: event.data(),
            read: bits & libc::EPOLLIN != 0,
            write: bits & libc::EPOLLOUT != 0,
            failed: bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0,
            ended: bits & (libc::EPOLLRDHUP | libc::EPOLLHUP) != 0,
        }
    }

    /// Fetches the available events without waiting.
    pub(crate) fn check(&mut self) -> io::Result<()> {
        match &mut self.watched {
            Watched::Few { .. } => self.poll_few(Time::default(), None),
            Watched::Many { epoll, .. } => {
                self.taken = epoll.wait(&mut self.events, EpollTimeout::ZERO)?;
                Ok(())
            }
        }
    }

    /// Sleeps until `until` with a signal mask, regardless of the sockets. A signal ends it early.
    pub(crate) fn rest(until: Time, while_resting: &SigSet) -> io::Result<()> {
        poll(&mut [], until, Some(while_resting)).map(drop)
    }

    /// Waits for events until `until` with a signal mask. A signal ends the wait early, with no events.
    pub(crate) fn sleep(&mut self, until: Time, while_waiting: &SigSet) -> io::Result<()> {
        let Watched::Many { epoll, is_old } = &mut self.watched else {
            return self.poll_few(until, Some(while_waiting));
        };
        if !*is_old {
            match wait(epoll, &mut self.events, until, while_waiting) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    *is_old = true;
                }
                taken => {
                    self.taken = taken?;
                    return Ok(());
                }
            }
        }
        let mut itself = [pollfd(epoll.0.as_raw_fd(), EpollFlags::EPOLLIN)];
        poll(&mut itself, until, Some(while_waiting))?;
        self.check()
    }

    fn poll_few(&mut self, until: Time, while_waiting: Option<&SigSet>) -> io::Result<()> {
        let Watched::Few { sockets, tokens } = &mut self.watched else {
            return Ok(());
        };
        poll(sockets, until, while_waiting)?;
        self.taken = 0;
        for (socket, token) in sockets.iter().zip(tokens) {
            if socket.revents != 0 {
                let events = EpollFlags::from_bits_retain(i32::from(socket.revents));
                self.events[self.taken] = EpollEvent::new(events, *token);
                self.taken += 1;
            }
        }
        Ok(())
    }
}

fn pollfd(fd: RawFd, events: EpollFlags) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: events.bits() as libc::c_short,
        revents: 0,
    }
}

/// An edge-triggered registration.
fn edge(events: EpollFlags, token: u64) -> EpollEvent {
    EpollEvent::new(events | EpollFlags::EPOLLET, token)
}

/// Waits for events until `until` with a signal mask; returns their number, 0 if a signal arrived.
fn wait(epoll: &Epoll, events: &mut [EpollEvent], until: Time, while_waiting: &SigSet) -> io::Result<usize> {
    let timeout = timespec(until);
    let timeout_pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mask: *const libc::sigset_t = while_waiting.as_ref();
    // SAFETY: the kernel writes at most as many events as the slice holds; timeout and mask outlive the call, and the
    // mask is at least as long as the size passed.
    returned(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.0.as_raw_fd(),
            events.as_mut_ptr(),
            events.len() as libc::c_int,
            timeout_pointer,
            mask,
            KERNEL_SIGNAL_SET_BYTES,
        )
    })
}

/// Waits for events of a few descriptors until `until`; a time in the past polls without waiting.
fn poll(sockets: &mut [libc::pollfd], until: Time, while_waiting: Option<&SigSet>) -> io::Result<usize> {
    let timeout = timespec(until);
    let timeout_pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mask = while_waiting.map_or(std::ptr::null(), |mask| std::ptr::from_ref(mask.as_ref()));
    let count = sockets.len() as libc::nfds_t;
    // SAFETY: the kernel reads and writes as many entries as the slice holds; timeout and mask outlive the call.
    let ready = unsafe { libc::ppoll(sockets.as_mut_ptr(), count, timeout_pointer, mask) };
    returned(i64::from(ready))
}

/// The result of a call; 0 if a signal interrupted it.
fn returned(result: i64) -> io::Result<usize> {
    match usize::try_from(result).map_err(|_| io::Error::last_os_error()) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}

/// The time left until `until`; none for [`Time::NEVER`].
fn timespec(until: Time) -> Option<libc::timespec> {
    // Polling without waiting does not need the clock.
    let left = match until.nanoseconds() {
        0 => Duration::ZERO,
        _ => until.since(Time::now()),
    };
    (until != Time::NEVER).then(|| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(left.subsec_nanos()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    const READ: EpollFlags = EpollFlags::EPOLLIN;

    fn tokens(poll: &mut Poll) -> Vec<u64> {
        poll.check().unwrap();
        let mut tokens: Vec<u64> = (0..poll.reported())
            .map(|index| poll.event(index).token)
            .collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn readable_sockets_are_reported_for_any_number_of_sockets() {
        let sockets: Vec<UdpSocket> = (0..3 * FEW)
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect();
        let mut poll = Poll::new();
        for (token, socket) in sockets.iter().enumerate() {
            poll.add(socket.as_fd(), token as u64, READ).unwrap();
            let many = matches!(poll.watched, Watched::Many { .. });
            assert_eq!(many, token >= FEW, "socket {token}");
            sockets[token / 2]
                .send_to(b"x", socket.local_addr().unwrap())
                .unwrap();
            let reported = tokens(&mut poll);
            assert!(reported.contains(&(token as u64)), "socket {token}: {reported:?}");
        }
        for (token, socket) in sockets.iter().enumerate() {
            poll.remove(socket.as_fd()).unwrap();
            let reported = tokens(&mut poll);
            assert!(
                !reported.contains(&(token as u64)),
                "socket {token}: {reported:?}"
            );
        }
    }

    #[test]
    fn only_requested_events_are_reported() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut poll = Poll::new();
        poll.add(socket.as_fd(), 7, EpollFlags::empty()).unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert!(tokens(&mut poll).is_empty());
        poll.change(socket.as_fd(), 8, EpollFlags::EPOLLOUT).unwrap();
        poll.check().unwrap();
        let event = poll.event(0);
        assert_eq!(
            (event.token, event.read, event.write, event.failed),
            (8, false, true, false)
        );
    }

    /// A poll with one socket, using `ppoll` or epoll.
    fn with_socket(many: bool) -> (Poll, UdpSocket) {
        let (mut poll, socket) = (Poll::new(), UdpSocket::bind("127.0.0.1:0").unwrap());
        if many {
            poll.many().unwrap();
        }
        poll.add(socket.as_fd(), 7, READ).unwrap();
        (poll, socket)
    }

    #[test]
    fn few_sockets_are_reported_as_long_as_they_are_ready() {
        let (mut poll, socket) = with_socket(false);
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        for _ in 0..2 {
            poll.sleep(Time::NEVER, &SigSet::empty()).unwrap();
            let event = poll.event(0);
            assert_eq!((poll.reported(), event.token, event.read), (1, 7, true));
        }
        socket.recv(&mut [0; 1]).unwrap();
        assert!(tokens(&mut poll).is_empty());
    }

    #[test]
    fn many_sockets_are_reported_once_per_edge_and_again_after_a_change() {
        let (mut poll, socket) = with_socket(true);
        socket.send_to(b"edge", socket.local_addr().unwrap()).unwrap();
        assert_eq!(tokens(&mut poll), [7]);
        assert!(tokens(&mut poll).is_empty());
        poll.change(socket.as_fd(), 8, READ).unwrap();
        assert_eq!(tokens(&mut poll), [8]);
    }

    #[test]
    fn a_wait_lasts_until_its_deadline_or_an_event() {
        for (many, old) in [(false, false), (true, false), (true, true)] {
            let (mut poll, socket) = with_socket(many);
            if let Watched::Many { is_old, .. } = &mut poll.watched {
                *is_old = old;
            }
            let until = Time::now() + Duration::from_micros(2_500);
            poll.sleep(until, &SigSet::empty()).unwrap();
            assert!(Time::now() >= until, "many {many}, old {old}");
            assert_eq!(poll.reported(), 0);
            socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
            poll.sleep(Time::NEVER, &SigSet::empty()).unwrap();
            assert_eq!(poll.reported(), 1, "many {many}, old {old}");
        }
    }
}
