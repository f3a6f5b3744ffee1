//! Waiting until sockets are ready: deadlines in nanoseconds, 64-bit tokens.
//!
//! A socket that epoll watches has a listener for as long as it is watched, and the kernel calls it for every datagram
//! that the socket has sent or received, although nobody waits: 110 of 2,700 ns of a datagram sent (journal,
//! 2026-11-20-engines). A worker that is busy asks for no such call. So while there are few sockets they are named to
//! the kernel in each wait ([`few`]), which then listens only during that; when there are more, epoll watches all of them
//! ([`epoll`]).

mod epoll;
mod few;

use crate::time::Time;
use epoll::Epoll;
use few::Few;
use nix::sys::signal::SigSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What to be told of about a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// One event: the token given at registration, and what may be done now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) failed: bool,
    /// The peer has ended its side of a connection.
    pub(crate) ended: bool,
}

/// Sockets whose readiness can be asked and waited for.
///
/// What is ready is told at least once before it is drained, and again after it was; an event may be told again while it
/// lasts.
#[derive(Debug)]
pub(crate) enum Poll {
    /// So few that naming all of them in each wait costs less than being told of everything.
    Few(Few),
    /// Any number.
    Many(Epoll),
}

impl Poll {
    pub(crate) fn new() -> Self {
        Self::Few(Few::default())
    }

    pub(crate) fn add(&mut self, socket: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        if let Self::Few(few) = self
            && few.add(socket.as_raw_fd(), token, interest)
        {
            return Ok(());
        }
        self.many()?.add(socket.as_raw_fd(), token, interest)
    }

    /// Watches a listener or a connection for everything, for as long as it is open: each thing is told once when it
    /// begins, and what was told is remembered by whoever asks. So no further call is made for it. That takes epoll.
    pub(crate) fn watch_stream(&mut self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.many()?.add_stream(socket.as_raw_fd(), token)
    }

    /// epoll, which the few are handed over to.
    fn many(&mut self) -> io::Result<&mut Epoll> {
        if let Self::Few(few) = self {
            let epoll = Epoll::new()?;
            for (socket, token, interest) in few.watched() {
                epoll.add(socket, token, interest)?;
            }
            *self = Self::Many(epoll);
        }
        match self {
            Self::Many(epoll) => Ok(epoll),
            Self::Few(_) => unreachable!("they were handed over above"),
        }
    }

    /// Changes what is told; whatever is ready already is told anew.
    pub(crate) fn change(
        &mut self,
        socket: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Few(few) => {
                few.change(socket.as_raw_fd(), token, interest);
                Ok(())
            }
            Self::Many(epoll) => epoll.change(socket.as_raw_fd(), token, interest),
        }
    }

    /// Before a socket is closed it has to be removed: its number may be another's next, and a copy may keep it open.
    pub(crate) fn remove(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Self::Few(few) => {
                few.remove(socket.as_raw_fd());
                Ok(())
            }
            Self::Many(epoll) => epoll.remove(socket.as_raw_fd()),
        }
    }

    /// How many events the last call told.
    pub(crate) fn told(&self) -> usize {
        match self {
            Self::Few(few) => few.told(),
            Self::Many(epoll) => epoll.told(),
        }
    }

    /// One of the events that the last call told.
    pub(crate) fn event(&self, index: usize) -> Ready {
        match self {
            Self::Few(few) => few.event(index),
            Self::Many(epoll) => epoll.event(index),
        }
    }

    /// Takes the events that are there.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        match self {
            Self::Few(few) => few.look(),
            Self::Many(epoll) => epoll.look(),
        }
    }

    /// Sleeps until a moment, under a signal mask, whatever happens on the sockets. A signal ends it early.
    pub(crate) fn rest(until: Time, while_resting: &SigSet) -> io::Result<()> {
        Few::default().sleep(until, while_resting)
    }

    /// Waits for events until a moment, under a signal mask. A signal ends the wait early, with no events.
    pub(crate) fn sleep(&mut self, until: Time, while_waiting: &SigSet) -> io::Result<()> {
        match self {
            Self::Few(few) => few.sleep(until, while_waiting),
            Self::Many(epoll) => epoll.sleep(until, while_waiting),
        }
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    const READ: Interest = Interest {
        read: true,
        write: false,
    };

    fn tokens(poll: &mut Poll) -> Vec<u64> {
        poll.look().unwrap();
        let mut tokens: Vec<u64> = (0..poll.told()).map(|index| poll.event(index).token).collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn however_many_sockets_there_are_those_with_something_to_read_are_told() {
        let sockets: Vec<UdpSocket> = (0..3 * few::MOST)
            .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
            .collect();
        let mut poll = Poll::new();
        for (token, socket) in sockets.iter().enumerate() {
            poll.add(socket.as_fd(), token as u64, READ).unwrap();
            let many = matches!(poll, Poll::Many(_));
            assert_eq!(many, token >= few::MOST, "socket {token}");
            sockets[token / 2]
                .send_to(b"x", socket.local_addr().unwrap())
                .unwrap();
            let told = tokens(&mut poll);
            assert!(told.contains(&(token as u64)), "socket {token}: {told:?}");
        }
        for (token, socket) in sockets.iter().enumerate() {
            poll.remove(socket.as_fd()).unwrap();
            let told = tokens(&mut poll);
            assert!(!told.contains(&(token as u64)), "socket {token}: {told:?}");
        }
    }

    #[test]
    fn what_is_not_asked_for_is_not_told() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut poll = Poll::new();
        poll.add(socket.as_fd(), 7, Interest::default()).unwrap();
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        assert!(tokens(&mut poll).is_empty());
        let write = Interest {
            read: false,
            write: true,
        };
        poll.change(socket.as_fd(), 8, write).unwrap();
        poll.look().unwrap();
        let event = poll.event(0);
        assert_eq!(
            (event.token, event.read, event.write, event.failed),
            (8, false, true, false)
        );
    }
}
