//! Observes on which CPU the kernel received or sent. Input: a sample of datagrams to or from one port. Output: their
//! endpoints, the CPU, and for sent ones the transmit queue.
//!
//! `SO_INCOMING_CPU` does not work: on an unconnected UDP socket it stays -1. So packet sockets watch the device, one
//! per CPU, joined in a fanout group that delivers every frame to the socket of the CPU that handles it.

mod filter;

use crate::Time;
use crate::group::Transport;
use crate::sampling::Interval;
use crate::system::address::array;
use crate::system::option;
use crate::watch::{WatchError, attach, check, index_of, open, read};
use corelane_rss::steer::Families;
use filter::filter;
use nix::unistd::{SysconfVar, sysconf};
use socket2::{Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Receive buffer of each socket, in bytes: some thousand headers between two polls. Datagrams that do not fit are not
/// sampled.
const BUFFER_BYTES: usize = 1 << 20;

/// Most samples that [`GroupObserver`] takes from a socket at once, so that one look ends under any load.
const MOST_SAMPLES: usize = 65_536;

/// `linux/if_packet.h`: the option, the mode that distributes by CPU, and the flag that requests an unused group
/// number.
const PACKET_FANOUT: i32 = 18;
const PACKET_FANOUT_CPU: u32 = 2;
const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000;

/// The direction of observed datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Received, addressed to a port.
    Received,
    /// Sent, from a port. While a socket observes this, the kernel copies the head of each frame that it sends.
    Sent,
}

/// What to observe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObserverSettings {
    /// The device, in the caller's network namespace; `None` observes all of them.
    pub device: Option<String>,
    /// Datagrams, or the segments of connections.
    pub transport: Transport,
    /// The direction.
    pub direction: Direction,
    /// The local endpoint of the datagrams: a port, and an address, which may be unspecified (any of its family).
    pub address: SocketAddr,
    /// Observes one datagram in `one_in`, at random; 1 observes all. [`GroupObserver`] begins with it.
    pub one_in: u32,
}

/// One observed datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sighting {
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// For received datagrams, the CPU that ran the kernel's receive path, after RPS if that is enabled; for sent ones,
    /// the CPU that passed it to the device.
    pub cpu: u32,
    /// The transmit queue; `None` for received datagrams and for frames too short to determine it.
    pub queue: Option<u16>,
}

/// Observes on which CPU datagrams are received or sent. It watches one direction of one device, costs a short filter
/// per frame of the address family, and works on any device, including loopback.
///
/// It does not see fragments or IPv6 datagrams with extension headers.
#[derive(Debug)]
pub struct Observer {
    /// One socket per CPU, in order.
    sockets: Vec<Socket>,
    settings: ObserverSettings,
}

impl Observer {
    /// Starts observing.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn new(settings: &ObserverSettings) -> Result<Self, WatchError> {
        if settings.one_in == 0 {
            return Err(WatchError::NoSample);
        }
        // Index 0 is every device.
        let device = settings.device.as_deref().map_or(Ok(0), index_of)?;
        // A socket bound to one protocol sees only received frames; one bound to all also sees sent frames.
        let protocol = match (settings.direction, settings.address) {
            (Direction::Sent, _) => libc::ETH_P_ALL,
            (Direction::Received, SocketAddr::V4(_)) => libc::ETH_P_IP,
            (Direction::Received, SocketAddr::V6(_)) => libc::ETH_P_IPV6,
        };
        let mut sockets = Vec::new();
        let mut fanout = (PACKET_FANOUT_CPU | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
        for _ in 0..cpus()? {
            let socket = open(device, protocol, Type::DGRAM, BUFFER_BYTES)?;
            let joined = option::set(&socket, libc::SOL_PACKET, PACKET_FANOUT, fanout);
            check("distribute frames by CPU", joined)?;
            if sockets.is_empty() {
                let group = option::get(&socket, libc::SOL_PACKET, PACKET_FANOUT);
                fanout = check("read the fanout group", group)? & 0xffff | PACKET_FANOUT_CPU << 16;
            }
            sockets.push(socket);
        }
        // The filters are attached last: until the group is complete, a socket also gets frames of other CPUs.
        let filter = filter(settings);
        for socket in &sockets {
            attach(socket, &filter)?;
        }
        Ok(Self {
            sockets,
            settings: settings.clone(),
        })
    }

