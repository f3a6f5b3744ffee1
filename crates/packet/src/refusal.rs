//! Errors of dissection.

use crate::protocol::EtherType;
use thiserror::Error;

/// Reason why a frame has no addresses to hash. Damage after the IP header is not an error: the packet still has its
/// 2-tuple, and [`TransportHeader`](crate::TransportHeader) reports what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The frame does not carry IP.
    #[error("the frame carries {ether_type}, not IP: only IPv4 and IPv6 have addresses to hash")]
    NotIp {
        /// The EtherType found.
        ether_type: EtherType,
    },
    /// The frame ends within a header.
    #[error(
        "the frame ends within its {layer} header, which needs {needed} bytes where {captured} are left: capture more of \
         each frame"
    )]
    Truncated {
        /// The truncated header: `Ethernet`, tags included, `IPv4`, `IPv6` or `transport`.
        layer: &'static str,
        /// Full length of the header in bytes.
        needed: usize,
        /// Captured bytes of it.
        captured: usize,
    },
    /// The version field of the IP header contradicts the EtherType.
    #[error("the {layer} header has version {version}: the frame is damaged or not {layer}")]
    Version {
        /// The expected header.
        layer: &'static str,
        /// The version found.
        version: u8,
    },
    /// The length field of an IPv4 header is below 20 bytes, or the packet length is below the header length (RFC 791,
    /// section 3.1).
    #[error("an IPv4 packet of {total} bytes with a header of {header}: the frame is damaged")]
    Length {
        /// Header length by its length field, in bytes.
        header: usize,
        /// Packet length by its length field, in bytes.
        total: usize,
    },
    /// The IP header lies further into the frame than any real stack of tags or tunnels puts it.
    #[error(
        "the IP header starts at byte {offset}: headers are looked for in the first 65,535 bytes of a frame only"
    )]
    TooDeep {
        /// Offset of the IP header.
        offset: usize,
    },
}
