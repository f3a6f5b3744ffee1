//! The socket that receives the packets of a flow, the processes that hold it, and the CPU they run on.
//!
//! Input: a flow as seen by its receiver on this machine. Output: the sockets that the kernel may choose, as sock_diag
//! netlink lists them (`linux/inet_diag.h`), and the processes and threads of each, from `/proc`. Other users'
//! processes are visible only with privilege; a socket without visible holders has an empty list.

mod diag;
mod owners;

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::thread;

use corelane_rss::Protocol;
use nix::sched::{CloneFlags, setns};

pub use owners::{Holder, Owner, Thread};

use crate::HostError;
use crate::tree::Tree;

/// Finds the sockets that receive packets of `protocol` from `remote` to `local`: one, or the members of a reuseport
/// group in the order in which their holder opened them. Empty if nobody listens.
///
/// # Errors
///
/// [`HostError::Netlink`] if the kernel does not support sock_diag.
pub fn owners(protocol: Protocol, local: SocketAddr, remote: SocketAddr) -> Result<Vec<Owner>, HostError> {
    let Some(number) = number(protocol) else {
        return Ok(Vec::new());
    };
    let listed = diag::sockets(number, local, remote)?;
    let mut owners = best(listed, local, remote);
    owners::hold(&Tree::machine(), &mut owners);
    Ok(owners)
}

/// The listeners or the unconnected UDP sockets of a port in the network namespace of a process, with the holders among
/// `processes`; IPv4 before IPv6, each in the kernel's order. A process that may not be read holds none.
///
/// # Errors
///
/// [`HostError::Netlink`] if the kernel does not support sock_diag; [`HostError::Read`] or [`HostError::Failed`] if the
/// namespace cannot be entered.
pub fn serving(
    process: u32,
    protocol: Protocol,
    port: u16,
    processes: &[u32],
) -> Result<Vec<Owner>, HostError> {
    let state = match protocol {
        Protocol::Tcp => diag::LISTENING,
        _ => diag::UNCONNECTED,
    };
    let Some(number) = number(protocol) else {
        return Ok(Vec::new());
    };
    let mut owners = in_namespace_of(process, || diag::of_port(number, port, 1 << state))?;
    owners::find_holders(&Tree::machine(), &mut owners, processes.iter().copied());
    Ok(owners)
}

/// Whether a TCP listener in this thread's network namespace accepts connections to `address`.
///
/// # Errors
///
/// [`HostError::Netlink`] if the kernel does not support sock_diag.
pub fn listens(address: SocketAddr) -> Result<bool, HostError> {
    let listed = diag::of_port(libc::IPPROTO_TCP as u8, address.port(), 1 << diag::LISTENING)?;
    // A listener of `::` accepts IPv4, too, unless it was told not to.
    let accepts =
        |local: SocketAddr| local.ip().to_canonical() == address.ip() || local.ip().is_unspecified();
    Ok(listed.iter().any(|owner| accepts(owner.local)))
}

/// The addresses at which these processes, by their numbers in `/proc`, listen for TCP connections in this thread's
/// network namespace. A process that may not be read holds none.
///
/// # Errors
///
/// [`HostError::Netlink`] if the kernel does not support sock_diag.
pub fn listeners_of(processes: &[u32]) -> Result<Vec<SocketAddr>, HostError> {
    // No port is every port.
    let mut listed = diag::of_port(libc::IPPROTO_TCP as u8, 0, 1 << diag::LISTENING)?;
    let tree = Tree::machine();
    owners::find_holders(&tree, &mut listed, processes.iter().copied());
    // A thread may have a table of descriptors of its own.
    for process in processes {
        owners::hold_by_threads(&tree, *process, &mut listed);
    }
    listed.retain(|owner| !owner.holders.is_empty());
    Ok(listed.iter().map(|owner| owner.local).collect())
}

fn number(protocol: Protocol) -> Option<u8> {
    match protocol {
        Protocol::Tcp => Some(libc::IPPROTO_TCP as u8),
        Protocol::Udp => Some(libc::IPPROTO_UDP as u8),
        Protocol::Other => None,
    }
}

/// Runs `work` in the network namespace of a process.
///
/// # Errors
///
/// [`HostError::Read`] or [`HostError::Failed`] if the namespace cannot be entered, and those of `work`.
pub fn in_namespace_of<T: Send>(
    process: u32,
    work: impl FnOnce() -> Result<T, HostError> + Send,
) -> Result<T, HostError> {
    let path = format!("/proc/{process}/ns/net");
    let name = |path: &str| fs::read_link(path).map_err(|cause| HostError::read(path, cause));
    if name(&path)? == name("/proc/thread-self/ns/net")? {
        return work();
    }
    let namespace = File::open(&path).map_err(|cause| HostError::read(&path, cause))?;
    let enter = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|error| {
            HostError::Failed(format!(
                "cannot enter the network namespace of process {process}: {error}; run as root"
            ))
        })?;
        work()
    };
    thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Owner {
    /// A socket as the kernel lists it, before its holders are known.
    fn listed(inode: u32, local: SocketAddr, remote: SocketAddr, listens: bool) -> Self {
        Self {
            inode,
            local,
            remote,
            listens,
            holders: Vec::new(),
            cpu: None,
            cpu_by: None,
        }
    }

    /// The process that reads it: of several, such as a server's master and its worker, the one that waits for it or watches it.
    #[must_use]
    pub fn reader(&self) -> Option<&Holder> {
        let waits = self.holders.iter().find(|holder| !holder.waiting.is_empty());
        let watches = || self.holders.iter().find(|holder| holder.watched);
        waits.or_else(watches).or(self.holders.first())
    }

    /// The CPU that it is handled on, and how that was determined.
    pub(crate) fn settled(&self) -> Option<(u32, &str)> {
        Some((self.cpu?, self.cpu_by.as_deref()?))
    }
}

