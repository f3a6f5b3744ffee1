//! Parses an IPv4 header, its options and an authentication header.

use crate::bytes::{array, number16};
use crate::fragment::{Fragment, FragmentPart};
use crate::layout::{
    self, FURTHEST, Headers, IPV4_HEADER as HEADER, Layout, Marks, behind_authentication, truncated,
};
use crate::plain;
use crate::protocol::IpProtocol;
use crate::refusal::Refusal;

/// Offset of the checksum within the header.
pub(crate) const CHECKSUM: usize = 10;

/// The more-fragments flag, next to the 13 bits of the offset in units of 8 bytes (RFC 791, section 3.1).
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// Source route options: loose and strict (RFC 791, section 3.1).
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// Bytes of a header that begins with this byte.
#[inline]
pub(crate) fn length(first: u8) -> usize {
    usize::from(first & 0x0f) * 4
}

/// Parses the header at `at`.
#[inline(always)]
pub(crate) fn layout(frame: &[u8], at: usize) -> Result<Layout, Refusal> {
    plain::v4(frame, at).map_or_else(|| walked(frame, at), Ok)
}

/// The general case of [`layout`].
pub(crate) fn walked(frame: &[u8], at: usize) -> Result<Layout, Refusal> {
    let fixed: [u8; HEADER] = layout::fixed("IPv4", 4, frame, at)?;
    let header = length(fixed[0]);
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    // Segmentation offload hands packets to captures that are too long for the length field; it is then zero.
    if header < HEADER || (total != 0 && total < header) {
        return Err(Refusal::Length { header, total });
    }
    if frame.len() - at < header {
        return Err(truncated("IPv4", header, frame, at));
    }
    let upper = at + header;
    if upper > FURTHEST {
        return Err(Refusal::TooDeep { offset: at });
    }
    let headers = Headers {
        network: at,
        upper,
        end: if total == 0 { frame.len() } else { at + total },
        protocol: IpProtocol(fixed[9]),
        marks: fragment(frame, at).marks(),
        ..Headers::default()
    };
    if headers.protocol == IpProtocol::AUTHENTICATION && !headers.marks.has(Marks::LATER) {
        return Ok(authenticated(frame, headers).into());
    }
    Ok(headers.into())
}

/// Whether a source route has hops left. Transport checksums then cover the address of the last hop, not the
/// destination of the header (RFC 9293, section 3.1).
pub(crate) fn is_source_routed(frame: &[u8], at: usize, upper: usize) -> bool {
    let mut option = at + HEADER;
    while option < upper {
        let Some(&kind) = frame.get(option) else {
            return false;
        };
        match kind {
            0 => return false,
            1 => option += 1,
            _ => {
                let Some([_, length, pointer]) = array(frame, option) else {
                    return false;
                };
                if SOURCE_ROUTES.contains(&kind) {
                    return pointer <= length;
                }
                option += usize::from(length.max(2));
            }
        }
    }
    false
}

/// The fragment information of the header at `at`.
#[inline]
pub(crate) fn fragment(frame: &[u8], at: usize) -> Fragment {
    let [field, identification] = [6, 4].map(|offset| number16(frame, at + offset).unwrap_or(0));
    if field & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == 0 {
        return Fragment::Whole;
    }
    Fragment::Part(FragmentPart {
        identification: identification.into(),
        offset: (field & FRAGMENT_OFFSET) << 3,
        more: field & MORE_FRAGMENTS != 0,
    })
}

/// Skips authentication headers.
#[cold]
fn authenticated(frame: &[u8], mut headers: Headers) -> Headers {
    let captured = headers.end.min(frame.len()).min(FURTHEST);
    while headers.protocol == IpProtocol::AUTHENTICATION {
        let next = behind_authentication(frame, headers.upper);
        let Some((protocol, upper)) = next.filter(|(_, upper)| *upper <= captured) else {
            headers.marks = headers.marks.with(Marks::CUT);
            break;
        };
        headers.marks = headers.marks.with(Marks::AUTHENTICATED);
        (headers.protocol, headers.upper) = (protocol, upper);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut header = vec![
            0x45, 0, 0, 40, 0x12, 0x34, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        change(&mut header);
        header.resize(40.max(header.len()), 0);
        header
    }

    #[test]
    fn offset_and_flag_tell_the_parts_of_a_datagram() {
        let part = |offset, more| {
            Fragment::Part(FragmentPart {
                identification: 0x1234,
                offset,
                more,
            })
        };
        let cases = [
            (0x0000, Fragment::Whole),
            (0x4000, Fragment::Whole),
            (0x2000, part(0, true)),
            (0x2001, part(8, true)),
            (0x1fff, part(65_528, false)),
        ];
        for (field, expected) in cases {
            let bytes = header(|header| header[6..8].copy_from_slice(&u16::to_be_bytes(field)));
            assert_eq!(fragment(&bytes, 0), expected, "{field:04x}");
        }
    }

    #[test]
    fn headers_that_contradict_themselves_are_refused() {
        let short = header(|header| header[0] = 0x44);
        assert_eq!(
            layout(&short, 0),
            Err(Refusal::Length {
                header: 16,
                total: 40
            })
        );
        let shorter_than_header = header(|header| header[3] = 19);
        assert_eq!(
            layout(&shorter_than_header, 0),
            Err(Refusal::Length {
                header: 20,
                total: 19
            })
        );
        let version = header(|header| header[0] = 0x65);
        let layer = "IPv4";
        assert_eq!(layout(&version, 0), Err(Refusal::Version { layer, version: 6 }));
    }

    #[test]
    fn a_packet_too_long_to_say_reaches_to_the_end_of_the_frame() {
        let bytes = header(|header| header[3] = 0);
        assert_eq!(layout(&bytes, 0).unwrap().end(), 40);
    }

    #[test]
    fn a_source_route_that_is_not_at_its_end_is_seen_behind_other_options() {
        let route = |pointer| vec![1, 7, 3, 4, 131, 7, pointer, 10, 0, 0, 9, 0];
        for (pointer, expected) in [(4, true), (8, false)] {
            let bytes = header(|header| {
                header[0] = 0x48;
                header.extend(route(pointer));
            });
            assert_eq!(is_source_routed(&bytes, 0, 32), expected, "pointer {pointer}");
        }
        let endless = header(|header| {
            header[0] = 0x46;
            header.extend([7, 0, 0, 0]);
        });
        assert!(!is_source_routed(&endless, 0, 24));
    }
}
