//! Choices with the names used in flags and documents.

use thiserror::Error;

/// An enum whose values have names in flags and documents.
pub trait Named: Copy + PartialEq + 'static {
    /// The noun for error messages.
    const WHAT: &'static str;

    /// All values with their names.
    const NAMES: &'static [(Self, &'static str)];

    /// The name of a value.
    #[must_use]
    fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(value, _)| *value == self);
        known.map_or("", |(_, name)| name)
    }

    /// The value of a name.
    ///
    /// # Errors
    /// If no value has this name.
    fn named(text: &str) -> Result<Self, UnknownName> {
        let known = Self::NAMES.iter().find(|(_, name)| *name == text);
        let names: Vec<&str> = Self::NAMES.iter().map(|(_, name)| *name).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        known.map(|(value, _)| *value).ok_or_else(|| UnknownName {
            what: Self::WHAT,
            name: text.to_owned(),
            known: format!("{} or {last}", others.join(", ")),
        })
    }

    /// Every value.
    #[must_use]
    fn all() -> Vec<Self> {
        Self::NAMES.iter().map(|(value, _)| *value).collect()
    }
}

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no {what} {name:?}: give {known}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
}
