//! Where the clients of a step run: names as documents and flags spell them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Where each bucket's client ran. On veth and loopback the receive path runs on the sender's CPU, so this decides
/// locality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On the CPU of the bucket's worker.
    Aligned,
    /// On another worker's CPU: the control, in which locality must collapse.
    Crossed,
}

/// A name that is no placement's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no placement '{0}': give aligned or crossed")]
pub struct UnknownPlacement(String);

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(text: &str) -> Result<Self, UnknownPlacement> {
        match text {
            "aligned" => Ok(Self::Aligned),
            "crossed" => Ok(Self::Crossed),
            other => Err(UnknownPlacement(other.to_owned())),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Aligned => "aligned",
            Self::Crossed => "crossed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_they_are_written() {
        for placement in [Placement::Aligned, Placement::Crossed] {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        let unknown = "inverted".parse::<Placement>().unwrap_err().to_string();
        assert!(unknown.contains("aligned or crossed"), "{unknown}");
    }
}
