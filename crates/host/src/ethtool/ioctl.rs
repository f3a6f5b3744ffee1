//! The ethtool ioctls, for what the netlink interface does not report, or not on older kernels: the driver, RSS key and
//! table (by netlink since Linux 6.3), hashed fields, rules, tunables.
//!
//! Input: a device's name and the bytes of a request laid out as in `linux/ethtool.h`, in native byte order. Output:
//! those bytes as filled in by the kernel. The only file of this crate with unsafe code.

#![allow(unsafe_code, reason = "the call takes a pointer within a structure")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

use serde::{Deserialize, Serialize};

use super::steering::{Field, FlowType, HashFunction, Rss, Rule, RuleAction, Rules, Transform};

/// The maximum number of rules read per device; a NIC has some thousands (82599 datasheet, 7.1.2.7: 8,192), and each
/// takes one call.
const MOST_RULES: u32 = 16_384;

/// `ETHTOOL_GRSSH` of `linux/ethtool.h`, as are the other numbers of commands below.
const RSS_GET: u32 = 0x46;

/// The driver of a device, as it identifies itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// The driver's name.
    pub name: String,
    /// The driver's version; for most drivers the kernel's.
    pub version: String,
    /// The firmware version of the device; empty if it has none.
    pub firmware: String,
    /// The bus address of the device; empty if it is on no bus.
    pub bus: String,
}

/// Requests to the devices in the network namespace of the opening thread.
pub(crate) struct Ioctl {
    /// Any socket can carry the requests.
    socket: UdpSocket,
}

impl Ioctl {
    /// Opens the socket that carries requests.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
        Ok(Self {
            socket: socket.or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))?,
        })
    }

    pub(crate) fn driver(&self, device: &str) -> io::Result<Driver> {
        // struct ethtool_drvinfo: command, five texts of 32, 12 reserved bytes, five numbers.
        let answer = self.exchange(device, Request::new(0x03, 196, &[]))?;
        Ok(Driver {
            name: answer.text(4),
            version: answer.text(36),
            firmware: answer.text(68),
            bus: answer.text(100),
        })
    }

    /// Hash, key and table of a context; 0 is the device's default context.
    pub(crate) fn rss(&self, device: &str, context: u32) -> io::Result<Rss> {
        // A request with zero lengths returns both lengths.
        let sizes = self.exchange(device, Request::new(RSS_GET, RSS_HEADER, &[(4, context)]))?;
        let (entries, key_bytes) = (sizes.number(8), sizes.number(12));
        let table_bytes = length(entries)? * 4;
        let request = Request::new(
            RSS_GET,
            RSS_HEADER + table_bytes + length(key_bytes)?,
            &[(4, context), (8, entries), (12, key_bytes)],
        );
        let Request { bytes } = self.exchange(device, request)?;
        let (table, key) = bytes[RSS_HEADER..].split_at(table_bytes);
        Ok(Rss {
            context,
            function: HashFunction::from_bits(bytes[16]),
            transforms: Transform::from_bits(bytes[17]),
            key: key.iter().map(|byte| format!("{byte:02x}")).collect(),
            table: table.chunks_exact(4).map(number_of).collect(),
        })
    }

    /// The hashed fields of a flow type.
    pub(crate) fn fields(&self, device: &str, flow_type: FlowType) -> io::Result<Vec<Field>> {
        let request = Request::new(0x29, RULE_REQUEST, &[(4, flow_type.number())]);
        Ok(Field::from_bits(self.exchange(device, request)?.long(8)))
    }

    /// The rules that take precedence over the table.
    pub(crate) fn rules(&self, device: &str) -> io::Result<Rules> {
        let counting = Request::new(0x2e, RULE_REQUEST, &[]);
        let count = self.exchange(device, counting)?.number(RULE_COUNT);
        let read = count.min(MOST_RULES);
        let room = RULE_REQUEST + length(read)? * 4;
        let mut listing = Request::new(0x30, room, &[(RULE_COUNT, read)]);
        if read > 0 {
            listing = self.exchange(device, listing)?;
        }
        let mut rules = Vec::new();
        for index in 0..listing.number(RULE_COUNT).min(read) as usize {
            let location = listing.number(RULE_COUNT + 4 + 4 * index);
            let request = Request::new(0x2f, RULE_REQUEST, &[(SPECIFICATION + 160, location)]);
            // A rule that has disappeared meanwhile is counted below.
            if let Ok(answer) = self.exchange(device, request) {
                rules.push(rule(location, &answer));
            }
        }
        rules.sort_by_key(|rule| rule.location);
        let left_off = count.saturating_sub(rules.len() as u32);
        Ok(Rules { rules, left_off })
    }

    /// Frames up to this many bytes are copied, so that their buffer can be reused at once (`ETHTOOL_RX_COPYBREAK`).
    pub(crate) fn rx_copybreak(&self, device: &str) -> io::Result<u32> {
        const RX_COPYBREAK: u32 = 1;
        const TYPE_U32: u32 = 3;
        let tunable = [(4, RX_COPYBREAK), (8, TYPE_U32), (12, 4)];
        let answer = self.exchange(device, Request::new(0x48, 20, &tunable))?;
        Ok(answer.number(16))
    }

    /// Sends a request to the device's driver; the reply is in the same bytes.
    pub(super) fn exchange(&self, device: &str, mut request: Request) -> io::Result<Request> {
        let mut named = libc::ifreq {
            ifr_name: [0; libc::IFNAMSIZ],
            ifr_ifru: libc::__c_anonymous_ifr_ifru {
                ifru_data: request.bytes.as_mut_ptr().cast(),
            },
        };
        if device.len() >= named.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in named.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: the name ends with a zero, and the pointer is to memory that lives through the call and is not otherwise
        // borrowed. The kernel reads and writes there the structure of the command and as many elements as the counts in it
        // say; every function above makes `bytes` that long, and `Request::SPARE` longer.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut named) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(request),
        }
    }
}

