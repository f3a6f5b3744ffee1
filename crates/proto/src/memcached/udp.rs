//! The frames of datagrams: 8 bytes in front of each request and of each datagram of an answer.
//!
//! All numbers are big endian: the number of the request, which its answer repeats; the place of the datagram among
//! those of the message, from 0; how many there are; and two bytes that are 0.

/// Length of a frame's header in bytes.
pub const HEADER_BYTES: usize = 8;

/// Most bytes of an answer in a datagram, its header not included: memcached sends at most 1,400 bytes.
pub const DATA_BYTES: usize = 1_400 - HEADER_BYTES;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the request.
    pub request: u16,
    /// The place of the datagram.
    pub sequence: u16,
    /// How many datagrams the message has.
    pub total: u16,
}

/// Why a datagram is no request. It gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Nothing is behind a header.
    #[error("a datagram of 8 bytes or fewer, which is no request")]
    TooShort,
    /// A request of several datagrams.
    #[error("a request of several datagrams")]
    Several,
}

impl Header {
    /// Reads a header; returns it with what is behind it.
    pub fn read(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let [r0, r1, s0, s1, t0, t1, ..] = *header;
        let header = Self {
            request: u16::from_be_bytes([r0, r1]),
            sequence: u16::from_be_bytes([s0, s1]),
            total: u16::from_be_bytes([t0, t1]),
        };
        Some((header, rest))
    }

    /// The bytes of the header.
    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        let [[r0, r1], [s0, s1], [t0, t1]] = [self.request, self.sequence, self.total].map(u16::to_be_bytes);
        [r0, r1, s0, s1, t0, t1, 0, 0]
    }
}

/// The number of a request and its text.
pub fn request(datagram: &[u8]) -> Result<(u16, &[u8]), FrameError> {
    match Header::read(datagram) {
        None | Some((_, [])) => Err(FrameError::TooShort),
        Some((header, text)) if header.total == 1 => Ok((header.request, text)),
        Some(_) => Err(FrameError::Several),
    }
}

/// The datagrams of an answer, each as its header and its part of the answer; none if the answer is empty. An answer
/// has at most 65,535 datagrams: what is behind them is left out.
pub fn datagrams(request: u16, answer: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let total = u16::try_from(answer.len().div_ceil(DATA_BYTES)).unwrap_or(u16::MAX);
    (0..total)
        .zip(answer.chunks(DATA_BYTES))
        .map(move |(sequence, part)| {
            let header = Header {
                request,
                sequence,
                total,
            };
            (header, part)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_datagram() {
        assert_eq!(
            request(b"\x12\x34\0\0\0\x01\0\0get a\r\n"),
            Ok((0x1234, &b"get a\r\n"[..]))
        );
        // Only the number of datagrams counts.
        assert_eq!(request(b"\0\0\0\x05\0\x01\xff\xffx"), Ok((0, &b"x"[..])));
        assert_eq!(request(b"\0\0\0\0\0\x01\0\0"), Err(FrameError::TooShort));
        assert_eq!(request(b"\0\0"), Err(FrameError::TooShort));
        assert_eq!(request(b"\0\0\0\0\0\x02\0\0x"), Err(FrameError::Several));
        assert_eq!(request(b"\0\0\0\0\x01\x01\0\0x"), Err(FrameError::Several));
    }

    #[test]
    fn an_answer_is_split_into_numbered_datagrams() {
        let answer: Vec<u8> = (0..3_000u32).map(|byte| byte as u8).collect();
        let sent: Vec<_> = datagrams(0xabcd, &answer).collect();
        let numbers: Vec<_> = sent
            .iter()
            .map(|(header, part)| (header.bytes(), part.len()))
            .collect();
        assert_eq!(
            numbers,
            [
                (*b"\xab\xcd\0\0\0\x03\0\0", 1_392),
                (*b"\xab\xcd\0\x01\0\x03\0\0", 1_392),
                (*b"\xab\xcd\0\x02\0\x03\0\0", 216)
            ]
        );
        let joined: Vec<u8> = sent.iter().flat_map(|(_, part)| part.to_vec()).collect();
        assert_eq!(joined, answer);
        assert_eq!(datagrams(0, &answer[..1_392]).count(), 1);
        assert_eq!(datagrams(0, b"").count(), 0);
    }

    #[test]
    fn a_header_is_read_as_it_is_written() {
        let header = Header {
            request: 1,
            sequence: 515,
            total: 1_029,
        };
        assert_eq!(Header::read(&header.bytes()), Some((header, &b""[..])));
        assert_eq!(Header::read(&[0; 7]), None);
    }
}
