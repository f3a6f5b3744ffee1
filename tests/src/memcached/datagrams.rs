//! Requests over UDP, with memcached's header of eight bytes: the number of the request, of the datagram and of all datagrams, and
//! two bytes without meaning, big endian.

use super::exchange::SILENCE;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// Larger than any datagram.
const LARGEST: usize = 1 << 16;

/// A socket that sends requests to one server.
pub struct Datagrams {
    socket: UdpSocket,
    /// The number of the last request.
    number: u16,
}

impl Datagrams {
    pub fn open(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.connect(server).expect("an address");
        socket.set_read_timeout(Some(SILENCE)).expect("a timeout");
        Self { socket, number: 0 }
    }

    /// Sends a request, and appends the answers, and how they are numbered. Whether the server answered what was sent behind it.
    pub fn exchange(&mut self, request: &[u8], answers: &mut Vec<u8>) -> bool {
        let number = self.send(request);
        let sentinel = self.send(b"mn\r\n");
        // Upstream numbers the values of one answer each for itself.
        let has_many = request.starts_with(b"g") && request.iter().filter(|byte| **byte == b' ').count() > 1;
        let mut numbers = Vec::new();
        let mut datagram = [0; LARGEST];
        while let Ok(length) = self.socket.recv(&mut datagram) {
            let Some((header, answer)) = datagram[..length].split_at_checked(8) else {
                answers.extend_from_slice(b"a datagram without header\r\n");
                continue;
            };
            let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            if field(0) == sentinel {
                answers.extend_from_slice(&numbers);
                return answer == b"MN\r\n";
            }
            answers.extend_from_slice(answer);
            if field(0) != number || !has_many {
                let (request, place, all) = (field(0).wrapping_sub(number), field(2), field(4));
                write!(numbers, "request {request}, datagram {place} of {all}\r\n").expect("a buffer");
            }
        }
        false
    }

    fn send(&mut self, request: &[u8]) -> u16 {
        self.number = self.number.wrapping_add(1);
        let number = self.number.to_be_bytes();
        let header = [number[0], number[1], 0, 0, 0, 1, 0, 0];
        // What is lost is not answered.
        let _ = self.socket.send(&[&header, request].concat());
        self.number
    }
}