/// Bytes of `struct ethtool_rxfh` before table and key.
pub(super) const RSS_HEADER: usize = 24;

/// Offsets in `struct ethtool_rxnfc`: the flow specification, the rule count; and its length.
const SPECIFICATION: usize = 16;
const RULE_COUNT: usize = 184;
pub(super) const RULE_REQUEST: usize = 192;

/// The bytes of a request.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
}

impl Request {
    /// Spare room beyond the current structures, for drivers that write more than requested.
    const SPARE: usize = 64;

    /// A request of zeros with these numbers at their offsets.
    pub(super) fn new(command: u32, length: usize, numbers: &[(usize, u32)]) -> Self {
        let mut bytes = Vec::with_capacity(length + Self::SPARE);
        bytes.resize(length, 0);
        let mut request = Self { bytes };
        request.put(0, command);
        for (at, number) in numbers {
            request.put(*at, *number);
        }
        request
    }

    fn put(&mut self, at: usize, number: u32) {
        self.bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }

    pub(super) fn number(&self, at: usize) -> u32 {
        number_of(&self.bytes[at..at + 4])
    }

    fn long(&self, at: usize) -> u64 {
        let bytes = &self.bytes[at..at + 8];
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes were taken"))
    }

    /// A text of 32 bytes that ends with a zero.
    fn text(&self, at: usize) -> String {
        let bytes = self.bytes[at..at + 32].split(|byte| *byte == 0).next();
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }
}

fn number_of(bytes: &[u8]) -> u32 {
    u32::from_ne_bytes(bytes.try_into().expect("four bytes were taken"))
}

