//! Packets that carry a tuple, with optional IPv4 options and IPv6 extension headers, as input for programs.

use corelane_rss::Tuple;
use std::net::SocketAddr;

/// The transport protocol of a packet, and the size of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    /// TCP with this many bytes of options, a multiple of 4 up to 40.
    Tcp {
        options: usize,
    },
}

/// A packet from its IP header on, and the offset of its transport payload.
pub struct Packet {
    pub bytes: Vec<u8>,
    pub payload_offset: usize,
}

/// A packet with this tuple. `options` are IPv4 options, a multiple of 4 bytes, at most 40; `extensions` are IPv6
/// extension headers, type and body, each a multiple of 8 bytes with its header. Each family ignores the other's.
pub fn packet(
    tuple: &Tuple,
    transport: Transport,
    options: &[u8],
    extensions: &[(u8, Vec<u8>)],
    payload: &[u8],
) -> Packet {
    let segment = segment(tuple, transport);
    let mut bytes = match (tuple.source(), tuple.destination()) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            let mut header = vec![0; 20];
            header[0] = 0x40 | (5 + options.len() / 4) as u8;
            header[9] = protocol(transport);
            header[12..16].copy_from_slice(&source.ip().octets());
            header[16..20].copy_from_slice(&destination.ip().octets());
            [&header, options].concat()
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            let mut header = vec![0; 40];
            header[0] = 0x60;
            header[8..24].copy_from_slice(&source.ip().octets());
            header[24..40].copy_from_slice(&destination.ip().octets());
            chained(header, 6, transport, extensions)
        }
        _ => unreachable!("a tuple is of one family"),
    };
    bytes.extend(segment);
    let payload_offset = bytes.len();
    bytes.extend(payload);
    Packet {
        bytes,
        payload_offset,
    }
}

/// Appends extension headers, and writes each header's type into the preceding one.
fn chained(
    mut bytes: Vec<u8>,
    mut type_at: usize,
    transport: Transport,
    extensions: &[(u8, Vec<u8>)],
) -> Vec<u8> {
    for (kind, body) in extensions {
        assert_eq!((2 + body.len()) % 8, 0);
        bytes[type_at] = *kind;
        type_at = bytes.len();
        // The second byte of a fragment header is reserved and must be 0: its 8 bytes give 0 by the same formula.
        bytes.extend([0, ((2 + body.len()) / 8 - 1) as u8]);
        bytes.extend(body);
    }
    bytes[type_at] = protocol(transport);
    bytes
}

fn protocol(transport: Transport) -> u8 {
    match transport {
        Transport::Udp => 17,
        Transport::Tcp { .. } => 6,
    }
}

fn segment(tuple: &Tuple, transport: Transport) -> Vec<u8> {
    let mut header = match transport {
        Transport::Udp => vec![0xa5; 8],
        Transport::Tcp { options } => vec![0xa5; 20 + options],
    };
    header[0..2].copy_from_slice(&tuple.source().port().to_be_bytes());
    header[2..4].copy_from_slice(&tuple.destination().port().to_be_bytes());
    header
}
