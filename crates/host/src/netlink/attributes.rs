//! Encodes and decodes netlink attributes: numbers, texts, addresses and nests. Malformed attributes are skipped: the
//! reader then reports a missing fact.

use std::net::IpAddr;

use netlink_packet_core::{DefaultNla, Emitable, NlasIterator, parse_string, parse_u32};

/// The flag on an attribute that holds attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;

/// An attribute with a number, in native byte order.
pub(crate) fn number(kind: u16, value: u32) -> Vec<u8> {
    bytes(kind, value.to_ne_bytes().to_vec())
}

/// An attribute with a zero-terminated text.
pub(crate) fn text(kind: u16, value: &str) -> Vec<u8> {
    bytes(kind, [value.as_bytes(), &[0]].concat())
}

/// An attribute with an address, in network byte order.
pub(crate) fn address(kind: u16, value: IpAddr) -> Vec<u8> {
    match value {
        IpAddr::V4(value) => bytes(kind, value.octets().to_vec()),
        IpAddr::V6(value) => bytes(kind, value.octets().to_vec()),
    }
}

/// An attribute with nested attributes.
pub(crate) fn nest(kind: u16, attributes: Vec<u8>) -> Vec<u8> {
    bytes(kind | NESTED, attributes)
}

/// An attribute with this payload.
pub(crate) fn bytes(kind: u16, value: Vec<u8>) -> Vec<u8> {
    let attribute = DefaultNla::new(kind, value);
    let mut bytes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut bytes);
    bytes
}

/// The payloads of all attributes of one kind.
pub(crate) fn inside(attributes: &[u8], kind: u16) -> Vec<Vec<u8>> {
    NlasIterator::new(attributes)
        .filter_map(Result::ok)
        .filter(|attribute| attribute.kind() == kind)
        .map(|attribute| attribute.value().to_vec())
        .collect()
}

/// The payload of the first attribute of one kind.
pub(crate) fn first(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    inside(attributes, kind).into_iter().next()
}

/// The 32-bit number in the first attribute of one kind.
pub(crate) fn number_in(attributes: &[u8], kind: u16) -> Option<u32> {
    parse_u32(&first(attributes, kind)?).ok()
}

/// The first byte in the first attribute of one kind.
pub(crate) fn byte_in(attributes: &[u8], kind: u16) -> Option<u8> {
    first(attributes, kind)?.first().copied()
}

/// Whether the first attribute of one kind, of one byte, exists and is not zero.
pub(crate) fn flag_in(attributes: &[u8], kind: u16) -> bool {
    byte_in(attributes, kind).is_some_and(|byte| byte != 0)
}

/// The address in the first attribute of one kind.
pub(crate) fn address_in(attributes: &[u8], kind: u16) -> Option<IpAddr> {
    let bytes = first(attributes, kind)?;
    let four = <[u8; 4]>::try_from(&bytes[..]).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(&bytes[..]).map(IpAddr::from))
        .ok()
}

/// The text in the first attribute of one kind.
pub(crate) fn text_in(attributes: &[u8], kind: u16) -> Option<String> {
    parse_string(&first(attributes, kind)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let attributes = [number(1, 7), nest(2, text(3, "eth0")), number(1, 8)].concat();
        assert_eq!(number_in(&attributes, 1), Some(7));
        assert_eq!(inside(&attributes, 1).len(), 2);
        let nested = first(&attributes, 2).unwrap();
        assert_eq!(text_in(&nested, 3).as_deref(), Some("eth0"));
        assert_eq!(number_in(&attributes, 9), None);
        for written in ["10.11.2.1", "fd00:11:2::1"] {
            let written = written.parse().unwrap();
            assert_eq!(address_in(&address(4, written), 4), Some(written));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0..4_u16) {
            let _ = (inside(&bytes, kind), number_in(&bytes, kind), flag_in(&bytes, kind), text_in(&bytes, kind));
            let _ = address_in(&bytes, kind);
        }
    }
}
