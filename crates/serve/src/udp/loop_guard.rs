//! Loops of answers: two servers that answer each other's answers for ever, started by one datagram with a forged
//! sender.
//!
//! Two means end them. An echo marks its address for the others of its network namespace with an abstract Unix socket,
//! and none answers a marked address ([`LocalEchoes`]). What comes back from anywhere unchanged, very
//! often, is withheld once ([`Repeats`]). Payloads stay as they were sent.

use crate::shared::lock;
use arc_swap::ArcSwap;
use corelane_worker::engine::Datagram;
use nix::ifaddrs::getifaddrs;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Name of the abstract Unix socket that marks an address, before the address.
const MARK: &str = "corelane/echo/";

/// Age at which the list of echoes is read again. A loop takes two servers, and the one started last knows the other
/// from its start.
const LONGEST_AGE: Duration = Duration::from_secs(1);

/// Repetitions, estimated from the samples, before one answer is withheld.
const MOST_REPEATS: u32 = 1 << 14;

const SLOTS: usize = 256;

/// Addresses of this network namespace at which an echo answers.
pub(super) struct LocalEchoes {
    /// One bit per port at which there is an echo.
    ports: Box<[AtomicU64]>,
    known: ArcSwap<Known>,
    listing: Mutex<Listing>,
}

#[derive(Default)]
struct Known {
    echoes: HashSet<SocketAddr>,
    /// Addresses of this machine, for echoes on a wildcard address.
    own: HashSet<IpAddr>,
}

#[derive(Default)]
struct Listing {
    /// The mark of the own address.
    mark: Option<UnixDatagram>,
    read: Option<Instant>,
}

impl LocalEchoes {
    pub(super) fn new() -> Self {
        Self {
            ports: (0..1 << 10).map(|_| AtomicU64::new(0)).collect(),
            known: ArcSwap::default(),
            listing: Mutex::default(),
        }
    }

    /// Whether an echo of this machine would receive an answer to this address.
    pub(super) fn includes(&self, peer: SocketAddr) -> bool {
        let (word, bit) = place(peer.port());
        if self.ports[word].load(Ordering::Relaxed) & bit == 0 {
            return false;
        }
        // Not on the common path. The list is old: an echo that ended leaves its port to a client.
        let (address, known) = (peer.ip().to_canonical(), self.known.load());
        let is_echo = |ip: IpAddr| {
            let echo = SocketAddr::new(ip, peer.port());
            known.echoes.contains(&echo) && is_marked(echo)
        };
        let is_own = address.is_loopback() || known.own.contains(&address);
        let mut wildcards = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].into_iter();
        is_echo(address) || is_own && wildcards.any(is_echo)
    }

    /// Marks the own address, and reads the marks of the others if the list is old. If the system refuses either, loops
    /// are still ended by [`Repeats`].
    pub(super) fn refresh(&self, own: SocketAddr) {
        let mut listing = lock(&self.listing);
        if listing.read.is_some_and(|read| read.elapsed() < LONGEST_AGE) {
            return;
        }
        listing.read = Some(Instant::now());
        if listing.mark.is_none() {
            listing.mark = mark(own).ok();
        }
        // Bytes, because names of other sockets are any bytes.
        let listed = std::fs::read("/proc/thread-self/net/unix").unwrap_or_default();
        let marked = |line: &[u8]| -> Option<SocketAddr> {
            let line = String::from_utf8_lossy(line);
            line.rsplit_once(&format!("@{MARK}"))?.1.parse().ok()
        };
        let echoes: HashSet<_> = listed.split(|byte| *byte == b'\n').filter_map(marked).collect();
        let mut words = vec![0_u64; self.ports.len()];
        for (word, bit) in echoes.iter().map(|echo| place(echo.port())) {
            words[word] |= bit;
        }
        let addresses = getifaddrs().into_iter().flatten().filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
            v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
        });
        let own = addresses.chain([own.ip()]).collect();
        self.known.store(Arc::new(Known { echoes, own }));
        for (port, word) in self.ports.iter().zip(words) {
            port.store(word, Ordering::Relaxed);
        }
    }
}

