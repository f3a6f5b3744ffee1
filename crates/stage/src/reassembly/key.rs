//! Which datagram a fragment belongs to, and which bucket owns that datagram.

use crate::seeds::{Seeds, mixed};
use corelane_packet::{Addresses, Dissection, Fragment, ethernet};
use corelane_rss::Toeplitz;

/// The datagram of a fragment: addresses, identification and, in IPv4, protocol (RFC 791, section 3.2; RFC 8200, section
/// 4.5), on one link, in one VLAN, and out of one tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Source and destination; those of IPv4 in the first word.
    addresses: [u64; 4],
    /// Identification, protocol, family.
    name: u64,
    /// Link, tunnel and VLANs, mixed.
    place: u64,
}

impl Key {
    /// The key of a fragment, and its hash, which cannot be predicted without the seeds.
    #[inline]
    pub fn of(
        fragment: &Dissection<'_>,
        identification: u32,
        (link, tunnel): (usize, u32),
        seeds: &Seeds,
    ) -> (Key, u64) {
        let word = |bytes: [u8; 8]| u64::from_ne_bytes(bytes);
        let [a, b, c, d, e, f] = seeds.0;
        let (addresses, family, hash) = match fragment.addresses() {
            Addresses::V4([source, destination]) => {
                let both = [u32::from_ne_bytes(*source), u32::from_ne_bytes(*destination)].map(u64::from);
                let addresses = [both[0] << 32 | both[1], 0, 0, 0];
                let protocol = fragment.frame()[fragment.network_offset() + 9];
                (addresses, 4 << 8 | u64::from(protocol), 0)
            }
            Addresses::V6(both) => {
                let (words, _) = both.as_flattened().as_chunks();
                let addresses = [0, 1, 2, 3].map(|number| word(words[number]));
                let [_, second, third, fourth] = addresses;
                (
                    addresses,
                    6 << 8,
                    mixed(second ^ a, third ^ b) ^ mixed(fourth ^ c, d),
                )
            }
        };
        let tags = ethernet::vlan_ids(fragment.frame());
        let key = Key {
            addresses,
            name: u64::from(identification) << 16 | family,
            place: tags.fold(u64::from(tunnel) << 32 | link as u64, |place, id| {
                mixed(place ^ e, u64::from(id) ^ f)
            }),
        };
        let hash = mixed(addresses[0] ^ hash ^ e, key.name ^ f);
        (key, mixed(hash ^ key.place, d))
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
