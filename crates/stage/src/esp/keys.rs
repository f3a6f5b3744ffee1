//! The associations, and the file that they are read from.

use super::window::Window;
use super::{Association, SALT};
use ring::aead::{AES_128_GCM, AES_256_GCM, LessSafeKey, UnboundKey};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::net::IpAddr;
use std::sync::Mutex;
use thiserror::Error;

/// Least and most sequence numbers in a window.
const WINDOWS: [u16; 2] = [64, 4096];

/// Security associations, by index and outer destination (RFC 4303, section 2.1).
#[derive(Default)]
pub struct Associations(HashMap<(u32, IpAddr), Association>);

/// Why a file of associations is refused. No error has text of the file, as that may be a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error(
        "line {line} cannot be read: each [[association]] has spi, destination, key, and may have esn and window"
    )]
    Format {
        /// The line, from 1 on.
        line: usize,
    },
    /// An association cannot be as it is described.
    #[error("association {spi:#x}: {why}")]
    Association {
        /// Its index.
        spi: u32,
        /// Why it is refused.
        why: &'static str,
    },
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    association: Vec<WrittenAssociation>,
}

/// An association.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAssociation {
    spi: u32,
    destination: IpAddr,
    key: String,
    #[serde(default)]
    esn: bool,
    #[serde(default = "usual_window")]
    window: u16,
}

fn usual_window() -> u16 {
    1024
}

impl Associations {
    /// The associations of a file:
    ///
    /// ```toml
    /// [[association]]
    /// spi = 0x100
    /// destination = "192.0.2.2" # outer address
    /// key = "0x000102030405060708090a0b0c0d0e0f10111213" # AES-128 or AES-256, and the salt, as ip-xfrm(8) takes them
    /// esn = true # extended sequence numbers, default false
    /// window = 64 # sequence numbers, 64 to 4096, default 1024
    /// ```
    ///
    /// # Errors
    /// If it has another form, or an association is not possible or described twice.
    pub fn parse(text: &str) -> Result<Associations, KeysError> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let lines = text.bytes().take(at).filter(|byte| *byte == b'\n');
            KeysError::Format {
                line: 1 + lines.count(),
            }
        })?;
        let mut associations = HashMap::new();
        for written in written.association {
            let spi = written.spi;
            let refused = |why| KeysError::Association { spi, why };
            let name = (spi, written.destination);
            let association = written.association().map_err(refused)?;
            if associations.insert(name, association).is_some() {
                return Err(refused("it is described twice"));
            }
        }
        Ok(Associations(associations))
    }

    pub(crate) fn get(&self, spi: u32, destination: IpAddr) -> Option<&Association> {
        self.0.get(&(spi, destination))
    }
}

/// Indices and addresses only.
impl Debug for Associations {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.0.keys()).finish()
    }
}

impl WrittenAssociation {
    fn association(self) -> Result<Association, &'static str> {
        let [least, most] = WINDOWS;
        if !(least..=most).contains(&self.window) {
            return Err("a window has 64 to 4096 sequence numbers");
        }
        let bytes = hex(&self.key).ok_or("its key is not hexadecimal")?;
        let (key, salt) = bytes
            .split_last_chunk::<SALT>()
            .ok_or("its key has fewer than 20 bytes")?;
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => return Err("AES-192 is not supported: use AES-128 or AES-256"),
            32 => &AES_256_GCM,
            _ => return Err("its key has neither 20 nor 36 bytes, of which 4 are the salt"),
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| "its key is not possible")?;
        Ok(Association {
            key: LessSafeKey::new(key),
            salt: *salt,
            has_extended_numbers: self.esn,
            window: Mutex::new(Window::new(self.window)),
        })
    }
}

/// The bytes of hexadecimal digits, behind `0x` or not.
fn hex(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}