/// Marks an address while the socket is open; an error if it is marked already.
fn mark(address: SocketAddr) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&name_of_mark(address)?)
}

/// Whether an address is marked now; true if that cannot be found out.
fn is_marked(address: SocketAddr) -> bool {
    let connected = name_of_mark(address).and_then(|name| UnixDatagram::unbound()?.connect_addr(&name));
    !connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn name_of_mark(address: SocketAddr) -> io::Result<UnixAddress> {
    UnixAddress::from_abstract_name(format!("{MARK}{address}"))
}

fn place(port: u16) -> (usize, u64) {
    (usize::from(port >> 6), 1 << (port & 63))
}

/// Counts datagrams that are equal, by a sample: same sender, same payload. Per slot, the majority of what is mapped to it
/// stays (Boyer and Moore), so that a loop is found beside any amount of other traffic.
pub(super) struct Repeats {
    slots: Box<[(u64, u32); SLOTS]>,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self {
            slots: Box::new([(0, 0); SLOTS]),
        }
    }

    /// Records a sampled datagram that stands for a number of them; true if its answer is to be withheld, and then its
    /// count begins again.
    pub(super) fn record(&mut self, datagram: &Datagram<'_>, stands_for: u32) -> bool {
        let mut hasher = DefaultHasher::new();
        (datagram.peer, datagram.payload).hash(&mut hasher);
        let hash = hasher.finish();
        let (held, count) = &mut self.slots[hash as usize % SLOTS];
        if *held == hash {
            *count += stands_for;
        } else if *count == 0 {
            (*held, *count) = (hash, stands_for);
        } else {
            *count = count.saturating_sub(stands_for);
        }
        let repeats = *held == hash && *count > MOST_REPEATS;
        if repeats {
            *count = 0;
        }
        repeats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    /// Whether the answer to a sample of this payload, for which no other stands, is withheld.
    fn records(repeats: &mut Repeats, peer: SocketAddr, payload: &[u8]) -> bool {
        let datagram = Datagram {
            peer,
            payload,
            truncated: false,
            destination: None,
            broadcast: false,
            merged: false,
        };
        repeats.record(&datagram, 1)
    }

    #[test]
    fn what_repeats_is_withheld_once_beside_any_other_traffic() {
        let mut repeats = Repeats::new();
        let mut withheld = 0;
        for turn in 0_u32..2 * MOST_REPEATS + 2 {
            withheld += u32::from(records(&mut repeats, peer(1), b"loop"));
            for other in 0..8_u32 {
                assert!(!records(&mut repeats, peer(2), &(turn * 8 + other).to_be_bytes()));
            }
        }
        assert!((1..=2).contains(&withheld), "{withheld}");
    }

    #[test]
    fn payloads_that_differ_and_peers_that_differ_do_not_repeat() {
        let mut repeats = Repeats::new();
        for turn in 0..100_000_u32 {
            assert!(!records(&mut repeats, peer(1), &turn.to_be_bytes()));
            assert!(!records(&mut repeats, peer(turn as u16), b"alike"));
        }
    }

    #[test]
    fn a_marked_address_is_known_to_others_until_its_echo_ends() {
        // Ports that no test and no ephemeral socket has; the marks bind no port.
        let at = |ip: [u8; 4], port: u16| SocketAddr::from((ip, port));
        let (one, wildcard, other) = (LocalEchoes::new(), LocalEchoes::new(), LocalEchoes::new());
        one.refresh(at([192, 0, 2, 7], 31));
        wildcard.refresh(at([0; 4], 32));
        other.refresh(at([192, 0, 2, 7], 33));
        assert!(other.includes(at([192, 0, 2, 7], 31)) && other.includes(at([127, 0, 0, 1], 32)));
        assert!(other.includes("[::ffff:127.0.0.1]:32".parse().unwrap()));
        let clients = [peer(31), peer(32), at([127, 0, 0, 1], 31), at([127, 0, 0, 1], 30)];
        assert!(!clients.into_iter().any(|client| other.includes(client)));
        drop((one, wildcard));
        // At once, although the list is not read again so soon.
        assert!(!other.includes(at([192, 0, 2, 7], 31)) && !other.includes(at([127, 0, 0, 1], 32)));
    }
}
