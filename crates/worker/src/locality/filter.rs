//! The filters of an observer's sockets. Input: settings. Output: a classic BPF program. Offset 0 is the IP header.

use super::{Direction, ObserverSettings};
use crate::group::Transport;
use crate::watch::{OUTGOING, TO_THIS_HOST, load, only};
use corelane_rss::steer::code;
use socket2::SockFilter;
use std::net::{IpAddr, SocketAddr};

/// Bytes captured of each received datagram: the longest IPv4 header (60) or the IPv6 header (40), and the UDP header
/// (8).
const SNAP_BYTES: u32 = 68;

/// The headers of a sent datagram: IPv4 without options or IPv6, and UDP. The kernel does not report the queue of a
/// frame, so the program encodes it in the length: it captures as many additional bytes as the queue's number.
const SENT_IPV4_BYTES: usize = 28;
const SENT_IPV6_BYTES: usize = 48;

/// Higher queue numbers cannot be distinguished.
const LAST_QUEUE: usize = 1023;

/// The maximum number of bytes that a program captures.
pub(super) const LONGEST_SNAP_BYTES: usize = SENT_IPV6_BYTES + LAST_QUEUE + 1;

/// The program for one socket of an observer.
pub(super) fn filter(settings: &ObserverSettings) -> Vec<SockFilter> {
    let port = u32::from(settings.address.port());
    match settings.direction {
        Direction::Received => {
            let whole = SockFilter::new(code::ANSWER_CONSTANT, 0, 0, SNAP_BYTES);
            // Not what is forwarded, nor what a port of a bridge passes on: the bridge's device shows that again.
            let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, TO_THIS_HOST, true));
            program.extend(datagrams(settings, 2, port, [whole]));
            program
        }
        Direction::Sent => {
            let (protocol, headers) = match settings.address {
                SocketAddr::V4(_) => (libc::ETH_P_IP, SENT_IPV4_BYTES),
                SocketAddr::V6(_) => (libc::ETH_P_IPV6, SENT_IPV6_BYTES),
            };
            let mut program = Vec::from(only(libc::SKF_AD_PKTTYPE, OUTGOING, true));
            program.extend(only(libc::SKF_AD_PROTOCOL, protocol as u32, true));
            let and_queue = [
                load(libc::SKF_AD_QUEUE),
                SockFilter::new(code::ADD, 0, 0, headers as u32),
                SockFilter::new(code::ANSWER, 0, 0, 0),
            ];
            program.extend(datagrams(settings, 0, port, and_queue));
            program
        }
    }
}

/// The queue encoded in a header that the program for [`Direction::Sent`] passed on; `None` if the frame was too short
/// or the queue number too high.
pub(super) fn queue(header: &[u8]) -> Option<u16> {
    let (headers, frame) = match header.first()? >> 4 {
        4 => (SENT_IPV4_BYTES, usize::from(half(header, 2)?)),
        _ => (SENT_IPV6_BYTES, usize::from(half(header, 4)?) + 40),
    };
    let queue = header.len().checked_sub(headers)?;
    (header.len() < frame && queue <= LAST_QUEUE).then_some(queue as u16)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Passes unfragmented packets of the transport with `port` at `port_offset` of its header, one in `one_in` at random; `end`
/// returns the number of bytes to capture.
fn datagrams<const N: usize>(
    settings: &ObserverSettings,
    port_offset: u32,
    port: u32,
    end: [SockFilter; N],
) -> Vec<SockFilter> {
    let transport = match settings.transport {
        Transport::Udp => libc::IPPROTO_UDP as u32,
        Transport::Tcp => libc::IPPROTO_TCP as u32,
    };
    let instruction = SockFilter::new;
    let mut program = match settings.address.ip() {
        IpAddr::V4(_) => vec![
            instruction(code::LOAD_BYTE, 0, 0, 9),
            instruction(code::JUMP_IF_EQUAL, 0, 8, transport),
            // Offset and More Fragments.
            instruction(code::LOAD_HALF, 0, 0, 6),
            instruction(code::JUMP_IF_ANY, 6, 0, 0x3fff),
            instruction(code::LOAD_HEADER_LENGTH_TO_X, 0, 0, 0),
        ],
        IpAddr::V6(_) => vec![
            instruction(code::LOAD_BYTE, 0, 0, 6),
            instruction(code::JUMP_IF_EQUAL, 0, 6, transport),
            instruction(code::LOAD_CONSTANT_TO_X, 0, 0, 40),
        ],
    };
    program.extend([
        instruction(code::LOAD_HALF_PAST_X, 0, 0, port_offset),
        instruction(code::JUMP_IF_EQUAL, 0, 3, port),
        load(libc::SKF_AD_RANDOM),
        instruction(code::MODULO, 0, 0, settings.one_in),
        instruction(code::JUMP_IF_EQUAL, 1, 0, 0),
        instruction(code::ANSWER_CONSTANT, 0, 0, 0),
    ]);
    program.extend(end);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_passed_on_gives_the_queue_unless_the_frame_ends_there() {
        // IPv4, 44 bytes in all; IPv6, 64.
        let (mut ipv4, mut ipv6) = (vec![0; 44], vec![0; 64]);
        (ipv4[0], ipv4[3]) = (0x45, 44);
        (ipv6[0], ipv6[5]) = (0x60, 24);
        for number in 0..16 {
            assert_eq!(queue(&ipv4[..28 + number]), Some(number as u16));
            assert_eq!(queue(&ipv6[..48 + number]), Some(number as u16));
        }
        assert_eq!(queue(&ipv4), None);
        assert_eq!(queue(&ipv6), None);
        assert_eq!(queue(&[]), None);
    }
}
