//! Generates the code that loads the hashed words of a packet.
//!
//! A program of a socket group sees the packet from its transport payload on; the IP header is reached through
//! `SKF_NET_OFF`. Loads convert words to host order, first byte most significant.

use super::Instruction;
use super::instruction::code;
use crate::audit::Family;
use crate::fields::HashFields;

/// `SKF_NET_OFF` (`linux/filter.h`): offsets from here on count from the IP header.
pub(super) const NETWORK_HEADER: u32 = -0x10_0000_i32 as u32;

/// How many words are hashed; [`load_words`] leaves them in M[0], M[1] and so on.
pub(super) fn words(family: Family, fields: HashFields) -> u32 {
    family.input_bits(fields) as u32 / 32
}

/// Stores the hashed words in order in memory.
pub(super) fn load_words(family: Family, fields: HashFields) -> Vec<Instruction> {
    let count = words(family, HashFields::TwoTuple);
    // Offset of the source address; the destination follows it (RFC 791, section 3.1; RFC 8200, section 3).
    let first = match family {
        Family::V4 => 12,
        Family::V6 => 8,
    };
    let addresses = (0..count).flat_map(|word| {
        let offset = NETWORK_HEADER + first + 4 * word;
        [
            Instruction::new(code::LOAD_WORD, offset),
            Instruction::new(code::STORE, word),
        ]
    });
    let mut code: Vec<Instruction> = addresses.collect();
    if fields == HashFields::FourTuple {
        code.extend(match family {
            Family::V4 => vec![Instruction::new(code::LOAD_HEADER_LENGTH_TO_X, NETWORK_HEADER)],
            Family::V6 => ipv6_header_length_to_x(),
        });
        code.extend([
            Instruction::new(code::LOAD_WORD_PAST_X, NETWORK_HEADER),
            Instruction::new(code::STORE, count),
        ]);
    }
    code
}

/// Bytes of the IPv6 header, and offset of its next header field (RFC 8200, section 3).
const IPV6_HEADER: u32 = 40;
const IPV6_NEXT_HEADER: u32 = 6;

/// Number of extension headers skipped. RFC 8200, section 4.1, lists five kinds between IPv6 header and UDP or TCP, one
/// of them twice: hop-by-hop, destination options, routing, fragment, authentication, destination options. The kernel
/// removes the authentication header before it selects a socket.
const MOST_EXTENSION_HEADERS: usize = 5;

/// The bits by which every extension header's type but hop-by-hop's differs from UDP's (17) and TCP's (6): routing 43,
/// fragment 44, destination options 60, mobility 135, host identity 139, shim6 140.
const EXTENSION_BITS: u32 = 0xe0;

/// Hop-by-hop options, allowed only right after the IPv6 header (RFC 8200, section 4.3).
const HOP_BY_HOP: u32 = 0;

/// Sets X to the offset of the transport header from the IPv6 header.
fn ipv6_header_length_to_x() -> Vec<Instruction> {
    // Type of the header after the one at X; then the end of the one at X from its length in units of eight bytes, not
    // counting the first. A fragment header's length reads as its reserved zero, which is right: it has eight bytes.
    let next_type = Instruction::new(code::LOAD_BYTE_PAST_X, NETWORK_HEADER);
    let step_over = [
        Instruction::new(code::LOAD_BYTE_PAST_X, NETWORK_HEADER + 1),
        Instruction::new(code::ADD, 1),
        Instruction::new(code::SHIFT_LEFT, 3),
        Instruction::new(code::ADD_X, 0),
        Instruction::new(code::COPY_TO_X, 0),
    ];
    // Generated from the last header back: each part skips one more header, or jumps to the skipping of the last.
    let mut walk = step_over.to_vec();
    for _ in 1..MOST_EXTENSION_HEADERS {
        let to_last = (walk.len()) as u8;
        let another = Instruction::jump_unless(code::JUMP_IF_ANY, EXTENSION_BITS, to_last);
        walk.splice(..0, [vec![next_type, another], step_over.to_vec()].concat());
    }
    let past_walk = walk.len() as u8;
    let found = [
        Instruction::new(code::LOAD_CONSTANT_TO_X, IPV6_HEADER),
        Instruction::new(code::LOAD_BYTE, NETWORK_HEADER + IPV6_NEXT_HEADER),
        Instruction {
            jt: 1,
            ..Instruction::jump_unless(code::JUMP_IF_ANY, EXTENSION_BITS, 0)
        },
        Instruction::jump_unless(code::JUMP_IF_EQUAL, HOP_BY_HOP, past_walk),
    ];
    [found.to_vec(), walk].concat()
}