/// A kernel count as a length; none exceeds a million.
fn length(count: u32) -> io::Result<usize> {
    const MOST: u32 = 1 << 20;
    match count {
        ..=MOST => Ok(count as usize),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// Parses the `struct ethtool_rx_flow_spec` of an answer: type at 0, values at 4, masks at 76, action at 152.
fn rule(location: u32, answer: &Request) -> Rule {
    const FLAGS: u32 = 0xe000_0000;
    const TO_CONTEXT: u32 = 0x2000_0000;
    let specification = &answer.bytes[SPECIFICATION..];
    let (values, masks) = (&specification[4..56], &specification[76..128]);
    let (extended, extended_masks) = (&specification[56..76], &specification[128..148]);
    let word = answer.number(SPECIFICATION);
    let flow_type = match word & !FLAGS {
        0x0d => Some(FlowType::Ipv4),
        0x0e => Some(FlowType::Ipv6),
        0x09 | 0x0a => Some(FlowType::AhEsp4),
        0x0b | 0x0c => Some(FlowType::AhEsp6),
        number => FlowType::all().find(|known| known.number() == number),
    };
    let addresses = match flow_type {
        Some(FlowType::Tcp4 | FlowType::Udp4 | FlowType::Sctp4 | FlowType::AhEsp4 | FlowType::Ipv4) => 4,
        Some(FlowType::Tcp6 | FlowType::Udp6 | FlowType::Sctp6 | FlowType::AhEsp6 | FlowType::Ipv6) => 16,
        _ => 0,
    };
    let has_ports = !matches!(
        flow_type,
        None | Some(FlowType::AhEsp4 | FlowType::AhEsp6 | FlowType::Ipv4 | FlowType::Ipv6 | FlowType::Ether)
    );
    let known = 2 * addresses + if has_ports { 4 } else { 0 };
    let address = |at: usize| {
        let masked = masks[at..at + addresses].iter().any(|byte| *byte != 0);
        let of = |bytes: &[u8]| address_of(&bytes[at..at + addresses]);
        masked.then(|| Some((of(values)?, of(masks)?))).flatten()
    };
    let port = |at: usize| {
        let of = |bytes: &[u8]| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        (has_ports && of(masks) != 0).then(|| (of(values), of(masks)))
    };
    // The value for "IPv4" (`ip_ver` of `struct ethtool_usrip4_spec`) matches every packet of an IPv4 rule.
    let version_at = 13;
    let more = |(at, mask): (usize, &u8)| {
        *mask != 0 && !(flow_type == Some(FlowType::Ipv4) && at + known == version_at)
    };
    let context = (word & TO_CONTEXT != 0).then(|| answer.number(RULE_COUNT));
    Rule {
        location,
        flow_type: flow_type.map_or_else(
            || format!("{:#x}", word & !FLAGS),
            |known| known.name().to_owned(),
        ),
        source: address(0),
        destination: address(addresses),
        source_port: port(2 * addresses),
        destination_port: port(2 * addresses + 2),
        looks_at_more: masks[known..].iter().enumerate().any(more)
            || word & FLAGS & !TO_CONTEXT != 0
                && extended.iter().chain(extended_masks).any(|byte| *byte != 0),
        action: action(answer.long(SPECIFICATION + 152), context),
    }
}

fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or(v6).ok()
}

/// The action of a `ring_cookie`: the queue in the low 32 bits, a virtual function's number and one above them.
fn action(cookie: u64, context: Option<u32>) -> RuleAction {
    let (queue, function) = (cookie as u32, (cookie >> 32) as u32 & 0xff);
    match (cookie, function, context) {
        (u64::MAX, ..) => RuleAction::Drop,
        (0xffff_ffff_ffff_fffe, ..) => RuleAction::Wake,
        (_, 0, Some(context)) => RuleAction::Context {
            context,
            first_queue: queue,
        },
        (_, 0, None) => RuleAction::Queue(queue),
        _ => RuleAction::VirtualFunction(function - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply with one rule: UDP over IPv4 to port 53 of 10.0.0.0/16 goes to queue 2.
    fn answer() -> Request {
        let mut answer = Request::new(0x2f, RULE_REQUEST, &[]);
        answer.put(SPECIFICATION, 0x02);
        let at = SPECIFICATION + 4;
        answer.bytes[at + 4..at + 8].copy_from_slice(&[10, 0, 0, 0]);
        answer.bytes[at + 10..at + 12].copy_from_slice(&53_u16.to_be_bytes());
        let at = SPECIFICATION + 76;
        answer.bytes[at + 4..at + 8].copy_from_slice(&[255, 255, 0, 0]);
        answer.bytes[at + 10..at + 12].copy_from_slice(&[0xff, 0xff]);
        answer.put(SPECIFICATION + 152, 2);
        answer
    }

    #[test]
    fn a_rule_is_read_as_the_kernel_lays_it_out() {
        let expected = Rule {
            location: 5,
            flow_type: "udp4".to_owned(),
            source: None,
            destination: Some(("10.0.0.0".parse().unwrap(), "255.255.0.0".parse().unwrap())),
            source_port: None,
            destination_port: Some((53, 0xffff)),
            looks_at_more: false,
            action: RuleAction::Queue(2),
        };
        assert_eq!(rule(5, &answer()), expected);
        let mut with_tos = answer();
        with_tos.bytes[SPECIFICATION + 76 + 12] = 0xff;
        assert!(rule(5, &with_tos).looks_at_more);
    }

    #[test]
    fn cookies_are_queues_contexts_functions_and_drops() {
        assert_eq!(action(u64::MAX, None), RuleAction::Drop);
        assert_eq!(action(7, None), RuleAction::Queue(7));
        let context = RuleAction::Context {
            context: 1,
            first_queue: 7,
        };
        assert_eq!(action(7, Some(1)), context);
        assert_eq!(action(3 << 32, None), RuleAction::VirtualFunction(2));
    }

    #[test]
    fn loopback_has_no_rss_and_an_absent_device_is_an_error() {
        let ioctl = Ioctl::open().unwrap();
        let kind = |result: io::Result<Rss>| result.unwrap_err().kind();
        assert_eq!(kind(ioctl.rss("lo", 0)), io::ErrorKind::Unsupported);
        let absent = ioctl.rss("no-such-device", 0).unwrap_err();
        assert_eq!(absent.raw_os_error(), Some(libc::ENODEV));
        let long = ioctl.rss("a-name-that-no-device-can-have", 0).unwrap_err();
        assert_eq!(long.raw_os_error(), Some(libc::ENODEV));
    }
}