    /// Observes one datagram in `one_in` from now on. What is queued was observed before: [`drain`](Self::drain) it first.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn sample(&mut self, one_in: u32) -> Result<(), WatchError> {
        self.settings.one_in = one_in;
        let filter = filter(&self.settings);
        self.sockets.iter().try_for_each(|socket| attach(socket, &filter))
    }

    /// Passes the datagrams observed since the last call, at most `most`, to `each`, without waiting. Returns their
    /// number.
    ///
    /// # Errors
    /// The kernel's error, for instance if the device has disappeared.
    pub fn drain(&mut self, most: usize, mut each: impl FnMut(Sighting)) -> io::Result<usize> {
        let mut taken = 0;
        let mut header = [0; filter::LONGEST_SNAP_BYTES];
        for (cpu, socket) in self.sockets.iter().enumerate() {
            while taken < most
                && let Some(length) = read(socket, &mut header)?
            {
                if let Some(sighting) = self.sighting(cpu as u32, &header[..length]) {
                    taken += 1;
                    each(sighting);
                }
            }
        }
        Ok(taken)
    }

    /// The datagram of a header from a CPU's socket; `None` if it is not to or from the observed address.
    fn sighting(&self, cpu: u32, header: &[u8]) -> Option<Sighting> {
        let (source, destination) = endpoints(header)?;
        let (own, queue) = match self.settings.direction {
            Direction::Received => (destination, None),
            Direction::Sent => (source, filter::queue(header)),
        };
        let observed = self.settings.address.ip();
        let wanted = observed.is_unspecified() || observed == own.ip();
        wanted.then_some(Sighting {
            source,
            destination,
            cpu,
            queue,
        })
    }
}

/// Observes a group of sockets: one in an interval that follows the rate of samples.
#[derive(Debug)]
pub struct GroupObserver {
    /// One per address family.
    observers: Vec<Observer>,
    interval: Interval,
}

impl GroupObserver {
    /// Starts observing a group on the address of `settings`.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn new(settings: &ObserverSettings, families: Families) -> Result<Self, WatchError> {
        let ipv4 = ObserverSettings {
            address: (Ipv4Addr::UNSPECIFIED, settings.address.port()).into(),
            ..settings.clone()
        };
        let ipv4 = (families == Families::Both).then_some(&ipv4);
        let observers = std::iter::once(settings).chain(ipv4).map(Observer::new);
        Ok(Self {
            observers: observers.collect::<Result<_, _>>()?,
            interval: Interval::of_group(settings.one_in, Time::now()),
        })
    }

    /// Passes the samples since the last call to `each`, without waiting, with the number of datagrams for which each
    /// stands. Call it often, or samples are lost.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn drain(&mut self, now: Time, mut each: impl FnMut(Sighting, u32)) -> Result<(), WatchError> {
        let (one_in, mut taken) = (self.interval.one_in(), 0);
        for observer in &mut self.observers {
            let drained = observer.drain(MOST_SAMPLES, |sighting| each(sighting, one_in));
            taken += check("read the samples", drained)?;
        }
        if self.interval.adapt(now, taken as u32) {
            let one_in = self.interval.one_in();
            self.observers
                .iter_mut()
                .try_for_each(|observer| observer.sample(one_in))?;
        }
        Ok(())
    }
}

/// The number of CPUs of the machine, including offline ones: the group delivers a frame to the member whose index is
/// the CPU's number modulo the number of members.
fn cpus() -> Result<u32, WatchError> {
    let configured = sysconf(SysconfVar::_NPROCESSORS_CONF).map_err(io::Error::from);
    let configured = check("count the CPUs", configured)?;
    Ok(configured
        .and_then(|count| u32::try_from(count).ok())
        .unwrap_or(1))
}

/// Source and destination of a UDP datagram or TCP segment that begins with its IP header.
fn endpoints(packet: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let (source, destination, ports): (IpAddr, IpAddr, usize) = match packet.first()? >> 4 {
        4 => (
            Ipv4Addr::from(array::<4>(packet, 12)?).into(),
            Ipv4Addr::from(array::<4>(packet, 16)?).into(),
            usize::from(packet[0] & 0x0f) * 4,
        ),
        6 => (
            Ipv6Addr::from(array::<16>(packet, 8)?).into(),
            Ipv6Addr::from(array::<16>(packet, 24)?).into(),
            40,
        ),
        _ => return None,
    };
    let port = |at| Some(u16::from_be_bytes(array(packet, at)?));
    Some((
        SocketAddr::new(source, port(ports)?),
        SocketAddr::new(destination, port(ports + 2)?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_past_ipv4_options() {
        let mut packet = vec![0; 32];
        packet[0] = 0x46;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[24..28].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        let expected = (
            "10.0.0.1:4660".parse().unwrap(),
            "10.0.0.2:22136".parse().unwrap(),
        );
        assert_eq!(endpoints(&packet), Some(expected));
        assert_eq!(endpoints(&packet[..26]), None);
        assert_eq!(endpoints(&[]), None);
    }

    #[test]
    fn a_sample_of_none_and_an_absent_device_are_refused_by_name() {
        let settings = ObserverSettings {
            device: Some("none0".to_owned()),
            transport: Transport::Udp,
            direction: Direction::Received,
            address: "127.0.0.1:9".parse().unwrap(),
            one_in: 0,
        };
        let refused = |settings: &ObserverSettings| Observer::new(settings).unwrap_err().to_string();
        assert!(refused(&settings).contains("one_in is 0"));
        let absent = ObserverSettings {
            one_in: 1,
            ..settings
        };
        assert!(refused(&absent).contains("no device none0"));
    }
}