/// The same for the only socket of one end.
pub(crate) fn settled(owners: &[Owner]) -> Option<(u32, &str)> {
    match owners {
        [one] => one.settled(),
        _ => None,
    }
}

/// The best matches: a connected socket before one bound to the address, before one bound to any address
/// (`compute_score` in `net/ipv4/udp.c` and `net/ipv4/inet_hashtables.c`).
fn best(listed: Vec<Owner>, local: SocketAddr, remote: SocketAddr) -> Vec<Owner> {
    let scored = |socket| Some((score(&socket, local, remote)?, socket));
    let fitting: Vec<(u32, Owner)> = listed.into_iter().filter_map(scored).collect();
    let most = fitting.iter().map(|(score, _)| *score).max();
    let best = fitting.into_iter().filter(|(score, _)| Some(*score) == most);
    best.map(|(_, socket)| socket).collect()
}

fn score(socket: &Owner, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let same = |one: IpAddr, other: IpAddr| one.to_canonical() == other.to_canonical();
    if socket.local.port() != local.port() {
        return None;
    }
    let mut score = u32::from(socket.local.is_ipv4() == local.is_ipv4());
    if !socket.local.ip().is_unspecified() {
        if !same(socket.local.ip(), local.ip()) {
            return None;
        }
        score += 4;
    } else if socket.local.is_ipv4() && local.is_ipv6() {
        return None;
    }
    if socket.remote.port() != 0 {
        if socket.remote.port() != remote.port() || !same(socket.remote.ip(), remote.ip()) {
            return None;
        }
        score += 8;
    }
    Some(score)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    fn listed(local: &str, remote: &str, inode: u32) -> Owner {
        Owner::listed(inode, local.parse().unwrap(), remote.parse().unwrap(), false)
    }

    #[test]
    fn a_connected_socket_goes_before_a_bound_one_before_any() {
        let all = vec![
            listed("0.0.0.0:53", "0.0.0.0:0", 1),
            listed("[::]:53", "[::]:0", 2),
            listed("10.0.0.1:53", "0.0.0.0:0", 3),
            listed("10.0.0.1:53", "0.0.0.0:0", 4),
            listed("10.0.0.1:53", "10.0.0.9:7", 5),
            listed("10.0.0.1:54", "0.0.0.0:0", 6),
        ];
        let chosen = |local: &str, remote: &str| {
            let best = best(all.clone(), local.parse().unwrap(), remote.parse().unwrap());
            best.iter().map(|socket| socket.inode).collect::<Vec<_>>()
        };
        assert_eq!(chosen("10.0.0.1:53", "10.0.0.9:7"), [5]);
        assert_eq!(chosen("10.0.0.1:53", "10.0.0.9:8"), [3, 4]);
        assert_eq!(chosen("10.0.0.2:53", "10.0.0.9:8"), [1]);
        assert_eq!(chosen("[2001:db8::1]:53", "[2001:db8::2]:8"), [2]);
        assert_eq!(chosen("10.0.0.2:55", "10.0.0.9:8"), [0; 0]);
    }

    #[test]
    fn a_socket_of_this_process_is_found_with_its_holder() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(address).unwrap();
            let local = socket.local_addr().unwrap();
            let found = owners(Protocol::Udp, local, SocketAddr::new(local.ip(), 9)).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].local, local);
            let own = found[0]
                .holders
                .iter()
                .find(|holder| holder.process == std::process::id());
            assert!(own.is_some(), "{:?}", found[0].holders);
            let process = std::process::id();
            let mut serving = serving(process, Protocol::Udp, local.port(), &[process]).unwrap();
            // Tests beside this one may have the port at other addresses.
            serving.retain(|owner| owner.local == local);
            assert_eq!(serving.len(), 1, "{serving:?}");
            assert_eq!(serving[0].holders[0].process, process);
        }
    }

    #[test]
    fn the_listeners_of_a_process_are_found_on_whatever_port() {
        let [one, other] = ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).unwrap());
        let found = listeners_of(&[std::process::id()]).unwrap();
        for listener in [one, other] {
            assert!(found.contains(&listener.local_addr().unwrap()), "{found:?}");
        }
        assert_eq!(listeners_of(&[]).unwrap(), []);
    }

    #[test]
    fn a_listener_is_found_until_a_connection_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let found = owners(Protocol::Tcp, local, "127.0.0.1:9".parse().unwrap()).unwrap();
        assert_eq!(
            found.iter().map(|owner| owner.listens).collect::<Vec<_>>(),
            [true]
        );
        let client = std::net::TcpStream::connect(local).unwrap();
        let (_server, remote) = listener.accept().unwrap();
        let found = owners(Protocol::Tcp, local, remote).unwrap();
        assert_eq!(
            found.iter().map(|owner| owner.listens).collect::<Vec<_>>(),
            [false]
        );
        let found = owners(Protocol::Tcp, client.local_addr().unwrap(), local).unwrap();
        assert_eq!(found.len(), 1);
    }
}
