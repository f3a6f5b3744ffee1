//! Opens packets of ESP in tunnel mode (RFC 4303) that are sealed by AES-GCM with a 16-byte check value (RFC 4106).
//!
//! The only module that knows keys. No type of it that has one can be written or shown.

mod keys;
mod window;

pub use keys::{Associations, KeysError};

use ring::aead::{Aad, LessSafeKey, Nonce};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use window::Window;

/// Bytes of security parameters index and sequence number (RFC 4303, section 2).
const HEADER: usize = 8;
/// Bytes of the initialization vector (RFC 4106, section 3.1).
const VECTOR: usize = 8;
/// Bytes of the salt, which the key is followed by (RFC 4106, section 8.1).
const SALT: usize = 4;

/// Numbers of protocols in the trailer of ESP: IPv4, IPv6, and a packet without content (RFC 4303, section 2.6).
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const DUMMY: u8 = 59;

/// The receiving end of a security association.
pub(crate) struct Association {
    key: LessSafeKey,
    salt: [u8; SALT],
    /// Whether sequence numbers have 64 bits, of which the lower half is sent.
    has_extended_numbers: bool,
    /// One for all buckets: outer addresses and ports are not authenticated, so who repeats a packet can choose another bucket.
    /// The packets of a sender are in one bucket, so nobody waits for the lock.
    window: Mutex<Window>,
}

/// What was in a packet of ESP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Where the packet inside is, and padding for confidentiality of its length behind it (RFC 4303, section 2.7).
    pub(crate) at: Range<usize>,
    /// Whether it is IPv6, not IPv4.
    pub(crate) is_v6: bool,
}

/// Why a packet of ESP is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its sequence number was received, or is below the window.
    Replayed,
    /// It was not sealed with this key, or changed.
    Forged,
    /// Its padding is not 1, 2, 3… (RFC 4303, section 2.4), or longer than the packet.
    Padding,
    /// What is inside is no IP packet.
    NotTunnelMode,
    /// It has no content.
    Dummy,
}

impl Association {
    /// Decrypts a packet in place, from the header of ESP on. If it was forged its bytes are lost.
    pub(crate) fn open(&self, packet: &mut [u8]) -> Result<Opened, Closed> {
        let (header, rest) = packet.split_first_chunk::<HEADER>().ok_or(Closed::Forged)?;
        let vector = rest.first_chunk::<VECTOR>().ok_or(Closed::Forged)?;
        let [spi, low] = [0, 4].map(|at| [0, 1, 2, 3].map(|byte| header[at + byte]));
        let sequence = self.expected(u32::from_be_bytes(low))?;
        let mut nonce = [0; SALT + VECTOR];
        nonce[..SALT].copy_from_slice(&self.salt);
        nonce[SALT..].copy_from_slice(vector);
        // RFC 4106, section 5: the index, and the whole number.
        let mut authenticated = [0; 12];
        authenticated[..4].copy_from_slice(&spi);
        let authenticated = match self.has_extended_numbers {
            true => {
                authenticated[4..].copy_from_slice(&sequence.to_be_bytes());
                &authenticated[..]
            }
            false => {
                authenticated[4..8].copy_from_slice(&low);
                &authenticated[..8]
            }
        };
        let sealed = &mut packet[HEADER + VECTOR..];
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(authenticated), sealed)
            .map_err(|_| Closed::Forged)?;
        if !self.window().receive(sequence) {
            return Err(Closed::Replayed);
        }
        let (length, is_v6) = content(plain)?;
        let start = HEADER + VECTOR;
        Ok(Opened {
            at: start..start + length,
            is_v6,
        })
    }

    /// The whole sequence number, if it is new.
    fn expected(&self, low: u32) -> Result<u64, Closed> {
        let window = self.window();
        let sequence = match self.has_extended_numbers {
            true => window.extended(low),
            false => low.into(),
        };
        window
            .is_new(sequence)
            .then_some(sequence)
            .ok_or(Closed::Replayed)
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The length of what is before padding and trailer, and whether it is IPv6.
fn content(plain: &[u8]) -> Result<(usize, bool), Closed> {
    let (padded, [padding, next]) = plain.split_last_chunk::<2>().ok_or(Closed::Padding)?;
    let length = padded.len().checked_sub(usize::from(*padding));
    let length = length.ok_or(Closed::Padding)?;
    if !padded[length..].iter().copied().eq(1..=*padding) {
        return Err(Closed::Padding);
    }
    match *next {
        IPV4 => Ok((length, false)),
        IPV6 => Ok((length, true)),
        DUMMY => Err(Closed::Dummy),
        _ => Err(Closed::NotTunnelMode),
    }
}

#[cfg(test)]
mod tests;
