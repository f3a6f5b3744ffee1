//! What is taken out of which tunnels.

use crate::esp::Associations;
use corelane_packet::tunnel::Kind;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::path::PathBuf;
use std::sync::Arc;

/// The most tunnels around a frame that may be taken off.
const MOST_NESTED: u8 = 16;

/// What is taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// The tunnels that are entered, written `["gre", "vxlan"]` or `gre+vxlan`.
    #[serde(deserialize_with = "kinds")]
    pub kinds: Vec<Kind>,
    /// Tunnels around a frame that are taken off, at most: 1 to 16.
    #[serde(deserialize_with = "nesting")]
    pub nesting: u8,
    /// Whether the checksums of the outer headers are verified. UDP without checksum is taken as it is, also over IPv6 (RFC
    /// 6935).
    pub verify: bool,
    /// The index of the link whose frames are decapsulated; `None`: all.
    pub link: Option<usize>,
    /// The keys of ESP: the name of their file.
    pub keys: Option<Keys>,
}

/// The associations of ESP, and the file that they were or are to be read from. It is written as the name of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct Keys {
    /// The file; see [`Associations::parse`].
    pub file: PathBuf,
    /// What was read from it; shared, so that all stages of a plan refuse what one has received.
    pub associations: Arc<Associations>,
}

impl From<PathBuf> for Keys {
    fn from(file: PathBuf) -> Keys {
        Keys {
            file,
            associations: Arc::default(),
        }
    }
}

impl From<Keys> for PathBuf {
    fn from(keys: Keys) -> PathBuf {
        keys.file
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        self.file == other.file
    }
}

impl Eq for Keys {}

/// The tunnels that can be entered, as they are written.
const KINDS: [(&str, Kind); 6] = [
    ("ipip", Kind::IpInIp),
    ("gre", Kind::Gre),
    ("vxlan", Kind::Vxlan),
    ("geneve", Kind::Geneve),
    ("mpls", Kind::Mpls),
    ("esp", Kind::Esp),
];

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            kinds: KINDS.map(|(_, kind)| kind).to_vec(),
            nesting: 4,
            verify: true,
            link: None,
            keys: None,
        }
    }
}

fn kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Kind>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "names of tunnels, such as gre+vxlan")]
    enum Written {
        Text(String),
        List(Vec<String>),
    }
    let names = match Written::deserialize(deserializer)? {
        Written::Text(text) => text.split('+').map(str::to_owned).collect(),
        Written::List(names) => names,
    };
    let kind = |name: &String| match KINDS.iter().find(|(known, _)| known == name) {
        Some((_, kind)) => Ok(*kind),
        None => Err(de::Error::custom(format!(
            "'{name}' is no tunnel that can be entered: use ipip, gre, vxlan, geneve, mpls or esp"
        ))),
    };
    names.iter().map(kind).collect()
}

fn nesting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    match u8::deserialize(deserializer)? {
        nesting @ 1..=MOST_NESTED => Ok(nesting),
        nesting => Err(de::Error::custom(format!(
            "a nesting of {nesting}: use 1 to {MOST_NESTED}"
        ))),
    }
}
