//! A few sockets, all named to the kernel in each wait (`ppoll`).

use super::{Interest, Ready, timespec};
use crate::time::Time;
use nix::sys::signal::SigSet;
use std::io;
use std::os::fd::RawFd;

/// Sockets that are few: with so many a wait costs what it does with epoll, with twice as many a third more (journal,
/// 2026-11-20-engines).
pub(super) const MOST: usize = 8;

/// At most [`MOST`] sockets. An event is told for as long as it lasts.
#[derive(Debug, Default)]
pub(crate) struct Few {
    /// What the kernel is given and writes to, and the token of each.
    sockets: Vec<libc::pollfd>,
    tokens: Vec<u64>,
    /// Places of those that the last call told.
    told: Vec<usize>,
}

impl Few {
    /// Says whether there was room.
    pub(super) fn add(&mut self, socket: RawFd, token: u64, interest: Interest) -> bool {
        let room = self.sockets.len() < MOST;
        if room {
            self.sockets.push(libc::pollfd {
                fd: socket,
                events: events(interest),
                revents: 0,
            });
            self.tokens.push(token);
        }
        room
    }

    pub(super) fn change(&mut self, socket: RawFd, token: u64, interest: Interest) {
        if let Some(place) = self.place(socket) {
            self.sockets[place].events = events(interest);
            self.tokens[place] = token;
        }
    }

    pub(super) fn remove(&mut self, socket: RawFd) {
        if let Some(place) = self.place(socket) {
            self.sockets.swap_remove(place);
            self.tokens.swap_remove(place);
        }
        self.told.clear();
    }

    /// Every socket with its token and what is asked of it.
    pub(super) fn watched(&self) -> impl Iterator<Item = (RawFd, u64, Interest)> + '_ {
        self.sockets.iter().zip(&self.tokens).map(|(socket, token)| {
            let interest = Interest {
                read: socket.events & libc::POLLIN != 0,
                write: socket.events & libc::POLLOUT != 0,
            };
            (socket.fd, *token, interest)
        })
    }

    pub(super) fn told(&self) -> usize {
        self.told.len()
    }

    pub(super) fn event(&self, index: usize) -> Ready {
        let place = self.told[index];
        let told = self.sockets[place].revents;
        Ready {
            token: self.tokens[place],
            read: told & libc::POLLIN != 0,
            write: told & libc::POLLOUT != 0,
            failed: told & (libc::POLLERR | libc::POLLHUP) != 0,
            ended: false,
        }
    }

    pub(super) fn look(&mut self) -> io::Result<()> {
        self.poll(Some(Time::default()), None)
    }

    pub(super) fn sleep(&mut self, until: Time, while_waiting: &SigSet) -> io::Result<()> {
        self.poll((until != Time::NEVER).then_some(until), Some(while_waiting))
    }

    /// Without a moment it waits for ever; one that has passed is a look.
    fn poll(&mut self, until: Option<Time>, while_waiting: Option<&SigSet>) -> io::Result<()> {
        let timeout = until.map(|until| timespec(until.since(Time::now())));
        let timeout_pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mask = while_waiting.map_or(std::ptr::null(), |mask| std::ptr::from_ref(mask.as_ref()));
        // SAFETY: the kernel reads and writes as many entries as the vector holds; timeout and mask outlive the call.
        let told = unsafe {
            libc::ppoll(
                self.sockets.as_mut_ptr(),
                self.sockets.len() as libc::nfds_t,
                timeout_pointer,
                mask,
            )
        };
        self.told.clear();
        if told > 0 {
            let places = self.sockets.iter().enumerate();
            let told = places.filter(|(_, socket)| socket.revents != 0);
            self.told.extend(told.map(|(place, _)| place));
            return Ok(());
        }
        match io::Error::last_os_error() {
            _ if told == 0 => Ok(()),
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        }
    }

    fn place(&self, socket: RawFd) -> Option<usize> {
        self.sockets.iter().position(|entry| entry.fd == socket)
    }
}

fn events(interest: Interest) -> libc::c_short {
    let read = if interest.read { libc::POLLIN } else { 0 };
    let write = if interest.write { libc::POLLOUT } else { 0 };
    read | write
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    #[test]
    fn what_lasts_is_told_again() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut few = Few::default();
        let read = Interest {
            read: true,
            write: false,
        };
        assert!(few.add(socket.as_raw_fd(), 7, read));
        socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
        for _ in 0..2 {
            few.sleep(Time::NEVER, &SigSet::empty()).unwrap();
            assert_eq!((few.told(), few.event(0).token, few.event(0).read), (1, 7, true));
        }
        socket.recv(&mut [0; 1]).unwrap();
        few.look().unwrap();
        assert_eq!(few.told(), 0);
    }

    #[test]
    fn a_wait_lasts_until_its_deadline() {
        let mut few = Few::default();
        let until = Time::now() + Duration::from_micros(2_500);
        few.sleep(until, &SigSet::empty()).unwrap();
        assert!(Time::now() >= until);
        assert_eq!(few.told(), 0);
    }
}
