//! Parses an IPv6 header and its chain of extension headers.

use crate::bytes::{array, number32};
use crate::fragment::{Fragment, FragmentPart};
use crate::layout::{self, FURTHEST, Headers, IPV6_HEADER as HEADER, Layout, Marks, behind_authentication};
use crate::plain;
use crate::protocol::IpProtocol;
use crate::refusal::Refusal;

/// Bytes of a fragment header (RFC 8200, section 4.5).
pub(crate) const FRAGMENT_HEADER: usize = 8;

/// The home address option and its length (RFC 6275, section 6.3).
const HOME_ADDRESS: [u8; 2] = [0xc9, 16];

/// Length (in units of 8 bytes, not counting the first), type and segments left of the routing header that carries a
/// home address (RFC 6275, section 6.4).
const ROUTING_TYPE_2: [u8; 3] = [2, 2, 1];

/// Parses the header at `at` and its extension headers.
#[inline(always)]
pub(crate) fn layout(frame: &[u8], at: usize) -> Result<Layout, Refusal> {
    plain::v6(frame, at).map_or_else(|| walked(frame, at), Ok)
}

/// The general case of [`layout`].
pub(crate) fn walked(frame: &[u8], at: usize) -> Result<Layout, Refusal> {
    let fixed: [u8; HEADER] = layout::fixed("IPv6", 6, frame, at)?;
    let protocol = IpProtocol(fixed[6]);
    let upper = at + HEADER;
    if upper > FURTHEST {
        return Err(Refusal::TooDeep { offset: at });
    }
    let headers = Headers {
        network: at,
        upper,
        end: end(frame, upper, u16::from_be_bytes([fixed[4], fixed[5]]), protocol),
        protocol,
        marks: Marks::V6,
        ..Headers::default()
    };
    if is_extension(protocol) {
        return Ok(walk(frame, headers).into());
    }
    Ok(headers.into())
}

/// End of the packet by its length field. A length of zero means an empty packet, or one too long for the field: a
/// jumbogram (RFC 2675, section 3), or a packet of more than 65,535 bytes that segmentation offload handed to a
/// capture.
fn end(frame: &[u8], upper: usize, payload_length: u16, protocol: IpProtocol) -> usize {
    let captured = frame.len() - upper;
    let jumbo = protocol == IpProtocol::HOP_BY_HOP || captured > usize::from(u16::MAX);
    if payload_length == 0 && jumbo {
        frame.len()
    } else {
        upper + usize::from(payload_length)
    }
}

/// The extension headers whose length is known (IANA, "IPv6 Extension Header Types"). The chain ends at an
/// encapsulating security payload, because everything after it is encrypted.
fn is_extension(protocol: IpProtocol) -> bool {
    matches!(
        protocol,
        IpProtocol::HOP_BY_HOP
            | IpProtocol::ROUTING
            | IpProtocol::FRAGMENT
            | IpProtocol::AUTHENTICATION
            | IpProtocol::DESTINATION_OPTIONS
            | IpProtocol::MOBILITY
            | IpProtocol::HIP
            | IpProtocol::SHIM6
    )
}

/// Walks the chain up to the first header that is no extension header or is incomplete, or up to the data of a later
/// fragment.
///
/// Addresses after a fragment header are ignored: only the first fragment has them, and all fragments must have the
/// same hash.
#[cold]
fn walk(frame: &[u8], mut headers: Headers) -> Headers {
    let captured = headers.end.min(frame.len()).min(FURTHEST);
    while is_extension(headers.protocol) && !headers.marks.has(Marks::LATER) {
        let extent = extent(frame, headers.upper, headers.protocol);
        let Some((next, upper)) = extent.filter(|(_, upper)| *upper <= captured) else {
            headers.marks = headers.marks.with(Marks::CUT);
            break;
        };
        note(&frame[..upper], &mut headers);
        headers.marks = headers.marks.with(Marks::EXTENDED);
        (headers.protocol, headers.upper) = (next, upper);
    }
    headers
}

/// Records the contents of the extension header at the current position; `frame` ends with that header.
fn note(frame: &[u8], headers: &mut Headers) {
    let at = headers.upper;
    let whole = !headers.marks.has(Marks::PART);
    match headers.protocol {
        IpProtocol::AUTHENTICATION => headers.marks = headers.marks.with(Marks::AUTHENTICATED),
        IpProtocol::FRAGMENT if whole => {
            headers.fragment = at;
            headers.marks = headers.marks.with(fragment(frame, at).marks());
        }
        IpProtocol::DESTINATION_OPTIONS if whole && headers.home == 0 => {
            headers.home = home_address(frame, at + 2).unwrap_or(0);
        }
        IpProtocol::ROUTING => {
            let Some([_, length, kind, segments_left]) = array(frame, at) else {
                return;
            };
            if segments_left > 0 {
                headers.marks = headers.marks.with(Marks::UNDER_WAY);
            }
            if whole && [length, kind, segments_left] == ROUTING_TYPE_2 {
                headers.routed = at + 8;
            }
        }
        _ => {}
    }
}

/// Type and offset of the header after the extension header at `at`.
fn extent(frame: &[u8], at: usize, protocol: IpProtocol) -> Option<(IpProtocol, usize)> {
    let [next, length] = array(frame, at)?;
    match protocol {
        IpProtocol::AUTHENTICATION => behind_authentication(frame, at),
        IpProtocol::FRAGMENT => Some((IpProtocol(next), at + FRAGMENT_HEADER)),
        // Length in units of 8 bytes, not counting the first (RFC 8200, section 4.2; RFC 6564, section 4).
        _ => Some((IpProtocol(next), at + (usize::from(length) + 1) * 8)),
    }
}

/// The fragment header at `at`: offset in units of 8 bytes in the upper 13 bits, the more-fragments flag in the lowest
/// bit.
pub(crate) fn fragment(frame: &[u8], at: usize) -> Fragment {
    let field = number32(frame, at).unwrap_or(0) as u16;
    let identification = number32(frame, at + 4).unwrap_or(0);
    match (field & 0xfff8, field & 1 != 0) {
        (0, false) => Fragment::Atomic { identification },
        (offset, more) => Fragment::Part(FragmentPart {
            identification,
            offset,
            more,
        }),
    }
}

/// Offset of the home address among the destination options from `at` to the end of `frame`.
fn home_address(frame: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += match frame.get(at..)? {
            // Pad1, the only option without a length field (RFC 8200, section 4.2).
            [0, ..] => 1,
            [kind, length, ..] if [*kind, *length] == HOME_ADDRESS => {
                return (frame.len() >= at + 2 + 16).then_some(at + 2);
            }
            [_, length, ..] => 2 + usize::from(*length),
            _ => return None,
        }
    }
}
