//! The hash that names the owner of a datagram.

use super::frames::{FAMILIES, Family, Fragment};
use corelane_packet::Dissection;
use corelane_rss::{Key, Toeplitz, oracle};
use corelane_stage::reassembly::owner;

fn of(fragment: &Fragment) -> Option<u32> {
    let frame = fragment.frame();
    owner(
        &Dissection::of(&frame).unwrap(),
        &Toeplitz::new(&Key::VERIFICATION),
    )
}

/// Against the bit by bit definition, over addresses, identification and protocol.
#[test]
fn the_owner_is_the_hash_of_addresses_identification_and_protocol() {
    let key = Key::VERIFICATION;
    let v4 = Fragment::new(Family::V4, 0x1234, 0, true, &[0; 8]);
    let input = [127, 0, 0, 1, 127, 0, 0, 1, 0x12, 0x34, 0, 253];
    assert_eq!(of(&v4), Some(oracle::toeplitz(&key, &input)));
    let v6 = Fragment::new(Family::V6, 0x1234_5678, 0, true, &[0; 8]);
    let input = [
        &1_u128.to_be_bytes()[..],
        &1_u128.to_be_bytes(),
        &[0x12, 0x34, 0x56, 0x78],
    ]
    .concat();
    assert_eq!(of(&v6), Some(oracle::toeplitz(&key, &input)));
}

#[test]
fn all_fragments_of_a_datagram_have_one_owner_and_whole_ones_none() {
    for family in FAMILIES {
        let first = Fragment::new(family, 7, 0, true, &[1; 24]);
        let mut later = Fragment::new(family, 7, 24, false, &[2; 5]);
        (later.ttl, later.class) = (9, 1);
        if family == Family::V6 {
            // Fragments of one datagram may name different headers (RFC 8200, section 4.5).
            later.protocol = 59;
        }
        assert_eq!(of(&first), of(&later));
        assert!(of(&first).is_some());
        let another = Fragment {
            id: 8,
            ..first.clone()
        };
        assert_ne!(of(&another), of(&first));
        let whole = Fragment { more: false, ..first };
        assert_eq!(of(&whole), None);
    }
}
