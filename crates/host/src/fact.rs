//! One fact about the machine, with its source or the reason why it is unknown.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// A fact with its source. Without a value, one of the two reasons says why: there is none, or it could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact<T> {
    /// The value.
    pub value: Option<T>,
    /// The file or interface it was read from.
    pub source: String,
    /// Why there is no value, if known: for instance, the driver does not support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
    /// Why it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_because: Option<String>,
}

impl<T> Fact<T> {
    pub(crate) fn known(value: T, source: impl Into<String>) -> Self {
        Self {
            value: Some(value),
            source: source.into(),
            absent_because: None,
            unknown_because: None,
        }
    }

    pub(crate) fn absent(because: impl Display, source: impl Into<String>) -> Self {
        Self {
            value: None,
            source: source.into(),
            absent_because: Some(because.to_string()),
            unknown_because: None,
        }
    }

    pub(crate) fn unsupported(source: impl Into<String>) -> Self {
        Self::absent("not supported by the driver", source)
    }

    pub(crate) fn unknown(because: impl Display, source: impl Into<String>) -> Self {
        Self {
            value: None,
            source: source.into(),
            absent_because: None,
            unknown_because: Some(because.to_string()),
        }
    }

    pub(crate) fn of(result: Result<T, impl Display>, source: impl Into<String>) -> Self {
        match result {
            Ok(value) => Self::known(value, source),
            Err(error) => Self::unknown(error, source),
        }
    }

    /// The reason why there is no value.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.absent_because.as_deref().or(self.unknown_because.as_deref())
    }
}
