//! Why a frame has nothing to hash: each reason that dissection gives.

use crate::ethernet::EtherType;
use thiserror::Error;

/// Why a frame has no addresses that could be hashed. What goes wrong behind the IP header is no refusal: the packet
/// still has its 2-tuple, and [`Transport`](crate::Transport) says what is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The frame carries something else.
    #[error("the frame carries {ether_type}, not IP: only IPv4 and IPv6 have addresses to hash")]
    NotIp {
        /// What stands where the type of the payload stands.
        ether_type: EtherType,
    },
    /// The frame ends within a header.
    #[error(
        "the frame ends within its {layer} header, which needs {needed} bytes where {captured} are left: capture more of \
         each frame"
    )]
    Truncated {
        /// Whose header is cut: `Ethernet`, tags included, `IPv4` or `IPv6`.
        layer: &'static str,
        /// Bytes that the header has.
        needed: usize,
        /// Bytes of it that are there.
        captured: usize,
    },
    /// The version field of the IP header is another than the frame promised.
    #[error("the {layer} header has version {version}: the frame is damaged or not {layer}")]
    Version {
        /// What the header should be.
        layer: &'static str,
        /// The version it claims.
        version: u8,
    },
    /// An IPv4 header that claims fewer than its 20 bytes, or a packet that claims to be shorter than its header
    /// (RFC 791, section 3.1).
    #[error("an IPv4 packet of {total} bytes with a header of {header}: the frame is damaged")]
    Length {
        /// Bytes that the header claims to have.
        header: usize,
        /// Bytes that the packet claims to have.
        total: usize,
    },
    /// The IP header lies further into the frame than any real stack of tags or tunnels puts it.
    #[error(
        "the IP header starts at byte {offset}: headers are looked for in the first 65,535 bytes of a frame only"
    )]
    TooDeep {
        /// Where it starts.
        offset: usize,
    },
}
