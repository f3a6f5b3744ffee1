//! Checksums that the sending host left unfinished. A virtual device hands on a frame with only the sum of the
//! pseudo-header in the field of its TCP or UDP checksum (`CHECKSUM_PARTIAL`, Documentation/networking/checksum-offloads.rst);
//! a device that puts the frame on a wire would add the rest.

/// Finishes the checksum of an unfragmented TCP or UDP packet if its field has the sum of the pseudo-header. A correct
/// checksum is not changed, even if it equals that sum.
pub(crate) fn finish(frame: &mut [u8]) {
    let Some(unfinished) = unfinished(frame) else {
        return;
    };
    let Unfinished {
        start,
        end,
        field,
        udp,
    } = unfinished;
    let checksum = match !folded(sum(&frame[start..end])) {
        // Zero means that the sender computed none (RFC 768).
        0 if udp => 0xffff,
        checksum => checksum,
    };
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A transport header and its data, with the position of its checksum.
struct Unfinished {
    start: usize,
    end: usize,
    field: usize,
    udp: bool,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

#[inline]
fn unfinished(frame: &[u8]) -> Option<Unfinished> {
    let mut at = 12;
    let mut kind = word(frame, at)?;
    while matches!(kind, 0x8100 | 0x88a8) {
        at += 4;
        kind = word(frame, at)?;
    }
    let ip = at + 2;
    let (protocol, addresses, start, end) = match kind {
        0x0800 if word(frame, ip + 6)? & 0x3fff == 0 => {
            let start = ip + usize::from(frame[ip] & 0xf) * 4;
            let end = ip + usize::from(word(frame, ip + 2)?);
            (*frame.get(ip + 9)?, ip + 12..ip + 20, start, end)
        }
        0x86dd => {
            let (mut next, mut start) = (*frame.get(ip + 6)?, ip + 40);
            let end = start + usize::from(word(frame, ip + 4)?);
            // Hop-by-hop and destination options.
            while matches!(next, 0 | 60) {
                let length = usize::from(*frame.get(start + 1)?);
                (next, start) = (frame[start], start + (length + 1) * 8);
            }
            (next, ip + 8..ip + 40, start, end)
        }
        _ => return None,
    };
    let (field, udp) = match protocol {
        TCP => (start + 16, false),
        UDP => (start + 6, true),
        _ => return None,
    };
    if end > frame.len() || field + 2 > end {
        return None;
    }
    let pseudo_header = sum(frame.get(addresses)?) + u64::from(protocol) + (end - start) as u64;
    let found = word(frame, field) == Some(folded(pseudo_header));
    found.then_some(Unfinished {
        start,
        end,
        field,
        udp,
    })
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

/// The sum of 16-bit words, an odd last byte padded with zero (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes
        .chunks(2)
        .map(|word| u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    words.map(u64::from).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this header after the Ethernet addresses, whose last part is `transport`, and the offset of the
    /// transport header.
    fn frame(header: &[u8], transport: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = [&[2; 12], header, transport].concat();
        let start = frame.len() - transport.len();
        frame.resize(frame.len().max(60), 0);
        (frame, start)
    }

    fn ipv4(protocol: u8, length: usize, fragment: u8) -> Vec<u8> {
        let mut header = vec![
            8,
            0,
            0x45,
            0,
            0,
            20 + length as u8,
            0,
            0,
            fragment,
            0,
            64,
            protocol,
            0,
            0,
        ];
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        header
    }

    fn ipv6(next: u8, length: usize, between: &[u8]) -> Vec<u8> {
        let mut header = vec![
            0x86,
            0xdd,
            0x60,
            0,
            0,
            0,
            0,
            (length + between.len()) as u8,
            next,
            64,
        ];
        header.extend([0xfd; 32]);
        header.extend(between);
        header
    }

    /// A transport header of zeros, with the sum of the pseudo-header in the field, and five bytes of data.
    fn transport(protocol: u8, addresses: &[u8]) -> Vec<u8> {
        let (length, field) = if protocol == TCP { (20, 16) } else { (8, 6) };
        let mut transport = vec![0; length];
        transport.extend(*b"bytes");
        let pseudo_header = sum(addresses) + u64::from(protocol) + transport.len() as u64;
        transport[field..field + 2].copy_from_slice(&folded(pseudo_header).to_be_bytes());
        transport
    }

    /// Whether the receiver accepts the checksum.
    fn is_right(addresses: &[u8], protocol: u8, transport: &[u8]) -> bool {
        folded(sum(addresses) + u64::from(protocol) + transport.len() as u64 + sum(transport)) == 0xffff
    }

    #[test]
    fn an_unfinished_checksum_is_finished_and_a_finished_one_stays() {
        let (four, six) = ([10, 0, 0, 1, 10, 0, 0, 2], [0xfd; 32]);
        for protocol in [TCP, UDP] {
            let (of_four, of_six) = (transport(protocol, &four), transport(protocol, &six));
            let options = [protocol, 0, 1, 4, 0, 0, 0, 0];
            let length = of_four.len();
            let tagged = [&[0x81, 0, 0, 5], &ipv4(protocol, length, 0)[..]].concat();
            let cases = [
                (ipv4(protocol, length, 0), &four[..], &of_four),
                (tagged, &four[..], &of_four),
                (ipv6(protocol, length, &[]), &six[..], &of_six),
                (ipv6(60, length, &options), &six[..], &of_six),
            ];
            for (header, addresses, transport) in cases {
                let (mut frame, start) = frame(&header, transport);
                assert!(!is_right(addresses, protocol, &frame[start..start + length]));
                finish(&mut frame);
                assert!(is_right(addresses, protocol, &frame[start..start + length]));
                let finished = frame.clone();
                finish(&mut frame);
                assert_eq!(frame, finished);
            }
        }
    }

    #[test]
    fn any_other_frame_stays_as_it_is() {
        let transport = transport(UDP, &[10, 0, 0, 1, 10, 0, 0, 2]);
        let length = transport.len();
        let wrong = [&transport[..6], &[0x12, 0x34], &transport[8..]].concat();
        let cases = [
            frame(&ipv4(UDP, length, 0x20), &transport),
            frame(&ipv4(1, length, 0), &transport),
            frame(&ipv4(UDP, length, 0), &wrong),
            frame(&ipv4(UDP, 200, 0), &transport),
            frame(&[8, 6], &transport),
        ];
        for (mut frame, _) in cases {
            let before = frame.clone();
            finish(&mut frame);
            assert_eq!(frame, before);
        }
        let (whole, _) = frame(&ipv6(60, length, &[UDP, 0, 1, 4, 0, 0, 0, 0]), &transport);
        for length in 0..whole.len() {
            finish(&mut whole[..length].to_vec());
        }
    }
}
