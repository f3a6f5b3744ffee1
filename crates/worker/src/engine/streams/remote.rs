//! Where a connection goes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use socket2::SockAddr;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The other end of a connection to be opened. Written as `10.0.0.1:80`, `[fe80::1%2]:80` or `unix:/run/app.sock`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remote {
    /// A TCP port of an IP address.
    Ip(SocketAddr),
    /// A Unix socket, by its path.
    Unix(Arc<Path>),
}

/// A text that is no [`Remote`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither ADDRESS:PORT nor unix:PATH with a path of 1 to 107 bytes")]
pub struct NoRemote(String);

impl Remote {
    /// The address; `None` of a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Remote {
    type Err = NoRemote;

    fn from_str(text: &str) -> Result<Self, NoRemote> {
        let wrong = || NoRemote(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() && SockAddr::unix(path).is_ok() => {
                Ok(Self::Unix(Path::new(path).into()))
            }
            Some(_) => Err(wrong()),
            None => text.parse().map(Self::Ip).map_err(|_| wrong()),
        }
    }
}

impl Serialize for Remote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Remote {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_read_as_they_are_written() {
        for text in ["10.0.0.1:80", "[fe80::1%2]:80", "unix:/run/app.sock", "unix:app"] {
            let remote: Remote = text.parse().unwrap();
            assert_eq!(remote.to_string(), text);
            assert_eq!(remote.address().is_none(), text.starts_with("unix:"));
        }
        for text in [
            "",
            "10.0.0.1",
            "/run/app.sock",
            "unix:",
            &format!("unix:/{}", "a".repeat(107)),
        ] {
            assert_eq!(text.parse::<Remote>(), Err(NoRemote(text.to_owned())));
        }
    }
}
