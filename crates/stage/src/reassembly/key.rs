//! Which datagram a fragment belongs to, and which bucket owns that datagram.

use corelane_packet::{Addresses, Dissection, Fragment, ethernet};
use corelane_rss::Toeplitz;

/// The datagram of a fragment: addresses, identification and, in IPv4, protocol (RFC 791, section 3.2; RFC 8200, section
/// 4.5), on one link and in one VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Source and destination; those of IPv4 in the first word.
    addresses: [u64; 4],
    /// Identification, protocol, family.
    name: u64,
    /// Link and VLANs, mixed.
    place: u64,
}

/// A multiplier with as many bits set as not, from the fraction of pi.
const MULTIPLIER: u64 = 0x2438_6a88_85a3_08d3;

/// Mixes a word into a hash: both halves of the product depend on all of its bits.
#[inline(always)]
fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
    (product as u64) ^ (product >> 64) as u64
}

impl Key {
    /// The key of a fragment, and its hash, which cannot be predicted without the seed.
    #[inline]
    pub fn of(fragment: &Dissection<'_>, identification: u32, link: usize, seed: u64) -> (Key, u64) {
        let word = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
        let (addresses, family) = match fragment.addresses() {
            Addresses::V4(both) => {
                let [[a, b, c, d], [e, f, g, h]] = *both;
                let name = 4 << 8 | u64::from(fragment.frame()[fragment.network_offset() + 9]);
                ([word([a, b, c, d, e, f, g, h]), 0, 0, 0], name)
            }
            Addresses::V6(both) => {
                let (words, _) = both.as_flattened().as_chunks();
                ([0, 1, 2, 3].map(|number| word(words[number])), 6 << 8)
            }
        };
        let tags = ethernet::vlan_ids(fragment.frame());
        let place = tags.fold(link as u64, |place, id| mixed(place ^ seed, id.into()));
        let name = u64::from(identification) << 16 | family;
        let key = Key {
            addresses,
            name,
            place,
        };
        let words = addresses.into_iter().chain([name, place]);
        (key, words.fold(seed, mixed))
    }
}

/// The hash that names the bucket which reassembles a fragment, whatever bucket it arrives at: over source, destination,
/// identification and protocol in the layout of a tuple with ports. The upper half of the identification of IPv6 is in the
/// place of the source port; IPv4 has the identification there and the protocol in the place of the destination port.
/// IPv6 has no protocol in it, as fragments of a datagram may name different ones (RFC 8200, section 4.5). `None` if the
/// frame is no fragment of a datagram.
#[must_use]
pub fn owner(frame: &Dissection<'_>, toeplitz: &Toeplitz) -> Option<u32> {
    let Fragment::Part(part) = frame.fragment() else {
        return None;
    };
    let hash = match frame.addresses() {
        Addresses::V4(both) => {
            let [high, low] = (part.identification as u16).to_be_bytes();
            let protocol = frame.frame()[frame.network_offset() + 9];
            toeplitz.hash_input(&tuple::<12>(both.as_flattened(), [high, low, 0, protocol]))
        }
        Addresses::V6(both) => {
            let name = part.identification.to_be_bytes();
            toeplitz.hash_input(&tuple::<36>(both.as_flattened(), name))
        }
    };
    Some(hash)
}

/// Addresses, and what stands in the place of ports.
fn tuple<const N: usize>(addresses: &[u8], name: [u8; 4]) -> [u8; N] {
    let mut tuple = [0; N];
    tuple[..N - 4].copy_from_slice(addresses);
    tuple[N - 4..].copy_from_slice(&name);
    tuple
}
